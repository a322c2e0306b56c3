"""Fixtures of jobs at work: workers, running jobs, and time that has passed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from agents.entry import Entry
from agents.models import Agent, Fleet, Session
from agents.principals import Principal
from governance.core import clock
from jobs import transitions
from jobs.models import Attempt, Job, JobType, Lease

ANNA = {"actor": "user:anna", "reason": "because the test says so"}


@dataclass(frozen=True)
class Running:
    """A job with what its worker knows of its running attempt."""

    job: Job
    attempt: int
    fencing_token: int

    @property
    def binding(self) -> dict[str, Any]:
        """What a worker's write names."""
        return {
            "task_id": self.job.task_id,
            "attempt": self.attempt,
            "fencing_token": self.fencing_token,
        }


@pytest.fixture
def worker(hermes: Principal) -> Entry:
    return Entry(hermes, "worker-1")


@pytest.fixture
def other_worker(hermes: Principal) -> Entry:
    return Entry(hermes, "worker-2")


@pytest.fixture
def stranger(openclaw: Principal) -> Entry:
    """A worker of another agent than the jobs of these tests."""
    return Entry(openclaw, "claw-1")


@pytest.fixture
def session_of(world: None) -> Callable[..., Session]:
    """Make an activated session, by row: `session_of(hermes, cell_id="a")`."""
    from uuid_utils.compat import uuid7

    def make(principal: Principal, cell_id: str = "cell-1", **over: Any) -> Session:
        values = {
            "session_id": uuid7(),
            "agent_id": principal.id,
            "kind": "activated",
            "state": "current",
            "cell_id": cell_id,
            "boot_id": f"boot of {cell_id}",
            "dispatcher_epoch": Fleet.objects.get().dispatcher_epoch,
            "activation_operation_id": f"activation of {cell_id}",
            "protocol_version": "1.0",
            "runtime": "command",
            "created_at": clock.now(),
        }
        return Session.objects.create(**values | over)

    return make


@pytest.fixture
def claim(worker: Entry) -> Callable[..., Running]:
    """Claim a job, by the first worker unless another is named."""

    def make(job: Job, entry: Entry | None = None, **over: Any) -> Running:
        by = entry or worker
        outcome = transitions.claim(entry=by, task_id=job.task_id, owner=by.principal.name, **over)
        assert isinstance(outcome, transitions.ClaimOutcome), outcome
        assert outcome.outcome == "claimed"
        job.refresh_from_db()
        return Running(job, outcome.grant.attempt.number, outcome.grant.attempt.fencing_token)

    return make


@pytest.fixture
def running(make_job: Callable[..., Job], claim: Callable[..., Running]) -> Callable[..., Running]:
    """Take a task in and claim it."""

    def make(**over: Any) -> Running:
        return claim(make_job(**over))

    return make


@pytest.fixture
def fail(worker: Entry) -> Callable[..., transitions.Outcome]:
    def make(held: Running, **over: Any) -> transitions.Outcome:
        said = {"error_message": "It broke.", "error_code": "BROKE", "retryable": True} | over
        return transitions.fail(entry=worker, **held.binding, **said)

    return make


@pytest.fixture
def failed(
    running: Callable[..., Running], fail: Callable[..., transitions.Outcome]
) -> Callable[..., Job]:
    """A job that has failed for good."""

    def make(**over: Any) -> Job:
        held = running(**over)
        fail(held, retryable=False)
        held.job.refresh_from_db()
        return held.job

    return make


@pytest.fixture
def delivered(running: Callable[..., Running], worker: Entry) -> Callable[..., Job]:
    """A job that waits for its review."""

    def make(**over: Any) -> Job:
        held = running(**{"review_required": True} | over)
        transitions.complete(entry=worker, completions=[held.binding | {"result": {"n": 1}}])
        held.job.refresh_from_db()
        assert held.job.state == "review_required"
        return held.job

    return make


@pytest.fixture
def escalated(running: Callable[..., Running], worker: Entry) -> Callable[..., Job]:
    """A job that waits for a human."""

    def make(**over: Any) -> Job:
        held = running(**over)
        transitions.escalate(entry=worker, **held.binding, reason="I cannot decide that.")
        held.job.refresh_from_db()
        return held.job

    return make


@pytest.fixture
def high_risk(agent_zero: Principal, make_job: Callable[..., Job]) -> Callable[..., Job]:
    """A job of high risk, which is held until somebody approves it."""

    def make(**over: Any) -> Job:
        return make_job(**{"task_type": "implementation", "risk_tier": "high"} | over)

    return make


@pytest.fixture
def job_type(world: None) -> Callable[..., JobType]:
    """Change a job type: `job_type("content_prep", max_attempts_ceiling=7)`."""

    def change(name: str = "content_prep", **values: Any) -> JobType:
        JobType.objects.filter(name=name).update(**values)
        return JobType.objects.get(name=name)

    return change


def expire_lease(job: Job) -> None:
    """Let the job's lease have run out a moment ago."""
    past = clock.now() - timedelta(seconds=1)
    assert Lease.objects.filter(job=job).update(expires_at=past) == 1


def pass_attempt_deadline(job: Job) -> None:
    past = clock.now() - timedelta(seconds=1)
    assert Attempt.objects.filter(job=job, ended_at=None).update(deadline_at=past) == 1


def pass_time(job: Job, field: str) -> None:
    """Let one of the job's own times have passed: deadlines, the approval's end."""
    past = clock.now() - timedelta(seconds=1)
    assert Job.objects.filter(pk=job.pk).update(**{field: past}) == 1


def make_available(job: Job) -> None:
    """Let the backoff of the job be over."""
    pass_time(job, "available_at")


def trips(queries: CaptureQueriesContext) -> int:
    """Count what went over the wire, less the savepoints that stand for BEGIN and COMMIT here.

    A test runs in a transaction, so that each move's own is a savepoint; a real one costs no trip
    at its beginning (BEGIN travels with the first statement) and one at its end.
    """
    return len([q for q in queries.captured_queries if "SAVEPOINT" not in q["sql"]]) + 1


def close(agent: str) -> None:
    """Close the agent's admission, by row."""
    generation = F("admission_generation") + 1
    Agent.objects.filter(name=agent).update(admission="closed", admission_generation=generation)
