"""Find the first allowed model that every budget has room for, under the locks of its budgets.

Budgets of a model or a provider hang on what is chosen.  So where there are any, the list is judged
unlocked first, and the windows of the first model that fits are locked behind a savepoint, all of
them by id, and judged again: a call waits for no budget of a model that it does not get.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import transaction

from governance.core import sql
from governance.money import metering
from governance.money.budgets import READ_ROOM, lock_room, windows
from governance.money.pricing import PriceList, text_of
from governance.money.scopes import OF_MODEL, Scopes, scopes_of_model, scopes_of_models

# Whether budgets hang on the model. To be read under the money's lock: who makes one holds it.
READ_BY_MODEL = (
    "SELECT EXISTS (SELECT FROM governance_budget WHERE scope IN ('model', 'provider')) AS by_model"
)
Room = list[sql.Row]
# What is done to windows and budgets for a model that then fits no limit is undone.
SAVE_BEFORE_LIMITS = sql.Statement("SAVEPOINT before_limits")
BACK_BEFORE_LIMITS = sql.Statement("ROLLBACK TO SAVEPOINT before_limits")


@dataclass
class Candidate:
    """An allowed model at its position, and what became of it for one request."""

    policy_id: int
    position: int
    model_id: int
    provider: str
    name: str
    price: PriceList | None
    outcome: str = "not_needed"
    amount: Decimal | None = None
    #: What the call is held at.
    input_tokens: int = 0
    output_tokens: int = 0
    over: list[dict[str, Any]] = field(default_factory=list)
    #: The windows that it does not fit, as they were read.
    full: list[sql.Row] = field(default_factory=list)
    #: The limits that it does not fit, as `metering.over` tells them.
    limits: list[dict[str, Any]] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        """Return the tokens that the call is held at."""
        return self.input_tokens + self.output_tokens

    @property
    def label(self) -> str:
        """Return the model as `provider/name`."""
        return f"{self.provider}/{self.name}"

    def fits(self, meters: Sequence[sql.Row]) -> bool:
        """Return whether the limits let it through; where not, keep which, as its outcome.

        :param meters: of any models.
        """
        mine = [row for row in meters if applies(row, self.label)]
        self.limits = metering.over(mine, tokens=self.tokens)
        if self.limits:
            self.outcome = "over_limit"
        return not self.limits

    def line(self) -> dict[str, Any]:
        """Return the candidate's line of `considered`."""
        return {
            "position": self.position,
            "provider": self.provider,
            "model": self.name,
            "outcome": self.outcome,
            "price_version": self.price.version if self.price else None,
            "amount": None if self.amount is None else text_of(self.amount),
            "over": self.over,
        } | ({"limits": self.limits, "tokens": self.tokens} if self.limits else {})


def applies(row: sql.Row, model: str) -> bool:
    """Return whether a row of `READ_ROOM` is of a budget that a call of that model falls under."""
    return row["scope"] not in OF_MODEL or any(
        (row["scope"], row["key"]) == (each.scope, each.key) for each in scopes_of_model(model)
    )


def fit(
    candidates: Sequence[Candidate],
    scopes: Scopes,
    *,
    at: datetime,
    by_model: bool,
    limited: bool = False,
    choose: Callable[[Sequence[Candidate], Room], Candidate | None],
) -> tuple[Candidate | None, Room]:
    """Return the first model that has room, and the locked windows that it falls under.

    Where none has any: None, and the locked windows of them all.

    :param by_model: of `READ_BY_MODEL`.
    :param limited: set a savepoint first, `SAVE_BEFORE_LIMITS`, for who goes on to judge limits.
    :param choose: returns the first of some models that fits the rows of `READ_ROOM`.
    """
    first = [SAVE_BEFORE_LIMITS] if limited else []
    if not by_model:
        room = lock_room(scopes, at, *first)
        return choose(candidates, room), room
    every = scopes + scopes_of_models(each.label for each in candidates)
    *_, unlocked, meters = sql.pipeline(
        *first, sql.Statement(READ_ROOM, windows(every, at)), metering.read_meters(every)
    )
    rest = list(candidates)
    while (wanted := choose(rest, unlocked)) is not None:
        # Who is over a limit already waits for no budget.
        if wanted.fits(meters):
            savepoint = transaction.savepoint()
            room = lock_room(scopes + scopes_of_model(wanted.label), at)
            if choose([wanted], room) is wanted:
                # Not released: who waits for a released one waits for the whole transaction, and
                # would go on to, with its place in the queue of a row, once limits undo this.
                return wanted, room
            # Lets the windows go again, so that the next ones are locked by id as well.
            transaction.savepoint_rollback(savepoint)
        rest = rest[rest.index(wanted) + 1 :]
    left = [each for each in candidates if not each.limits]
    if not left:
        return None, []
    room = lock_room(scopes + scopes_of_models(each.label for each in left), at)
    chosen = choose(left, room)
    if chosen is not None:
        room = [row for row in room if applies(row, chosen.label)]
    return chosen, room
