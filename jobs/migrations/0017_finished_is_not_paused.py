from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations
from django.db.models import CheckConstraint, Q

REPAIR = """
COMMENT ON CONSTRAINT job_finished_is_not_paused ON jobs_job IS
    'Take the pause of jobs that are over: UPDATE jobs_job SET paused = false'
    ' WHERE paused AND finished_at IS NOT NULL';
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0016_risk_above_the_agent")]

    operations = [
        AddConstraintNotValid(
            model_name="job",
            constraint=CheckConstraint(
                condition=Q(finished_at=None) | Q(paused=False),
                name="job_finished_is_not_paused",
            ),
        ),
        migrations.RunSQL(REPAIR, migrations.RunSQL.noop),
    ]
