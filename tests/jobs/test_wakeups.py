"""Long polls: told at once that there is work, bounded in number, and holding nothing meanwhile."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from django.core import management
from django.db import connection, connections
from uuid_utils.compat import uuid7

import manage
from agents.models import Agent
from governance.local import embedded
from jobs import wakeups
from jobs.models import Job
from tests.client import Api

pytestmark = pytest.mark.django_db(transaction=True)

SECONDS = 10.0
#: Longer than any wait that a test should see, so that who waits it out is seen to.
LONG_POLL = 20


@pytest.fixture(autouse=True)
def _own_board() -> Iterator[None]:
    _others.append(connections_open())
    yield
    wakeups.close()
    _others.clear()


@pytest.fixture
def no_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the wake-up alone to end a wait."""
    monkeypatch.setattr(wakeups, "POLL_SECONDS", 60.0)


@pytest.fixture
def long_poll(hermes_token: str) -> Iterator[Callable[..., Future[Any]]]:
    """Send a long poll from a thread of its own: `long_poll("w1")` gives its future answer."""
    pool = ThreadPoolExecutor(max_workers=8)

    def call(worker_id: str = "w1", **over: Any) -> Future[Any]:
        def send() -> Any:
            try:
                body = {"worker_id": worker_id, "wait_seconds": LONG_POLL} | over
                return (
                    Api(hermes_token).post("/v1/claims", body, Idempotency_Key=str(uuid7())).json()
                )
            finally:
                connections.close_all()

        return pool.submit(send)

    yield call
    for agent in Agent.objects.all():
        for ticket in list(wakeups._here().tickets[agent.pk]):
            ticket.ended = True
            ticket.event.set()
    pool.shutdown(wait=True)


def until(true: Callable[[], bool]) -> None:
    """Wait, for a bounded time, for what another thread is about to do."""
    deadline = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < deadline
        threading.Event().wait(0.005)


def waiting() -> int:
    return wakeups._here().waiting


#: Connections that were there before the test: those of servers of other tests.
_others: list[int] = []


def sleeping() -> bool:
    """Whether every waiting request has looked for work and given its connection back."""
    return connections_open() <= _others[0]


