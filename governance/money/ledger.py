"""The money of model calls: decide and reserve before a call, end the reservation once after it.

Knows no job: who calls has locked the job, judged the token, and passes texts and numbers.  Locks
are taken in this order: reservations by id, then budget windows by id, last; a budget row only
after its windows, and only to note on its audit chain that a cap was passed.
"""

from governance.money.books import BudgetBar, Difference, budget_bars, money_of_job, verify
from governance.money.reservations import (
    End,
    Resolved,
    end_open,
    mark_in_doubt,
    open_reservations,
    resolve,
    resolve_all,
)
from governance.money.routes import Routed, RouteRequest, dry_run, reserve
from governance.money.standings import Bill, Standing, has_called, read_bill, read_standing
from governance.money.unreserved import Reported, Unreserved, book, excess_of

__all__ = [
    "Bill",
    "BudgetBar",
    "Difference",
    "End",
    "Reported",
    "Resolved",
    "RouteRequest",
    "Routed",
    "Standing",
    "Unreserved",
    "book",
    "budget_bars",
    "dry_run",
    "end_open",
    "excess_of",
    "has_called",
    "mark_in_doubt",
    "money_of_job",
    "open_reservations",
    "read_bill",
    "read_standing",
    "reserve",
    "resolve",
    "resolve_all",
    "verify",
]
