"""What stands of an attempt's money: what is open, what it cost, what is refused it by now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from django.db.models import Q, Sum

from governance.core import sql
from governance.core.errors import (
    DEFER,
    BudgetExhausted,
    CallRateLimited,
    DomainError,
    NoModelInForce,
)
from governance.money.corrections import COUNTS, Adjustment
from governance.money.models import Reservation, Resolution, RouteDecision
from governance.money.policies import POLICY
from governance.money.routes import Routed
from governance.money.uses import UnreservedUse

# Indexes: reservation_execution_idx, and the primary key of resolutions. The caller has locked the
# job, as everybody does who changes these rows.
READ_MONEY = """
SELECT coalesce(bool_or(r.state IN ('held', 'in_doubt')), false) AS still_open,
       coalesce(bool_or(e.cost > 0), false) AS cost
  FROM governance_reservation r
  LEFT JOIN governance_resolution e ON e.reservation_id = r.reservation_id
 WHERE r.external_request_id = %s
"""
# A model may be free, so that tokens count as money does. Indexes: as above.
READ_CALLED = """
SELECT EXISTS (
    SELECT 1 FROM governance_reservation r
      JOIN governance_resolution e ON e.reservation_id = r.reservation_id
     WHERE r.external_request_id = %s AND e.cost_basis <> 'none'
       AND (e.cost > 0 OR e.input_tokens > 0 OR e.output_tokens > 0 OR e.usage_missing)) AS called
"""
# Index: route_decision_call_idx.
READ_REFUSED = (
    f"SELECT {sql.select_list(RouteDecision, 'd')} FROM governance_routedecision d"
    " WHERE d.external_request_id = %s AND d.decision = 'refused'"
)
# What is held of an attempt, with what has changed since it was decided. Indexes:
# reservation_execution_idx, and those of policies and holds.
READ_AUTHORITY = f"""
SELECT m.enabled AND EXISTS (
         SELECT 1 FROM ({
    POLICY.format(agent="d.agent", job_type="d.job_type", risk_tier="d.risk_tier")
}) y
           JOIN governance_routepolicymodel l ON l.policy_id = y.id AND l.model_id = d.model_id
       ) AS allowed,
       r.amount > 0 AND EXISTS (
         SELECT 1 FROM governance_reservationhold h
           JOIN governance_budgetwindow w ON w.id = h.window_id
           JOIN governance_budget b ON b.id = w.budget_id AND b.enabled AND b.cap = 0
          WHERE h.reservation_id = r.reservation_id
       ) AS shut,
       m.provider, m.name
  FROM governance_reservation r
  JOIN governance_routedecision d ON d.decision_id = r.decision_id
  JOIN governance_languagemodel m ON m.id = d.model_id
 WHERE r.external_request_id = %s AND r.state = 'held'
"""
#: The reasons of refusals of a start that say nothing of the work.
REFUSED_STARTS: dict[str, type[DomainError]] = {
    refusal.reason: refusal for refusal in (NoModelInForce, BudgetExhausted)
}


#: The reasons of routes that were refused for want of room.
WITHOUT_ROOM = (BudgetExhausted.reason, CallRateLimited.reason)


def refusal_of_start(*, external_request_id: str) -> DomainError | None:
    """Return why what an attempt holds may not be used any more; None where it may.

    A model that was switched off or taken from the policy since the route, or a budget whose cap
    is 0 by now.  Not what is held beside it: that was granted.
    """
    [rows] = sql.pipeline(sql.Statement(READ_AUTHORITY, (external_request_id,)))
    for row in rows:
        if not row["allowed"]:
            name = f"{row['provider']}/{row['name']}"
            return NoModelInForce(f"{name} is not allowed to this work any more.")
        if row["shut"]:
            return BudgetExhausted("The cap of a budget is 0 by now.")
    return None


@dataclass(frozen=True)
class Standing:
    """The money of one attempt.

    `still_open`: a reservation has not ended. `cost`: a call of it cost something. `refused_room`:
    a route was refused with the advice to defer. `over_budget`: the last that was refused so for
    want of room in a budget. `over_limit`: the same for a limit; of both the later one.
    """

    still_open: bool = False
    cost: bool = False
    refused_room: bool = False
    over_budget: RouteDecision | None = None
    over_limit: RouteDecision | None = None


def read_standing(*, external_request_id: str) -> Standing:
    """Return how the money of the attempt with that identity stands."""
    [money], refused = sql.pipeline(
        sql.Statement(READ_MONEY, (external_request_id,)),
        sql.Statement(READ_REFUSED, (external_request_id,)),
    )
    decisions = [sql.build(RouteDecision, row, "d") for row in refused]
    decisions.sort(key=lambda each: (each.call, each.decided_at))
    last = next((each for each in reversed(decisions) if each.reason in WITHOUT_ROOM), None)
    return Standing(
        still_open=money["still_open"],
        cost=money["cost"],
        refused_room=any(_refused_room(each) for each in decisions),
        over_budget=last if last and last.reason == BudgetExhausted.reason else None,
        over_limit=last if last and last.reason == CallRateLimited.reason else None,
    )


def has_called(*, external_request_id: str) -> bool:
    """Return whether a call of the attempt has ended at what it used: tokens, or money.

    One that was settled without a report of usage has used its estimate.
    """
    [[row]] = sql.pipeline(sql.Statement(READ_CALLED, (external_request_id,)))
    return bool(row["called"])


@dataclass(frozen=True)
class Bill:
    """What the calls of one attempt came to, with what was booked beside them.

    `basis` is that of the weakest part: an estimate makes the sum one. None while nothing has ended
    and something is open.  `cost` is of what is known, as it was corrected: `unpriced` among the
    flags says that more was used.
    """

    cost: Decimal
    basis: str | None
    flags: tuple[str, ...]


def read_bill(*, external_request_id: str) -> Bill:
    """Return what the calls of an attempt came to so far."""
    held = Reservation.objects.filter(external_request_id=external_request_id)
    ends = [getattr(row, "resolution", None) for row in held.select_related("resolution")]
    beside = list(UnreservedUse.objects.filter(external_request_id=external_request_id))
    ended: list[Resolution | UnreservedUse] = [*(end for end in ends if end is not None), *beside]
    bases = {each.cost_basis for each in ended}
    weakest = (Resolution.Basis.ESTIMATE, Resolution.Basis.USAGE)
    basis: str | None = next((each.value for each in weakest if each in bases), None)
    if basis is None and (ended or not ends):
        basis = Resolution.Basis.NONE.value
    flags = {flag for each in ended for flag in each.flags}
    cost = sum((each.cost for each in ended if each.cost is not None), Decimal(0))
    if ended:
        cost += _corrected(ended)
    return Bill(cost, basis, tuple(sorted(flags)))


def _corrected(ended: Sequence[Resolution | UnreservedUse]) -> Decimal:
    """Return what the corrections that count add to what was booked, or take off."""
    ids = [each.pk for each in ended]
    corrections = Adjustment.objects.filter(Q(resolution__in=ids) | Q(use__in=ids)).filter(COUNTS)
    total: Decimal | None = corrections.aggregate(total=Sum("amount"))["total"]
    return total or Decimal(0)


def _refused_room(decision: RouteDecision) -> bool:
    refusal = Routed(decision, None, "", "").refusal
    return refusal is not None and refusal.retry == DEFER
