"""Statements that travel together: prepared once, and as fit for one row as for many."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
from django.db import DataError, IntegrityError, connection, transaction
from django.db.transaction import TransactionManagementError

from governance.core import sql
from governance.core.models import AuditEvent
from governance.relay.models import Pulse
from jobs import wakeups
from jobs.models import Attempt
from tests.work import claim, running, worker  # noqa: F401

pytestmark = pytest.mark.django_db


def prepared(text: str) -> list[tuple[int, int]]:
    """Return how often the statement ran on a plan of its own, and on a kept one."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT custom_plans, generic_plans FROM pg_prepared_statements"
            " WHERE strpos(statement, %s) = 1",
            [text],
        )
        return cursor.fetchall()


def test_a_statement_is_prepared_once_and_its_plan_kept():
    asked = sql.any_of("SELECT id FROM jobs_job WHERE id = ANY(%s::bigint[])", [1])

    for _ in range(8):
        sql.pipeline(asked, sql.Statement("SELECT 1 AS one"))

    [(own, kept)] = prepared("SELECT id FROM jobs_job WHERE id = $1::bigint")
    assert own + kept == 8
    assert kept > 0


def test_what_did_not_ask_to_be_prepared_is_not():
    for _ in range(8):
        AuditEvent.objects.filter(subject="fleet").exists()

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE %s",
            ['%"governance_auditevent"."subject" = %'],
        )
        assert cursor.fetchone() == (0,)


@pytest.mark.parametrize("values", [[7], [7, 8], []])
def test_one_value_and_many_are_found_alike(values):
    text = "SELECT n FROM generate_series(7, 9) n WHERE n > %s AND n = ANY(%s::int[])"

    [rows] = sql.pipeline(sql.any_of(text, values, 0))

    assert [row["n"] for row in rows] == values


def test_a_row_is_built_as_the_orm_builds_it(running):  # noqa: F811
    running()
    text = f"SELECT {sql.select_list(Attempt, 'p')} FROM jobs_attempt p"
    [[row]] = sql.pipeline(sql.Statement(text))

    built, read = sql.build(Attempt, row, "p"), Attempt.objects.get()

    assert built == read
    names = [field.attname for field in Attempt._meta.concrete_fields]
    assert [getattr(built, name) for name in names] == [getattr(read, name) for name in names]
    assert (built._state.adding, built._state.db) == (False, "default")


def test_what_is_written_at_once_is_all_written(running):  # noqa: F811
    running()
    attempt = Attempt.objects.get()
    attempt.error_code, other = "slow", attempt.job
    other.paused = True

    written = sql.one_cte(sql.update([attempt], ("error_code",)), sql.update([other], ("paused",)))
    sql.pipeline(written)

    attempt.refresh_from_db()
    other.refresh_from_db()
    assert (attempt.error_code, other.paused) == ("slow", True)


@pytest.fixture
def committed(transactional_db: None) -> Callable[[], list[str]]:
    """Return the names of the pulses that another connection sees."""

    def seen() -> list[str]:
        with psycopg.connect(**wakeups.connection_parameters()) as other:
            return [name for (name,) in other.execute("SELECT name FROM governance_pulse")]

    return seen


def beating(name: str | None) -> sql.Statement:
    text = "INSERT INTO governance_pulse (name, at, details) VALUES (%s, now(), '{}')"
    return sql.Statement(text, (name,))


def test_what_is_committed_with_is_committed_at_once(committed: Callable[[], list[str]]) -> None:
    with sql.transaction_of_one_move():
        sql.pipeline(beating("first"))
        assert committed() == []
        sql.commit_with(beating("last"))
        assert sorted(committed()) == ["first", "last"]


def test_what_cannot_be_committed_with_undoes_the_whole(
    committed: Callable[[], list[str]],
) -> None:
    with pytest.raises(IntegrityError), sql.transaction_of_one_move():
        sql.pipeline(beating("first"))
        sql.commit_with(beating(None))

    assert committed() == []
    # And the connection serves the next.
    with sql.transaction_of_one_move():
        sql.commit_with(beating("next"))
    assert committed() == ["next"]


def test_a_transaction_that_is_spent_is_not_committed_with(
    committed: Callable[[], list[str]],
) -> None:
    with pytest.raises(TransactionManagementError), sql.transaction_of_one_move():
        sql.pipeline(beating("first"))
        transaction.set_rollback(True)
        sql.commit_with(beating("last"))

    assert committed() == []


@pytest.mark.django_db
def test_a_part_of_a_larger_transaction_is_left_to_that() -> None:
    with sql.transaction_of_one_move():
        sql.commit_with(beating("last"))
    assert connection.in_atomic_block
    assert Pulse.objects.filter(name="last").exists()


def test_a_statement_that_fails_at_the_beginning_leaves_the_connection_usable(
    committed: Callable[[], list[str]],
) -> None:
    for _ in range(2):
        with pytest.raises(DataError), sql.transaction_of_one_move():
            sql.pipeline(sql.Statement("SELECT 1 / 0"), beating("never"))
    assert committed() == []
    assert connection.get_autocommit()
