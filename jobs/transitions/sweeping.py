"""The sweeper: ends what has run out, one job and one transaction at a time.

Candidates are found without a lock; each is then locked, if free, and judged again, so that a job
that was finished or renewed in the meantime is never touched, many sweepers take each job once,
and a poisoned row stops nobody.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import structlog
from django.db import DatabaseError, transaction

from agents.transitions.admission import end_drains
from governance import sql
from governance.errors import DomainError
from jobs.models import Attempt
from jobs.transitions.decisions import approval_expired, end_approval
from jobs.transitions.outcomes import after_lost_attempt
from jobs.transitions.work import Held, State, Work, lock

log = structlog.get_logger(__name__)

ACTOR = "system:sweeper"
SWEEP_LIMIT = 500

# No lock. Scans the live leases only (there is no index on the expiry, see Lease), and the
# partial indexes attempt_deadline_idx, job_deadline_idx, job_queue_wait_idx and job_approval_idx.
DUE = """
(SELECT j.task_id FROM jobs_lease l JOIN jobs_job j ON j.id = l.job_id
   JOIN agents_session s ON s.id = l.session_id
  WHERE l.expires_at <= clock_timestamp() OR s.state = 'superseded' LIMIT %(limit)s)
UNION
(SELECT j.task_id FROM jobs_attempt p JOIN jobs_job j ON j.id = p.job_id
  WHERE p.ended_at IS NULL AND p.deadline_at <= statement_timestamp()
  ORDER BY p.deadline_at LIMIT %(limit)s)
UNION
(SELECT task_id FROM jobs_job
  WHERE deadline_at <= statement_timestamp() AND deadline_at IS NOT NULL AND finished_at IS NULL
  ORDER BY deadline_at LIMIT %(limit)s)
UNION
(SELECT task_id FROM jobs_job
  WHERE expires_if_not_started_at <= statement_timestamp()
    AND expires_if_not_started_at IS NOT NULL AND state = 'queued' AND attempt = 0
  ORDER BY expires_if_not_started_at LIMIT %(limit)s)
UNION
(SELECT task_id FROM jobs_job
  WHERE approval_valid_until <= statement_timestamp() AND approval_valid_until IS NOT NULL
    AND state = 'queued'
  ORDER BY approval_valid_until LIMIT %(limit)s)
"""
READ_SESSION = "SELECT state FROM agents_session WHERE id = %s"


@dataclass
class SweepReport:
    """What one sweep did: how many jobs, by what ended, and which it could not handle.

    `drained` counts agents whose drain has ended.
    """

    ended: dict[str, int] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    found: int = 0
    drained: int = 0

    @property
    def total(self) -> int:
        return sum(self.ended.values())


def sweep(*, limit: int = SWEEP_LIMIT) -> SweepReport:
    """End up to about `limit` leases, attempts, waits and jobs whose time has run out.

    Must not be called inside a transaction: each job is ended in one of its own.
    """
    report = SweepReport()
    [rows] = sql.together(sql.Statement(DUE, {"limit": limit}))
    report.found = len(rows)
    for row in rows:
        task_id = row["task_id"]
        try:
            ended = end_if_due(task_id=task_id)
        except (DomainError, DatabaseError, AssertionError, ValueError) as error:
            report.failed[task_id] = str(error)
            log.error("sweep.row_failed", task_id=task_id, error=str(error))
            continue
        if ended is not None:
            report.ended[ended] = report.ended.get(ended, 0) + 1
    try:
        report.drained = end_drains()
    except DatabaseError as error:
        log.error("sweep.drain_failed", error=str(error))
    return report


@transaction.atomic
def end_if_due(*, task_id: str) -> str | None:
    """End what has run out on one job and return what it was; None when nothing has.

    Of several that have, the first of: the job's deadline, the attempt's deadline, the session's
    supersession, the lease, the queue wait, the approval.
    """
    work = lock([task_id], if_free=True)
    held = work.held.get(task_id)
    if held is None:
        return None
    job, attempt, lease = held.job, held.last_attempt, held.lease
    ended = None
    if job.deadline_at and job.deadline_at <= work.now and job.state not in job.FINISHED:
        ended = _miss_deadline(work, held)
    elif job.state == State.ACTIVE and attempt is not None and lease is not None:
        if attempt.deadline_at and attempt.deadline_at <= work.now:
            ended = lose_attempt(
                work, held, Attempt.Outcome.TIMED_OUT, "The attempt's time is over."
            )
        elif _superseded(lease.session_id):
            ended = lose_attempt(
                work, held, Attempt.Outcome.SUPERSEDED, "A newer session has taken its place."
            )
        elif lease.expires_at <= work.now:
            ended = lose_attempt(
                work, held, Attempt.Outcome.LEASE_EXPIRED, "The lease has expired."
            )
    elif (
        job.state == State.QUEUED
        and job.attempt == 0
        and job.expires_if_not_started_at
        and job.expires_if_not_started_at <= work.now
    ):
        ended = "queue_wait"
        work.move(
            held,
            State.STOPPED,
            action="job.expired",
            actor=ACTOR,
            reason="The job was not started in time.",
        )
    elif job.state == State.QUEUED and approval_expired(work, held):
        ended = "approval"
        end_approval(
            work,
            held,
            actor=ACTOR,
            reason="The approval expired while the job waited in the queue.",
        )
    work.save()
    return ended


def _superseded(session_pk: int) -> bool:
    [[row]] = sql.together(sql.Statement(READ_SESSION, (session_pk,)))
    return row["state"] == "superseded"


def lose_attempt(work: Work, held: Held, outcome: str, reason: str) -> str:
    """End an attempt over its worker's head: its token is void, the job goes where it must."""
    attempt = work.end_attempt(held, outcome)
    attempt.error_code = outcome.upper()
    attempt.error_message = reason
    held.job.fencing_token += 1
    after_lost_attempt(
        work,
        held,
        actor=ACTOR,
        reason=reason,
        retryable=True,
        failed=f"job.{outcome}",
    )
    return str(outcome)


def _miss_deadline(work: Work, held: Held) -> str:
    reason = "The job's deadline has passed."
    if held.job.state == State.ACTIVE:
        attempt = work.end_attempt(held, Attempt.Outcome.DEADLINE_EXCEEDED)
        attempt.error_code, attempt.error_message = "DEADLINE_EXCEEDED", reason
        held.job.fencing_token += 1
    if held.job.state == State.ESCALATED:
        work.end_escalation(held, actor=ACTOR, reason=reason)
    work.move(held, State.FAILED, action="job.deadline_exceeded", actor=ACTOR, reason=reason)
    return "deadline_exceeded"
