"""Corrections of what was booked, on the chain of the job whose money it is."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from governance.core.errors import NotFound
from governance.money import ledger
from governance.money.corrections import Adjustment
from governance.money.ledger import Adjusted
from governance.money.models import Reservation
from governance.money.uses import UnreservedUse
from jobs.executions.binding import note_money
from jobs.transitions.work import LockedJob, Work, lock


@transaction.atomic
def adjust_spend(
    *,
    amount: Decimal,
    actor: str,
    reason: str,
    reservation_id: UUID | None = None,
    use_id: UUID | None = None,
) -> Adjusted:
    """Correct what was booked by a signed amount, which its budgets count.

    Nothing that was booked is edited.  Above `FENCEPOST_ADJUSTMENT_CONFIRM_USD` another governor
    has to confirm it first.

    :param amount: in USD; negative takes off.
    :param reservation_id: of the call that has ended; else `use_id` of what was not reserved.
    :raises NotFound: there is no such reservation, or use.
    :raises InvalidTransition: it has not ended.
    :raises InvalidArgument: the amount is none, or the cost would fall below 0.
    """
    work, locked = _lock(reservation_id=reservation_id, use_id=use_id)
    adjusted = ledger.adjust(
        reservation_id=reservation_id, use_id=use_id, amount=amount, actor=actor, reason=reason
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
    found = Adjustment.objects.filter(pk=adjustment_id).first()
    if found is None:
        raise NotFound("There is no adjustment of that id.")
    work, locked = _lock(**found.of)
    adjusted = ledger.settle_adjustment(
        adjustment_id=adjustment_id, verdict=verdict, actor=actor, reason=reason
    )
    return _noted(work, locked, adjusted, actor=actor, reason=reason)


def _lock(
    *, reservation_id: UUID | None = None, use_id: UUID | None = None
) -> tuple[Work, LockedJob]:
    """Lock the job that a reservation, or a use that was not reserved, was for.

    :raises NotFound: there is none of that id.
    """
    rows: QuerySet[Any] = Reservation.objects.all()
    key: Any = reservation_id
    if use_id is not None:
        rows, key = UnreservedUse.objects.all(), use_id
    found = rows.filter(pk=key).values_list("task_id", flat=True).first()
    if found is None:
        raise NotFound(f"There is no such {'reservation' if use_id is None else 'unreserved use'}.")
    work = lock([found])
    return work, work.get(found)


def _noted(
    work: Work, locked: LockedJob, adjusted: Adjusted, *, actor: str, reason: str
) -> Adjusted:
    note_money(work, locked, adjusted, actor=actor, reason=reason)
    work.save()
    return adjusted
