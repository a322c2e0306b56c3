"""Refusals of routes: why no allowed model is used, and what the caller may do about it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from governance.core import sql
from governance.core.errors import (
    BudgetExhausted,
    CallRateLimited,
    DomainError,
    ModelNotAllowed,
    ModelUnpriced,
    NoModelInForce,
)
from governance.money import metering
from governance.money.fitting import Candidate
from governance.money.models import CURRENCY
from governance.money.pricing import text_of

#: The refusals that become decisions: one row for each request and reason.
REFUSALS: dict[str, type[DomainError]] = {
    refusal.reason: refusal
    for refusal in (ModelNotAllowed, ModelUnpriced, BudgetExhausted, CallRateLimited)
}


#: What is said where a call cannot be held, since a limit of a model is not known.
UNKNOWN_LIMITS = {
    "limit_unknown": "The context limit of an allowed model is not known: state request_bytes or"
    " estimated_input_tokens.",
    "reference_unbounded": "The context limit of an allowed model is not known, and the request"
    " has content by reference, which may fill it: an operator has to set context_tokens_max.",
}
STATE_ELSEWHERE = (
    "The request goes on from what a provider keeps, and no model of that provider may be called."
)


def reason_of(candidates: Sequence[Candidate]) -> str:
    """Return why none of the models is used: what keeps the call for the shortest, first."""
    outcomes = {candidate.outcome for candidate in candidates}
    if "over_limit" in outcomes:
        return CallRateLimited.reason
    if "over_budget" in outcomes:
        return BudgetExhausted.reason
    return ModelUnpriced.reason if "unpriced" in outcomes else ModelNotAllowed.reason


def refusal_of(reason: str, considered: list[dict[str, Any]], at: datetime) -> DomainError:
    """Return the refusal of a decision, by the lines of what was considered."""
    if reason == ModelNotAllowed.reason:
        return _not_allowed({line["outcome"] for line in considered})
    if reason == CallRateLimited.reason:
        return metering.refusal([line for line in considered if line.get("limits")])
    over = [each for line in considered for each in line["over"]]
    if not over:
        return REFUSALS[reason]()
    ends = [each["ends_at"] for each in over]
    seconds = None
    if None not in ends:
        seconds = int((max(map(datetime.fromisoformat, ends)) - at).total_seconds()) + 1
    full = [{"scope": each["scope"], "window": each["window"]} for each in over]
    return REFUSALS[reason](after_seconds=seconds, current={"budgets": full})


def _not_allowed(outcomes: set[str]) -> DomainError:
    """Return the refusal of a request that no allowed model takes, by what became of each."""
    # The caller's request has nothing to do with it where all that is allowed is turned off.
    if outcomes <= {"disabled"}:
        return NoModelInForce()
    if outcomes == {"other_api"}:
        return ModelNotAllowed("No allowed model is called over the API that the request names.")
    for outcome, detail in UNKNOWN_LIMITS.items():
        if outcome in outcomes:
            return ModelNotAllowed(detail)
    if "other_provider" in outcomes and outcomes <= {"other_provider", "other_api", "disabled"}:
        return ModelNotAllowed(STATE_ELSEWHERE)
    return NoModelInForce() if outcomes <= {"disabled", "other_api"} else ModelNotAllowed()


def fullest(candidates: Sequence[Candidate]) -> sql.Row | None:
    """Return, of the windows that the cheapest model does not fit, the one with the least room."""
    over = [each for each in candidates if each.full and each.amount is not None]
    if not over:
        return None
    cheapest = min(over, key=lambda each: each.amount or Decimal(0))
    return min(cheapest.full, key=lambda row: (row["cap"] - row["used"], row["budget_id"]))


def told_budget(row: sql.Row) -> dict[str, Any]:
    """Return a budget that has no room, as a refusal tells it; contract, section 6."""
    return {
        "scope": row["scope"],
        "key": row["key"],
        "window": row["kind"],
        "cap": text_of(row["cap"]),
        "spent": text_of(row["spent"]),
        "held": text_of(row["held"]),
        "currency": CURRENCY,
    }
