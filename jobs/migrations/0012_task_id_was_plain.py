from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    """Apart from the one before: looking at every row, it must not hold that one's lock."""

    dependencies = [("jobs", "0011_task_id_is_plain")]

    operations = [ValidateConstraint(model_name="job", name="job_task_id_is_plain")]
