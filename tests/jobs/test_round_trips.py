"""How often a call goes to the database: what makes a call fast is pinned here.

Counted on the wire itself, between the service and the server.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from django.db import connection
from uuid_utils.compat import uuid7

from governance.core import digests
from governance.money import limiting
from jobs import executions
from tests.client import Api, timeless
from tests.jobs.governed import TEST
from tests.wire import wire_to

pytestmark = pytest.mark.django_db(transaction=True)

#: Of the move alone: gate, locks, reads, windows, decision, and what is written of the job.
ROUTE_TRIPS = 7
Trips = Callable[[int], AbstractContextManager[None]]


@pytest.fixture
def round_trips(monkeypatch: pytest.MonkeyPatch) -> Iterator[Trips]:
    """Count what goes over the wire: `with round_trips(4): ...` fails on any other number."""
    # A socket's path is short.
    folder = Path(tempfile.mkdtemp(prefix="fp-"))
    server = Path(connection.settings_dict["HOST"]) / ".s.PGSQL.5432"
    connection.close()
    monkeypatch.setitem(connection.settings_dict, "HOST", str(folder))

    with wire_to(server, folder) as wire:

        @contextmanager
        def counted(exactly: int) -> Iterator[None]:
            before = wire.trips
            yield
            assert wire.trips - before == exactly

        yield counted
        connection.close()
    shutil.rmtree(folder)


@pytest.fixture
def worker(round_trips: Trips, hermes_token: str, make_job) -> Api:
    for _ in range(4):
        make_job()
    worker = Api(hermes_token)
    # The first calls make the implicit session, note that the token is in use, and prepare what
    # is executed.
    claim = worker.post("/v1/jobs/task-4/claim", {"worker_id": "w1"}, Idempotency_Key=key())
    worker.post("/v1/jobs/task-4/complete", authority(claim), Idempotency_Key=key())
    return worker


def key() -> str:
    return str(uuid7())


def authority(claim) -> dict[str, object]:
    token = claim.json()["fencing_token"]
    return {"worker_id": "w1", "attempt": 1, "fencing_token": token, "result": 1}


@pytest.mark.parametrize("keyed", [False, True], ids=["plain", "keyed"])
@pytest.mark.parametrize("matched", [False, True], ids=["", "if-match"])
@pytest.mark.parametrize("bounded", [False, True], ids=["", "request-timeout"])
def test_a_claim_and_a_completion_are_four_round_trips_each(
    worker, round_trips, keyed, matched, bounded
):
    def headers(revision: int) -> dict[str, str]:
        tag = {"If_Match": f'"r{revision}"'} if matched else {}
        tag |= {"Request_Timeout_Seconds": "5"} if bounded else {}
        return tag | ({"Idempotency_Key": key()} if keyed else {})

    with round_trips(4):
        claim = worker.post("/v1/jobs/task-1/claim", {"worker_id": "w1"}, **headers(1))
    with round_trips(4):
        done = worker.post("/v1/jobs/task-1/complete", authority(claim), **headers(2))

    assert (claim.json()["outcome"], done.json()["outcome"]) == ("claimed", "recorded")


def test_a_completion_that_names_only_the_worker_is_four_round_trips(worker, round_trips):
    worker.post("/v1/jobs/task-1/claim", {"worker_id": "w1"})
    with round_trips(4):
        done = worker.post("/v1/jobs/task-1/complete", {"worker_id": "w1", "result": 1})
    assert done.json()["outcome"] == "recorded"


def test_a_claim_of_the_next_job_is_four_round_trips_with_its_key(worker, round_trips):
    with round_trips(4):
        body = worker.post("/v1/claims", {"worker_id": "w1"}, Idempotency_Key=key()).json()
    assert len(body["results"]) == 1


@pytest.mark.parametrize("path", ["/v1/claims", "/v1/jobs/task-1/claim"])
def test_a_stored_answer_is_three_round_trips(worker, round_trips, path):
    """Also that of a claim, which is rendered of the rows as they stand."""
    same, claim = key(), {"worker_id": "w1"}
    first = worker.post(path, claim, Idempotency_Key=same)
    with round_trips(3):
        again = worker.post(path, claim, Idempotency_Key=same)
    assert again["Idempotent-Replayed"] == "true"
    assert timeless(again.content) == timeless(first.content)


def test_a_batch_of_heartbeats_is_one_statement_after_the_authentication(worker, round_trips):
    beats = [{"task_id": f"task-{n}", "attempt": 1, "fencing_token": 1} for n in range(1, 5)]
    with round_trips(2):
        worker.post("/v1/leases/heartbeat", {"leases": beats})


def test_a_read_is_two_round_trips(worker, round_trips):
    with round_trips(2):
        worker.get("/v1/jobs/task-1")


def test_a_limit_costs_a_route_one_round_trip_and_none_where_there_is_no_limit(
    round_trips, governed, make_job
):
    jobs = [make_job() for _ in range(3)]
    for job in jobs:
        governed.claim(job)
    governed.route(jobs[0])

    def routed(job):
        binding = governed.binding(job)
        call = digests.route_request_id(external_request_id=binding.external_request_id, call=1)
        return {"entry": governed.entry, "binding": binding, "route_request_id": call}

    first, second = routed(jobs[1]), routed(jobs[2])
    with round_trips(ROUTE_TRIPS):
        executions.route(**first, estimated_input_tokens=1000, max_output_tokens=1000)
    limiting.set_limit(scope="agent", key="hermes", requests_per_minute=9, **TEST)
    with round_trips(ROUTE_TRIPS + 1):
        executions.route(**second, estimated_input_tokens=1000, max_output_tokens=1000)
