"""What the refusal of a write says of its receipt; contract section 2.

That single problems do is seen by `tests.client` at each of them.
"""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from uuid_utils.compat import uuid7

from governance.core.errors import DomainError
from governance.core.precedence import PRECEDENCE
from governance.web import problems
from jobs.models import Job
from tests.client import Api

pytestmark = pytest.mark.django_db

TASK: dict[str, Any] = {
    "task_id": "t-1",
    "source": "manual",
    "title": "A title",
    "goal": "A goal that is long enough",
    "task_type": "content_prep",
    "risk_tier": "low",
}


@pytest.mark.parametrize("refusal", PRECEDENCE, ids=lambda refusal: refusal.__name__)
def test_each_refusal_says_it_of_writes_and_not_of_reads(refusal: type[DomainError]) -> None:
    written = refusal().as_problem(of_write=True).get("result_code")

    if refusal.effect == "unknown":
        assert written == "UNKNOWN"
    elif refusal.code in {"ABORTED", "ALREADY_EXISTS"}:
        assert written == "CONFLICT"
    else:
        assert written is None
    assert "result_code" not in refusal().as_problem()


def test_each_item_of_a_batch_says_it(submitter_token: str) -> None:
    ops = Api(submitter_token)
    ops.post("/v1/jobs", TASK)
    sent = [TASK | {"title": "Another title"}, TASK | {"title": ""}, TASK]

    conflict, malformed, again = ops.post("/v1/jobs/batch", {"items": sent}).json()["results"]

    assert (conflict["reason"], conflict["result_code"]) == ("TASK_CONTENT_MISMATCH", "CONFLICT")
    assert malformed["code"] == "INVALID_ARGUMENT" and "result_code" not in malformed
    assert again["outcome"] == "already_queued"


def test_a_refusal_that_is_kept_says_it_again(submitter_token: str) -> None:
    ops, key = Api(submitter_token), str(uuid7())
    ops.post("/v1/jobs", TASK)
    other = TASK | {"title": "Another title"}

    first, again = (ops.post("/v1/jobs", other, Idempotency_Key=key) for _ in range(2))

    assert again["Idempotent-Replayed"] == "true"
    assert first.json() == again.json() and again.json()["result_code"] == "CONFLICT"


def test_an_unknown_outcome_of_an_execution_is_unknown(hermes_token: str, make_job: Any) -> None:
    make_job()
    # By row: an execution was started, and nobody knows what became of it.
    Job.objects.update(state="stopped", finished_at="2026-01-01T00:00:00Z", unresolved_executions=1)

    refused = Api(hermes_token).post("/v1/jobs/task-1/claim", {"worker_id": "w1"}).json()

    assert (refused["reason"], refused["result_code"]) == ("OUTCOME_UNKNOWN", "UNKNOWN")


@pytest.mark.parametrize(("method", "told"), [("post", "UNKNOWN"), ("get", None)])
def test_a_failure_of_ours_is_unknown_of_a_write_alone(
    submitter_token: str, monkeypatch: pytest.MonkeyPatch, method: str, told: str | None
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("planted")

    monkeypatch.setattr("governance.web.views.admit", fail)
    client = Client(
        raise_request_exception=False, headers={"Authorization": f"Bearer {submitter_token}"}
    )
    answer = getattr(client, method)("/v1/jobs")

    assert answer.status_code == 500
    assert answer["Content-Type"] == problems.PROBLEM_TYPE
    assert answer.json().get("result_code") == told
