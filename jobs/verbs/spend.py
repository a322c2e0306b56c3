"""What governors can do about what was booked: correct it, and confirm another's correction."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from uuid import UUID

from governance.core.errors import DomainError
from governance.core.fields import Amount
from governance.core.verbs import Done, Target, Verb, of_row
from governance.money import ledger
from governance.money.corrections import Adjustment, AdjustmentVerdict
from governance.money.ledger import Adjusted
from governance.money.models import Reservation
from governance.money.pricing import text_of
from governance.money.uses import UnreservedUse
from governance.money.verbs import ADJUST_BUDGET
from jobs import executions

Verdict = AdjustmentVerdict.Verdict
RESERVATION, ADJUSTMENT = Target(Reservation), Target(Adjustment)
UNRESERVED = Target(UnreservedUse)


def _adjust(*, key: UUID, actor: str, reason: str, amount: Decimal) -> Adjusted:
    return executions.adjust_spend(reservation_id=key, amount=amount, actor=actor, reason=reason)


def _adjust_use(*, key: UUID, actor: str, reason: str, amount: Decimal) -> Adjusted:
    return executions.adjust_spend(use_id=key, amount=amount, actor=actor, reason=reason)


def _confirm(*, key: UUID, actor: str, reason: str) -> Adjusted:
    return executions.settle_adjustment(
        adjustment_id=key, verdict=Verdict.CONFIRMED, actor=actor, reason=reason
    )


def _decline(*, key: UUID, actor: str, reason: str) -> Adjusted:
    return executions.settle_adjustment(
        adjustment_id=key, verdict=Verdict.DECLINED, actor=actor, reason=reason
    )


def confirmable(row: Any, /, *, actor: str, now: Any) -> DomainError | None:
    """Return why an adjustment would not be confirmed by the actor; None where it would."""
    return ledger.refusal_of_verdict(row, verdict=Verdict.CONFIRMED, actor=actor)


def declinable(row: Any, /, *, actor: str, now: Any) -> DomainError | None:
    """Return why an adjustment would not be declined; None where it would."""
    return ledger.refusal_of_verdict(row, verdict=Verdict.DECLINED, actor=actor)


def _done(adjusted: Adjusted) -> Done:
    words = {
        "posted": f"it costs {text_of(adjusted.cost)} USD now",
        "waiting": "it waits for another governor to confirm it",
        "declined": "declined",
    }
    return Done(words[adjusted.outcome], facts_of(adjusted))


def facts_of(adjusted: Adjusted) -> dict[str, Any]:
    """Return what a script is told of an adjustment."""
    return {
        "outcome": adjusted.outcome,
        "adjustment_id": str(adjusted.adjustment.adjustment_id),
        **{name: str(key) for name, key in adjusted.adjustment.of.items()},
        "amount": text_of(adjusted.adjustment.amount),
        "cost": text_of(adjusted.cost),
    }


ADJUST = Verb(
    name="adjust_spend",
    on=RESERVATION,
    label="Correct the cost",
    permission=ADJUST_BUDGET,
    effect="Adds an amount to what the call cost, in every budget that counts it, by a row that "
    "names you and the reason. What was booked stays as it is, and no cost falls below 0. Where "
    "the installation asks for it, another governor has to confirm it first.",
    fields=(Amount(name="amount", signed=True, help="USD; a negative one takes off: -1000.00."),),
    run=_adjust,
    done=_done,
    precondition=of_row(ledger.refusal_of_adjustment),
    bulk=False,
    command="adjust_spend",
)
ADJUST_USE = Verb(
    name="adjust_spend",
    on=UNRESERVED,
    label="Correct the cost",
    permission=ADJUST_BUDGET,
    effect="Adds an amount to what this was booked at, in every budget that counts it, by a row "
    "that names you and the reason. What was booked stays as it is, and no cost falls below 0. "
    "Where the installation asks for it, another governor has to confirm it first.",
    fields=ADJUST.fields,
    run=_adjust_use,
    done=_done,
    bulk=False,
    command="adjust_spend",
)
CONFIRM = Verb(
    name="confirm",
    on=ADJUSTMENT,
    label="Confirm",
    permission=ADJUST_BUDGET,
    effect="Lets each correction count from now on. Nobody confirms one of their own.",
    run=_confirm,
    done=_done,
    precondition=confirmable,
    command="adjust_spend",
)
DECLINE = Verb(
    name="decline",
    on=ADJUSTMENT,
    label="Decline",
    permission=ADJUST_BUDGET,
    effect="Ends each correction that waits: it never counts. Who made it may decline it too.",
    run=_decline,
    done=_done,
    precondition=declinable,
    command="adjust_spend",
)

VERBS: tuple[Verb[Any], ...] = (ADJUST, ADJUST_USE, CONFIRM, DECLINE)
