"""The end of what a governed attempt may do: its permits, and its open reservations."""

from __future__ import annotations

from datetime import datetime

from governance import ledger
from jobs.models import Execution, Job, Permit

ACTOR = "system:attempt-end"


def end_authority(*, job: Job, now: datetime) -> None:
    """Revoke the permits of the job's last attempt and release its open reservations.

    Called in the transaction that ended the attempt, after the job was saved: reservations and
    budgets are locked last.  The reservation of a started execution stays open, in doubt.
    """
    Permit.objects.filter(job_id=job.pk, attempt=job.attempt, state=Permit.State.ISSUED).update(
        state=Permit.State.REVOKED, ended_at=now
    )
    started = (
        Execution.objects.filter(
            job_id=job.pk, attempt=job.attempt, state=Execution.State.UNKNOWN
        )
        .values_list("reservation_id", flat=True)
        .first()
    )
    ledger.end_attempt(
        job_id=job.job_id, attempt=job.attempt, in_doubt=started, actor=ACTOR
    )
