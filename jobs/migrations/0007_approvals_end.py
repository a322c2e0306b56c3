from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("jobs", "0006_index_paused")]

    operations = [
        AddIndexConcurrently(
            model_name="job",
            index=models.Index(
                condition=models.Q(("approval_valid_until__isnull", False), ("state", "queued")),
                fields=["approval_valid_until"],
                name="job_approval_idx",
            ),
        ),
        migrations.AddConstraint(
            model_name="approval",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("decision", "expired"), _negated=True),
                    ("valid_until__lte", models.F("decided_at")),
                    _connector="OR",
                ),
                name="approval_expires_after_its_end",
            ),
        ),
    ]
