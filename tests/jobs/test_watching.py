"""Reads that wait: until a job is over or has changed, bounded in number, holding nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from django.db import connection, connections

from agents.entry import Entry
from agents.principals import Principal
from jobs import transitions, watching
from jobs.models import Job
from jobs.transitions import sweeping
from tests.client import Api, refused
from tests.work import ANNA, expire_lease

pytestmark = pytest.mark.django_db(transaction=True)

SECONDS = 15.0
LONG = 25
Reads = Callable[..., Future[Any]]


@pytest.fixture(autouse=True)
def _own_board(settings: Any) -> Iterator[None]:
    settings.WEB_THREADS = 80
    yield
    watching.close()


@pytest.fixture
def reading(submitter_token: str) -> Iterator[Reads]:
    """Read a job from a thread of its own: `reading("task-1?until=changed")`; waits long."""
    pool = ThreadPoolExecutor(max_workers=20)

    def call(
        path: str = "task-1?until=changed", token: str = submitter_token, **headers: str
    ) -> Future[Any]:
        def send() -> Any:
            try:
                wait = "" if "wait_seconds" in path else f"&wait_seconds={LONG}"
                return Api(token).get(f"/v1/jobs/{path}{wait}", **headers)
            finally:
                connections.close_all()

        return pool.submit(send)

    yield call
    watching.close()
    pool.shutdown(wait=True)


def until(true: Callable[[], bool]) -> None:
    """Wait, for a bounded time, for what another thread is about to do."""
    deadline = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < deadline
        threading.Event().wait(0.005)


def watches() -> int:
    return len(watching._here().watches)


def state(answer: Future[Any]) -> tuple[int, str, int]:
    """Return status, state and revision of an answer, which has to come by itself."""
    response = answer.result(timeout=SECONDS)
    body = response.json()
    assert response["ETag"] == f'"r{body["revision"]}"'
    return response.status_code, body["state"], body["revision"]


# --- what wakes ----------------------------------------------------------------------------------


def by_a_claim(job: Job, worker: Entry) -> None:
    transitions.claim(entry=worker, task_id=job.task_id, owner="hermes")


def by_a_person(job: Job, worker: Entry) -> None:
    transitions.pause(task_id=job.task_id, **ANNA)


def by_a_control_call(job: Job, worker: Entry) -> None:
    transitions.stop(task_id=job.task_id, actor="submitter:ops", reason="no longer wanted")


@pytest.mark.parametrize(
    ("change", "becomes"),
    [(by_a_claim, "active"), (by_a_person, "queued"), (by_a_control_call, "stopped")],
)
def test_a_change_ends_the_wait_whoever_makes_it(
    reading: Reads, make_job: Any, hermes: Principal, change: Any, becomes: str
) -> None:
    job = make_job()
    answer = reading()
    until(lambda: watches() == 1)

    change(job, Entry(hermes, "w1"))

    assert state(answer) == (200, becomes, 2)
    until(lambda: watches() == 0)


def test_what_the_sweeper_does_ends_the_wait(
    reading: Reads, make_job: Any, hermes: Principal
) -> None:
    job = make_job()
    by_a_claim(job, Entry(hermes, "w1"))
    answer = reading()
    until(lambda: watches() == 1)

    expire_lease(job)
    sweeping.sweep()

    assert state(answer) == (200, "queued", 3)


def test_a_change_in_another_process_ends_the_wait(reading: Reads, make_job: Any) -> None:
    """Nothing of it is known here but the row."""
    make_job()
    answer = reading()
    until(lambda: watches() == 1)

    Job.objects.update(revision=9)

    assert state(answer) == (200, "queued", 9)


def test_until_terminal_other_changes_do_not_end_the_wait(
    reading: Reads, make_job: Any, hermes: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "POLL_SECONDS", 0.01)
    job, worker = make_job(), Entry(hermes, "w1")
    answer = reading("task-1?until=terminal")
    until(lambda: watches() == 1)

    by_a_claim(job, worker)
    [watch] = watching._here().watches
    until(lambda: watch.revision == 2)
    assert not answer.done()
    transitions.complete(
        entry=worker,
        completions=[{"task_id": "task-1", "attempt": 1, "fencing_token": 1, "result": {"n": 1}}],
    )

    assert state(answer) == (200, "completed", 3)


def test_until_is_terminal_where_nothing_else_is_said(reading: Reads, make_job: Any) -> None:
    make_job()
    transitions.stop(task_id="task-1", **ANNA)
    assert state(reading("task-1?")) == (200, "stopped", 2)


def test_what_has_changed_since_the_callers_revision_is_answered_at_once(
    reading: Reads, make_job: Any
) -> None:
    make_job()
    by_a_person(Job.objects.get(), None)  # type: ignore[arg-type]
    assert state(reading(If_None_Match='"r1"')) == (200, "queued", 2)


def test_a_change_between_the_first_look_and_the_watch_is_seen(
    reading: Reads, make_job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make_job()
    join = watching._Board.join

    def late(board: Any, watch: watching.Watch, watches_max: int) -> bool:
        by_a_person(job, None)  # type: ignore[arg-type]
        return join(board, watch, watches_max)

    monkeypatch.setattr(watching._Board, "join", late)
    assert state(reading()) == (200, "queued", 2)


# --- when the time is over -----------------------------------------------------------------------


def test_when_the_time_is_over_the_job_is_answered_as_it_stands(
    reading: Reads, make_job: Any
) -> None:
    make_job()
    assert state(reading("task-1?until=changed&wait_seconds=1")) == (200, "queued", 1)
    assert watches() == 0


def test_and_with_304_to_who_has_it_already(reading: Reads, make_job: Any) -> None:
    make_job()
    path = "task-1?until=changed&wait_seconds=1"
    answer = reading(path, If_None_Match='"r1"').result(timeout=SECONDS)
    assert (answer.status_code, answer.content, answer["ETag"]) == (304, b"", '"r1"')
    assert not answer.has_header("Content-Type")


def test_a_wait_ends_within_the_time_of_its_caller(reading: Reads, make_job: Any) -> None:
    make_job()
    answer = reading("task-1?until=changed", Request_Timeout_Seconds="1")
    assert state(answer) == (200, "queued", 1)


# --- without waiting -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ('"r1"', 304),
        ('W/"r1"', 304),
        ("r1", 304),
        ('"r0", "other" ,W/"r1"', 304),
        ("*", 304),
        ('"r2"', 200),
        ('"other,thing"', 200),
    ],
)
def test_a_read_is_not_modified_where_its_caller_has_the_revision(
    submitter_token: str, make_job: Any, sent: str, status: int
) -> None:
    make_job()
    answer = Api(submitter_token).get("/v1/jobs/task-1", If_None_Match=sent)
    assert (answer.status_code, answer["ETag"]) == (status, '"r1"')


@pytest.mark.parametrize("sent", ["", "one two", '"r1" "', ","])
def test_a_list_of_tags_that_is_none_is_refused(
    submitter_token: str, make_job: Any, sent: str
) -> None:
    make_job()
    answer = Api(submitter_token).get("/v1/jobs/task-1", If_None_Match=sent)
    assert refused(answer) == (400, "INVALID_ARGUMENT")


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("wait_seconds=31", "wait_seconds"),
        ("wait_seconds=-1", "wait_seconds"),
        ("wait_seconds=1.5", "wait_seconds"),
        ("wait_seconds=", "wait_seconds"),
        ("wait_seconds=1&until=over", "until"),
        ("until=", "until"),
    ],
)
def test_a_parameter_that_is_not_valid_is_named(
    submitter_token: str, make_job: Any, query: str, name: str
) -> None:
    make_job()
    answer = Api(submitter_token).get(f"/v1/jobs/task-1?{query}")
    assert refused(answer) == (400, "INVALID_ARGUMENT")
    assert [fault["pointer"] for fault in answer.json()["errors"]] == [f"/{name}"]


def test_who_may_not_see_the_job_does_not_wait(
    reading: Reads, make_job: Any, issue: Any, openclaw_token: str
) -> None:
    make_job()
    stranger = issue(submitter="stranger")
    assert refused(reading(token=stranger).result(timeout=SECONDS)) == (404, "NOT_FOUND")
    assert refused(reading(token=openclaw_token).result(timeout=SECONDS)) == (403, "WRONG_OWNER")


# --- what it costs -------------------------------------------------------------------------------


def test_four_of_one_principal_wait_and_the_fifth_is_answered_at_once(
    reading: Reads, make_job: Any, hermes_token: str
) -> None:
    make_job()
    waits = [reading() for _ in range(watching.PER_PRINCIPAL_MAX)]
    until(lambda: watches() == watching.PER_PRINCIPAL_MAX)

    assert state(reading()) == (200, "queued", 1)
    # The place is that of a principal, and others have theirs.
    reading(token=hermes_token)
    until(lambda: watches() == watching.PER_PRINCIPAL_MAX + 1)
    assert not any(wait.done() for wait in waits)


def test_an_eighth_of_the_threads_wait(reading: Reads, make_job: Any, settings: Any) -> None:
    settings.WEB_THREADS = 16
    make_job()
    waits = [reading(), reading()]
    until(lambda: watches() == 2)

    assert state(reading()) == (200, "queued", 1)
    assert not any(wait.done() for wait in waits)


def test_waiting_holds_no_database_connection(reading: Reads, make_job: Any) -> None:
    make_job()
    before = connections_open()
    for _ in range(3):
        reading()
    until(lambda: watches() == 3)
    # One for all of them, which asks for all of them.
    until(lambda: connections_open() == before + 1)


def test_the_connection_goes_some_time_after_the_last_who_watched(
    reading: Reads, make_job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "IDLE_SECONDS", 0.05)
    make_job()
    reading("task-1?until=changed&wait_seconds=1").result(timeout=SECONDS)
    until(lambda: watching._here().thread is None)
    # And comes again.
    answer = reading()
    until(lambda: watches() == 1)
    by_a_person(Job.objects.get(), None)  # type: ignore[arg-type]
    assert state(answer) == (200, "queued", 2)


def test_who_waits_when_the_watch_is_closed_is_answered_with_the_job_as_it_stands(
    reading: Reads, make_job: Any
) -> None:
    make_job()
    answer = reading(f"task-1?until=changed&wait_seconds={LONG}")
    until(lambda: watches() == 1)

    watching.close()

    # Far before its time is over.
    assert state(answer) == (200, "queued", 1)


def test_without_the_connection_who_waits_asks_for_itself(
    reading: Reads, make_job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def out(*_: Any, **__: Any) -> Any:
        raise psycopg.OperationalError("planted")

    monkeypatch.setattr(watching._Board, "_look", out)
    monkeypatch.setattr(watching, "RECONNECT_SECONDS", 0.02)
    make_job()
    answer = reading()
    until(lambda: watches() == 1)
    by_a_person(Job.objects.get(), None)  # type: ignore[arg-type]
    assert state(answer) == (200, "queued", 2)


def connections_open() -> int:
    """Count the connections to this database, beside the test's own."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
            " AND query NOT LIKE 'LISTEN%' AND query NOT LIKE '%pg_notify%'"
        )
        return int(cursor.fetchone()[0])
