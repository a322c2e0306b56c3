"""Corrections of what calls cost, on the chain of the job whose call it was."""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

from django.db import transaction

from governance.core.errors import NotFound
from governance.money import ledger
from governance.money.corrections import Adjustment
from governance.money.ledger import Adjusted
from governance.money.models import Reservation
from jobs.executions.binding import note_money
from jobs.transitions.work import LockedJob, Work, lock


@transaction.atomic
def adjust_spend(*, reservation_id: UUID, amount: Decimal, actor: str, reason: str) -> Adjusted:
    """Correct what an ended call cost by a signed amount, which its budgets count.

    Nothing that was booked is edited.  Above `FENCEPOST_ADJUSTMENT_CONFIRM_USD` another governor
    has to confirm it first.

    :param amount: in USD; negative takes off.
    :raises NotFound: there is no such reservation.
    :raises InvalidTransition: it has not ended.
    :raises InvalidArgument: the amount is none, or the cost would fall below 0.
    """
    work, locked = _lock(reservation_id)
    adjusted = ledger.adjust(
        reservation_id=reservation_id, amount=amount, actor=actor, reason=reason
    )
    return _noted(work, locked, adjusted, actor=actor, reason=reason)


@transaction.atomic
def settle_adjustment(*, adjustment_id: UUID, verdict: str, actor: str, reason: str) -> Adjusted:
    """Confirm a correction that waits for another governor, or decline it.

    :param verdict: `confirmed` or `declined`.
    :raises NotFound: there is no such correction.
    :raises InvalidTransition: it does not wait.
    :raises SelfApproval: its own maker would confirm it.
    :raises InvalidArgument: the cost would fall below 0 by now.
    """
    found = Adjustment.objects.filter(pk=adjustment_id).values_list("resolution_id", flat=True)
    reservation_id = found.first()
    if reservation_id is None:
        raise NotFound("There is no adjustment of that id.")
    work, locked = _lock(reservation_id)
    adjusted = ledger.settle_adjustment(
        adjustment_id=adjustment_id, verdict=verdict, actor=actor, reason=reason
    )
    return _noted(work, locked, adjusted, actor=actor, reason=reason)


def _lock(reservation_id: UUID) -> tuple[Work, LockedJob]:
    """Lock the job that a reservation was made for.

    :raises NotFound: there is no such reservation.
    """
    found = Reservation.objects.filter(pk=reservation_id).values_list("task_id", flat=True).first()
    if found is None:
        raise NotFound("There is no such reservation.")
    work = lock([found])
    return work, work.get(found)


def _noted(
    work: Work, locked: LockedJob, adjusted: Adjusted, *, actor: str, reason: str
) -> Adjusted:
    note_money(work, locked, adjusted, actor=actor, reason=reason)
    work.save()
    return adjusted
