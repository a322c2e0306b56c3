"""The money of model calls: decide and reserve before a call, end the reservation once after it.

Knows no job: who calls has locked the job, judged the token, and passes texts and numbers.  Locks
are taken in this order: reservations by id, then budget windows by id, last; a budget row only
after its windows, and only to note on its audit chain that a cap was passed.
"""

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
from governance.money.reservations import (
    End,
    Resolved,
    mark_in_doubt,
    open_reservations,
    release_all,
    resolve,
    resolve_all,
)
from governance.money.routes import Routed, RouteRequest, dry_run, reserve
from governance.money.standings import Standing, read_standing

__all__ = [
    "BudgetBar",
    "Difference",
    "End",
    "Resolved",
    "RouteRequest",
    "Routed",
    "Standing",
    "aged_doubts",
    "bounded_budgets",
    "budget_bars",
    "count_bounds",
    "dry_run",
    "mark_in_doubt",
    "money_of_job",
    "open_reservations",
    "overruns",
    "read_standing",
    "release_all",
    "reserve",
    "resolve",
    "resolve_all",
    "verify",
]
