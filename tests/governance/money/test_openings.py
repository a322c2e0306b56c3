"""A budget that is made, or enabled again, counts what its present window has already seen."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from django.db import DatabaseError, connection, transaction

from governance.core.errors import InvalidArgument, InvalidTransition, NotFound
from governance.core.models import AuditEvent
from governance.money import caps, catalogue, ledger, scopes
from governance.money.corrections import BudgetOpening
from governance.money.models import Budget, BudgetWindow, ReservationHold
from governance.money.pricing import Usage
from tests.money import (
    LARGE_CALL,
    TEST,
    another_request,
    cap,
    catalogue_of_two,
    request,
    reserved,
    resolve,
)

pytestmark = pytest.mark.django_db
ACTOR = "agent:hermes"


@pytest.fixture(autouse=True)
def _catalogue(db):
    catalogue_of_two()


def settled(**over):
    """A call that was made and cost as much as it held."""
    routed = reserved(**over)
    reservation_id = routed.reservation.reservation_id
    resolve("settled", reservation_id=reservation_id, usage=Usage(1000, 1000), actor=ACTOR)
    return routed


def counters(budget):
    rows = BudgetWindow.objects.filter(budget=budget).order_by("counted_for")
    return [(row.counted_for, row.held, row.spent) for row in rows]


def assert_books_agree():
    assert list(ledger.verify()) == []


def opened(budget):
    events = AuditEvent.objects.filter(subject=budget.audit_subject, action="budget.opened")
    bodies = [json.loads(bytes(event.body))["after"] for event in events.order_by("seq")]
    return [{name: body[name] for name in ("windows", "spent", "held")} for body in bodies]


@pytest.mark.parametrize("window", ["day", "month", "none"])
def test_a_new_budget_counts_what_was_spent_and_what_is_held(window):
    settled()
    reserved()

    budget = cap("0.08", window=window)

    assert counters(budget) == [("", LARGE_CALL, LARGE_CALL)]
    assert BudgetOpening.objects.get().spent == LARGE_CALL
    assert opened(budget) == [{"windows": 1, "spent": "0.03", "held": "0.03"}]
    assert ledger.reserve(request=another_request()).model == "small"
    assert_books_agree()


def test_what_was_open_when_the_budget_was_made_is_posted_to_it():
    routed = reserved()
    budget = cap("1")

    resolve("settled", reservation_id=routed.reservation.reservation_id, usage=Usage(1000, 0),
            actor=ACTOR)  # fmt: skip

    assert counters(budget) == [("", 0, Decimal("0.01"))]
    assert_books_agree()


@pytest.mark.parametrize(
    ("scope", "key"), [("agent", "hermes"), ("job_type", "content_prep"), ("job", "task-1")]
)
def test_a_new_budget_counts_its_own_scope(scope, key):
    mine = {"agent": "hermes", "job_type": "content_prep", "task_id": "task-1"}
    other = {"agent": "openclaw", "job_type": "rewrite", "task_id": "task-2"}
    for over in (mine, other):
        routed = ledger.reserve(request=request(**over))
        resolve("settled", reservation_id=routed.reservation.reservation_id,
                usage=Usage(1000, 1000), actor=ACTOR)  # fmt: skip

    assert counters(cap("1", scope=scope, key=key)) == [("", 0, LARGE_CALL)]
    assert_books_agree()


def test_a_budget_for_each_counts_them_apart():
    settled(agent="hermes")
    settled(agent="hermes")
    reserved(agent="openclaw")

    budget = cap("1", scope="agent", key="*")

    assert counters(budget) == [("hermes", 0, LARGE_CALL * 2), ("openclaw", LARGE_CALL, 0)]
    assert_books_agree()


def test_what_was_reserved_before_the_window_is_not_counted():
    settled()
    reserved()
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(
            "UPDATE governance_reservation SET reserved_at = reserved_at - interval '400 days'"
        )
        cursor.execute("SET session_replication_role = origin")

    budget = cap("1", window="month")

    assert counters(budget) == [("", 0, 0)]
    # That somebody moved them is found.
    assert {each.check for each in ledger.verify()} == {"reservation.reserved_at"}


def test_a_disabled_budget_refuses_nothing_and_goes_on_counting():
    budget = cap("0")
    caps.disable_budget(budget_id=budget.pk, **TEST)
    settled()
    reserved()

    caps.switch_budget(budget_id=budget.pk, enabled=True, **TEST)

    assert counters(budget) == [("", LARGE_CALL, LARGE_CALL)]
    assert BudgetOpening.objects.get().spent == 0
    assert ledger.reserve(request=another_request()).decision.reason == "BUDGET_EXHAUSTED"
    assert_books_agree()


def test_a_budget_that_counted_nothing_while_it_was_disabled_is_made_whole():
    """As an earlier release left it: no hold, no counter."""
    budget = cap("1")
    caps.disable_budget(budget_id=budget.pk, **TEST)
    settled()
    reserved()
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        ReservationHold.objects.all().delete()
        cursor.execute("SET session_replication_role = origin")
    BudgetWindow.objects.update(held=0, spent=0)

    caps.switch_budget(budget_id=budget.pk, enabled=True, **TEST)

    assert counters(budget) == [("", LARGE_CALL, LARGE_CALL)]
    assert [row.spent for row in BudgetOpening.objects.order_by("id")] == [0, LARGE_CALL]
    assert_books_agree()


def test_changing_the_caps_opens_nothing():
    budget = cap("1")
    settled()

    caps.set_caps(budget_id=budget.pk, caps={"cap": Decimal(2)}, **TEST)

    assert counters(budget) == [("", 0, LARGE_CALL)]
    assert len(opened(budget)) == BudgetOpening.objects.count() == 1


@pytest.mark.parametrize(
    "tampering",
    [
        "UPDATE governance_budgetopening SET spent = spent + 1",
        "DELETE FROM governance_budgetopening",
    ],
)
def test_an_opening_that_was_tampered_with_is_found(tampering):
    settled()
    cap("1")

    with connection.cursor() as cursor:
        with pytest.raises(DatabaseError), transaction.atomic():
            cursor.execute(tampering)
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(tampering)
        cursor.execute("SET session_replication_role = origin")

    assert "budget_window.spent" in {found.check for found in ledger.verify()}


def test_an_opening_that_tells_too_much_is_found_though_the_counter_agrees():
    settled()
    cap("1")
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute("UPDATE governance_budgetopening SET spent = spent - 0.01")
        cursor.execute("SET session_replication_role = origin")
    BudgetWindow.objects.update(spent=LARGE_CALL - Decimal("0.01"))

    [found] = ledger.verify()

    assert (found.check, found.expected, found.found) == ("budget_opening.spent", "0.03", "0.02")


# --- What is set


def test_only_the_caps_that_are_given_change():
    budget = cap("10", soft_cap=Decimal(8))
    caps.disable_budget(budget_id=budget.pk, **TEST)

    caps.set_caps(budget_id=budget.pk, caps={"soft_cap": Decimal(9)}, **TEST)
    caps.set_caps(budget_id=budget.pk, caps={"cap": Decimal(20)}, **TEST)

    budget.refresh_from_db()
    assert (budget.cap, budget.soft_cap, budget.enabled) == (20, 9, False)
    caps.set_caps(budget_id=budget.pk, caps={"cap": None, "soft_cap": None}, **TEST)
    budget.refresh_from_db()
    assert (budget.cap, budget.soft_cap) == (None, None)
    with pytest.raises(NotFound):
        caps.set_caps(budget_id=budget.pk + 1, caps={"cap": None}, **TEST)


@pytest.mark.parametrize("changed", [{"cap": Decimal(7)}, {"soft_cap": Decimal(11)}])
def test_a_warning_above_the_cap_is_refused(changed):
    budget = cap("10", soft_cap=Decimal(8))

    with pytest.raises(InvalidArgument) as refused:
        caps.set_caps(budget_id=budget.pk, caps=changed, **TEST)

    assert [fault.pointer for fault in refused.value.errors] == ["/soft_cap"]
    budget.refresh_from_db()
    assert (budget.cap, budget.soft_cap) == (10, 8)
    with pytest.raises(DatabaseError), transaction.atomic():
        Budget.objects.update(soft_cap=11)


def test_a_budget_is_enabled_once():
    budget = cap("1")

    with pytest.raises(InvalidTransition, match="enabled already"):
        caps.switch_budget(budget_id=budget.pk, enabled=True, **TEST)


def test_a_name_that_nobody_bears_gets_no_budget_and_no_policy(monkeypatch):
    monkeypatch.setattr(scopes, "_known", {"agent": "hermes".__eq__, "job_type": "prep".__eq__})
    for scope, key in (("agent", "herms"), ("job_type", "content-prep")):
        with pytest.raises(InvalidArgument) as refused:
            cap("1", scope=scope, key=key)
        assert [fault.pointer for fault in refused.value.errors] == ["/key"]
        with pytest.raises(InvalidArgument) as refused:
            catalogue.set_policy(models=[], **{scope: key}, **TEST)
        assert [fault.pointer for fault in refused.value.errors] == [f"/{scope}"]

    assert not Budget.objects.exists()
    for scope, key in (("agent", "hermes"), ("agent", "*"), ("job_type", "prep"), ("job", "t-1")):
        assert cap("1", scope=scope, key=key).pk


def test_a_budget_of_before_whose_name_nobody_bears_can_be_ended(monkeypatch):
    budget = cap("1", scope="agent", key="herms")
    monkeypatch.setattr(scopes, "_known", {"agent": "hermes".__eq__})

    assert cap("1", scope="agent", key="herms", enabled=False).pk == budget.pk
    assert not Budget.objects.get().enabled
