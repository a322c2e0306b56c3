from django.contrib.postgres.operations import (
    AddIndexConcurrently,
    RemoveIndexConcurrently,
    ValidateConstraint,
)
from django.db import migrations
from django.db.models import Index, Q


class Migration(migrations.Migration):
    """Judge the rows of before, and let the sweeper find the held jobs that nobody started in time.

    The index is made beside the one before, which serves sweeps of queued jobs until it is there.
    """

    atomic = False

    dependencies = [("jobs", "0024_deferrals_and_pauses_in_the_guard")]

    operations = [
        ValidateConstraint(model_name="job", name="job_counted_attempts_are_bounded"),
        ValidateConstraint(model_name="job", name="job_deferrals_are_attempts"),
        AddIndexConcurrently(
            model_name="job",
            index=Index(
                fields=["expires_if_not_started_at"],
                name="job_wait_unstarted_idx",
                condition=Q(
                    expires_if_not_started_at__isnull=False,
                    state__in=["held", "queued"],
                    attempt=0,
                ),
            ),
        ),
        RemoveIndexConcurrently(model_name="job", name="job_queue_wait_idx"),
        migrations.RenameIndex(
            model_name="job", old_name="job_wait_unstarted_idx", new_name="job_queue_wait_idx"
        ),
    ]
