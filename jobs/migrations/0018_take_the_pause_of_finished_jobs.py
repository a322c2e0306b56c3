from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations

# Locks: the few jobs that were over and paused. Index: job_paused_idx. They answer differently now,
# so that their revision rises.
REPAIR = """
UPDATE jobs_job SET paused = false, revision = revision + 1
 WHERE paused AND finished_at IS NOT NULL
"""


class Migration(migrations.Migration):
    """Take the pause that jobs had kept at their end, which the constraint before refuses."""

    atomic = False

    dependencies = [("jobs", "0017_finished_is_not_paused")]

    operations = [
        migrations.RunSQL(REPAIR, migrations.RunSQL.noop),
        ValidateConstraint(model_name="job", name="job_finished_is_not_paused"),
    ]
