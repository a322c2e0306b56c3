from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("jobs", "0012_task_id_was_plain")]

    operations = [
        AddIndexConcurrently(
            model_name="job",
            index=models.Index(
                condition=models.Q(("risk_tier", "high")), fields=["-id"], name="job_high_risk_idx"
            ),
        ),
    ]
