"""Answers that let a caller act: their facts are kept, their time and their authority are not."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.db.models import F
from uuid_utils.compat import uuid7

from agents.models import Agent
from agents.transitions import epochs
from governance.core.models import IdempotencyRecord
from jobs import executions, transitions
from jobs.models import Execution, Job, Lease, Permit
from tests.client import Api
from tests.evidence import actions
from tests.jobs.governed import TEST, Governed, governed  # noqa: F401
from tests.work import expire_lease, make_available

pytestmark = pytest.mark.django_db

MOMENT = {"may_begin", "repeated", "deadline_seconds"}


@dataclass
class Begun:
    """A started execution, and the request that has started it."""

    governed: Governed
    api: Api
    job: Job
    body: dict[str, Any]
    key: str
    first: dict[str, Any]

    def start(self, key: str = "") -> Any:
        return self.api.post("/v1/executions", self.body, idempotency_key=key or self.key)

    @property
    def execution(self) -> Execution:
        return Execution.objects.get(job=self.job, attempt=self.body["attempt"])


def api_of(worker: Governed, token: str) -> Api:
    session, epoch = str(worker.entry.session_id), str(worker.entry.epoch)
    return Api(token, **{"Fencepost-Session": session, "Fencepost-Epoch": epoch})


@pytest.fixture
def begun(governed: Governed, hermes_token: str, make_job: Callable[..., Job]) -> Begun:  # noqa: F811
    job = make_job()
    governed.claim(job)
    permit = governed.permit(job, governed.route(job).reservation.reservation_id)
    body = {
        **vars(governed.binding(job)),
        "permit_id": str(permit.permit_id),
        "execution_digest": job.task.execution_digest,
        "runtime": job.attempts.get().runtime,
        "request_sha256": "ab" * 32,
    }
    begun = Begun(governed, api_of(governed, hermes_token), job, body, str(uuid7()), {})
    answer = begun.start()
    assert answer.status_code == 201
    begun.first = answer.json()
    return begun


def facts_of(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name not in MOMENT}


def test_a_start_lets_its_caller_begin_until_the_deadline(begun: Begun) -> None:
    assert begun.first["may_begin"] is True
    assert "repeated" not in begun.first
    assert 0 < begun.first["deadline_seconds"] <= 300
    assert begun.first["deadline"] == f"{begun.execution.deadline_at:%Y-%m-%dT%H:%M:%S.%fZ}"


@pytest.mark.parametrize("kept", [True, False], ids=["same key", "another key"])
def test_a_repeated_start_has_the_same_facts_and_says_that_it_is_one(
    begun: Begun, kept: bool
) -> None:
    before = actions(begun.job)

    answer = begun.start("" if kept else str(uuid7()))

    assert answer.status_code == (201 if kept else 200)
    assert ("Idempotent-Replayed" in answer) is kept
    assert facts_of(answer.json()) == facts_of(begun.first)
    assert (answer.json()["may_begin"], answer.json()["repeated"]) == (True, True)
    assert actions(begun.job) == before


def test_nothing_of_the_moment_is_kept(begun: Begun) -> None:
    record = IdempotencyRecord.objects.get(operation="start_execution")
    assert json.loads(bytes(record.body or b"")) == facts_of(begun.first)


def expired(begun: Begun) -> None:
    expire_lease(begun.job)


def taken_over(begun: Begun) -> None:
    expire_lease(begun.job)
    transitions.end_if_due(task_id=begun.job.task_id)
    executions.reconcile(
        external_request_id=begun.body["external_request_id"], verdict="not_happened", **TEST
    )
    make_available(begun.job)
    begun.governed.claim(begun.job)


def stopped(begun: Begun) -> None:
    transitions.stop(task_id=begun.job.task_id, **TEST)


def reported(begun: Begun) -> None:
    begun.governed.result(begun.execution)


def bound_anew(begun: Begun) -> None:
    epochs.rotate(**TEST)
    begun.governed.rebind()
    begun.api.headers["Fencepost-Session"] = str(begun.governed.entry.session_id)
    begun.api.headers["Fencepost-Epoch"] = str(begun.governed.entry.epoch)


def of_another_session(begun: Begun) -> None:
    other = Governed(begun.governed.principal, cell="cell-2")
    begun.api.headers["Fencepost-Session"] = str(other.entry.session_id)


@pytest.mark.parametrize(
    "lose", [expired, taken_over, stopped, reported, bound_anew, of_another_session]
)
def test_a_repeated_start_whose_authority_is_gone_lets_nobody_begin(
    begun: Begun, lose: Callable[[Begun], None]
) -> None:
    lose(begun)
    before = actions(begun.job)

    for answer in (begun.start(), begun.start(str(uuid7()))):
        body = answer.json()
        assert answer.status_code < 300
        moment = (body["may_begin"], body["repeated"], body["deadline_seconds"])
        assert moment == (False, True, 0)
        assert body["decision"] == "issued"
    assert facts_of(begun.start().json()) == facts_of(begun.first)
    assert actions(begun.job) == before


def test_past_its_deadline_nobody_begins(begun: Begun) -> None:
    past = begun.execution.decided_at
    Execution.objects.filter(pk=begun.execution.pk).update(deadline_at=past)

    body = begun.start().json()

    assert (body["may_begin"], body["deadline_seconds"]) == (False, 0)


def test_what_an_earlier_release_kept_of_the_time_is_given_anew(begun: Begun) -> None:
    record = IdempotencyRecord.objects.get(operation="start_execution")
    kept = facts_of(begun.first) | {"deadline_seconds": 299}
    IdempotencyRecord.objects.filter(pk=record.pk).update(body=json.dumps(kept).encode())
    expire_lease(begun.job)

    body = begun.start().json()

    assert (body["may_begin"], body["deadline_seconds"]) == (False, 0)


def test_a_question_never_permits(begun: Begun) -> None:
    found = begun.api.get(f"/v1/executions/{begun.body['external_request_id']}").json()
    assert MOMENT.isdisjoint(found)
    assert found["deadline"] == begun.first["deadline"]


def test_a_permit_is_given_again_as_it_stands(
    governed: Governed,  # noqa: F811
    hermes_token: str,
    make_job: Callable[..., Job],
) -> None:
    job = make_job()
    governed.claim(job)
    reservation = governed.route(job).reservation.reservation_id
    binding = governed.binding(job)
    body = {
        **vars(binding),
        "reservation_id": str(reservation),
        "mode": "mock",
        "expected_revision": job.revision,
    }
    api, key = api_of(governed, hermes_token), str(uuid7())

    def ask() -> dict[str, Any]:
        answer: dict[str, Any] = api.post(
            "/v1/executions/permits", body, idempotency_key=key
        ).json()
        return answer

    first = ask()
    assert (first["state"], 0 < first["deadline_seconds"] <= 300) == ("issued", True)
    record = IdempotencyRecord.objects.get(operation="issue_permit")
    assert {"state", "deadline_seconds"}.isdisjoint(json.loads(bytes(record.body or b"")))

    governed.start(job, Permit.objects.get().permit_id)
    spent = ask()
    assert spent["state"] == "spent"
    assert {**spent, "state": "issued", "deadline_seconds": 0} == first | {"deadline_seconds": 0}
    assert Lease.objects.count() == 1


def test_a_permit_that_was_revoked_is_given_again_as_revoked(
    governed: Governed,  # noqa: F811
    make_job: Callable[..., Job],
) -> None:
    job = make_job()
    governed.claim(job)
    row = governed.permit(job, governed.route(job).reservation.reservation_id)
    assert executions.issued_before(permit_id=row.permit_id).permit.state == "issued"
    transitions.stop(task_id=job.task_id, **TEST)
    assert executions.issued_before(permit_id=row.permit_id).permit.state == "revoked"


def test_a_refusal_for_want_of_room_uses_no_key_up(
    governed: Governed,  # noqa: F811
    hermes_token: str,
    make_job: Callable[..., Job],
) -> None:
    job = make_job()
    governed.claim(job)
    reservation = governed.route(job).reservation.reservation_id
    job.refresh_from_db()
    body = {
        **vars(governed.binding(job)),
        "reservation_id": str(reservation),
        "mode": "mock",
        "expected_revision": job.revision,
    }
    api, key = api_of(governed, hermes_token), str(uuid7())
    generation = F("admission_generation") + 1
    agents = Agent.objects.filter(name="hermes")

    agents.update(admission="closed", admission_generation=generation)
    refused = api.post("/v1/executions/permits", body, idempotency_key=key)
    agents.update(admission="open", admission_generation=generation)
    issued = api.post("/v1/executions/permits", body, idempotency_key=key)

    assert (refused.status_code, refused.json()["reason"]) == (409, "ADMISSION_CLOSED")
    assert refused.json()["retry"] == {"rule": "defer", "after_seconds": 300}
    assert refused["Retry-After"] == "300"
    assert issued.status_code == 201
