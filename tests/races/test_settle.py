"""Ends that meet on one reservation: one is recorded, the other is told which."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager

import pytest
from django.db import transaction
from django.db.utils import IntegrityError

from governance.core.errors import ModelReservationStateInvalid
from governance.money import ledger, reservations
from governance.money.models import BudgetWindow, Resolution
from governance.money.pricing import Usage
from tests.money import LARGE_CALL, beside, cap, catalogue_of_two, reserved, resolve, waits

pytestmark = pytest.mark.django_db(transaction=True)

ACTOR = "agent:hermes"


@pytest.fixture
def held(transactional_db):
    catalogue_of_two()
    cap("1")
    return reserved().reservation.reservation_id


def settle(held, tokens=10):
    return resolve("settled", reservation_id=held, usage=Usage(tokens, tokens), actor=ACTOR)


def release(held):
    return resolve("released", reservation_id=held, actor=ACTOR)


ENDS = [
    pytest.param(lambda held: settle(held, 20), id="settle with other usage"),
    pytest.param(release, id="release"),
    pytest.param(lambda held: resolve("failed", reservation_id=held, actor=ACTOR), id="fail"),
]


@contextmanager
def two_that_meet(first, other):
    """The first of two moves, whose transaction is open, and the other beside it, waiting."""
    with ExitStack() as stack, transaction.atomic():
        first()
        second = stack.enter_context(beside(other))
        assert waits(second)
        yield second


@pytest.mark.parametrize("other", ENDS)
def test_another_end_waits_for_the_first_and_is_refused(held, other):
    with two_that_meet(lambda: settle(held), lambda: other(held)) as second:
        pass

    with pytest.raises(ModelReservationStateInvalid):
        second.result()
    assert Resolution.objects.get().ended_as == "settled"
    assert BudgetWindow.objects.get().spent == Resolution.objects.get().cost
    assert list(ledger.verify()) == []


@pytest.mark.parametrize("other", ENDS)
def test_an_end_that_was_rolled_back_leaves_room_for_another(held, other):
    with two_that_meet(lambda: settle(held), lambda: other(held)) as second:
        transaction.set_rollback(True)

    assert second.result().outcome == "recorded"
    assert Resolution.objects.count() == 1
    assert list(ledger.verify()) == []


def test_the_same_end_from_two_sides_is_recorded_once(held):
    with two_that_meet(lambda: settle(held), lambda: settle(held)) as second:
        pass

    assert second.result().outcome == "already_recorded"
    assert BudgetWindow.objects.get().spent == Resolution.objects.get().cost
    assert list(ledger.verify()) == []


def test_control_without_the_lock_the_second_judges_an_open_reservation(held, monkeypatch):
    unlocked = reservations.LOCK_RESERVATIONS.replace(" FOR NO KEY UPDATE", "")
    monkeypatch.setattr(reservations, "LOCK_RESERVATIONS", unlocked)

    with two_that_meet(lambda: settle(held), lambda: release(held)) as second:
        pass

    # Only the unique resolution stops it now, and that is an error and not an answer.
    with pytest.raises(IntegrityError):
        second.result()


def test_settling_and_reserving_on_one_budget_lose_no_money(held):
    with two_that_meet(lambda: settle(held, 1000), reserved) as second:
        pass

    assert second.result().decision.decision == "issued"
    window = BudgetWindow.objects.get()
    assert (window.held, window.spent) == (LARGE_CALL, LARGE_CALL)
    assert list(ledger.verify()) == []
