"""Reservations that meet at a cap: no more are granted than fit, however many ask at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest
from django.db import connections, transaction
from django.db.utils import OperationalError

from governance.core.errors import Contention
from governance.money import budgets, catalogue, ledger, routes
from governance.money.models import BudgetWindow, Reservation, RouteDecision
from tests.money import (
    LARGE,
    LARGE_CALL,
    TEST,
    another_request,
    any_name,  # noqa: F401
    beside,
    cap,
    catalogue_of_two,
    request,
    reserved,
    resolve,
    waits,
)

pytestmark = pytest.mark.django_db(transaction=True)

RESERVERS = 64
FIT = 5
TRIES = 20
SECONDS = 50
NEVER_PAST_A_CAP = " AND (b.cap IS NULL OR NOT b.enabled OR w.held + w.spent + %s <= b.cap)"


@pytest.fixture(autouse=True)
def _catalogue(transactional_db, any_name):  # noqa: F811
    catalogue_of_two()
    catalogue.set_policy(models=[LARGE], **TEST)


def reserve_at_once(requests):
    """Reserve on a connection each, all at the same moment, and return the decisions."""
    together = threading.Barrier(len(requests))

    def one(asked):
        try:
            with transaction.atomic():
                connections["default"].ensure_connection()
                together.wait(timeout=SECONDS)
            for _ in range(TRIES):
                try:
                    return ledger.reserve(request=asked).decision.decision
                except (Contention, OperationalError):  # as `idempotency.once` does
                    continue
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(one, requests, timeout=SECONDS))


def test_sixty_four_reservers_never_pass_the_cap():
    cap(str(LARGE_CALL * FIT))

    decisions = reserve_at_once([another_request() for _ in range(RESERVERS)])

    assert decisions.count("issued") == FIT
    assert decisions.count("refused") == RESERVERS - FIT
    assert BudgetWindow.objects.get().held == LARGE_CALL * FIT
    assert Reservation.objects.count() == FIT
    assert list(ledger.verify()) == []


def test_control_without_lock_and_condition_the_cap_is_passed(monkeypatch):
    cap(str(LARGE_CALL * FIT))
    resolve("released", reservation_id=reserved().reservation.reservation_id, actor="agent:hermes")
    monkeypatch.setattr(
        budgets, "LOCK_WINDOWS", budgets.LOCK_WINDOWS.replace(" FOR NO KEY UPDATE OF w", "")
    )
    monkeypatch.setattr(routes, "HOLD", routes.HOLD.replace(NEVER_PAST_A_CAP, " AND %s >= 0"))
    # All have read the counters before the first of them writes.
    choose, read_by_all = routes._choose, threading.Barrier(FIT + 1)

    def choose_together(candidates, room):
        read_by_all.wait(timeout=SECONDS)
        return choose(candidates, room)

    monkeypatch.setattr(routes, "_choose", choose_together)

    decisions = reserve_at_once([another_request() for _ in range(FIT + 1)])

    assert decisions == ["issued"] * (FIT + 1)
    assert BudgetWindow.objects.get().held > LARGE_CALL * FIT


def test_budgets_that_overlap_in_any_order_do_not_deadlock():
    for agent in ("hermes", "openclaw"):
        cap(str(LARGE_CALL * FIT), scope="agent", key=agent)
    cap(str(LARGE_CALL * FIT), scope="job_type", key="*", window="day")
    cap(str(LARGE_CALL * 2 * FIT))
    requests = [
        another_request(agent=agent, job_type=job_type)
        for _ in range(RESERVERS // 4)
        for agent, job_type in [
            ("hermes", "content_prep"),
            ("openclaw", "rewrite"),
            ("hermes", "rewrite"),
            ("openclaw", "content_prep"),
        ]
    ]

    decisions = reserve_at_once(requests)

    assert decisions.count(None) == 0
    assert all(w.held <= w.budget.cap for w in BudgetWindow.objects.select_related("budget"))
    assert list(ledger.verify()) == []


@pytest.fixture
def chosen(monkeypatch):
    """The reasons of the decisions so far, each added once the model was chosen."""
    seen = []
    choose = routes._choose

    def choose_and_tell(candidates, room):
        found = choose(candidates, room)
        seen.append("issued" if found else "refused")
        return found

    monkeypatch.setattr(routes, "_choose", choose_and_tell)
    return seen


@contextmanager
def two_that_meet(chosen):
    """The first of two reservers, whose transaction is open, and the second beside it."""
    cap(str(LARGE_CALL))
    resolve("released", reservation_id=reserved().reservation.reservation_id, actor="agent:hermes")
    chosen.clear()
    with ExitStack() as stack:
        with transaction.atomic():
            assert ledger.reserve(request=another_request()).decision.decision == "issued"
            second = stack.enter_context(beside(ledger.reserve, request=another_request()))
            assert waits(second)
            yield second


def test_the_second_of_two_waits_and_sees_what_the_first_held(chosen):
    with two_that_meet(chosen) as second:
        assert chosen == ["issued"]

    assert second.result().decision.reason == "BUDGET_EXHAUSTED"
    assert chosen == ["issued", "refused"]
    assert list(ledger.verify()) == []


def test_control_without_the_lock_the_second_decides_on_stale_counters(chosen, monkeypatch):
    monkeypatch.setattr(
        budgets, "LOCK_WINDOWS", budgets.LOCK_WINDOWS.replace(" FOR NO KEY UPDATE OF w", "")
    )
    with two_that_meet(chosen) as second:
        assert chosen == ["issued", "issued"]

    # The condition of the update still holds: there is no decision, and none is overspent.
    with pytest.raises(Contention):
        second.result()
    assert list(ledger.verify()) == []


def test_a_first_use_of_a_budget_by_many_makes_one_counter():
    cap(str(LARGE_CALL * FIT), scope="job", key="*")
    asked = request()

    decisions = reserve_at_once([asked] * 8)

    assert decisions == ["issued"] * 8
    assert BudgetWindow.objects.get().held == LARGE_CALL
    assert RouteDecision.objects.count() == 1
    assert list(ledger.verify()) == []
