"""A call that its caller bounds: nothing of it outlives its end, and nothing is half done."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import OperationalError, connection, connections, transaction

from agents.models import Agent
from governance.core import deadlines, sql
from governance.core.errors import DeadlineExceeded
from governance.operations.failures import refusal_of
from jobs.models import Job

pytestmark = pytest.mark.django_db(transaction=True)

ROW = Agent.objects.filter(name="hermes")


def soon(seconds: float) -> float:
    return time.monotonic() + seconds


@contextmanager
def locked(statement: str) -> Iterator[None]:
    """Hold what the statement locks, on another connection."""
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(statement)
                held.set()
                done.wait(30)
        finally:
            connections.close_all()

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(10)
    try:
        yield
    finally:
        done.set()
        thread.join()


AGENTS = "SELECT FROM agents_agent FOR UPDATE"


def by_pipeline() -> None:
    sql.pipeline(sql.Statement("UPDATE agents_agent SET admission_generation = 7"))


def by_orm() -> None:
    ROW.update(admission_generation=7)


@pytest.mark.parametrize("write", [by_pipeline, by_orm])
@pytest.mark.parametrize("whole", [True, False], ids=["in a transaction", "by itself"])
def test_a_statement_that_waits_is_ended_with_its_call(
    world: None, write: Callable[[], None], whole: bool
) -> None:
    with locked(AGENTS), sql.ending(soon(0.3)), pytest.raises(OperationalError) as caught:
        if whole:
            with transaction.atomic():
                write()
        else:
            write()
    assert sql.sqlstate(caught.value) == "57014"

    # The connection is as good as before.
    assert not connection.in_atomic_block
    assert setting() == usual()
    assert ROW.get().admission_generation != 7


def test_without_an_end_the_same_wait_is_one_for_the_lock(world: None) -> None:
    with locked(AGENTS), sql.ending(None), pytest.raises(OperationalError) as caught:
        by_pipeline()
    assert sql.sqlstate(caught.value) == "55P03"


@pytest.mark.parametrize("write", [by_pipeline, by_orm])
def test_nothing_is_sent_once_the_time_is_over(world: None, write: Callable[[], None]) -> None:
    with sql.ending(soon(-0.001)), pytest.raises(DeadlineExceeded) as caught:
        write()
    assert caught.value.effect == "none"
    assert ROW.get().admission_generation != 7


def test_a_transaction_whose_time_is_over_before_its_commit_is_undone(world: None) -> None:
    @sql.move
    def move() -> None:
        by_pipeline()
        time.sleep(0.2)

    with sql.ending(soon(0.2)), pytest.raises(DeadlineExceeded) as caught:
        move()
    assert caught.value.effect == "none"
    assert ROW.get().admission_generation != 7


def test_what_is_committed_with_the_last_statement_is_not_once_the_time_is_over(
    world: None,
) -> None:
    with sql.ending(soon(0.2)), pytest.raises(DeadlineExceeded), sql.transaction_of_one_move():
        by_pipeline()
        time.sleep(0.2)
        sql.commit_with(sql.Statement("SELECT 1"))
    assert ROW.get().admission_generation != 7


def test_the_effect_is_unknown_once_a_transaction_of_the_call_is_committed(world: None) -> None:
    with sql.ending(soon(0.2)):
        with transaction.atomic():
            by_orm()
        time.sleep(0.2)
        with pytest.raises(DeadlineExceeded) as caught:
            by_orm()
    assert caught.value.effect == "unknown"
    assert caught.value.result_code == "UNKNOWN"
    assert ROW.get().admission_generation == 7


def test_no_bound_is_in_force_when_a_transaction_commits(world: None) -> None:
    """A COMMIT that is cancelled while it waits for a standby answers that all is well."""
    with sql.ending(soon(5)), transaction.atomic():
        rows = sql.pipeline(sql.Statement("SELECT current_setting('statement_timeout') AS s"))
        # Asked without the call's own bound: what is in force between its statements.
        with deadlines.until(None):
            between = setting()
    assert rows[0][0]["s"] not in ("0", usual())
    assert between == usual()


def test_an_end_that_is_far_off_bounds_no_more_than_every_statement_is(world: None) -> None:
    with sql.ending(soon(59)), transaction.atomic():
        [[row]] = sql.pipeline(sql.Statement("SELECT current_setting('statement_timeout') AS s"))
    assert row["s"] == usual()


def test_reads_and_writes_of_the_orm_go_on_as_before_within_a_call(make_job: Any) -> None:
    job = make_job()
    with sql.ending(soon(5)):
        with transaction.atomic():
            found = Job.objects.select_for_update().get(pk=job.pk)
            Job.objects.filter(pk=found.pk).update(priority=2)
            with transaction.atomic():
                assert Job.objects.filter(priority=2).count() == 1
        assert list(Job.objects.values_list("priority", flat=True)) == [2]


def test_a_cancelled_statement_of_a_call_that_has_time_is_contention(world: None) -> None:
    def cancelled() -> Any:
        with pytest.raises(OperationalError) as caught, transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL statement_timeout = 20")
                cursor.execute("SELECT pg_sleep(5)")
        return refusal_of(caught.value)

    with deadlines.until(soon(20)):
        assert cancelled().reason == "CONTENTION"
    with deadlines.until(soon(0.02)):
        assert cancelled().reason == "DEADLINE_EXCEEDED"


def test_a_wait_leaves_time_for_its_answer() -> None:
    assert deadlines.bounded(20) == 20
    with deadlines.until(soon(5)):
        assert 4 < deadlines.bounded(20) < 5
        assert deadlines.bounded(1) == 1
    with deadlines.until(soon(0.1)):
        assert deadlines.bounded(20) == 0


def setting() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SHOW statement_timeout")
        return str(cursor.fetchone()[0])


def usual() -> str:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT reset_val::int / 1000 || 's' FROM pg_settings WHERE name = 'statement_timeout'"
        )
        return str(cursor.fetchone()[0])
