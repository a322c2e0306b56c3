"""What is told of budgets that come to their bounds: once per window, on chain and stream."""

from __future__ import annotations

from contextlib import ExitStack
from decimal import Decimal
from typing import Any

import pytest
from django.db import transaction

from governance.core import clock
from governance.core.models import AuditEvent, Fact
from governance.money import budgets, catalogue, ledger
from governance.money.models import Budget, BudgetWindow
from governance.money.pricing import Usage
from tests import plans
from tests.money import (
    LARGE_CALL,
    SMALL_CALL,
    TEST,
    another_request,
    beside,
    cap,
    catalogue_of_two,
    reserved,
    resolve,
    waits,
)

pytestmark = pytest.mark.django_db
SOFT, FULL = "dev.fencepost.budget.soft_cap_reached", "dev.fencepost.budget.exhausted"


@pytest.fixture(autouse=True)
def _catalogue(request: Any) -> None:
    if not request.node.get_closest_marker("django_db").kwargs.get("transaction"):
        catalogue_of_two()


def told(budget: Budget) -> list[tuple[int | None, str]]:
    """The facts of the budget's stream by number, each of which stands on its chain as well."""
    facts = list(Fact.objects.filter(stream=budget.audit_subject).order_by("sequence"))
    actions = [fact.type.removeprefix("dev.fencepost.") for fact in facts]
    chained = AuditEvent.objects.filter(subject=budget.audit_subject, action__in=actions)
    assert list(chained.order_by("seq").values_list("action", flat=True)) == actions
    return [(fact.sequence, fact.type) for fact in facts]


def settle(routed: ledger.Routed, usage: Usage | None = None) -> None:
    assert routed.reservation is not None
    resolve(
        "settled",
        reservation_id=routed.reservation.reservation_id,
        usage=usage,
        actor="agent:hermes",
    )


def test_a_soft_cap_that_is_passed_is_told_once_in_a_window() -> None:
    budget = cap("1", soft_cap=LARGE_CALL)

    reserved()
    assert told(budget) == []
    for _ in range(2):
        reserved()

    assert told(budget) == [(1, SOFT)]
    data = Fact.objects.get(stream=budget.audit_subject).data
    assert data == {
        "budget_id": budget.pk,
        "scope": "global",
        "key": "",
        "window": "none",
        "starts_at": "1970-01-01T00:00:00+00:00",
        "ends_at": None,
        "held": "0.06",
        "spent": "0.00",
        "cap": "1.00",
        "soft_cap": "0.03",
        "currency": "USD",
    }


def test_a_cap_that_is_come_to_is_told_once_in_a_window() -> None:
    budget = cap(str(LARGE_CALL))

    reserved()
    ledger.reserve(request=another_request())

    assert told(budget) == [(1, FULL)]


def test_a_call_that_finds_no_room_tells_of_the_budgets_that_have_none() -> None:
    tight = cap("0.002", scope="agent", key="hermes")
    wide = cap("1")

    assert ledger.reserve(request=another_request()).decision.decision == "refused"

    assert told(tight) == [(1, FULL)]
    assert told(wide) == []
    assert BudgetWindow.objects.get(budget=tight).exhausted_at is not None


def test_a_model_that_does_not_fit_exhausts_nothing_where_another_does() -> None:
    budget = cap(str(SMALL_CALL * 2))

    reserved()

    assert told(budget) == []


def test_a_cap_of_nothing_is_no_news_until_somebody_asks_for_some() -> None:
    budget = cap("0")
    catalogue.set_policy(models=[], **TEST)
    ledger.reserve(request=another_request())
    assert told(budget) == []

    catalogue.set_policy(models=[("local", "small")], **TEST)
    ledger.reserve(request=another_request())
    assert told(budget) == [(1, FULL)]


