"""Budgets that are set, and costs that are corrected, while calls are decided and end."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from decimal import Decimal

import pytest
from django.db import connection, connections, transaction
from django.db.utils import DatabaseError

from governance.core import sql
from governance.core.errors import Contention, InvalidArgument
from governance.money import adjustments, caps, catalogue, ledger, reservations, routes
from governance.money.models import BudgetWindow, Reservation
from governance.money.pricing import Usage
from tests.money import (
    LARGE,
    LARGE_CALL,
    TEST,
    another_request,
    any_name,  # noqa: F401
    beside,
    cap,
    catalogue_of_two,
    reserved,
    resolve,
    waits,
)

pytestmark = pytest.mark.django_db(transaction=True)

ACTOR = "agent:hermes"
CALLS = 120
FIT = 7
SECONDS = 60
NOTHING = sql.Statement("SELECT 1")


@pytest.fixture(autouse=True)
def _catalogue(transactional_db, any_name):  # noqa: F811
    catalogue_of_two()
    catalogue.set_policy(models=[LARGE], **TEST)


@pytest.fixture
def unlocked(monkeypatch):
    """Nobody takes the money's lock."""
    for module in (caps, routes, reservations, adjustments):
        for name in ("SHARE_MONEY", "TAKE_MONEY"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, NOTHING)


@contextmanager
def meeting(first, other):
    """The first of two moves, whose transaction is open, and the other beside it."""
    with ExitStack() as stack:
        with transaction.atomic():
            first()
            second = stack.enter_context(beside(other))
            yield second


def settle(reservation_id):
    return resolve("settled", reservation_id=reservation_id, usage=Usage(1000, 1000), actor=ACTOR)


# --- A budget is made while a call is decided, and while one ends


def test_a_budget_that_is_made_waits_for_the_route_and_counts_it():
    with meeting(reserved, lambda: cap("1")) as budget:
        assert waits(budget)

    budget.result()
    assert BudgetWindow.objects.get().held == LARGE_CALL
    assert list(ledger.verify()) == []


def test_control_without_the_lock_the_budget_misses_the_route(unlocked):
    with meeting(reserved, lambda: cap("1")) as budget:
        assert not waits(budget)

    assert BudgetWindow.objects.get().held == 0
    assert Reservation.objects.count() == 1


def test_a_route_waits_for_the_budget_that_is_made_and_keeps_to_it():
    with meeting(lambda: cap("0"), lambda: ledger.reserve(request=another_request())) as route:
        assert waits(route)

    assert route.result().decision.reason == "BUDGET_EXHAUSTED"


def test_a_budget_that_is_made_waits_for_the_end_of_a_call_and_counts_it():
    held = reserved().reservation.reservation_id

    with meeting(lambda: settle(held), lambda: cap("1")) as budget:
        assert waits(budget)

    window = BudgetWindow.objects.get()
    assert (window.held, window.spent) == (0, LARGE_CALL)
    assert list(ledger.verify()) == []


def test_control_without_the_lock_the_budget_holds_for_ever_what_has_ended(unlocked):
    held = reserved().reservation.reservation_id

    with meeting(lambda: settle(held), lambda: cap("1")) as budget:
        assert not waits(budget)

    window = BudgetWindow.objects.get()
    assert (window.held, window.spent) == (LARGE_CALL, 0)
    assert list(ledger.verify()) != []


def test_the_end_of_a_call_waits_for_the_budget_that_is_made_and_posts_to_it():
    held = reserved().reservation.reservation_id

    with meeting(lambda: cap("1"), lambda: settle(held)) as end:
        assert waits(end)

    end.result()
    window = BudgetWindow.objects.get()
    assert (window.held, window.spent) == (0, LARGE_CALL)
    assert list(ledger.verify()) == []


# --- A cap is lowered while a call is decided


def lower(budget):
    return caps.set_caps(budget_id=budget.pk, caps={"cap": Decimal(0)}, **TEST)


