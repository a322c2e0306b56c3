"""A claim repeated under its key: told what it was, and given what its caller still holds.

Source: contract, section 3.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from uuid_utils.compat import uuid7

from governance.core import clock
from governance.core.models import AuditEvent, IdempotencyRecord
from jobs import transitions
from jobs.models import Attempt, Job, Lease
from tests.client import Api, refused, timeless
from tests.jobs.governed import Governed
from tests.work import expire_lease, make_available

pytestmark = pytest.mark.django_db

GRANTED = {"fencing_token", "lease", "envelope", "runtime", "attempt_deadline_at", "story"}


@dataclass
class Claimed:
    """A claim under a key, and its first answer."""

    worker: Api
    path: str
    body: dict[str, Any]
    key: str = field(default_factory=lambda: str(uuid7()))
    first: Any = None

    def ask(self, worker: Api | None = None, **headers: str) -> Any:
        """Send the claim; return the response."""
        return (worker or self.worker).post(
            self.path, self.body, idempotency_key=self.key, **headers
        )

    def item(self, response: Any) -> dict[str, Any]:
        """Return the one claim of an answer."""
        assert response.status_code == 200
        told: dict[str, Any] = response.json()
        if "results" not in told:
            return told
        [item] = told["results"]
        assert (item["status"], told["retry_after_seconds"]) == (200, None)
        return {name: value for name, value in item.items() if name != "status"}

    def again(self, worker: Api | None = None) -> dict[str, Any]:
        """Return the one claim of the answer to a repetition, which writes nothing."""
        before = AuditEvent.objects.count(), list(Attempt.objects.values())
        response = self.ask(worker)
        assert response["Idempotent-Replayed"] == "true"
        assert (AuditEvent.objects.count(), list(Attempt.objects.values())) == before
        return self.item(response)


@pytest.fixture(params=["/v1/claims", "/v1/jobs/task-1/claim"], ids=["next", "by id"])
def path(request: Any) -> str:
    return str(request.param)


@pytest.fixture(params=[False, True], ids=["names", "whole answer"])
def of_before(request: Any) -> bool:
    """Whether the record is of a release that kept the whole answer."""
    return bool(request.param)


@pytest.fixture
def claimed(hermes_token: str, make_job: Callable[..., Job], path: str, of_before: bool) -> Claimed:
    make_job()
    claim = Claimed(Api(hermes_token), path, {"worker_id": "w1"})
    claim.first = claim.ask()
    if of_before:
        IdempotencyRecord.objects.update(body=claim.first.content)
    return claim


def gone(claimed: Claimed, again: dict[str, Any], *, state: str) -> None:
    """See that a repetition gives what the claim was, the job as it stands, and no authority."""
    assert again.keys() == {"outcome", "job", "attempt", "lease"}
    assert (again["outcome"], again["attempt"], again["lease"]) == ("claimed", 1, None)
    job = again["job"]
    assert (job["state"], job["lease"]) == (state, None)
    assert job.keys() & GRANTED == {"lease"}
    assert job["task_id"] == "task-1"


def test_of_a_claim_only_names_are_kept(claimed: Claimed, of_before: bool) -> None:
    if of_before:
        return
    token = claimed.item(claimed.first)["fencing_token"]
    name = {"outcome": "claimed", "task_id": "task-1", "attempt": 1, "fencing_token": token}
    record = IdempotencyRecord.objects.get()
    assert json.loads(bytes(record.body or b"")) == {"claims": [name]}


def test_the_holder_is_given_all_again_with_the_time_that_is_left(claimed: Claimed) -> None:
    again = claimed.ask()
    assert timeless(again.content) == timeless(claimed.first.content)

    ends = clock.now() + timedelta(seconds=100)
    Lease.objects.update(expires_at=ends)

    lease = claimed.again()["lease"]
    assert 0 < lease["ttl_seconds"] <= 100
    assert lease["expires_at"] == clock.instant(ends)
    assert Lease.objects.get().expires_at == ends


def test_a_lease_that_the_sweeper_has_ended_is_gone(claimed: Claimed) -> None:
    expire_lease(Job.objects.get())
    transitions.end_if_due(task_id="task-1")

    gone(claimed, claimed.again(), state="queued")


def test_a_lease_that_has_run_out_is_gone_swept_or_not(claimed: Claimed) -> None:
    expire_lease(Job.objects.get())

    gone(claimed, claimed.again(), state="active")


def test_the_token_of_a_later_attempt_is_told_to_nobody(claimed: Claimed) -> None:
    """Neither where another holds it, nor where the same worker does: it is another claim."""
    for number, worker in ((2, "w2"), (3, "w1")):
        expire_lease(Job.objects.get())
        transitions.end_if_due(task_id="task-1")
        make_available(Job.objects.get())
        later = claimed.worker.post("/v1/jobs/task-1/claim", {"worker_id": worker}).json()
        assert later["attempt"] == number

        again = claimed.again()

        gone(claimed, again, state="active")
        assert (again["job"]["attempt"], again["job"]["claimed_by"]) == (number, worker)


def test_what_was_delivered_stands_in_the_job(claimed: Claimed) -> None:
    item = claimed.item(claimed.first)
    done = {"worker_id": "w1", "attempt": 1, "fencing_token": item["fencing_token"], "result": 7}
    claimed.worker.post("/v1/jobs/task-1/complete", done)

    again = claimed.again()

    gone(claimed, again, state="completed")
    assert again["job"]["result"] == 7


def test_the_story_is_told_again_to_a_later_attempt(
    claimed: Claimed, hermes_token: str, of_before: bool
) -> None:
    item = claimed.item(claimed.first)
    failed = {"attempt": 1, "fencing_token": item["fencing_token"], "error_message": "It broke."}
    claimed.worker.post("/v1/jobs/task-1/fail", failed | {"worker_id": "w1"})
    make_available(Job.objects.get())
    second = Claimed(claimed.worker, claimed.path, claimed.body)
    second.first = second.ask()
    if of_before:
        IdempotencyRecord.objects.filter(key=second.key).update(body=second.first.content)

    again = second.again()

    assert [entry["error_message"] for entry in again["story"]] == ["It broke."]
    assert again["story"] == second.item(second.first)["story"]
    assert again["fencing_token"] == second.item(second.first)["fencing_token"]


@pytest.mark.parametrize("path", ["/v1/claims", "/v1/jobs/task-1/claim"])
def test_another_session_of_the_agent_is_told_the_fact_and_no_more(
    hermes: Any, hermes_token: str, make_job: Callable[..., Job], path: str
) -> None:
    def api_of(worker: Governed) -> Api:
        session, epoch = str(worker.entry.session_id), str(worker.entry.epoch)
        return Api(hermes_token, **{"Fencepost-Session": session, "Fencepost-Epoch": epoch})

    make_job()
    mine, other = Governed(hermes), Governed(hermes, cell="cell-2")
    claimed = Claimed(api_of(mine), path, {})
    claimed.first = claimed.ask()

    gone(claimed, claimed.again(api_of(other)), state="active")
    assert claimed.again()["fencing_token"] == claimed.item(claimed.first)["fencing_token"]

    # Once a newer boot has the cell, the holder of before is told nothing at all.
    before = claimed.worker
    mine.activate()
    assert refused(claimed.ask(before)) == (401, "SESSION_SUPERSEDED")
    gone(claimed, claimed.again(api_of(mine)), state="active")


def test_a_job_that_was_completed_is_told_as_it_stands(
    hermes_token: str, make_job: Callable[..., Job]
) -> None:
    make_job()
    worker = Api(hermes_token)
    token = worker.post("/v1/jobs/task-1/claim", {"worker_id": "w1"}).json()["fencing_token"]
    done = {"worker_id": "w1", "attempt": 1, "fencing_token": token, "result": {"n": 1}}
    worker.post("/v1/jobs/task-1/complete", done)
    claimed = Claimed(worker, "/v1/jobs/task-1/claim", {"worker_id": "w2"})
    claimed.first = claimed.ask()

    again = claimed.again()

    assert again == claimed.first.json()
    assert again.keys() == {"outcome", "job"}
    assert (again["outcome"], again["job"]["result"]) == ("already_completed", {"n": 1})


def test_several_are_told_in_the_order_of_the_claim(
    hermes_token: str, make_job: Callable[..., Job]
) -> None:
    for priority in ("low", "urgent", "normal"):
        make_job(priority=priority)
    claimed = Claimed(Api(hermes_token), "/v1/claims", {"worker_id": "w1", "limit": 3})
    claimed.first = claimed.ask()
    expire_lease(Job.objects.get(task_id="task-3"))

    results = claimed.ask().json()["results"]

    assert [item["job"]["task_id"] for item in results] == ["task-2", "task-3", "task-1"]
    assert [item["lease"] is not None for item in results] == [True, False, True]
    assert ["fencing_token" in item for item in results] == [True, False, True]


def test_a_refused_claim_is_replayed_as_it_was(
    openclaw_token: str, make_job: Callable[..., Job]
) -> None:
    make_job()
    claimed = Claimed(Api(openclaw_token), "/v1/jobs/task-1/claim", {"worker_id": "w1"})
    first, again = claimed.ask(), claimed.ask()

    assert refused(first) == (403, "WRONG_OWNER")
    assert (again.content, again["Idempotent-Replayed"]) == (first.content, "true")
