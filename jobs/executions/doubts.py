"""Reservations that have been in doubt for long: told once of each, by the sweeper."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from uuid import UUID

import structlog
from django.conf import settings
from django.db import connection, transaction

from governance.core import sql
from governance.core.isolation import in_any_case
from governance.money.models import AgedReservation, Reservation
from governance.money.pricing import text_of
from jobs.models import Job
from jobs.transitions.sweeping import ACTOR, Failures
from jobs.transitions.work import lock

log = structlog.get_logger(__name__)

TOLD_PER_ROUND = 500
ERROR_CHARS_MAX = 200

# No lock. Index: reservation_doubt_idx. What a running attempt holds its worker may yet report.
DUE = """
SELECT r.reservation_id, r.task_id
  FROM governance_reservation r JOIN jobs_job j ON j.job_id = r.job_id
 WHERE r.state = 'in_doubt'
   AND r.reserved_at <= clock_timestamp() - make_interval(secs => %(seconds)s)
   AND NOT (j.state = 'active' AND j.attempt = r.attempt)
   AND NOT EXISTS (SELECT FROM governance_agedreservation a
                    WHERE a.reservation_id = r.reservation_id)
   AND r.task_id <> ALL(%(resting)s::text[])
 ORDER BY r.reserved_at LIMIT %(limit)s
"""


def tell_aged(*, failures: Failures, limit: int = TOLD_PER_ROUND) -> int:
    """Say of reservations, once of each, that they have been in doubt for long; how many were told.

    How long is the setting `IN_DOUBT_AGED_SECONDS`. Must not be called inside a transaction: each
    is told in one of its own.

    :param failures: the jobs of which that could not be told before, which rest.
    :raises DatabaseError: the database is away.
    """
    resting = failures.resting()
    terms = {
        "seconds": settings.IN_DOUBT_AGED_SECONDS,
        "resting": resting,
        "limit": limit,
    }
    [rows] = sql.pipeline(sql.Statement(DUE, terms))
    count, failed = 0, set()
    for row in rows:
        try:
            count += in_any_case(partial(tell_if_aged, **row))
        # Whatever it is, it is about this job only, and the others wait.
        except Exception as error:
            if not connection.is_usable():
                raise
            log.exception("sweep.doubt_failed", task_id=row["task_id"])
            failures.add(row["task_id"], f"{type(error).__name__}: {error}"[:ERROR_CHARS_MAX])
            failed.add(row["task_id"])
    failures.keep({*resting, *failed})
    return count


@transaction.atomic
def tell_if_aged(*, reservation_id: UUID, task_id: str) -> bool:
    """Say of one reservation that it has been in doubt for long, if it is and that was not said.

    Returns whether it was said; not while somebody else is at the job.
    """
    work = lock([task_id], if_free=True)
    locked = work.locked.get(task_id)
    if locked is None:
        return False
    aged = work.now - timedelta(seconds=settings.IN_DOUBT_AGED_SECONDS)
    # Whoever ends it, or tells of it, holds the job.
    found = Reservation.objects.filter(
        reservation_id=reservation_id,
        job_id=locked.job.job_id,
        state=Reservation.State.IN_DOUBT,
        reserved_at__lte=aged,
        aged=None,
    ).first()
    running = locked.job.state == Job.State.ACTIVE
    if found is None or (running and locked.job.attempt == found.attempt):
        return False
    work.add(AgedReservation(reservation=found, aged_at=work.now))
    work.note(
        locked,
        action="reservation.in_doubt_aged",
        actor=ACTOR,
        details={
            "reservation_id": str(found.reservation_id),
            "attempt": found.attempt,
            "amount": text_of(found.amount),
            "currency": found.currency,
            "reserved_at": found.reserved_at.isoformat(),
        },
    )
    work.save()
    return True