def test_a_route_waits_for_the_cap_that_is_lowered_and_is_refused_for_want_of_room():
    budget = cap("1")

    with meeting(lambda: lower(budget), lambda: ledger.reserve(request=another_request())) as route:
        assert waits(route)

    assert route.result().decision.reason == "BUDGET_EXHAUSTED"


def test_control_without_the_lock_a_route_that_a_cap_overtakes_is_no_answer(unlocked, monkeypatch):
    budget = cap("1")
    choose = routes._choose

    def choose_and_lower(candidates, room):
        found = choose(candidates, room)
        with beside(lower, budget) as lowered:
            lowered.result()
        return found

    monkeypatch.setattr(routes, "_choose", choose_and_lower)

    # The condition of the update has the last word still: there is no decision.
    with pytest.raises(Contention):
        ledger.reserve(request=another_request())


# --- Two corrections of one cost


def correct(reservation_id):
    return ledger.adjust(
        reservation_id=reservation_id, amount=Decimal("-0.02"), actor="user:anna", reason="so"
    )


def test_of_two_corrections_the_second_waits_and_is_refused():
    cap("1")
    held = reserved().reservation.reservation_id
    settle(held)

    with meeting(lambda: correct(held), lambda: correct(held)) as second:
        assert waits(second)

    with pytest.raises(InvalidArgument):
        second.result()
    assert BudgetWindow.objects.get().spent == Decimal("0.01")
    assert list(ledger.verify()) == []


def test_control_without_our_lock_the_trigger_has_the_last_word(monkeypatch):
    cap("1")
    held = reserved().reservation.reservation_id
    settle(held)
    unlocked = adjustments.LOCK_RESERVATIONS.replace(" FOR NO KEY UPDATE", "")
    monkeypatch.setattr(adjustments, "_CALL", replace(adjustments._CALL, lock=unlocked))

    with meeting(lambda: correct(held), lambda: correct(held)) as second:
        assert waits(second)

    # Judged on a cost that was not true any more, it is an error and not an answer.
    with pytest.raises(DatabaseError):
        second.result()
    assert BudgetWindow.objects.get().spent == Decimal("0.01")


def test_control_without_lock_and_trigger_the_cost_falls_below_0(monkeypatch):
    cap("1")
    held = reserved().reservation.reservation_id
    settle(held)
    unlocked = adjustments.LOCK_RESERVATIONS.replace(" FOR NO KEY UPDATE", "")
    monkeypatch.setattr(adjustments, "_CALL", replace(adjustments._CALL, lock=unlocked))
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE governance_adjustment DISABLE TRIGGER USER")
    try:
        with meeting(lambda: correct(held), lambda: correct(held)) as second:
            assert waits(second)  # for the counter only
        with pytest.raises(DatabaseError, match="not_negative"):
            second.result()
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE governance_adjustment ENABLE TRIGGER USER")


# --- Many at one cap


def test_a_hundred_and_twenty_routes_at_one_cap_are_issued_or_refused_for_want_of_room():
    cap(str(LARGE_CALL * FIT))
    together = threading.Barrier(CALLS // 4)

    def four():
        try:
            together.wait(timeout=SECONDS)
            return [ledger.reserve(request=another_request()).decision for _ in range(4)]
        finally:
            connections.close_all()

    with ThreadPoolExecutor(CALLS // 4) as pool:
        answers = [pool.submit(four) for _ in range(CALLS // 4)]
        decisions = [each for answer in answers for each in answer.result(timeout=SECONDS)]

    assert len(decisions) == CALLS
    assert sum(each.decision == "issued" for each in decisions) == FIT
    assert {each.reason for each in decisions} == {"", "BUDGET_EXHAUSTED"}
    assert BudgetWindow.objects.get().held == LARGE_CALL * FIT
    assert list(ledger.verify()) == []
