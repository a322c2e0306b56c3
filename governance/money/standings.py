"""What stands of an attempt's money: what is open, whether it cost, whether room was refused."""

from __future__ import annotations

from dataclasses import dataclass

from governance.core import sql
from governance.core.errors import DEFER
from governance.money.models import RouteDecision
from governance.money.routes import Routed

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
# Index: the unique one on (external_request_id, call).
READ_REFUSED = (
    f"SELECT {sql.select_list(RouteDecision, 'd')} FROM governance_routedecision d"
    " WHERE d.external_request_id = %s AND d.decision = 'refused'"
)


@dataclass(frozen=True)
class Standing:
    """The money of one attempt.

    `still_open`: a reservation has not ended. `cost`: a call of it cost something. `refused_room`:
    a route was refused with the advice to defer.
    """

    still_open: bool = False
    cost: bool = False
    refused_room: bool = False


def read_standing(*, external_request_id: str) -> Standing:
    """Return how the money of the attempt with that identity stands."""
    [money], refused = sql.pipeline(
        sql.Statement(READ_MONEY, (external_request_id,)),
        sql.Statement(READ_REFUSED, (external_request_id,)),
    )
    return Standing(
        still_open=money["still_open"],
        cost=money["cost"],
        refused_room=any(_refused_room(sql.build(RouteDecision, row, "d")) for row in refused),
    )


def has_called(*, external_request_id: str) -> bool:
    """Return whether a call of the attempt has ended at what it used: tokens, or money.

    One that was settled without a report of usage has used its estimate.
    """
    [[row]] = sql.pipeline(sql.Statement(READ_CALLED, (external_request_id,)))
    return bool(row["called"])


def _refused_room(decision: RouteDecision) -> bool:
    refusal = Routed(decision, None, "", "").refusal
    return refusal is not None and refusal.retry == DEFER
