"""`Request-Timeout-Seconds`: how long a caller waits, and what it is told when that is over."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection, connections, transaction
from uuid_utils.compat import uuid7

from governance.core.models import AuditEvent, IdempotencyRecord
from jobs.models import Attempt, Job
from tests.client import Api, refused

pytestmark = pytest.mark.django_db(transaction=True)

SECONDS = 10.0


@contextmanager
def job_locked() -> Iterator[None]:
    """Hold every job's row on another connection."""
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SELECT FROM jobs_job FOR UPDATE")
                held.set()
                done.wait(30)
        finally:
            connections.close_all()

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(SECONDS)
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_a_claim_that_waits_longer_than_its_caller_is_undone_and_says_so(
    hermes_token: str, make_job: Any
) -> None:
    make_job()
    key = str(uuid7())
    worker, claim = Api(hermes_token), {"worker_id": "w1"}
    with job_locked():
        answer = worker.post(
            "/v1/jobs/task-1/claim", claim, Idempotency_Key=key, Request_Timeout_Seconds="1"
        )

    problem = answer.json()
    assert refused(answer) == (504, "DEADLINE_EXCEEDED")
    assert (problem["code"], problem["effect"]) == ("DEADLINE_EXCEEDED", "none")
    assert problem["retry"]["rule"] == "reconcile"
    assert not Attempt.objects.exists() and not IdempotencyRecord.objects.exists()
    assert not AuditEvent.objects.filter(action="job.claimed").exists()
    # The key is not used up.
    assert worker.post("/v1/jobs/task-1/claim", claim, Idempotency_Key=key).status_code == 200


def test_without_the_header_the_same_wait_is_contention(hermes_token: str, make_job: Any) -> None:
    make_job()
    with job_locked():
        answer = Api(hermes_token).post("/v1/jobs/task-1/claim", {"worker_id": "w1"})
    assert refused(answer) == (503, "CONTENTION")


def test_a_write_of_the_orm_is_bounded_as_well(submitter_token: str, issue: Any) -> None:
    """Nothing but the operations' performing knows of the bound, whatever they are made of."""
    operator = Api(issue(agent="hermes", scopes=["admit"]))
    body = {"state": "draining", "barrier_id": "b", "expected_generation": 1, "reason": "r"}
    with _agent_locked():
        answer = operator.post(
            "/v1/agents/hermes/admission",
            body,
            Idempotency_Key=str(uuid7()),
            Request_Timeout_Seconds="1",
        )
    assert refused(answer) == (504, "DEADLINE_EXCEEDED")


@contextmanager
def _agent_locked() -> Iterator[None]:
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SELECT FROM agents_agent FOR UPDATE")
                held.set()
                done.wait(30)
        finally:
            connections.close_all()

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(SECONDS)
    try:
        yield
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize("value", ["0", "61", "-1", "1.5", "soon", "", "5, 5", "٣", "007"])
def test_a_value_that_is_no_whole_number_in_its_bounds_is_refused(
    submitter_token: str, make_job: Any, value: str
) -> None:
    make_job()
    answer = Api(submitter_token, **{"Request-Timeout-Seconds": value}).get("/v1/jobs/task-1")
    assert refused(answer) == (400, "INVALID_ARGUMENT")
    assert "Request-Timeout-Seconds" in answer.json()["detail"]


@pytest.mark.parametrize("value", ["1", "60", " 30 "])
def test_a_call_with_time_enough_is_answered_as_without(
    submitter_token: str, make_job: Any, value: str
) -> None:
    make_job()
    api = Api(submitter_token)
    bounded = Api(submitter_token, **{"Request-Timeout-Seconds": value})
    for path in ("/v1/jobs/task-1", "/v1/jobs", "/v1/jobs/task-1/events"):
        assert bounded.get(path).json() == api.get(path).json()


def test_a_long_poll_ends_within_the_time_of_its_caller(hermes_token: str) -> None:
    started = time.monotonic()
    answer = Api(hermes_token).post(
        "/v1/claims",
        {"worker_id": "w1", "wait_seconds": 30},
        Idempotency_Key=str(uuid7()),
        Request_Timeout_Seconds="1",
    )
    assert answer.json()["results"] == []
    assert time.monotonic() - started < 30
    assert not Job.objects.exists()
