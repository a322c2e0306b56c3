"""The money of model calls: decide and reserve before a call, end the reservation once after it.

Knows no job: who calls has locked the job, judged the token, and passes texts and numbers.  Locks
are taken in this order: reservations by id, the money's lock, then budget windows by id, last; a
budget row only after its windows.
"""

from governance.money.adjustments import (
    Adjusted,
    adjust,
    refusal_of_adjustment,
    refusal_of_verdict,
    settle_adjustment,
)
from governance.money.books import (
    BudgetBar,
    Difference,
    aged_doubts,
    bounded_budgets,
    budget_bars,
    count_bounds,
    money_of_job,
    overruns,
    verify,
)
from governance.money.requests import RouteRequest
from governance.money.reservations import (
    End,
    Resolved,
    end_open,
    mark_in_doubt,
    open_reservations,
    resolve,
    resolve_all,
)
from governance.money.routes import Routed, dry_run, reserve
from governance.money.standings import (
    REFUSED_STARTS,
    Bill,
    Standing,
    has_called,
    read_bill,
    read_standing,
    refusal_of_start,
)
from governance.money.unreserved import Reported, Unreserved, book, excess_of
from governance.money.verdicts import Settled, refusal_of_dispute, settle_dispute

__all__ = [
    "REFUSED_STARTS",
    "Adjusted",
    "Bill",
    "BudgetBar",
    "Difference",
    "End",
    "Reported",
    "Resolved",
    "RouteRequest",
    "Routed",
    "Settled",
    "Standing",
    "Unreserved",
    "adjust",
    "aged_doubts",
    "book",
    "bounded_budgets",
    "budget_bars",
    "count_bounds",
    "dry_run",
    "end_open",
    "excess_of",
    "has_called",
    "mark_in_doubt",
    "money_of_job",
    "open_reservations",
    "overruns",
    "read_bill",
    "read_standing",
    "refusal_of_adjustment",
    "refusal_of_dispute",
    "refusal_of_start",
    "refusal_of_verdict",
    "reserve",
    "resolve",
    "resolve_all",
    "settle_adjustment",
    "settle_dispute",
    "verify",
]
