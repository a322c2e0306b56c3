"""External effects: route, permit, start, result, reconciliation; contract sections 4 to 6.

An effect may begin only after `start` has committed its execution as `unknown`.  From then on
exactly one of three things is true: the attempt's worker reported the result, a person reconciled
it with evidence, or it is unknown, and the job goes nowhere.
"""

from jobs.executions.adjustments import adjust_spend, settle_adjustment
from jobs.executions.binding import Binding
from jobs.executions.disputes import settle_dispute
from jobs.executions.doubts import tell_aged
from jobs.executions.permits import IssuedPermit, issued_before, permit
from jobs.executions.reconciliations import reconcile
from jobs.executions.results import RESULTS, ResultOutcome, result
from jobs.executions.routes import (
    ResolveOutcome,
    RouteStanding,
    resolve_reservation,
    route,
    routed_before,
)
from jobs.executions.starts import StartOutcome, start

__all__ = [
    "RESULTS",
    "Binding",
    "IssuedPermit",
    "ResolveOutcome",
    "ResultOutcome",
    "RouteStanding",
    "StartOutcome",
    "adjust_spend",
    "issued_before",
    "permit",
    "reconcile",
    "resolve_reservation",
    "result",
    "route",
    "routed_before",
    "settle_adjustment",
    "settle_dispute",
    "start",
    "tell_aged",
]
