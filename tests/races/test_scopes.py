"""Routes that meet at budgets of many scopes, those of models among them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from django.db import connections, transaction

from governance.core.errors import Contention
from governance.money import catalogue, fitting, ledger, routes
from governance.money.models import BudgetWindow
from tests.money import (
    LARGE_CALL,
    SMALL,
    TEST,
    another_request,
    any_name,  # noqa: F401
    beside,
    cap,
    catalogue_of_two,
    waits,
)

pytestmark = pytest.mark.django_db(transaction=True)

ROUTES = 16
FIT = 5
SECONDS = 50
TEAM = {"submitter": "shop", "labels": ("team=search",)}


@pytest.fixture(autouse=True)
def _catalogue(transactional_db: None, any_name: None) -> None:  # noqa: F811
    catalogue_of_two()
    catalogue.set_policy(models=[SMALL], agent="openclaw", **TEST)


def at_once(requests: Sequence[Any]) -> list[Any]:
    """Reserve on a connection each, all at the same moment, each once."""
    together = threading.Barrier(len(requests))

    def one(asked: Any) -> Any:
        try:
            with transaction.atomic():
                connections["default"].ensure_connection()
                together.wait(timeout=SECONDS)
            return ledger.reserve(request=asked)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(one, requests, timeout=SECONDS))


def test_sixteen_routes_under_five_budgets_are_all_decided_and_none_passes_a_cap() -> None:
    cap(str(LARGE_CALL * ROUTES))
    cap(str(LARGE_CALL * ROUTES), scope="submitter", key="*", window="week")
    cap(str(LARGE_CALL * ROUTES), scope="label", key="team=*", window="hour")
    cap(str(LARGE_CALL * FIT), scope="model", key="local/large")
    cap(str(LARGE_CALL * ROUTES), scope="provider", key="*", window="month")

    routed = at_once([another_request(**TEAM) for _ in range(ROUTES)])

    assert [each.model for each in routed].count("large") == FIT
    assert [each.model for each in routed].count("small") == ROUTES - FIT
    for window in BudgetWindow.objects.select_related("budget"):
        assert window.held <= window.budget.cap
    assert list(ledger.verify()) == []


def test_a_route_waits_for_no_budget_of_a_model_that_it_does_not_get() -> None:
    cap("1", scope="model", key="*")
    with transaction.atomic():
        assert ledger.reserve(request=another_request()).model == "large"
        with transaction.atomic(), beside(reserve_small) as other:
            assert other.result(timeout=SECONDS).model == "small"


def reserve_small() -> Any:
    return ledger.reserve(request=another_request(agent="openclaw"))


@contextmanager
def two_at_the_last_place(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, list[Any]]]:
    """The second of two routes at the last place of a model, and what it chose in turn."""
    cap(str(LARGE_CALL), scope="model", key="local/large")
    chosen: list[Any] = []
    choose = routes._choose

    def choose_and_tell(candidates: Any, room: Any) -> Any:
        found = choose(candidates, room)
        chosen.append(found and found.name)
        return found

    with ExitStack() as stack:
        with transaction.atomic():
            assert ledger.reserve(request=another_request()).model == "large"
            monkeypatch.setattr(routes, "_choose", choose_and_tell)
            second = stack.enter_context(beside(ledger.reserve, request=another_request()))
            assert waits(second)
        yield second, chosen


def test_the_second_at_the_last_place_of_a_model_sees_that_it_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with two_at_the_last_place(monkeypatch) as (second, chosen):
        assert second.result(timeout=SECONDS).model == "small"

    assert chosen == ["large", None, "small", "small"]
    assert list(ledger.verify()) == []


def test_control_without_the_lock_the_second_takes_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unlocked = fitting.LOCK_WINDOWS.replace(" FOR NO KEY UPDATE OF w", "")
    monkeypatch.setattr(fitting, "LOCK_WINDOWS", unlocked)
    with two_at_the_last_place(monkeypatch) as (second, chosen):
        # The condition of the update has the last word still.
        with pytest.raises(Contention):
            second.result(timeout=SECONDS)

    assert chosen == ["large", "large"]
