"""The attempts of a job as rows: what its workers are told of them, and what its submitter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agents.entry import Entry
from jobs import transitions
from jobs.models import Job
from jobs.transitions.story import TEXT_BYTES_MAX
from tests.client import Api, refused
from tests.work import make_available

pytestmark = pytest.mark.django_db

TIMES = {"claimed_at", "deadline_at", "ended_at"}
TOLD_TO_ALL = {"attempt", "outcome", "error_code", "error_message"}
TOLD_TO_WORKERS = {"result", "result_pointer", "progress", "rework_reason", "answer"}
NAMES = {"worker_id", "session_id", "runtime"}


@pytest.fixture
def ops(submitter_token: str) -> Api:
    return Api(submitter_token)


@pytest.fixture
def agent(hermes_token: str) -> Api:
    return Api(hermes_token)


@pytest.fixture
def tried(make_job: Any, worker: Entry) -> Job:
    """A job that was delivered and sent back, escalated and answered, and runs a third time."""
    job: Job = make_job(review_required=True, max_attempts=3)
    running = claim(worker, job)
    done = running | {"result": {"text": "A draft."}, "result_pointer": "out/1"}
    transitions.complete(entry=worker, completions=[done])
    transitions.rework(task_id=job.task_id, actor="user:anna", reason="Shorter.")
    make_available(job)
    escalate = transitions.escalate
    escalate(entry=worker, **claim(worker, job), reason="Which region?")
    transitions.resolve(
        task_id=job.task_id, actor="user:anna", resolution="requeue", reason="Use eu-west."
    )
    make_available(job)
    running = claim(worker, job)
    transitions.heartbeat(entry=worker, beats=[running | {"progress": {"page": 7}}])
    return job


def claim(worker: Entry, job: Job) -> dict[str, Any]:
    outcome = transitions.claim(entry=worker, task_id=job.task_id, owner="hermes")
    assert isinstance(outcome, transitions.ClaimOutcome) and outcome.grant
    attempt = outcome.grant.attempt
    return {
        "task_id": job.task_id,
        "attempt": attempt.number,
        "fencing_token": attempt.fencing_token,
    }


def listed(api: Api, job: Job, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = rows_of(api.get(f"/v1/jobs/{job.task_id}/attempts{query}"))
    return found


def rows_of(response: Any) -> Any:
    assert response.status_code == 200
    return response.json()["results"]


def test_workers_of_the_agent_are_told_all_of_each(tried: Job, agent: Api) -> None:
    first, second, running = listed(agent, tried)

    for row in (first, second, running):
        assert row.keys() == TOLD_TO_ALL | TOLD_TO_WORKERS | TIMES | NAMES
        assert (row["worker_id"], row["session_id"]) == ("worker-1", None)
    assert [row["attempt"] for row in (first, second, running)] == [1, 2, 3]
    assert first["outcome"] == "completed" and first["rework_reason"] == "Shorter."
    assert (first["result"], first["result_pointer"]) == ({"text": "A draft."}, "out/1")
    assert (second["outcome"], second["answer"]) == ("escalated", "Use eu-west.")
    assert first["claimed_at"] <= first["ended_at"] <= second["claimed_at"]
    assert (running["outcome"], running["ended_at"]) == (None, None)
    assert running["progress"] == {"page": 7}


def test_the_story_of_a_claim_is_made_of_the_same(tried: Job, agent: Api) -> None:
    told = agent.post(f"/v1/jobs/{tried.task_id}/claim", {"worker_id": "worker-1"}).json()

    rows = listed(agent, tried)[:-1]
    assert told["story"] == [
        {name: row[name] for name in TOLD_TO_ALL | TOLD_TO_WORKERS} for row in rows
    ]


def test_a_submitter_is_told_outcome_code_message_and_times(tried: Job, ops: Api) -> None:
    rows = listed(ops, tried)

    assert [row["outcome"] for row in rows] == ["completed", "escalated", None]
    for row in rows:
        assert row.keys() == TOLD_TO_ALL | TIMES
    # Nothing that a person has said to the workers.
    assert "Shorter" not in str(rows) and "eu-west" not in str(rows)


def test_a_failure_is_told_to_both_and_its_message_is_cut(
    make_job: Any, worker: Entry, agent: Api, ops: Api
) -> None:
    job = make_job(max_attempts=1)
    transitions.fail(
        entry=worker,
        **claim(worker, job),
        error_code="E_BUSY",
        error_message="y" * 5000,
        retryable=False,
    )

    for api in (agent, ops):
        [row] = listed(api, job)
        assert (row["outcome"], row["error_code"]) == ("failed", "E_BUSY")
        assert (row["error_message"], row["truncated"]) == ("y" * TEXT_BYTES_MAX, True)


def test_a_result_that_is_cut_is_no_reason_to_say_so_to_the_submitter(
    make_job: Any, worker: Entry, agent: Api, ops: Api
) -> None:
    job = make_job()
    transitions.complete(entry=worker, completions=[claim(worker, job) | {"result": "x" * 5000}])

    [whole], [some] = listed(agent, job), listed(ops, job)
    assert len(whole["result"]) == TEXT_BYTES_MAX and whole["truncated"]
    assert "truncated" not in some


def test_an_activated_session_is_named(governed: Any, make_job: Any, agent: Api) -> None:
    job = make_job()
    claim(governed.entry, job)

    [row] = listed(agent, job)
    assert row["session_id"] == str(governed.entry.session_id)


def test_pages_are_in_order_and_each_row_is_on_one(tried: Job, agent: Api) -> None:
    first = agent.get(f"/v1/jobs/{tried.task_id}/attempts?page_size=2").json()
    second = agent.get(first["next"]).json()

    assert [row["attempt"] for row in first["results"]] == [1, 2]
    assert [row["attempt"] for row in second["results"]] == [3]
    assert (first["previous"], second["next"]) == (None, None)


def test_a_job_that_nobody_has_claimed_has_none(make_job: Any, ops: Api) -> None:
    assert listed(ops, make_job()) == []


def test_others_are_told_nothing(
    tried: Job, openclaw_token: str, issue: Callable[..., str]
) -> None:
    path = f"/v1/jobs/{tried.task_id}/attempts"
    assert refused(Api(openclaw_token).get(path)) == (403, "WRONG_OWNER")
    other = Api(issue(submitter="other", scopes=["read"]))
    assert refused(other.get(path)) == (404, "NOT_FOUND")
    assert refused(other.get("/v1/jobs/no-such-task/attempts")) == (404, "NOT_FOUND")


def test_a_credential_that_may_only_work_is_enough(tried: Job, issue: Callable[..., str]) -> None:
    assert len(listed(Api(issue(agent="hermes", scopes=["work"])), tried)) == 3
