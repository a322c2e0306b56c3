"""What Prometheus is told of money: budgets in their windows, and usage and cost by model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client import REGISTRY

from governance.money import scopes
from governance.money.pricing import Usage
from governance.web.gauges import money_gauges
from tests.money import LARGE_CALL, cap, catalogue_of_two, reserved, resolve

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _catalogue(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    # Budgets may name who is not in the database.
    monkeypatch.setattr(scopes, "_known", {})
    catalogue_of_two()


def told(name: str) -> dict[tuple[str, ...], float]:
    [family] = [each for each in money_gauges() if each.name == f"fencepost_budget_{name}_usd"]
    return {
        tuple(sample.labels[label] for label in ("scope", "key", "window")): sample.value
        for sample in family.samples
    }


def count(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"fencepost_model_{name}_total", labels) or 0.0


def settle(usage: Usage | None, **over: Any) -> None:
    routed = reserved(**over)
    assert routed.reservation is not None
    resolve(
        "settled",
        reservation_id=routed.reservation.reservation_id,
        usage=usage,
        actor="agent:hermes",
    )


def test_a_budget_tells_what_is_spent_and_held_and_its_cap() -> None:
    cap("1")
    cap(None, scope="agent", key="hermes", window="day")
    settle(Usage(1000, 0))
    reserved()

    assert told("spent") == {("global", "", "none"): 0.01, ("agent", "hermes", "day"): 0.01}
    assert told("held") == dict.fromkeys(told("spent"), float(LARGE_CALL))
    assert told("cap") == {("global", "", "none"): 1.0}


def test_series_are_bounded_where_each_is_counted_by_itself() -> None:
    cap("1", scope="agent", key="*")
    cap("1", scope="job", key="*")
    reserved(agent="hermes")
    settle(Usage(1000, 10_000), agent="openclaw")

    assert told("spent") == {
        ("agent", "hermes", "none"): 0.0,
        ("agent", "openclaw", "none"): 0.21,
        # Of the jobs the fullest alone.
        ("job", "*", "none"): 0.21,
    }


def test_a_budget_for_each_without_a_call_is_told_of_itself() -> None:
    cap("1", scope="job", key="*")

    assert told("spent") == {("job", "*", "none"): 0.0}


def test_usage_and_cost_are_counted_once_when_they_are_committed(
    django_capture_on_commit_callbacks: Callable[..., Any],
) -> None:
    large = {"model": "local/large"}
    before = [
        count("usage", counter="input_tokens", **large),
        count("usage", counter="cached_input_tokens", **large),
        count("cost_usd", cost_basis="usage", **large),
    ]

    with django_capture_on_commit_callbacks(execute=True):
        routed = reserved()
        assert routed.reservation is not None
        end = {
            "reservation_id": routed.reservation.reservation_id,
            "usage": Usage(1000, 0, 400),
            "actor": "agent:hermes",
        }
        cost = resolve("settled", **end).resolution.cost
        # The same again is no second call.
        resolve("settled", **end)
        assert count("usage", counter="input_tokens", **large) == before[0]

    assert cost > 0
    assert count("usage", counter="input_tokens", **large) == before[0] + 1000
    assert count("usage", counter="cached_input_tokens", **large) == before[1] + 400
    assert count("cost_usd", cost_basis="usage", **large) == pytest.approx(before[2] + float(cost))


def test_what_is_released_counts_nothing(
    django_capture_on_commit_callbacks: Callable[..., Any],
) -> None:
    before = count("cost_usd", cost_basis="none", model="local/large")
    with django_capture_on_commit_callbacks(execute=True):
        routed = reserved()
        assert routed.reservation is not None
        resolve("released", reservation_id=routed.reservation.reservation_id, actor="agent:hermes")

    assert count("cost_usd", cost_basis="none", model="local/large") == before
