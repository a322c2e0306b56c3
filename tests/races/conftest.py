"""Two transactions at once, under control: the first stays open until the second waits for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection, connections, transaction

from jobs import wakeups
from jobs.transitions import work
from tests.jobs.governed import governed  # noqa: F401
from tests.work import (  # noqa: F401
    claim,
    delivered,
    escalated,
    fail,
    failed,
    high_risk,
    job_type,
    other_worker,
    running,
    session_of,
    stranger,
    worker,
)

#: How long a second connection may take to get to where it waits, or to its end.
SECONDS_MAX = 20.0
LOCK_TIMEOUT = "20s"
POLL_SECONDS = 0.002

Race = Callable[[Callable[[], Any], Callable[[], Any]], tuple[Any, Any]]


@pytest.fixture
def elsewhere() -> Iterator[Callable[[Callable[[], Any]], Future[Any]]]:
    """Start a function on a connection of its own, and return its future."""
    pools: list[ThreadPoolExecutor] = []

    def start(function: Callable[[], Any]) -> Future[Any]:
        pool = ThreadPoolExecutor(max_workers=1)
        pools.append(pool)

        def run() -> Any:
            try:
                # Not the service's: who is kept waiting by a busy machine is no loser yet.
                with connection.cursor() as cursor:
                    cursor.execute("SELECT set_config('lock_timeout', %s, false)", [LOCK_TIMEOUT])
                return function()
            finally:
                connections.close_all()

        return pool.submit(run)

    yield start
    for pool in pools:
        pool.shutdown(wait=False)


@pytest.fixture
def race(elsewhere: Callable[..., Future[Any]]) -> Race:
    """Make two moves meet: `race(first, second)` returns what each returned or raised.

    The first has done its writes and not committed when the second starts; it commits as soon as
    the second waits for a lock, or is through without waiting.
    """

    def meet(first: Callable[[], Any], second: Callable[[], Any]) -> tuple[Any, Any]:
        with transaction.atomic():
            won = first()
            later = elsewhere(second)
            until_it_waits(later)
        return won, outcome_of(later)

    return meet


def until_it_waits(future: Future[Any], *, waiting: int = 1) -> bool:
    """Return True once so many backends wait for locks, False when the future is done before."""
    give_up = time.monotonic() + SECONDS_MAX
    while not future.done():
        with connection.cursor() as cursor:
            # Of this database only, which its other locks tell: the server is shared with others'
            # tests. What `pg_stat_activity` says would stand still in a transaction.
            cursor.execute(
                "SELECT count(DISTINCT w.pid) FROM pg_locks w JOIN pg_locks h USING (pid)"
                " JOIN pg_database d ON d.oid = h.database"
                " WHERE NOT w.granted AND d.datname = current_database()"
            )
            if cursor.fetchone()[0] >= waiting:
                return True
        assert time.monotonic() < give_up, "the second neither waits nor ends"
        time.sleep(POLL_SECONDS)
    return False


@pytest.fixture(autouse=True)
def _alone(transactional_db: None) -> Iterator[None]:
    """Wait until the server has seen the connections of the test end, so that the database can go.

    What was open before it, of a browser's test for one, is none of its own.
    """
    before = _others()
    yield
    wakeups.close()  # who queued a job has told so, through a connection that would stay
    give_up = time.monotonic() + SECONDS_MAX
    while _others() - before and time.monotonic() < give_up:
        time.sleep(POLL_SECONDS)


def _others() -> set[int]:
    """Return the connections to this database beside the test's own."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
            " AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        return {pid for (pid,) in cursor.fetchall()}


def outcome_of(future: Future[Any]) -> Any:
    """Return what the future's function returned or raised."""
    error = future.exception(timeout=SECONDS_MAX)
    return future.result() if error is None else error


@pytest.fixture
def no_job_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: jobs and their leases are read as ever, but nobody locks them."""
    unlocked = work.LOCK_BY_TASK.replace(" FOR NO KEY UPDATE OF j", "")
    assert unlocked != work.LOCK_BY_TASK
    monkeypatch.setattr(work, "LOCK_BY_TASK", unlocked)
    monkeypatch.setattr(work, "LOCK_IF_FREE", unlocked)
    unlocked = work.LOCK_LEASES.replace(" FOR NO KEY UPDATE OF l", "")
    assert unlocked != work.LOCK_LEASES
    monkeypatch.setattr(work, "LOCK_LEASES", unlocked)


@pytest.fixture
def waits() -> Callable[..., bool]:
    return until_it_waits
