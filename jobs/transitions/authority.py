"""The end of what governed attempts may do: their permits, and their open reservations."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from governance.core import sql
from governance.money import ledger
from governance.money.ledger import Resolved
from jobs.models import Job

ACTOR = "system:attempt-end"
REASON = "The attempt ended before anything was started."

# Locks: the permits, after their jobs. Index: permit_of_attempt_idx.
REVOKE_PERMITS = (
    "UPDATE jobs_permit p SET state = 'revoked', ended_at = %s"
    " FROM unnest(%s::bigint[], %s::int[]) AS q(job_id, attempt)"
    " WHERE p.job_id = q.job_id AND p.attempt = q.attempt AND p.state = 'issued'"
)


def end_authority(*, jobs: Sequence[Job], now: datetime) -> list[Resolved]:
    """Revoke the permits of the jobs' last attempts and release what these still hold.

    Called in the transaction that ends the attempts.  The reservation of a started execution is
    in doubt and stays so.
    """
    sql.pipeline(
        sql.Statement(
            REVOKE_PERMITS, (now, [job.pk for job in jobs], [job.attempt for job in jobs])
        )
    )
    return ledger.release_all(
        attempts=[(job.job_id, job.attempt) for job in jobs], actor=ACTOR, reason=REASON
    )
