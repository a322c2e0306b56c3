"""How often a call goes to the database: what makes a call fast is pinned here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from uuid_utils.compat import uuid7

from tests.client import Api

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def round_trips(exactly: int) -> Iterator[None]:
    """Count what goes over the wire. A BEGIN travels with the first statement after it."""
    with CaptureQueriesContext(connection) as captured:
        yield
    trips = [query["sql"] for query in captured if query["sql"] != "BEGIN"]
    assert len(trips) == exactly, "\n".join(trips)


@pytest.fixture
def worker(hermes_token: str, make_job) -> Api:
    for _ in range(4):
        make_job()
    worker = Api(hermes_token)
    # The first calls make the implicit session and note that the token is in use.
    worker.post("/v1/jobs/task-4/claim", {"worker_id": "w1"})
    return worker


def test_a_claim_and_a_completion_are_four_round_trips_each(worker):
    with round_trips(4):
        claim = worker.post("/v1/jobs/task-1/claim", {"worker_id": "w1"}).json()
    authority = {"attempt": 1, "fencing_token": claim["fencing_token"]}
    with round_trips(4):
        worker.post("/v1/jobs/task-1/complete", authority | {"result": 1})


def test_a_keyed_claim_of_the_next_job_is_seven_round_trips(worker):
    with round_trips(7):
        body = worker.post("/v1/claims", {"worker_id": "w1"}, Idempotency_Key=str(uuid7())).json()
    assert len(body["results"]) == 1


def test_a_batch_of_heartbeats_is_one_statement_after_the_authentication(worker):
    beats = [{"task_id": f"task-{n}", "attempt": 1, "fencing_token": 1} for n in range(1, 5)]
    with round_trips(2):
        worker.post("/v1/leases/heartbeat", {"leases": beats})


def test_a_read_is_two_round_trips(worker):
    with round_trips(2):
        worker.get("/v1/jobs/task-1")
