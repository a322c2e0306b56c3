from django.contrib.postgres.operations import AddConstraintNotValid, ValidateConstraint
from django.db import migrations, models
from django.db.models import CheckConstraint, Q


class Migration(migrations.Migration):
    """Bound the model calls that an attempt may have open at a time. Types of before have 8."""

    dependencies = [("jobs", "0027_set_aside")]

    operations = [
        migrations.AddField(
            model_name="jobtype",
            name="open_calls_max",
            field=models.PositiveIntegerField(default=8, db_default=8),
        ),
        AddConstraintNotValid(
            model_name="jobtype",
            constraint=CheckConstraint(
                condition=Q(open_calls_max__gte=1), name="job_type_may_call_a_model"
            ),
        ),
        ValidateConstraint(model_name="jobtype", name="job_type_may_call_a_model"),
    ]
