from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("jobs", "0021_bounded_instants")]

    operations = [
        ValidateConstraint(model_name="job", name="job_instants_are_bounded"),
        ValidateConstraint(model_name="task", name="task_instant_is_bounded"),
    ]
