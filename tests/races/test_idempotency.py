"""The same request twice at once: one effect, and the same answer for whoever asks again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from unittest import mock
from uuid import uuid4

import pytest
from django.db import connections, transaction
from uuid_utils.compat import uuid7

from governance.core import clock, idempotency
from governance.core.errors import IdempotencyInFlight, RiskNotAllowed
from governance.core.idempotency import Key
from governance.core.models import AuditEvent, IdempotencyRecord
from governance.relay import retention
from jobs import transitions
from jobs.models import Job
from tests.client import Api, refused, timeless

pytestmark = pytest.mark.django_db(transaction=True)

WAIT_SECONDS = 20.0
#: A second request that waited for the first one's locks would be refused after this.
LOCK_TIMEOUT_SECONDS = 2.0
CALLERS = 100
THREADS = 16
#: What takes the key without a lock: the control of the tests below.
NO_LOCK = "SELECT true AS taken, %s::int, %s::text"

TASK: dict[str, Any] = {
    "task_id": "t-1",
    "source": "manual",
    "title": "A title",
    "goal": "A goal that is long enough",
    "task_type": "content_prep",
    "risk_tier": "low",
}


@pytest.fixture
def background() -> Iterator[Callable[..., Future[Any]]]:
    """Run a function in a thread with a connection of its own."""
    pool = ThreadPoolExecutor(max_workers=THREADS)

    def submit(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
        def run() -> Any:
            try:
                return function(*args, **kwargs)
            finally:
                connections.close_all()

        return pool.submit(run)

    yield submit
    pool.shutdown(wait=False)


class Held:
    """A move that stops before it commits, until it is let go."""

    def __init__(self, move: Callable[..., Any]) -> None:
        self.move, self.calls = move, 0
        self.arrived = threading.Semaphore(0)
        self.go = threading.Event()

    def __call__(self, **named: Any) -> Any:
        self.calls += 1
        outcome = self.move(**named)
        self.arrived.release()
        assert self.go.wait(WAIT_SECONDS)
        return outcome


def test_a_key_in_flight_is_refused_at_once_and_replayed_afterwards(
    submitter_token: str, background: Callable[..., Future[Any]]
):
    ops, key = Api(submitter_token), str(uuid7())
    held = Held(transitions.intake)
    with mock.patch("jobs.transitions.intake", held):
        first = background(ops.post, "/v1/jobs", TASK, Idempotency_Key=key)
        assert held.arrived.acquire(timeout=WAIT_SECONDS)

        meanwhile = ops.post("/v1/jobs", TASK, Idempotency_Key=key)
        held.go.set()
        answer = first.result(WAIT_SECONDS)

    assert refused(meanwhile) == (409, IdempotencyInFlight.reason)
    assert meanwhile["Retry-After"] == "1"
    assert meanwhile.json()["retry"]["rule"] == "same_key"
    again = ops.post("/v1/jobs", TASK, Idempotency_Key=key)
    assert (answer.status_code, again.content) == (201, answer.content)
    assert (held.calls, Job.objects.count()) == (1, 1)


def test_without_the_lock_on_the_key_a_request_is_executed_twice(
    hermes_token: str, submitter_token: str, background: Callable[..., Future[Any]]
):
    """The control: two claims of the same key each make an attempt, and one of them is lost."""
    worker, key = Api(hermes_token), str(uuid7())
    # Makes the implicit session, for which the two would wait for one another.
    worker.post("/v1/claims", {"worker_id": "w1"}, Idempotency_Key=str(uuid7()))
    for number in (1, 2):
        Api(submitter_token).post("/v1/jobs", TASK | {"task_id": f"t-{number}"})
    held = Held(transitions.claim_next)
    with (
        mock.patch.object(idempotency, "TAKE", NO_LOCK),
        mock.patch.object(Key, "unless_answered", lambda key, statement: statement),
        mock.patch("jobs.transitions.claim_next", held),
    ):
        calls = [
            background(worker.post, "/v1/claims", {"worker_id": "w1"}, Idempotency_Key=key)
            for _ in range(2)
        ]
        for _ in calls:
            assert held.arrived.acquire(timeout=WAIT_SECONDS)
        held.go.set()
        statuses = sorted(call.result(WAIT_SECONDS).status_code for call in calls)

    assert held.calls == 2
    # The database refuses the second record, so its claim is undone: late, and not politely.
    assert statuses == [200, 500]


def test_a_hundred_identical_intakes_make_one_job(
    submitter_token: str, background: Callable[..., Future[Any]]
):
    ops = Api(submitter_token)

    answers = [background(ops.post, "/v1/jobs", TASK) for _ in range(CALLERS)]
    found = [answer.result(WAIT_SECONDS) for answer in answers]

    assert sorted(answer.status_code for answer in found) == [200] * (CALLERS - 1) + [201]
    assert len({answer.json()["job"]["job_id"] for answer in found}) == 1
    job = Job.objects.get()
    assert AuditEvent.objects.filter(subject=job.audit_subject).count() == 1


def test_a_hundred_times_the_same_key_is_one_effect_and_one_answer(
    submitter_token: str, background: Callable[..., Future[Any]]
):
    ops, key = Api(submitter_token), str(uuid7())

    def until_answered() -> Any:
        while True:
            answer = ops.post("/v1/jobs", TASK, Idempotency_Key=key)
            if answer.status_code != 409:
                return answer

    answers = [background(until_answered) for _ in range(CALLERS)]
    found = [answer.result(WAIT_SECONDS) for answer in answers]

    assert {answer.status_code for answer in found} == {201}
    assert len({answer.content for answer in found}) == 1
    assert sum(answer.has_header("Idempotent-Replayed") for answer in found) == CALLERS - 1
    assert (Job.objects.count(), IdempotencyRecord.objects.count()) == (1, 1)


def test_a_refusal_leaves_its_record_and_nothing_of_its_effect(
    openclaw_token: str, make_job: Callable[..., Job]
):
    make_job()
    before = AuditEvent.objects.count()

    answer = Api(openclaw_token).post(
        "/v1/jobs/task-1/claim", {"worker_id": "w1"}, Idempotency_Key=str(uuid7())
    )

    assert refused(answer) == (403, "WRONG_OWNER")
    assert IdempotencyRecord.objects.get().status == 403
    assert AuditEvent.objects.count() == before
    assert Job.objects.get().state == "queued"


def test_a_repetition_waits_for_nobody_who_is_at_the_job(
    hermes_token: str, make_job: Callable[..., Job], background: Callable[..., Future[Any]]
):
    make_job()
    worker, key = Api(hermes_token), str(uuid7())
    claim = {"worker_id": "w1"}
    first = worker.post("/v1/jobs/task-1/claim", claim, Idempotency_Key=key)
    with transaction.atomic():
        Job.objects.select_for_update(no_key=True).get()

        again = background(worker.post, "/v1/jobs/task-1/claim", claim, Idempotency_Key=key)

        assert timeless(again.result(WAIT_SECONDS).content) == timeless(first.content)


def test_a_repetition_takes_no_claimable_job_from_others(
    hermes_token: str, make_job: Callable[..., Job], background: Callable[..., Future[Any]]
):
    """While it looks, up to its commit, another worker claims what is left."""
    make_job()
    worker, key = Api(hermes_token), str(uuid7())
    first = worker.post("/v1/claims", {"worker_id": "w1"}, Idempotency_Key=key)
    make_job()
    looked, go, judge = threading.Event(), threading.Event(), Key.judge

    def judged_late(*found: Any, **asks: Any) -> None:
        looked.set()
        assert go.wait(WAIT_SECONDS)
        judge(*found, **asks)

    with mock.patch.object(Key, "judge", judged_late):
        again = background(worker.post, "/v1/claims", {"worker_id": "w1"}, Idempotency_Key=key)
        assert looked.wait(WAIT_SECONDS)
        with transaction.atomic():
            free = Job.objects.select_for_update(no_key=True, skip_locked=True)
            assert [job.task_id for job in free.filter(state="queued")] == ["task-2"]
        go.set()

        assert timeless(again.result(WAIT_SECONDS).content) == timeless(first.content)


def test_a_key_in_flight_is_refused_at_once_though_its_job_is_locked(
    hermes_token: str, make_job: Callable[..., Job], background: Callable[..., Future[Any]]
):
    make_job()
    worker, key = Api(hermes_token), str(uuid7())
    # Makes the implicit session, for which the two would wait for one another.
    worker.post(
        "/v1/claims", {"worker_id": "w1", "task_types": ["healthcheck"]}, Idempotency_Key=key
    )
    held = Held(transitions.claim)
    with mock.patch("jobs.transitions.claim", held):
        first = background(
            worker.post, "/v1/jobs/task-1/claim", {"worker_id": "w1"}, Idempotency_Key=key
        )
        assert held.arrived.acquire(timeout=WAIT_SECONDS)
        started = time.monotonic()
        meanwhile = background(
            worker.post, "/v1/jobs/task-1/claim", {"worker_id": "w1"}, Idempotency_Key=key
        ).result(WAIT_SECONDS)
        seconds = time.monotonic() - started
        held.go.set()

    assert refused(meanwhile) == (409, IdempotencyInFlight.reason)
    assert seconds < LOCK_TIMEOUT_SECONDS
    assert first.result(WAIT_SECONDS).json()["outcome"] == "claimed"


# --- a repetition and the pruning of its record --------------------------------------------------


@pytest.fixture
def emptied(
    submitter_token: str, background: Callable[..., Future[Any]]
) -> Iterator[Callable[[], Future[Any]]]:
    """Give a function that repeats a request while its record, of long ago, is being emptied.

    Whoever prunes has not committed until the test is over.
    """
    ops, key = Api(submitter_token), str(uuid7())
    ops.post("/v1/jobs", TASK, Idempotency_Key=key)
    IdempotencyRecord.objects.update(created_at=clock.now() - timedelta(days=8))
    with transaction.atomic():
        assert retention.prune().bodies == 1
        yield lambda: background(ops.post, "/v1/jobs", TASK, Idempotency_Key=key)


def test_a_repetition_waits_for_nobody_who_prunes_and_is_not_executed(
    emptied: Callable[[], Future[Any]],
):
    """It is given the answer that is not yet gone; once it is, it is refused."""
    again = emptied().result(WAIT_SECONDS)

    assert (again.status_code, again["Idempotent-Replayed"]) == (201, "true")
    assert Job.objects.count() == 1


def test_a_repetition_that_locked_its_record_would_wait_for_who_prunes(
    emptied: Callable[[], Future[Any]],
):
    """The control: what the record is read with takes no lock."""
    with mock.patch.object(idempotency, "FIND", f"{idempotency.FIND} FOR SHARE"):
        again = emptied().result(WAIT_SECONDS)

    assert refused(again) == (503, "CONTENTION")


def test_a_tombstone_that_goes_while_its_key_is_asked_for_is_not_executed(
    submitter_token: str, background: Callable[..., Future[Any]]
):
    """Its record is read as it was, since whoever takes it away has not committed."""
    ops, key = Api(submitter_token), str(uuid4())
    ops.post("/v1/jobs", TASK, Idempotency_Key=key)
    made = clock.now() - timedelta(days=92)
    IdempotencyRecord.objects.update(
        created_at=made, expires_at=made + timedelta(days=90), body=None
    )
    with transaction.atomic():
        assert retention.prune().tombstones == 1
        again = background(ops.post, "/v1/jobs", TASK, Idempotency_Key=key).result(WAIT_SECONDS)

    assert refused(again) == (422, "IDEMPOTENCY_KEY_EXPIRED")
    # From now on the key is one that nobody has used, and the job itself is what is known.
    late = ops.post("/v1/jobs", TASK, Idempotency_Key=key)
    assert (late.status_code, late.json()["outcome"]) == (200, "already_queued")


def test_a_rival_answer_is_given_where_a_refusal_would_have_been_kept(
    hermes_token: str, make_job: Callable[..., Job], background: Callable[..., Future[Any]]
):
    """Between the refused move and the keeping of its refusal the key is free for a moment."""
    make_job()
    worker, key, claim = Api(hermes_token), str(uuid7()), {"worker_id": "w1", "owner": "hermes"}
    keep, first = idempotency._keep_refusal, []

    def kept_late(*refused_: Any) -> Any:
        if not first:
            first.append(None)
            call = background(worker.post, "/v1/jobs/task-1/claim", claim, Idempotency_Key=key)
            first[0] = call.result(WAIT_SECONDS)
        return keep(*refused_)

    with (
        mock.patch.object(idempotency, "_keep_refusal", kept_late),
        mock.patch("jobs.transitions.claims._check_risk", side_effect=[RiskNotAllowed(), None]),
    ):
        answer = worker.post("/v1/jobs/task-1/claim", claim, Idempotency_Key=key)

    assert (answer.status_code, answer["Idempotent-Replayed"]) == (200, "true")
    # Told of by who did not hold the agent's gate for it: the fact, and neither token nor lease.
    assert (answer.json()["outcome"], answer.json()["lease"]) == ("claimed", None)
    assert first[0].json()["fencing_token"] == 1


def test_two_principals_use_one_key_and_get_each_its_own_answer(
    hermes_token: str, openclaw_token: str, make_job: Callable[..., Job]
) -> None:
    """Of both the request is the same, byte for byte."""
    make_job(), make_job(task_type="rewrite")
    key, body = str(uuid7()), {"worker_id": "w", "limit": 1}

    answers = [
        Api(token).post("/v1/claims", body, Idempotency_Key=key).json()["results"]
        for token in (hermes_token, openclaw_token)
    ]

    assert [result["job"]["owner"] for [result] in answers] == ["hermes", "openclaw"]
    assert IdempotencyRecord.objects.filter(key=key).count() == 2
    again = Api(openclaw_token).post("/v1/claims", body, Idempotency_Key=key)
    assert again.json()["results"][0]["job"]["owner"] == "openclaw"
