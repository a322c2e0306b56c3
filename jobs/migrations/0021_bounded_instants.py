from datetime import UTC, datetime

from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations
from django.db.models import CheckConstraint, Q

MIN, MAX = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
JOB_REPAIR = """
COMMENT ON CONSTRAINT job_instants_are_bounded ON jobs_job IS
'Give the column that is out of bounds an instant that can be read: UPDATE jobs_job SET deadline_at
= ''8999-12-31Z'' WHERE id = KEY; alike expires_if_not_started_at and available_at.'
"""
TASK_REPAIR = """
COMMENT ON CONSTRAINT task_instant_is_bounded ON jobs_task IS
'The time of the submitter is kept and not used; as the owner of the table, in one transaction:
ALTER TABLE jobs_task DISABLE TRIGGER jobs_task_append_only; UPDATE jobs_task SET submitted_at =
NULL WHERE job_id = KEY; ALTER TABLE jobs_task ENABLE TRIGGER jobs_task_append_only.'
"""


class Migration(migrations.Migration):
    """Take no instant that some reader of it could not hold."""

    dependencies = [("jobs", "0020_output_text_holds")]

    operations = [
        AddConstraintNotValid(
            model_name="job",
            constraint=CheckConstraint(
                condition=Q(available_at__gte=MIN, available_at__lt=MAX)
                & Q(deadline_at__gte=MIN, deadline_at__lt=MAX)
                & Q(expires_if_not_started_at__gte=MIN, expires_if_not_started_at__lt=MAX),
                name="job_instants_are_bounded",
            ),
        ),
        migrations.RunSQL(JOB_REPAIR, migrations.RunSQL.noop),
        AddConstraintNotValid(
            model_name="task",
            constraint=CheckConstraint(
                condition=Q(submitted_at__gte=MIN, submitted_at__lt=MAX),
                name="task_instant_is_bounded",
            ),
        ),
        migrations.RunSQL(TASK_REPAIR, migrations.RunSQL.noop),
    ]
