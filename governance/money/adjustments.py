"""Correct what was booked, by a row that says who and why: what was booked stays as it is.

It was booked of a call that has ended, or of a use that was not reserved.  An adjustment posts to
the windows that count it: those that held the call or to which the use was posted, and those whose
opening took it over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from uuid_utils.compat import uuid7

from governance.core import sql
from governance.core.clock import READ_CLOCK
from governance.core.errors import (
    FieldFault,
    InvalidArgument,
    InvalidTransition,
    NotFound,
    SelfApproval,
)
from governance.core.reasons import required
from governance.money.budgets import SHARE_MONEY
from governance.money.corrections import Adjustment, AdjustmentPosting, AdjustmentVerdict
from governance.money.models import CURRENCY, Reservation
from governance.money.openings import RECORDED_IN_WINDOW, RESERVED_IN_WINDOW, seen, unreserved
from governance.money.postings import post
from governance.money.pricing import text_of
from governance.money.reservations import LOCK_RESERVATIONS

Verdict = AdjustmentVerdict.Verdict
#: Above it an amount is a mistake.
AMOUNT_MAX = Decimal(10) ** 9
PLACES_MAX = 12

#: What the adjustments of something come to that count. In the braces stands what they are of.
COUNTING = (
    "coalesce((SELECT sum(a.amount) FROM governance_adjustment a"
    "  LEFT JOIN governance_adjustmentverdict v ON v.adjustment_id = a.adjustment_id"
    "  WHERE {of} AND (NOT a.needs_confirmation OR v.verdict = 'confirmed')), 0)"
)
# What an ended call cost, with the adjustments that count. No row: it is open, or there is none.
READ_COST = (
    f"SELECT e.cost + {COUNTING.format(of='a.resolution_id = e.reservation_id')} AS cost"
    " FROM governance_resolution e WHERE e.reservation_id = ANY(%s::uuid[])"
)
# The same of a use; one whose price nobody knows has cost nothing yet.
READ_COST_OF_USE = (
    f"SELECT coalesce(u.cost, 0) + {COUNTING.format(of='a.use_id = u.use_id')} AS cost"
    " FROM governance_unreserveduse u WHERE u.use_id = ANY(%s::uuid[])"
)
# Locks: the use. Nothing else changes about it.
LOCK_USES = (
    "SELECT use_id FROM governance_unreserveduse WHERE use_id = ANY(%s::uuid[])"
    " ORDER BY use_id FOR NO KEY UPDATE"
)
# The windows that count a call: those that hold it, and the opened ones of its scopes. A window
# without an opening has not seen what it does not hold. In the braces stand the budgets of a call.
READ_WINDOWS = (
    "SELECT h.window_id AS id FROM governance_reservationhold h"
    " WHERE h.reservation_id = ANY(%(ids)s::uuid[]) UNION SELECT w.id{budgets}"
    + RESERVED_IN_WINDOW
    + " WHERE r.reservation_id = ANY(%(ids)s::uuid[])"
    "  AND EXISTS (SELECT 1 FROM governance_budgetopening o WHERE o.window_id = w.id) ORDER BY 1"
)
# The same of a use. One whose price nobody knows was posted nowhere: every window of its scopes has
# not seen it.
READ_WINDOWS_OF_USE = (
    "SELECT p.window_id AS id FROM governance_unreservedposting p"
    "  WHERE p.use_id = ANY(%(ids)s::uuid[]) UNION SELECT w.id{budgets}"
    + RECORDED_IN_WINDOW
    + " WHERE u.use_id = ANY(%(ids)s::uuid[]) AND (u.cost IS NULL OR EXISTS"
    "  (SELECT 1 FROM governance_budgetopening o WHERE o.window_id = w.id)) ORDER BY 1"
)
# Adjustments that count and were posted nowhere where their call is held, or their use was posted,
# or that do not count and were posted.
POSTED = (
    "SELECT h.window_id FROM governance_reservationhold h WHERE h.reservation_id = a.resolution_id"
    " UNION ALL SELECT q.window_id FROM governance_unreservedposting q WHERE q.use_id = a.use_id"
)
WRONG_ADJUSTMENTS = (
    "SELECT a.adjustment_id, counts.yes, ARRAY(SELECT p.window_id FROM governance_adjustmentposting"
    " p WHERE p.adjustment_id = a.adjustment_id ORDER BY 1)::text AS found,"
    " CASE WHEN counts.yes THEN expected.ids ELSE '{}' END AS expected"
    " FROM governance_adjustment a"
    " LEFT JOIN governance_adjustmentverdict v ON v.adjustment_id = a.adjustment_id"
    " CROSS JOIN LATERAL (SELECT NOT a.needs_confirmation"
    "  OR coalesce(v.verdict = 'confirmed', false) AS yes) counts"
    f" CROSS JOIN LATERAL (SELECT ARRAY({POSTED} ORDER BY 1)::text AS ids) expected"
    f" WHERE CASE WHEN counts.yes THEN EXISTS (SELECT 1 FROM ({POSTED}) h"
    "   WHERE NOT EXISTS (SELECT 1"
    "    FROM governance_adjustmentposting p WHERE p.adjustment_id = a.adjustment_id"
    "     AND p.window_id = h.window_id))"
    "  ELSE EXISTS (SELECT 1 FROM governance_adjustmentposting p"
    "   WHERE p.adjustment_id = a.adjustment_id) END"
    " ORDER BY a.adjustment_id"
)


@dataclass(frozen=True)
class Adjusted:
    """An adjustment as it stands: `posted`, `waiting` for a second governor, or `declined`.

    `cost` is what its call, or its use, costs with all adjustments that count; `windows` are those
    that it was posted to; `at` is when this was written.
    """

    outcome: str
    adjustment: Adjustment
    cost: Decimal
    at: datetime
    windows: Sequence[int] = ()

    def event(self) -> dict[str, Any]:
        """Return `action` and `after` of the audit event that the caller chains to its job."""
        row = self.adjustment
        names = {"posted": "adjusted", "waiting": "adjustment_asked"}
        kind = "reservation" if row.resolution_id else "unreserved_use"
        return {
            "action": f"{kind}.{names.get(self.outcome, 'adjustment_declined')}",
            "after": {
                "adjustment_id": str(row.adjustment_id),
                **{name: str(key) for name, key in row.of.items()},
                "amount": text_of(row.amount),
                "currency": CURRENCY,
                "cost": text_of(self.cost),
                "made_by": row.made_by,
                "needs_confirmation": row.needs_confirmation,
                "written_at": self.at.isoformat(timespec="microseconds"),
                "windows": list(self.windows),
            },
        }


@transaction.atomic
def adjust(
    *,
    amount: Decimal,
    actor: str,
    reason: str,
    reservation_id: UUID | None = None,
    use_id: UUID | None = None,
) -> Adjusted:
    """Correct what was booked by a signed amount, which its budgets count at once.

    An amount above `FENCEPOST_ADJUSTMENT_CONFIRM_USD`, whichever way, waits for a second governor.

    :param amount: in USD; negative takes off.
    :param reservation_id: of the call that has ended; else `use_id` of what was not reserved.
    :raises InvalidArgument: it is no such amount, or the cost would fall below 0.
    :raises InvalidTransition: the call has not ended: what it costs is not booked yet.
    :raises NotFound: there is no such use.
    """
    reason = required(reason)
    _need_amount(amount)
    limit = settings.ADJUSTMENT_CONFIRM_USD
    adjustment = Adjustment(
        adjustment_id=uuid7(),
        resolution_id=reservation_id,
        use_id=use_id,
        amount=amount,
        needs_confirmation=limit is not None and abs(amount) > limit,
        reason=reason,
        made_by=actor,
    )
    cost, at = _locked(adjustment)
    _need_cost(cost, amount)
    adjustment.made_at = at
    sql.pipeline(sql.insert([adjustment]))
    if adjustment.needs_confirmation:
        return Adjusted("waiting", adjustment, cost, at)
    return Adjusted("posted", adjustment, cost + amount, at, _post(adjustment, at=at))


@transaction.atomic
def settle_adjustment(*, adjustment_id: UUID, verdict: str, actor: str, reason: str) -> Adjusted:
    """Confirm an adjustment that waits for a second governor, who is not the first, or decline it.

    :raises NotFound: there is none of that id.
    :raises InvalidTransition: it does not wait.
    :raises SelfApproval: its own maker would confirm it.
    :raises InvalidArgument: the cost would fall below 0.
    """
    reason = required(reason)
    adjustment = Adjustment.objects.filter(pk=adjustment_id).first()
    if adjustment is None:
        raise NotFound("There is no adjustment of that id.")
    cost, at = _locked(adjustment)
    # Read after the lock, which whoever decides about it takes.
    fault = refusal_of_verdict(_with_verdict(adjustment_id), verdict=verdict, actor=actor)
    if fault is not None:
        raise fault
    if verdict == Verdict.CONFIRMED:
        _need_cost(cost, adjustment.amount)
    AdjustmentVerdict.objects.create(
        adjustment=adjustment, verdict=verdict, reason=reason, decided_by=actor, decided_at=at
    )
    if verdict == Verdict.DECLINED:
        return Adjusted("declined", adjustment, cost, at)
    cost += adjustment.amount
    return Adjusted("posted", adjustment, cost, at, _post(adjustment, at=at))


def refusal_of_adjustment(row: Reservation) -> InvalidTransition | None:
    """Return why what a call cost cannot be corrected: it has not ended; None where it can."""
    if row.state not in Reservation.OPEN:
        return None
    return InvalidTransition("The call has not ended: what it costs is not booked yet.")


def refusal_of_verdict(
    adjustment: Adjustment, *, verdict: str, actor: str
) -> InvalidTransition | SelfApproval | None:
    """Return why an actor cannot give that verdict on an adjustment; None where they can.

    :param adjustment: read with its verdict.
    """
    if not adjustment.needs_confirmation:
        return InvalidTransition("It counts already.")
    if stored := getattr(adjustment, "verdict", None):
        return InvalidTransition(f"It is {stored.verdict} already.")
    if verdict == Verdict.CONFIRMED and actor == adjustment.made_by:
        return SelfApproval("Nobody confirms a correction of their own.")
    return None


def _with_verdict(adjustment_id: UUID) -> Adjustment:
    return Adjustment.objects.select_related("verdict").get(pk=adjustment_id)


@dataclass(frozen=True)
class _Kind:
    """The statements about what is corrected, each of a list of ids."""

    lock: str
    cost: str
    windows: str
    #: Returns the SQL of it with the budgets that it falls under.
    budgets: Callable[[], str]


_CALL = _Kind(LOCK_RESERVATIONS, READ_COST, READ_WINDOWS, seen)
_USE = _Kind(LOCK_USES, READ_COST_OF_USE, READ_WINDOWS_OF_USE, unreserved)


def _about(adjustment: Adjustment) -> tuple[_Kind, list[UUID]]:
    return _USE if adjustment.use_id else _CALL, list(adjustment.of.values())


def _locked(adjustment: Adjustment) -> tuple[Decimal, datetime]:
    """Lock what is corrected, and return what it costs and the time after the lock.

    :raises InvalidTransition: it is a call that has not ended.
    :raises NotFound: there is no such use.
    """
    kind, ids = _about(adjustment)
    _, _, costs, [clock] = sql.pipeline(
        sql.Statement(kind.lock, (ids,)),
        SHARE_MONEY,
        sql.Statement(kind.cost, (ids,)),
        sql.Statement(READ_CLOCK),
    )
    if not costs and adjustment.use_id:
        raise NotFound("There is no such unreserved use.")
    if not costs:
        raise InvalidTransition("The call has not ended: what it costs is not booked yet.")
    return costs[0]["cost"], clock["now"]


def _need_amount(amount: Decimal) -> None:
    exponent = amount.as_tuple().exponent
    small = isinstance(exponent, int) and -exponent <= PLACES_MAX
    if not (amount.is_finite() and amount and small and abs(amount) <= AMOUNT_MAX):
        detail = f"an amount other than 0, up to {AMOUNT_MAX} either way, {PLACES_MAX} decimals"
        raise InvalidArgument(errors=[FieldFault("/amount", detail)])


def _need_cost(cost: Decimal, amount: Decimal) -> None:
    if cost + amount < 0:
        detail = f"it costs {text_of(cost)} {CURRENCY}, and no less than 0"
        raise InvalidArgument(errors=[FieldFault("/amount", detail)])


def _post(adjustment: Adjustment, *, at: datetime) -> list[int]:
    """Move what was spent in the windows that count what is corrected, and return their ids."""
    kind, of = _about(adjustment)
    reading = kind.windows.format(budgets=kind.budgets())
    [found] = sql.pipeline(sql.Statement(reading, {"ids": of}))
    ids = [row["id"] for row in found]
    if ids:
        rows = [AdjustmentPosting(adjustment=adjustment, window_id=window) for window in ids]
        post(dict.fromkeys(ids, (Decimal(0), adjustment.amount)), sql.insert(rows), at=at)
    return ids
