"""Routes that meet at budgets of many scopes, those of models among them, and at limits."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from django.db import connections, transaction

from governance.core.errors import Contention
from governance.money import budgets, catalogue, ledger, limiting, metering, routes
from governance.money.limits import LimitHold
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
    resolve,
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
    unlocked = budgets.LOCK_WINDOWS.replace(" FOR NO KEY UPDATE OF w", "")
    monkeypatch.setattr(budgets, "LOCK_WINDOWS", unlocked)
    with two_at_the_last_place(monkeypatch) as (second, chosen):
        # The condition of the update has the last word still.
        with pytest.raises(Contention):
            second.result(timeout=SECONDS)

    assert chosen == ["large", "large"]


# --- Limits


@contextmanager
def two_at_the_last_place_of_a_limit(**bounds: int) -> Iterator[Any]:
    """The second of two routes where a limit has room for one."""
    limiting.set_limit(scope="global", **bounds, **TEST)
    with ExitStack() as stack:
        with transaction.atomic():
            assert ledger.reserve(request=another_request()).refusal is None
            second = stack.enter_context(beside(ledger.reserve, request=another_request()))
            assert waits(second)
        yield second


@pytest.mark.parametrize(
    "bounds",
    [{"open_calls": 1}, {"requests_per_minute": 1}, {"tokens_per_minute": 2000}],
    ids=["open calls", "requests", "tokens"],
)
def test_the_second_at_the_last_place_of_a_limit_waits_and_is_refused(
    bounds: dict[str, int],
) -> None:
    with two_at_the_last_place_of_a_limit(**bounds) as second:
        refusal = second.result(timeout=SECONDS).refusal

    assert refusal.reason == "RATE_LIMITED"
    assert LimitHold.objects.count() == 1


def test_control_without_the_lock_both_take_the_last_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unlocked = metering.LOCK_METERS.replace(" FOR NO KEY UPDATE OF m", "")
    monkeypatch.setattr(metering, "LOCK_METERS", unlocked)

    # It waits for the meter all the same, but once it has judged.
    with two_at_the_last_place_of_a_limit(open_calls=1) as second:
        assert second.result(timeout=SECONDS).refusal is None

    assert LimitHold.objects.count() == 2


def test_sixteen_routes_under_five_budgets_and_two_limits_are_all_decided() -> None:
    cap(str(LARGE_CALL * ROUTES))
    cap(str(LARGE_CALL * ROUTES), scope="submitter", key="*", window="week")
    cap(str(LARGE_CALL * ROUTES), scope="label", key="team=*", window="hour")
    cap(str(LARGE_CALL * ROUTES), scope="model", key="*")
    cap(str(LARGE_CALL * ROUTES), scope="provider", key="*", window="month")
    limiting.set_limit(scope="submitter", key="*", open_calls=FIT + 2, **TEST)
    limiting.set_limit(scope="model", key="local/large", requests_per_minute=FIT, **TEST)

    routed = at_once([another_request(**TEAM) for _ in range(ROUTES)])

    assert [each.model for each in routed].count("large") == FIT
    assert [each.model for each in routed].count("small") == 2
    refused = [each.refusal.reason for each in routed if each.refusal]
    assert refused == ["RATE_LIMITED"] * (ROUTES - FIT - 2)
    assert LimitHold.objects.filter(meter__limit__scope="submitter").count() == FIT + 2
    assert list(ledger.verify()) == []


def test_a_route_and_the_end_of_a_call_under_one_limit_wait_for_each_other_one_way() -> None:
    cap("1", scope="model", key="*")
    limiting.set_limit(scope="global", open_calls=ROUTES * 2, tokens_per_minute=10**6, **TEST)
    held = [ledger.reserve(request=another_request(**TEAM)) for _ in range(ROUTES // 2)]
    together = threading.Barrier(ROUTES)

    def end(routed: Any) -> None:
        try:
            together.wait(timeout=SECONDS)
            of = routed.reservation.reservation_id
            resolve("settled", reservation_id=of, actor="agent:hermes")
        finally:
            connections.close_all()

    def begin(asked: Any) -> Any:
        try:
            together.wait(timeout=SECONDS)
            return ledger.reserve(request=asked)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(ROUTES) as pool:
        ends = [pool.submit(end, routed) for routed in held]
        begun = [pool.submit(begin, another_request(**TEAM)) for _ in range(ROUTES // 2)]
        for future in ends:
            future.result(timeout=SECONDS)
        assert all(future.result(timeout=SECONDS).refusal is None for future in begun)

    assert LimitHold.objects.count() == ROUTES // 2
    assert list(ledger.verify()) == []
