"""Setting jobs aside whose row spoils what is done with it, and trying them again.

The row itself is never touched here: it may be one that cannot even be read.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from django.db import connection, transaction

from governance.core import audit, clock
from governance.core.errors import DomainError, InvalidTransition, NotFound
from governance.core.reasons import required
from jobs import wakeups
from jobs.models import Job, SetAside
from jobs.models.set_aside import FAILURES_MIN

ACTOR = "system:isolation"
#: Failures that lie further apart than this are not of one fault.
FAILURES_WITHIN = timedelta(days=1)
#: More than this many in a minute are no fault of rows, and none is set aside any more.
SET_A_MINUTE_MAX = 20
MINUTE = timedelta(minutes=1)

# Nobody else writes the table meanwhile, so that the brake counts what it must; readers go on.
LOCK = "LOCK TABLE jobs_setaside IN SHARE ROW EXCLUSIVE MODE"


@dataclass(frozen=True)
class Noted:
    """What a failure has led to: whether its job is set aside, or would be but for the brake."""

    task_id: str
    set_aside: bool
    braked: bool


@transaction.atomic
def note_failure(*, task_id: str, kind: str, error: Exception) -> Noted | None:
    """Count a failure at a job's row; after three in a row it is set aside.

    Returns None where there is no such job. Called in a transaction of its own, after the one
    that failed: three failures are three transactions.

    :param kind: the operation that failed, or `sweep`.
    """
    job_pk = Job.objects.filter(task_id=task_id).values_list("pk", flat=True).first()
    if job_pk is None:
        return None
    _lock()
    now = clock.now()
    row = _counted(job_pk, task_id, now)
    row.kind, row.error_class = kind, type(error).__name__[:100]
    row.last_seen_at = now
    row.count += 1
    due = row.set_at is None and row.count >= FAILURES_MIN
    braked = due and _set_since(now - MINUTE) >= SET_A_MINUTE_MAX
    if due and not braked:
        row.set_at = now
    row.save()
    if due and not braked:
        _record(row, action="job.set_aside", actor=ACTOR, at=now)
    return Noted(task_id, set_aside=row.set_at is not None, braked=braked)


def _lock() -> None:
    with connection.cursor() as cursor:
        cursor.execute(LOCK)


def _counted(job_pk: int, task_id: str, now: datetime) -> SetAside:
    """Return the job's row, new or as it is; counted from none where its last failure is old."""
    row = SetAside.objects.filter(pk=job_pk).first()
    if row is None:
        return SetAside(
            job_id=job_pk, task_id=task_id, first_seen_at=now, last_seen_at=now, count=0
        )
    if row.set_at is None and row.last_seen_at < now - FAILURES_WITHIN:
        row.count, row.first_seen_at = 0, now
    return row


def _set_since(at: datetime) -> int:
    return SetAside.objects.filter(set_at__gt=at).count()


def retriable(row: SetAside) -> DomainError | None:
    """Return why the job is not tried again; None where it is set aside."""
    if row.set_at is None:
        return InvalidTransition("The job is not set aside.", current={"count": row.count})
    return None


@transaction.atomic
def retry_set_aside(*, task_id: str, actor: str, reason: str) -> SetAside:
    """Let a job that is set aside be claimed again, and count its failures anew.

    :raises NotFound: it was never set aside.
    :raises InvalidTransition: it is not set aside now.
    """
    reason = required(reason)
    _lock()
    row = SetAside.objects.filter(task_id=task_id).first()
    if row is None:
        raise NotFound("No job of that task_id was set aside.")
    if fault := retriable(row):
        raise fault
    _retry(row, actor=actor, reason=reason)
    return row


@transaction.atomic
def retry_all_set_aside(*, actor: str, reason: str) -> int:
    """Let all jobs that are set aside be claimed again; return how many those were."""
    _lock()
    found = list(SetAside.objects.filter(set_at__isnull=False).order_by("pk"))
    for row in found:
        _retry(row, actor=actor, reason=required(reason))
    return len(found)


def _retry(row: SetAside, *, actor: str, reason: str) -> None:
    _record(row, action="job.retried", actor=actor, at=clock.now(), reason=reason)
    SetAside.objects.filter(pk=row.pk).update(set_at=None, count=0)
    row.set_at, row.count = None, 0
    # By its key: the job's row may be one that cannot be read.
    agents = Job.objects.filter(pk=row.pk).values_list("agent_id", flat=True)
    for agent_id in agents:
        transaction.on_commit(partial(wakeups.announce, agent_id), robust=True)


def _record(row: SetAside, *, action: str, actor: str, at: datetime, reason: str = "") -> None:
    audit.record(
        row,
        action=action,
        actor=actor,
        at=at,
        reason=reason,
        after={"set_aside": action == "job.set_aside"},
        details={"kind": row.kind, "error_class": row.error_class, "count": row.count},
    )
