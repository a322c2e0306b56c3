"""The sweeper: ends what has run out, one job and one transaction at a time.

Candidates are found without a lock; each is then locked, if free, and judged again, so that a job
that was finished or renewed in the meantime is never touched, many sweepers take each job once,
and a poisoned row stops nobody: it is left out for a while, so that it takes no place of others.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

import structlog
from django.db import DatabaseError, OperationalError, connection, transaction

from agents.transitions.admission import end_drains
from governance.core import clock, sql
from governance.core.idempotency import RETRIED_STATES
from governance.core.isolation import in_any_case, of_a_row
from jobs.models import Attempt
from jobs.transitions import aside
from jobs.transitions.decisions import end_approval
from jobs.transitions.outcomes import after_lost_attempt
from jobs.transitions.preconditions import approval_expired
from jobs.transitions.work import LockedJob, State, Work, lock

log = structlog.get_logger(__name__)

ACTOR = "system:sweeper"
SWEEP_LIMIT = 500
#: How long a job is left out that could not be ended; doubled with every further failure.
REST_SECONDS = 10.0
REST_SECONDS_MAX = 3600.0
#: So many of them are remembered.
FAILURES_MAX = 1000
ERROR_CHARS_MAX = 200

# No lock. Scans the live leases only (there is no index on the expiry, see Lease), and the
# partial indexes attempt_deadline_idx, job_deadline_idx, job_queue_wait_idx and job_approval_idx.
DUE = """
SELECT task_id FROM (
(SELECT j.task_id, l.expires_at AS due FROM jobs_lease l JOIN jobs_job j ON j.id = l.job_id
   JOIN agents_session s ON s.id = l.session_id
  WHERE (l.expires_at <= clock_timestamp() OR s.state = 'superseded')
    AND j.task_id <> ALL(%(resting)s::text[])
  ORDER BY l.expires_at, l.job_id LIMIT %(limit)s)
UNION ALL
(SELECT j.task_id, p.deadline_at FROM jobs_attempt p JOIN jobs_job j ON j.id = p.job_id
  WHERE p.ended_at IS NULL AND p.deadline_at <= statement_timestamp()
    AND j.task_id <> ALL(%(resting)s::text[])
  ORDER BY p.deadline_at LIMIT %(limit)s)
UNION ALL
(SELECT task_id, deadline_at FROM jobs_job
  WHERE deadline_at <= statement_timestamp() AND deadline_at IS NOT NULL AND finished_at IS NULL
    AND task_id <> ALL(%(resting)s::text[])
  ORDER BY deadline_at LIMIT %(limit)s)
UNION ALL
(SELECT task_id, expires_if_not_started_at FROM jobs_job
  WHERE expires_if_not_started_at <= statement_timestamp()
    AND expires_if_not_started_at IS NOT NULL AND state IN ('held', 'queued') AND attempt = 0
    AND task_id <> ALL(%(resting)s::text[])
  ORDER BY expires_if_not_started_at LIMIT %(limit)s)
UNION ALL
(SELECT task_id, approval_valid_until FROM jobs_job
  WHERE approval_valid_until <= statement_timestamp() AND approval_valid_until IS NOT NULL
    AND state = 'queued' AND task_id <> ALL(%(resting)s::text[])
  ORDER BY approval_valid_until LIMIT %(limit)s)
) AS found GROUP BY task_id ORDER BY min(due), task_id
"""
READ_SESSION = "SELECT state FROM agents_session WHERE id = %s"


@dataclass
class SweepReport:
    """The work of one sweep: how many jobs, by what ended, and which it could not handle.

    `drained` counts agents whose drain has ended.
    """

    ended: dict[str, int] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    found: int = 0
    drained: int = 0

    @property
    def total(self) -> int:
        return sum(self.ended.values())


@dataclass
class _Failure:
    error: str
    since: datetime
    rest_seconds: float
    #: By the process's steady clock.
    rests_until: float


class Failures:
    """The jobs that one sweeper could not end, and how long each is left out."""

    def __init__(self) -> None:
        self._jobs: dict[str, _Failure] = {}

    def add(self, task_id: str, error: str) -> None:
        """Leave the job out for a while; the longer, the more often it has failed."""
        before = self._jobs.pop(task_id, None)
        seconds = REST_SECONDS
        if before is not None:
            seconds = min(before.rest_seconds * 2, REST_SECONDS_MAX)
        since = before.since if before is not None else clock.now()
        self._jobs[task_id] = _Failure(error, since, seconds, time.monotonic() + seconds)
        while len(self._jobs) > FAILURES_MAX:
            del self._jobs[next(iter(self._jobs))]

    def resting(self) -> list[str]:
        """Return the jobs that are left out now."""
        now = time.monotonic()
        return [task_id for task_id, failure in self._jobs.items() if failure.rests_until > now]

    def keep(self, task_ids: set[str]) -> None:
        """Forget all but those named: they are no longer due, or have been ended."""
        self._jobs = {t: failure for t, failure in self._jobs.items() if t in task_ids}

    def as_json(self) -> dict[str, dict[str, str]]:
        """Return what failed, since when and why."""
        return {
            task_id: {"error": failure.error, "since": failure.since.isoformat()}
            for task_id, failure in self._jobs.items()
        }


def sweep(*, limit: int = SWEEP_LIMIT, failures: Failures | None = None) -> SweepReport:
    """End up to about `limit` leases, attempts, waits and jobs whose time has run out.

    Must not be called inside a transaction: each job is ended in one of its own. The oldest come
    first.

    :param failures: what could not be ended before is left out while it rests.
    :raises DatabaseError: the database is away.
    """
    failures = Failures() if failures is None else failures
    report = SweepReport()
    resting = failures.resting()
    [rows] = sql.pipeline(sql.Statement(DUE, {"limit": limit, "resting": resting}))
    report.found = len(rows)
    for row in rows:
        task_id = row["task_id"]
        try:
            ended = in_any_case(partial(end_if_due, task_id=task_id))
        # Whatever it is, it is about this job only, and the others wait.
        except Exception as error:
            _raise_if_away(error)
            if _is_contention(error):
                continue  # somebody is at it, and the next round looks again
            text = f"{type(error).__name__}: {error}"[:ERROR_CHARS_MAX]
            log.error("sweep.row_failed", task_id=task_id, error=text, exc_info=True)
            report.failed[task_id] = text
            failures.add(task_id, text)
            _note(task_id, error)
            continue
        if ended is not None:
            report.ended[ended] = report.ended.get(ended, 0) + 1
    failures.keep({*resting, *report.failed})
    try:
        report.drained = end_drains()
    except Exception as error:
        _raise_if_away(error)
        log.error("sweep.drain_failed", error=str(error), exc_info=True)
    return report


def _note(task_id: str, error: Exception) -> None:
    """Count the failure at the job, if it is the row's; the sweep goes on, whatever becomes of it.

    The marker keeps claims away; the sweeper itself looks at the job again after its rest.
    """
    if not of_a_row(error):
        return
    try:
        aside.note_failure(task_id=task_id, kind="sweep", error=error)
    except DatabaseError as fault:
        _raise_if_away(fault)
        log.error("sweep.failure_not_noted", task_id=task_id, error=str(fault))


def _raise_if_away(error: Exception) -> None:
    """Raise the error again where the database is away: that is the fault of no row."""
    if not connection.is_usable():
        raise error


def _is_contention(error: Exception) -> bool:
    return isinstance(error, OperationalError) and sql.sqlstate(error) in RETRIED_STATES


@transaction.atomic
def end_if_due(*, task_id: str) -> str | None:
    """End what has run out on one job and return what it was; None when nothing has.

    Of several that have, the first of: the job's deadline, the attempt's deadline, the session's
    supersession, the lease, the queue wait, the approval.
    """
    work = lock([task_id], if_free=True)
    locked = work.locked.get(task_id)
    if locked is None:
        return None
    job = locked.job
    ended = end_attempt_if_due(work, locked, actor=ACTOR)
    if ended is None and (
        job.state in job.UNCLAIMED
        and job.attempt == 0
        and job.expires_if_not_started_at
        and job.expires_if_not_started_at <= work.now
    ):
        ended = "queue_wait"
        work.move(
            locked,
            State.STOPPED,
            action="job.expired",
            actor=ACTOR,
            reason="The job was not started in time.",
        )
    elif ended is None and job.state == State.QUEUED and approval_expired(job, at=work.now):
        ended = "approval"
        end_approval(
            work,
            locked,
            actor=ACTOR,
            reason="The approval expired while the job waited in the queue.",
        )
    work.save()
    return ended


def end_attempt_if_due(
    work: Work, locked: LockedJob, *, actor: str, backoff: bool = True
) -> str | None:
    """End a locked job whose deadline has passed, or its attempt whose time or session is over.

    Its lease is locked too. The caller saves; what is returned is as of `end_if_due`.

    :param backoff: whether the next attempt waits for the job type's delay.
    """
    job, attempt, lease = locked.job, locked.last_attempt, locked.lease
    if job.deadline_at and job.deadline_at <= work.now and job.state not in job.FINISHED:
        return _miss_deadline(work, locked, actor=actor)
    if job.state != State.ACTIVE or attempt is None or lease is None:
        return None
    if attempt.deadline_at and attempt.deadline_at <= work.now:
        outcome, reason = Attempt.Outcome.TIMED_OUT, "The attempt's time is over."
    elif _superseded(lease.session_id):
        outcome, reason = Attempt.Outcome.SUPERSEDED, "A newer session has taken its place."
    elif lease.expires_at <= work.now:
        outcome, reason = Attempt.Outcome.LEASE_EXPIRED, "The lease has expired."
    else:
        return None
    return lose_attempt(work, locked, outcome, reason, actor=actor, backoff=backoff)


def _superseded(session_pk: int) -> bool:
    [[row]] = sql.pipeline(sql.Statement(READ_SESSION, (session_pk,)))
    return row["state"] == "superseded"


def lose_attempt(
    work: Work,
    locked: LockedJob,
    outcome: str,
    reason: str,
    *,
    actor: str = ACTOR,
    backoff: bool = True,
) -> str:
    """End an attempt over its worker's head: its token is void, the job goes where it must."""
    attempt = work.end_attempt(locked, outcome)
    attempt.error_code = outcome.upper()
    attempt.error_message = reason
    locked.job.fencing_token += 1
    after_lost_attempt(
        work,
        locked,
        actor=actor,
        reason=reason,
        retryable=True,
        failed=f"job.{outcome}",
        backoff=backoff,
    )
    return str(outcome)


def _miss_deadline(work: Work, locked: LockedJob, *, actor: str) -> str:
    reason = "The job's deadline has passed."
    if locked.job.state == State.ACTIVE:
        attempt = work.end_attempt(locked, Attempt.Outcome.DEADLINE_EXCEEDED)
        attempt.error_code, attempt.error_message = "DEADLINE_EXCEEDED", reason
        locked.job.fencing_token += 1
    if locked.job.state == State.ESCALATED:
        work.end_escalation(locked, actor=actor, reason=reason)
    work.move(locked, State.FAILED, action="job.deadline_exceeded", actor=actor, reason=reason)
    return "deadline_exceeded"