def connections_open() -> int:
    """Count the connections that serve requests, beside the test's own."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
            " AND query NOT LIKE 'LISTEN%' AND query NOT LIKE '%pg_notify%'"
        )
        return int(cursor.fetchone()[0])


def test_a_waiting_worker_is_woken_by_the_commit_of_a_task(no_polling, long_poll, make_job):
    answer = long_poll()
    until(lambda: waiting() == 1 and sleeping())

    started = time.monotonic()
    make_job()
    wakeups.announce(Agent.objects.get(name="hermes").pk)
    found = answer.result(timeout=SECONDS)

    assert [item["job"]["task_id"] for item in found["results"]] == ["task-1"]
    assert time.monotonic() - started < SECONDS


def test_intake_over_http_announces_its_task(no_polling, long_poll, submitter_token):
    answer = long_poll()
    until(lambda: waiting() == 1 and sleeping())

    task = {
        "task_id": "t-1",
        "source": "manual",
        "title": "A title",
        "goal": "A goal that is long enough",
        "task_type": "content_prep",
        "risk_tier": "low",
    }
    Api(submitter_token).post("/v1/jobs", task)

    assert len(answer.result(timeout=SECONDS)["results"]) == 1


def test_an_approval_announces_the_job(no_polling, long_poll, make_job):
    from jobs import transitions

    job = make_job(execution_approval_required=True)
    answer = long_poll()
    until(lambda: waiting() == 1 and sleeping())

    transitions.approve(task_id=job.task_id, actor="user:anna", reason="fine")

    assert len(answer.result(timeout=SECONDS)["results"]) == 1


def test_a_wakeup_from_another_process_is_heard(no_polling, long_poll, make_job):
    answer = long_poll()
    until(lambda: waiting() == 1 and sleeping())
    make_job()
    agent_id = Agent.objects.get(name="hermes").pk

    with psycopg.connect(**wakeups.connection_parameters(), autocommit=True) as other:
        # The listener may still be on its way; a later notice reaches it as well.
        deadline = time.monotonic() + SECONDS
        while not answer.done():
            assert time.monotonic() < deadline
            other.execute("SELECT pg_notify(%s, %s)", (wakeups.CHANNEL, f"work {agent_id}"))
            threading.Event().wait(0.02)

    assert len(answer.result(timeout=SECONDS)["results"]) == 1


def test_polling_finds_what_no_wakeup_told(long_poll, make_job, monkeypatch):
    monkeypatch.setattr(wakeups, "POLL_SECONDS", 0.02)
    answer = long_poll()
    until(lambda: waiting() == 1)

    make_job()

    assert len(answer.result(timeout=SECONDS)["results"]) == 1


def test_a_newer_poll_of_the_same_worker_ends_its_older_one(no_polling, long_poll, make_job):
    older = long_poll("w1")
    other = long_poll("w2")
    until(lambda: waiting() == 2)

    newer = long_poll("w1")

    assert older.result(timeout=SECONDS)["results"] == []
    assert not other.done() and not newer.done()


def test_a_newer_poll_in_another_process_ends_the_older_one_as_well(no_polling, long_poll):
    answer = long_poll("w1")
    until(lambda: waiting() == 1)
    agent_id = Agent.objects.get(name="hermes").pk

    [ticket] = wakeups._here().tickets[agent_id]

    wakeups._here().hear(f"poll {agent_id} {uuid7().hex} {ticket.worker}")

    assert answer.result(timeout=SECONDS)["results"] == []


def test_an_older_poll_that_is_heard_late_ends_nothing(no_polling, long_poll):
    before = uuid7().hex
    answer = long_poll("w1")
    until(lambda: waiting() == 1)
    agent_id = Agent.objects.get(name="hermes").pk

    [ticket] = wakeups._here().tickets[agent_id]

    wakeups._here().hear(f"poll {agent_id} {before} {ticket.worker}")

    assert not ticket.ended and not answer.done()


def test_half_of_the_threads_wait_at_most_and_more_are_answered_at_once(
    no_polling, long_poll, settings
):
    settings.WEB_THREADS = 4
    waits = [long_poll("w1"), long_poll("w2")]
    until(lambda: waiting() == 2)

    found = long_poll("w3").result(timeout=SECONDS)

    assert found == {"results": [], "retry_after_seconds": wakeups.BUSY_RETRY_SECONDS}
    assert not any(wait.done() for wait in waits)


def test_waiting_holds_no_database_connection(no_polling, long_poll):
    long_poll()

    until(lambda: waiting() == 1 and sleeping())


def test_a_wait_without_work_is_an_empty_answer(long_poll):
    found = long_poll(wait_seconds=1).result(timeout=SECONDS)

    assert found == {"results": [], "retry_after_seconds": None}
    assert waiting() == 0


def test_a_closed_admission_ends_the_wait_with_its_refusal(long_poll, monkeypatch):
    monkeypatch.setattr(wakeups, "POLL_SECONDS", 0.02)
    answer = long_poll()
    until(lambda: waiting() == 1)

    Agent.objects.filter(name="hermes").update(admission="closed", admission_generation=2)

    assert answer.result(timeout=SECONDS)["reason"] == "ADMISSION_CLOSED"


def test_two_waiting_workers_never_get_the_same_job(no_polling, long_poll, make_job):
    answers = [long_poll("w1"), long_poll("w2")]
    until(lambda: waiting() == 2 and sleeping())
    make_job()
    wakeups.announce(Agent.objects.get(name="hermes").pk)

    until(lambda: any(answer.done() for answer in answers))
    assert Job.objects.get().attempt == 1
    make_job()
    wakeups.announce(Agent.objects.get(name="hermes").pk)

    found = [answer.result(timeout=SECONDS)["results"] for answer in answers]
    assert sorted(item["job"]["task_id"] for items in found for item in items) == [
        "task-1",
        "task-2",
    ]


def test_a_command_stops_listening_before_its_database_goes(world, monkeypatch):
    def listens() -> bool:
        return any(thread.name == "wakeups" for thread in threading.enumerate())

    class Server:
        def release(self) -> None:
            listening.append(listens())

    def run(argv: list[str]) -> None:
        wakeups.announce(1)
        listening.append(listens())

    listening: list[bool] = []
    monkeypatch.setattr(embedded, "provide", Server)
    monkeypatch.setattr(management, "execute_from_command_line", run)
    monkeypatch.setattr(sys, "argv", ["manage.py", "requeue"])

    manage.main()

    assert listening == [True, False]
