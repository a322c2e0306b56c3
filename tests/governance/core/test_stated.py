"""Rows that events state, and the event that the database appends where none does."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection, transaction

from governance.core import audit, clock, stated
from governance.core.errors import InvalidTransition, NotFound
from governance.core.models import AuditEvent, OutsideChange
from governance.evidence import outside, trail
from governance.money import catalogue, proofs
from governance.money.models import Budget, LanguageModel
from tests.money import TEST, cap

pytestmark = pytest.mark.django_db(transaction=True)

ODD_TEXT = 'quote " backslash \\ slash / tab \t line \n bell \x07 del \x7f Ä 😀 \u2028'


@pytest.fixture(autouse=True)
def budget() -> Budget:
    return cap("1")


def run(statement: str, *params: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        return cursor.fetchall() if cursor.description else []


def changes() -> list[str]:
    return list(OutsideChange.objects.order_by("id").values_list("row_key", flat=True))


@pytest.mark.parametrize(
    "value",
    [
        {"b": 1, "a": {"é": None, "z": [True, False, "x"]}, "A": "", "_": {}, "aa": []},
        {"text": ODD_TEXT, ODD_TEXT: ODD_TEXT},
        {"😀": 1, "\ufffd": 2, "z": 3},
    ],
)
def test_the_database_writes_the_bytes_that_python_writes(value: dict[str, Any]) -> None:
    [[text]] = run("SELECT governance_canonical(%s::jsonb)", json.dumps(value))

    assert text.encode() == audit.encode(value)


@pytest.mark.parametrize("microseconds", [0, 120000, 123456])
def test_the_database_writes_an_instant_as_python_does(microseconds: int) -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, microseconds, tzinfo=UTC)

    assert run("SELECT governance_instant(%s)", at) == [(at.isoformat(),)]


def test_an_event_that_the_database_appends_is_the_one_that_python_would(budget: Budget) -> None:
    Budget.objects.update(cap=Decimal(7))

    event = AuditEvent.objects.get(action="changed_outside")
    body = json.loads(bytes(event.body))
    assert bytes(event.body) == audit.encode(body)
    assert body["at"] == event.at.isoformat()
    assert trail.verify().findings == []


def test_a_change_names_row_operation_role_and_values(budget: Budget) -> None:
    run("UPDATE governance_budget SET cap = 999999")

    change = OutsideChange.objects.get()
    event = AuditEvent.objects.get(action="changed_outside")
    assert (change.subject, change.operation) == (budget.audit_subject, "UPDATE")
    assert change.before["cap"] == "1.000000000000"
    assert change.after["cap"] == "999999.000000000000"
    body = json.loads(bytes(event.body))
    assert body["details"]["session_user"] == change.role
    budget.refresh_from_db()
    assert event.seq == change.seq == budget.audit_seq


def test_an_event_of_an_earlier_transaction_covers_nothing(budget: Budget) -> None:
    run("UPDATE governance_budget SET cap = 2")
    cap("1")
    run("UPDATE governance_budget SET cap = 2")

    assert len(changes()) == 2


def test_an_event_in_a_savepoint_of_the_transaction_covers_its_row() -> None:
    with transaction.atomic():
        run("SELECT 1")
        with transaction.atomic():
            cap("3")
        with transaction.atomic():
            catalogue.set_model(provider="p", name="m", **TEST)

    assert changes() == []


def test_an_event_in_a_savepoint_that_was_rolled_back_covers_nothing() -> None:
    with transaction.atomic():
        run("UPDATE governance_budget SET soft_cap = 0.5")
        point = transaction.savepoint()
        cap("1", soft_cap=Decimal("0.5"))
        transaction.savepoint_rollback(point)

    assert len(changes()) == 1


def test_a_row_that_is_put_back_before_the_commit_is_no_change() -> None:
    """What stands at the commit counts; but no event of the transaction says so."""
    with transaction.atomic():
        run("UPDATE governance_budget SET cap = 2")
        run("UPDATE governance_budget SET cap = 1")

    assert len(changes()) == 1


def test_a_session_in_another_time_zone_states_the_same(budget: Budget) -> None:
    catalogue.set_policy(models=[], **TEST)
    run("SET TimeZone = 'Asia/Tokyo'")
    run("UPDATE governance_routepolicy SET retired_at = clock_timestamp()")
    run("SET TimeZone = 'UTC'")

    [difference] = proofs.verify()
    assert difference.check == "governance_routepolicy.changed_outside"


def test_heads_are_locked_in_the_order_of_their_subjects(budget: Budget) -> None:
    names = [f"m{number}" for number in range(4)]
    for name in names:
        catalogue.set_model(provider="p", name=name, **TEST)
    with transaction.atomic():
        for name in reversed(names):
            LanguageModel.objects.filter(name=name).update(enabled=False)

    appended = AuditEvent.objects.filter(action="changed_outside").order_by("id")
    assert [event.subject for event in appended] == [f"model:p/{name}" for name in names]


def test_two_that_change_rows_of_a_chain_at_once_do_not_fork_it(
    budget: Budget, on_other_connection: Callable[..., Any]
) -> None:
    with transaction.atomic():
        run("UPDATE governance_budget SET cap = 2")
        with pytest.raises(TimeoutError):
            on_other_connection(run, "UPDATE governance_budget SET cap = 3", seconds=0.5)

    assert trail.verify().findings == []


def test_a_governor_accepts_what_was_changed(budget: Budget) -> None:
    run("UPDATE governance_budget SET cap = 2")
    [change] = OutsideChange.objects.all()

    outside.accept(change_id=change.pk, **TEST)

    change.refresh_from_db()
    assert change.settled_at is not None
    assert list(proofs.verify()) == []
    event = AuditEvent.objects.get(action="outside_change.accepted")
    assert (event.subject, event.actor, event.reason) == (
        budget.audit_subject,
        TEST["actor"],
        TEST["reason"],
    )
    assert trail.verify().findings == []


def test_what_is_settled_or_not_there_is_not_accepted(budget: Budget) -> None:
    run("UPDATE governance_budget SET cap = 2")
    [change] = OutsideChange.objects.all()
    cap("5")
    events = AuditEvent.objects.count()

    with pytest.raises(InvalidTransition):
        outside.accept(change_id=change.pk, **TEST)
    with pytest.raises(NotFound):
        outside.accept(change_id=change.pk + 1, **TEST)

    assert AuditEvent.objects.count() == events


def test_rows_of_before_are_stated_at_the_upgrade(budget: Budget) -> None:
    run("SET session_replication_role = replica")
    # Of what states the row alone: an opening has its event in any release.
    run(
        "UPDATE governance_auditevent SET body = convert_to('{}', 'UTF8')"
        " WHERE action = 'budget.added'"
    )
    run("SET session_replication_role = origin")
    table = "governance_budget"
    [difference] = proofs.verify()
    assert difference.check == f"{table}.event"
    head, left_out, digested, _ = stated.tables()[table].arguments
    run("SELECT governance_state_rows(%s, %s, %s, %s)", table, head, left_out, digested)

    assert list(proofs.verify()) == []
    assert AuditEvent.objects.filter(action="configuration.stated").count() == 1


def test_the_clock_of_an_event_is_read_after_the_lock(budget: Budget) -> None:
    before = clock.now()
    run("UPDATE governance_budget SET cap = 2")

    assert before < AuditEvent.objects.get(action="changed_outside").at < clock.now()


def test_the_command_names_the_change(capsys: pytest.CaptureFixture[str]) -> None:
    run("UPDATE governance_budget SET cap = 2")

    with pytest.raises(CommandError):
        call_command("verify_ledger")

    assert "governance_budget.changed_outside" in capsys.readouterr().out
