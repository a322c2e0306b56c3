"""Sums by hour: every row of the ledger once, whoever commits late; and the books compare them."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection, transaction

from governance.core import clock
from governance.money import ledger, rollups, spent_rows
from governance.money.hours import SpendHour, SpendHourCursor
from tests.money import catalogue_of_two
from tests.spent import correct, moved, spend, use

pytestmark = pytest.mark.django_db
COST = Decimal("0.03")
#: How long the transactions of other tests may take to end.
SECONDS_MAX = 40.0
#: Before all that is summed up: a row of that time is not there yet.
NEVER = datetime(1990, 1, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _catalogue(db: None) -> None:
    catalogue_of_two()


def days_ago(days: float) -> datetime:
    return clock.now() - timedelta(days=days)


def settle() -> datetime:
    """Count until the hours before the present one are final, and return until when.

    Transactions of other tests, on the same server, have their time to end.
    """
    give_up, over = time.monotonic() + SECONDS_MAX, rollups._hour(clock.now() - rollups.LAG)
    while True:
        rollups.count()
        until = SpendHourCursor.objects.get().settled_until
        if until is not None and until >= over:
            return until
        assert time.monotonic() < give_up, f"final until {until}"
        time.sleep(0.02)


def sums() -> list[tuple[Any, ...]]:
    rows = SpendHour.objects.order_by("hour", "agent", "job_type", "model")
    return [
        (row.agent, row.model, row.calls, row.cost, row.unreserved, row.corrected) for row in rows
    ]


def test_calls_uses_and_corrections_are_summed_up_by_hour_agent_type_and_model() -> None:
    end = spend()
    spend(agent="openclaw")
    use()
    correct(end, "-0.01")

    rollups.count()

    now = clock.now().replace(minute=0, second=0, microsecond=0)
    assert {row.hour for row in SpendHour.objects.all()} <= {now, now - timedelta(hours=1)}
    hermes, openclaw = (
        rollups.total_of([rollups._spent(row | {"name": ""}) for row in rows.values(*rollups.SUMS)])
        for rows in (
            SpendHour.objects.filter(agent="hermes"),
            SpendHour.objects.filter(agent="openclaw"),
        )
    )
    assert (hermes.cost, hermes.corrected, hermes.calls, hermes.corrections, hermes.uses) == (
        COST, Decimal("-0.01"), 1, 1, 1,
    )  # fmt: skip
    assert hermes.unreserved > 0
    assert (openclaw.total, openclaw.calls, openclaw.input_tokens) == (COST, 1, 1000)


def test_counted_again_nothing_is_counted_twice() -> None:
    spend()
    rollups.count()
    before = sums()
    rollups.count()
    assert sums() == before
    spend()
    rollups.count()
    assert sum(row[2] for row in sums()) == 2


def test_a_correction_of_a_use_is_of_its_agent_and_model() -> None:
    ledger.adjust(
        use_id=use(agent="openclaw").pk,
        amount=Decimal("-0.01"),
        actor="user:anna",
        reason="billed otherwise",
    )
    rollups.count()
    assert {(row[0], row[1]) for row in sums()} == {("openclaw", "local/large")}
    assert sum(row[5] for row in sums()) == Decimal("-0.01")
    today = clock.now().astimezone(UTC).date()
    kinds = {row.kind for row in spent_rows.read(first=today - timedelta(days=1), last=today)}
    assert kinds == {spent_rows.USE, spent_rows.CORRECTION}


def test_a_correction_that_waits_for_a_governor_is_not_spent(settings: Any) -> None:
    settings.ADJUSTMENT_CONFIRM_USD = Decimal("0.001")
    correct(spend(), "-0.01")
    rollups.count()
    assert [row[5] for row in sums()] == [0]


def test_hours_become_final_when_all_have_ended_who_may_have_written_into_them() -> None:
    spend(at=days_ago(3))
    until = settle()
    now = clock.now()
    assert now - timedelta(hours=2) <= until <= now
    assert SpendHourCursor.objects.get().barrier is None


@pytest.mark.django_db(transaction=True)
def test_an_hour_waits_for_a_transaction_that_began_before_it_was_over(
    on_other_connection: Any,
) -> None:
    late = spend(at=NEVER)
    with transaction.atomic():
        # Read its clock long ago, and commits now.
        moved("governance_resolution", "resolved_at", "reservation_id", late.pk, days_ago(2))
        for _ in range(3):
            on_other_connection(rollups.count)
        assert SpendHourCursor.objects.get().settled_until is None

    settle()

    assert list(ledger.verify()) == []


@pytest.mark.django_db(transaction=True)
def test_control_without_the_barrier_what_is_committed_late_is_missed(
    on_other_connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    spend(at=days_ago(1))
    late = spend(at=NEVER)
    settled = rollups._settle

    def at_once(cursor: SpendHourCursor, *, ended_before: int, **span: Any) -> None:
        settled(cursor, ended_before=2**62, **span)

    monkeypatch.setattr(rollups, "_settle", at_once)
    with transaction.atomic():
        moved("governance_resolution", "resolved_at", "reservation_id", late.pk, days_ago(0.5))
        for _ in range(3):
            on_other_connection(rollups.count)
    rollups.count()

    assert {found.check for found in ledger.verify()} == {"spend_hour.sums"}


def test_years_are_summed_up_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollups, "DAYS_PER_ROUND", 2)
    for days in (7, 5, 1):
        spend(at=days_ago(days))
    settle()
    assert sum(row[2] for row in sums()) == 3
    assert list(ledger.verify()) == []


def test_the_books_name_a_final_sum_that_the_ledger_contradicts() -> None:
    spend(at=days_ago(2))
    settle()
    assert list(ledger.verify()) == []

    SpendHour.objects.update(cost=Decimal(7))

    [wrong] = ledger.verify()
    assert wrong.check == "spend_hour.sums"
    assert "hermes content_prep local/large" in wrong.subject
    assert '"cost": 7' in wrong.found
    assert '"cost": 0.03' in wrong.expected


@pytest.mark.parametrize("lost", [True, False])
def test_the_books_name_a_sum_that_is_lost_or_made_up(lost: bool) -> None:
    spend(at=days_ago(2))
    settle()
    if lost:
        SpendHour.objects.all().delete()
    else:
        SpendHour.objects.update(agent="nobody")

    found = sorted(
        (wrong.expected == "no row", wrong.found == "no row") for wrong in ledger.verify()
    )

    assert found == ([(False, True)] if lost else [(False, True), (True, False)])


def test_what_is_asked_for_is_told_by_day_agent_type_and_model() -> None:
    day = days_ago(1).astimezone(UTC).date()
    spend(at=datetime.combine(day, datetime.min.time(), UTC))
    spend(at=datetime.combine(day, datetime.max.time(), UTC), agent="openclaw", tokens=500)
    spend(at=days_ago(40))
    settle()

    found = rollups.read_spent(first=day - timedelta(days=7), last=day)

    assert [(one.name, one.total) for one in found["day"]] == [(f"{day}", COST * 3 / 2)]
    assert [(one.name, one.total) for one in found["agent"]] == [
        ("hermes", COST),
        ("openclaw", COST / 2),
    ]
    assert [one.calls for one in found["model"]] == [2]
    narrowed = rollups.read_spent(first=day, last=day, narrowed={"agent": "openclaw"})
    assert [one.name for one in narrowed["agent"]] == ["openclaw"]


def test_the_rows_of_a_figure_are_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spent_rows, "ROWS_SHOWN", 2)
    end = spend(at=days_ago(0))
    for agent in ("openclaw", "openclaw", "hermes"):
        spend(agent=agent)
    unreserved, correction = use(), correct(end, "-0.01")
    today = clock.now().astimezone(UTC).date()
    asked: dict[str, Any] = {"first": today - timedelta(days=1), "last": today}

    seen: list[spent_rows.Shown] = []
    while page := spent_rows.read(**asked, before=(seen[-1].at, seen[-1].pk) if seen else None):
        seen += page

    assert len({row.pk for row in seen}) == len(seen) == 6
    rollups.count()
    spent = rollups.total_of(rollups.read_spent(**asked)["day"])
    assert sum(row.amount or 0 for row in seen) == spent.total
    of_openclaw = spent_rows.read(**asked, narrowed={"agent": "openclaw"})
    assert {row.agent for row in of_openclaw} == {"openclaw"}
    assert [row.pk for row in spent_rows.read(**asked, only="corrected")] == [correction.pk]
    assert [row.pk for row in spent_rows.read(**asked, only="unreserved")] == [unreserved.pk]
    assert spent_rows.read(**asked, only="flagged") == []


def test_one_counts_at_a_time(on_other_connection: Any) -> None:
    assert rollups.count() is True
    assert rollups.count_if_due() is False
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM governance_spendhourcursor")
        assert cursor.fetchone() == (1,)
