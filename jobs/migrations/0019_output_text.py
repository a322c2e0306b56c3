from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models
from django.db.models import CheckConstraint, Q


class Migration(migrations.Migration):
    """Keep what is to be delivered in the words in which it was asked for."""

    dependencies = [("jobs", "0018_take_the_pause_of_finished_jobs")]

    operations = [
        migrations.AddField(
            model_name="task",
            name="output_text",
            field=models.CharField(max_length=4000, null=True, blank=True),
        ),
        AddConstraintNotValid(
            model_name="task",
            constraint=CheckConstraint(
                condition=Q(output_text=None)
                | Q(output_text="", output_required=False)
                | (~Q(output_text="") & Q(output_required=True)),
                name="task_output_text_requires_output",
            ),
        ),
    ]
