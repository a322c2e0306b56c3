from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("jobs", "0019_output_text")]

    operations = [ValidateConstraint(model_name="task", name="task_output_text_requires_output")]
