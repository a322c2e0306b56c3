"""Budgets by scope and window: whose calls they count, and which model has room."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from governance.core import clock
from governance.money import catalogue, ledger, routes
from governance.money.models import Budget, BudgetWindow
from governance.money.pricing import Usage, window_of
from governance.money.scopes import every_of, is_each
from tests.money import (
    LARGE,
    LARGE_CALL,
    SMALL,
    SMALL_CALL,
    TEST,
    another_request,
    any_name,  # noqa: F401
    cap,
    catalogue_of_two,
    reserved,
    resolve,
)

pytestmark = pytest.mark.django_db

MINE = {"submitter": "shop", "labels": ("team=search", "tier=gold")}
#: Of each scope: the keys of budgets that count a call of `MINE` by `large`, and who is counted.
COUNTING = [
    ("global", "", ""),
    ("agent", "hermes", ""),
    ("agent", "*", "hermes"),
    ("job_type", "content_prep", ""),
    ("job_type", "*", "content_prep"),
    ("job", "*", "task-1"),
    ("submitter", "shop", ""),
    ("submitter", "*", "shop"),
    ("label", "team=search", ""),
    ("label", "team=*", "team=search"),
    ("model", "local/large", ""),
    ("model", "*", "local/large"),
    ("provider", "local", ""),
    ("provider", "*", "local"),
]
#: And those that do not.
OTHERS = [
    ("agent", "openclaw"),
    ("job_type", "rewrite"),
    ("job", "task-2"),
    ("submitter", "desk"),
    ("label", "team=ads"),
    ("label", "tier=search"),
    ("label", "region=*"),
    ("model", "local/small"),
]


@pytest.fixture(autouse=True)
def _catalogue(db: None, any_name: None) -> None:  # noqa: F811
    catalogue_of_two()


def mine(**over: Any) -> ledger.RouteRequest:
    return another_request(**MINE | over)


def held(budget: Budget) -> dict[str, Decimal]:
    rows = BudgetWindow.objects.filter(budget=budget)
    return {row.counted_for: row.held for row in rows}


@pytest.mark.parametrize(("scope", "key", "counted_for"), COUNTING)
def test_a_budget_counts_the_calls_of_its_scope(scope: str, key: str, counted_for: str) -> None:
    budget = cap("1", scope=scope, key=key)

    routed = reserved(**MINE)

    if scope == "job":
        counted_for = routed.decision.task_id
    assert held(budget) == {counted_for: LARGE_CALL}
    assert list(ledger.verify()) == []


@pytest.mark.parametrize(("scope", "key"), OTHERS)
def test_a_budget_counts_no_call_of_another(scope: str, key: str) -> None:
    budget = cap("0", scope=scope, key=key)

    assert reserved(**MINE).model == "large"

    assert sum(held(budget).values()) == 0


@pytest.mark.parametrize(
    ("scope", "key"),
    [(scope, key) for scope, key, _ in COUNTING if scope not in ("model", "provider")],
)
def test_a_call_is_refused_by_a_budget_of_its_scope(scope: str, key: str) -> None:
    cap("0.001", scope=scope, key=key)

    refusal = ledger.reserve(request=mine()).refusal

    assert refusal is not None and refusal.reason == "BUDGET_EXHAUSTED"
    assert refusal.current["budget"]["scope"] == scope


@pytest.mark.parametrize("window", ["hour", "day", "week", "month", "none"])
def test_a_budget_counts_what_lies_in_its_window(window: str) -> None:
    budget = cap("1", window=window)

    reserved()

    row = BudgetWindow.objects.get(budget=budget)
    assert (row.starts_at, row.ends_at) == window_of(window, clock.now())
    assert row.held == LARGE_CALL


@pytest.mark.parametrize("window", ["hour", "day", "week", "month"])
def test_the_next_window_has_room_again(window: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cap("0.001", window=window)
    refusal = ledger.reserve(request=another_request()).refusal
    _, ends = window_of(window, clock.now())
    assert refusal is not None and ends is not None

    monkeypatch.setattr(routes, "READ_CLOCK", f"SELECT '{ends}'::timestamptz AS now")
    cap("1", window=window)

    assert ledger.reserve(request=another_request()).refusal is None
    assert BudgetWindow.objects.get(starts_at=ends).held == LARGE_CALL


class TestBudgetsOfModels:
    """`large` is allowed before `small`."""

    def test_the_next_model_is_taken_where_one_has_no_room(self) -> None:
        cap(str(LARGE_CALL), scope="model", key="local/large")

        assert [reserved().model for _ in range(3)] == ["large", "small", "small"]

    def test_the_windows_of_models_that_are_not_taken_hold_nothing(self) -> None:
        budgets = [cap("1", scope="model", key="*"), cap("0.01", scope="model", key="local/large")]

        assert reserved().model == "small"

        assert [held(budget) for budget in budgets] == [
            {"local/small": SMALL_CALL},
            {"": 0},
        ]

    def test_the_line_of_a_model_names_its_own_budgets_alone(self) -> None:
        cap("0", scope="model", key="local/large")
        cap("0", scope="agent", key="hermes", window="day")

        large, small = ledger.reserve(request=mine()).decision.considered

        assert {each["scope"] for each in large["over"]} == {"agent", "model"}
        assert [each["scope"] for each in small["over"]] == ["agent"]

    def test_where_no_model_has_room_the_call_is_refused_and_every_full_budget_told_of(
        self,
    ) -> None:
        cap("0.01", scope="model", key="local/large")
        cap("0.001", scope="model", key="local/small")

        routed = ledger.reserve(request=mine())

        assert routed.refusal is not None
        assert routed.refusal.current["budget"]["key"] == "local/small"
        assert BudgetWindow.objects.filter(exhausted_at__isnull=False).count() == 2

    def test_a_model_that_has_lost_its_room_before_its_lock_makes_way_for_the_next(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cap(str(LARGE_CALL), scope="model", key="local/large")
        cap("1")
        choose, looked = routes._choose, []

        def choose_once(candidates: Any, room: Any) -> Any:
            chosen = choose(candidates, room)
            if not looked:
                # What the first look, which holds no lock, has not seen.
                BudgetWindow.objects.filter(budget__scope="model").update(held=LARGE_CALL)
            looked.append(chosen and chosen.name)
            return chosen

        BudgetWindow.objects.filter(budget__scope="model").update(held=0)
        monkeypatch.setattr(routes, "_choose", choose_once)

        routed = ledger.reserve(request=mine())

        assert looked == ["large", None, "small", "small"]
        assert (routed.model, routed.decision.position) == ("small", 2)
        assert [line["outcome"] for line in routed.decision.considered] == ["over_budget", "chosen"]

    def test_room_that_is_made_before_the_last_look_is_taken(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        catalogue.set_policy(models=[LARGE], **TEST)
        budget = cap("0.01", scope="provider", key="local")
        choose, looked = routes._choose, []

        def choose_again(candidates: Any, room: Any) -> Any:
            chosen = choose(candidates, room)
            if not looked:
                Budget.objects.filter(pk=budget.pk).update(cap=Decimal(1))
            looked.append(chosen)
            return chosen

        monkeypatch.setattr(routes, "_choose", choose_again)

        assert ledger.reserve(request=mine()).model == "large"
        assert held(budget) == {"": LARGE_CALL}

    def test_a_dry_run_judges_them_too(self) -> None:
        cap("0.001", scope="model", key="local/large")
        cap("0.001", scope="label", key="team=search")
        asked = {
            "agent": "hermes",
            "job_type": "content_prep",
            "risk_tier": "low",
            "estimated_input_tokens": 1000,
            "max_output_tokens": 1000,
        }

        assert ledger.dry_run(**asked)["model"] == "small"
        assert ledger.dry_run(**asked, labels=["team=search"])["reason"] == "BUDGET_EXHAUSTED"


class TestOpenings:
    """Those of submitters and labels are of jobs: tests/jobs/test_scopes.py."""

    @pytest.mark.parametrize("key", ["local/large", "*"])
    def test_a_new_budget_of_a_model_counts_its_calls(self, key: str) -> None:
        routed = reserved()
        resolve(
            "settled",
            reservation_id=routed.reservation.reservation_id,
            usage=Usage(1000, 0),
            actor="agent:hermes",
        )
        reserved()
        catalogue.set_policy(models=[SMALL], **TEST)
        reserved()

        budget = cap("1", scope="model", key=key)
        total = cap("1", scope="provider", key="local", window="week")

        rows = BudgetWindow.objects.filter(budget=budget).order_by("counted_for")
        of_large = [(row.held, row.spent) for row in rows if row.counted_for in ("", "local/large")]
        assert of_large == [(LARGE_CALL, Decimal("0.01"))]
        assert held(total) == {"": LARGE_CALL + SMALL_CALL}
        assert list(ledger.verify()) == []


def test_the_database_keeps_a_label_without_a_value_out() -> None:
    with pytest.raises(IntegrityError, match="budget_label_has_a_value"), transaction.atomic():
        Budget.objects.create(scope="label", key="search", window="day")


@pytest.mark.parametrize(
    ("scope", "key", "each", "every"),
    [
        ("agent", "*", True, "*"),
        ("agent", "hermes", False, "*"),
        ("label", "team=*", True, "team=*"),
        ("label", "team=a=b", False, "team=*"),
        ("global", "", False, "*"),
    ],
)
def test_what_counts_each_by_itself(scope: str, key: str, each: bool, every: str) -> None:
    assert (is_each(scope, key), every_of(scope, key)) == (each, every)


def test_a_label_as_long_as_may_be_has_its_window() -> None:
    label = f"{'n' * 200}={'v' * 200}"
    budget = cap("1", scope="label", key=f"{'n' * 200}=*")

    reserved(labels=(label,))

    assert held(budget) == {label: LARGE_CALL}
