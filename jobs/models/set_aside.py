"""Jobs whose row spoils what is done with it: set aside, so that it stops nobody else."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from governance.core.models import ChainHead
from jobs.models.jobs import Job

#: So many transactions must have failed at a row before it is set aside.
FAILURES_MIN = 3


class SetAside(ChainHead):
    """The marker beside a job that could not be read, judged or written; the job is as it was.

    `set_at` says since when it is set aside, so that no claim takes it up; null: its failures are
    counted. The row stays, as the end of its audit chain. Of the error only the class is kept: its
    text may hold a payload.
    """

    job = models.OneToOneField(
        Job, models.PROTECT, primary_key=True, db_constraint=False, related_name="set_aside"
    )
    task_id = models.CharField(max_length=100, unique=True)
    #: What failed at it last: the name of an operation, or `sweep`.
    kind = models.CharField(max_length=60)
    error_class = models.CharField(max_length=100)
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    #: Failures in a row since it was last tried again.
    count = models.PositiveIntegerField()
    set_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = "job set aside"
        verbose_name_plural = "jobs set aside"
        constraints = [
            models.CheckConstraint(
                condition=Q(set_at=None) | Q(count__gte=FAILURES_MIN),
                name="setaside_after_failures",
            ),
        ]
        indexes = [
            # What claims leave out; few or none.
            models.Index(
                fields=["set_at"], name="setaside_set_idx", condition=Q(set_at__isnull=False)
            ),
        ]

    def __str__(self) -> str:
        return self.task_id

    @property
    def audit_subject(self) -> str:
        return f"set_aside:{self.task_id}"
