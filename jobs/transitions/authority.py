"""The end of what governed attempts may do: their permits, and their open reservations."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from governance.core import sql
from governance.money import ledger
from governance.money.ledger import Resolved
from jobs.models import Attempt, Job

ACTOR = "system:attempt-end"
REASON = "The attempt ended before anything was started."
#: Why an execution failed that touched nothing but models; and why its calls are booked.
ATTEMPT_ENDED = "ATTEMPT_ENDED"
BOOKED = "The attempt ended, and nobody has said what the call used."

# Locks: the permits, after their jobs. Index: permit_of_attempt_idx.
REVOKE_PERMITS = (
    "UPDATE jobs_permit p SET state = 'revoked', ended_at = %s"
    " FROM unnest(%s::bigint[], %s::int[]) AS q(job_id, attempt)"
    " WHERE p.job_id = q.job_id AND p.attempt = q.attempt AND p.state = 'issued'"
)
# Locks: the execution, after its job and attempt. Index: execution_one_per_attempt.
FAIL_MODEL_ONLY = (
    "UPDATE jobs_execution SET state = 'failed', resulted_at = %s, error_code = %s"
    " WHERE job_id = %s AND attempt = %s AND state = 'unknown' AND effects = 'model_only'"
    " RETURNING external_request_id"
)


def fail_model_only(*, attempt: Attempt, now: datetime) -> str | None:
    """End the attempt's unknown execution as failed if it touched nothing but models.

    Returns its id, or None where there is none. Its calls are to be booked: a call of a model has
    no effect but its cost, so that nobody has to say what became of it. Source: money, rule 1.
    """
    [rows] = sql.pipeline(
        sql.Statement(FAIL_MODEL_ONLY, (now, ATTEMPT_ENDED, attempt.job_id, attempt.number))
    )
    return rows[0]["external_request_id"] if rows else None


def end_authority(
    *, jobs: Sequence[Job], now: datetime, booked: Collection[str] = ()
) -> list[Resolved]:
    """Revoke the permits of the jobs' last attempts and release what these still hold.

    Called in the transaction that ends the attempts.  The reservation of a started execution is
    in doubt and stays so.

    :param booked: executions whose calls in doubt are booked as unknown ones.
    """
    sql.pipeline(
        sql.Statement(
            REVOKE_PERMITS, (now, [job.pk for job in jobs], [job.attempt for job in jobs])
        )
    )
    return ledger.end_open(
        attempts=[(job.job_id, job.attempt) for job in jobs],
        actor=ACTOR,
        reason=REASON,
        booked=booked,
        booked_reason=BOOKED,
    )
