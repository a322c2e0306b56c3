"""The refusals as data: the order that they are judged in, and which an idempotency key keeps."""

from __future__ import annotations

import pytest

from governance.core import errors
from governance.core.precedence import PRECEDENCE

REFUSALS = [
    found
    for found in vars(errors).values()
    if isinstance(found, type) and issubclass(found, errors.DomainError)
]


def test_every_refusal_has_one_place_in_the_order():
    assert len(PRECEDENCE) == len(set(PRECEDENCE))
    assert set(PRECEDENCE) == set(REFUSALS) - {errors.DomainError}


@pytest.mark.parametrize("refusal", PRECEDENCE, ids=lambda refusal: refusal.__name__)
def test_codes_effects_and_rules_are_those_that_are_published(refusal):
    assert refusal.effect in errors.EFFECTS
    assert refusal.retry in errors.RETRY_RULES
    assert 400 <= refusal.status <= 599
    assert (refusal.__doc__ or "").strip().endswith(".")


#: By code, as the contract has them (section 2), and those whose reason has a rule of its own.
RULES = {
    "INVALID_ARGUMENT": "never",
    "UNAUTHENTICATED": "reauthenticate",
    "PERMISSION_DENIED": "stop",
    "FAILED_PRECONDITION": "refresh",
    "ABORTED": "refresh",
    "RESOURCE_EXHAUSTED": "wait",
    "UNAVAILABLE": "reconcile",
    "DEADLINE_EXCEEDED": "reconcile",
    "NOT_FOUND": "never",
    "ALREADY_EXISTS": "read",
}
FINER = {
    "Contention": "same_key",
    "MaintenanceInhibited": "wait",
    "IdempotencyKeyReused": "never",
    "IdempotencyKeyExpired": "reconcile",
    "IdempotencyInFlight": "same_key",
    "BudgetExhausted": "defer",
    "CallRateLimited": "defer",
    "EffectsClosed": "defer",
    "NoModelInForce": "defer",
    "OutcomeUnknown": "reconcile",
    "JobUnreadable": "wait",
}


@pytest.mark.parametrize("refusal", PRECEDENCE, ids=lambda refusal: refusal.__name__)
def test_the_rule_of_a_refusal_is_that_of_its_code(refusal):
    assert refusal.retry == FINER.get(refusal.__name__, RULES[refusal.code])


def test_a_key_keeps_what_repeating_can_never_change_and_no_fault_of_shape():
    stored = {refusal.__name__ for refusal in PRECEDENCE if refusal().stored}

    assert {"WrongOwner", "NotFound", "TaskContentMismatch", "BindingMismatch"} <= stored
    assert not stored & {"InvalidArgument", "PayloadTooLarge", "IdempotencyKeyReused"}
    assert not stored & {"Contention", "StaleFencingToken", "BudgetExhausted", "Unauthenticated"}