def test_what_a_call_cost_tells_of_bounds_as_what_is_held_does() -> None:
    budget = cap("0.1", soft_cap=Decimal("0.05"))
    routed = reserved()

    settle(routed, Usage(1000, 10_000))

    assert sorted(kind for _, kind in told(budget)) == [FULL, SOFT]


def test_each_of_a_budget_for_each_is_told_by_its_name() -> None:
    budget = cap(str(LARGE_CALL), scope="agent", key="*")

    for agent in ("hermes", "openclaw", "hermes"):
        ledger.reserve(request=another_request(agent=agent))

    facts = Fact.objects.filter(stream=budget.audit_subject).order_by("sequence")
    assert [fact.data["key"] for fact in facts] == ["hermes", "openclaw"]


def test_nothing_is_told_of_what_is_undone() -> None:
    budget = cap(str(LARGE_CALL))

    with pytest.raises(RuntimeError), transaction.atomic():
        reserved()
        raise RuntimeError
    assert told(budget) == []

    reserved()
    assert told(budget) == [(1, FULL)]


def fill_twice_at_once() -> Budget:
    """Two calls pass the soft cap of a budget, the second while the first is not committed."""
    catalogue_of_two()
    budget = cap("1", soft_cap=LARGE_CALL)
    reserved()
    with ExitStack() as later:
        with transaction.atomic():
            reserved()
            other = later.enter_context(beside(reserved))
            assert waits(other)
        other.result()
    return budget


@pytest.mark.django_db(transaction=True)
def test_two_calls_that_pass_a_bound_at_once_tell_it_once() -> None:
    assert told(fill_twice_at_once()) == [(1, SOFT)]


@pytest.mark.django_db(transaction=True)
def test_without_the_lock_of_windows_both_would_tell_it(monkeypatch: pytest.MonkeyPatch) -> None:
    unlocked = budgets.LOCK_WINDOWS.removesuffix(" FOR NO KEY UPDATE OF w")
    monkeypatch.setattr(budgets, "LOCK_WINDOWS", unlocked)

    assert told(fill_twice_at_once()) == [(1, SOFT), (2, SOFT)]


def test_the_inbox_has_what_is_at_a_bound_now() -> None:
    full = cap(str(LARGE_CALL))
    warned = cap("1", scope="agent", key="hermes", soft_cap=Decimal("0.01"))
    cap("1", scope="agent", key="*")
    reserved()

    found = ledger.bounded_budgets(10)
    assert [(bar.budget_id, bar.level) for bar, _ in found] == [
        (full.pk, "full"),
        (warned.pk, "warned"),
    ]
    assert ledger.count_bounds(overrun_days=7, up_to=10).budgets == 2
    assert ledger.count_bounds(overrun_days=7, up_to=1).budgets == 1

    cap("2")
    BudgetWindow.objects.filter(budget=warned).update(ends_at=None)
    assert [bar.budget_id for bar, _ in ledger.bounded_budgets(10)] == [warned.pk]
    assert all(since <= clock.now() for _, since in found)


def test_a_call_dearer_than_held_stands_in_the_inbox() -> None:
    settle(reserved(), Usage(1000, 10_000))
    settle(reserved())

    assert [row.overrun for row in ledger.overruns(days=7)] == [True]
    assert ledger.count_bounds(overrun_days=7, up_to=10).overruns == 1


def test_the_bars_of_a_budget_for_each_are_of_its_newest_windows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cap(None, scope="job", key="*")
    for _ in range(3):
        reserved()
    with plans.sent() as statements:
        assert len(ledger.budget_bars()) == 3
    [read] = [one for one in statements if "governance_budgetwindow" in one[0]]
    plan = plans.plan_of(read, disabled=("seqscan", "bitmapscan"))
    assert "governance_budgetwindow" not in plans.read_whole(plan)
    assert "governance_budgetwindow" not in plans.sorted_tables(plan)

    monkeypatch.setattr("governance.money.books.WINDOWS_PER_BUDGET", 2)
    assert len(ledger.budget_bars()) == 2
