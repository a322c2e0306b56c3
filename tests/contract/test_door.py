"""Sections 0, 2 and 3: who calls, how failures look, what is well formed, what is repeated."""

from __future__ import annotations

import json
import time
from uuid import UUID, uuid4

import pytest

from tests.contract.conftest import key


def test_without_a_token_nobody_is_served(call_as):
    for token in ("", "fp_nothing.nothing"):
        reply = call_as(token).get("/v1/jobs")
        assert reply.status == 401
        assert reply.body["code"] == "UNAUTHENTICATED"
        assert reply.body["retry"]["rule"] == "reauthenticate"
        assert reply.headers["WWW-Authenticate"].startswith("Bearer")


def test_a_missing_scope_is_refused_before_any_look_up(worker, ops):
    absent = f"/v1/jobs/{uuid4()}"
    assert worker.post("/v1/jobs", {}).status == 403
    assert ops.post(f"{absent}/claim", {"worker_id": "w"}).status == 403
    assert worker.post(f"{absent}/control", {}, idempotency_key=key()).status == 403


def test_an_absent_and_a_foreign_job_look_alike_to_a_submitter(ops):
    reply = ops.get(f"/v1/jobs/{uuid4()}")
    assert (reply.status, reply.body["code"]) == (404, "NOT_FOUND")


def test_another_agents_job_is_forbidden(stranger, claimed):
    assert stranger.get(f"/v1/jobs/{claimed.task_id}").status == 403
    assert stranger.post(claimed.path("claim"), {"worker_id": "w"}).status == 403
    body = claimed.authority | {"worker_id": claimed.worker_id, "result": {}}
    assert stranger.post(claimed.path("complete"), body).status == 403


def test_the_request_id_is_made_or_echoed(ops):
    assert ops.get("/v1/jobs").headers["Request-Id"]
    assert ops.get("/v1/jobs", request_id="mine-1").headers["Request-Id"] == "mine-1"


def test_an_unsupported_protocol_is_refused_with_the_range(ops):
    reply = ops.get("/v1/jobs", fencepost_protocol="0.1")
    assert reply.status == 400
    assert reply.body["current"]["supported"].keys() >= {"min", "max"}


def test_what_is_unknown_is_refused(ops, envelope):
    assert ops.get("/v1/jobs?colour=blue").status == 400
    reply = ops.post("/v1/jobs", envelope(colour="blue"))
    assert reply.status == 400
    assert "/colour" in [fault["pointer"] for fault in reply.body["errors"]]


def test_every_fault_is_listed_and_nothing_is_stored(ops, envelope):
    task = envelope(title="no", goal="", risk_tier="extreme", priority=7)
    reply = ops.post("/v1/jobs", task)
    assert reply.status == 400
    found = {fault["pointer"] for fault in reply.body["errors"]}
    assert found >= {"/title", "/goal", "/risk_tier", "/priority"}
    assert ops.get(f"/v1/jobs/{task['task_id']}").status == 404


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 2}',
        '{"a": NaN}',
        '{"a": Infinity}',
        '{"a": 9007199254740993}',
        '{"a": "\\ud800"}',
        '{"a": "\\u0000"}',
        '{"a": 1',
        "[" * 2000 + "]" * 2000,
        "\ufeff{}",
    ],
)
def test_what_is_not_i_json_is_refused(ops, envelope, text):
    whole = json.dumps(envelope())[:-1] + ', "inputs": ' + text + "}"
    for body in (text, whole):
        assert ops.raw("/v1/jobs", body.encode()).status == 400
    assert ops.raw("/v1/jobs", b'{"a": "\xff"}').status == 400


def test_every_failure_is_a_problem(ops):
    assert ops.get("/v1/nothing-here").status == 404
    assert ops.send("DELETE", "/v1/jobs").status == 405
    assert (
        ops.send(
            "POST",
            "/v1/jobs",
            content=b"a=1",
            headers={"Content-Type": "application/x-www-form-urlencoded"},
        ).status
        == 415
    )
    assert ops.raw("/v1/jobs", b'{"a": "' + b"x" * (2 << 20) + b'"}').status == 413


def test_a_repetition_gets_the_original_status_and_bytes(ops, claimed):
    body = {"action": "PAUSE", "reason": "why", "expected_task_revision": claimed.job["revision"]}
    same = key()
    first = ops.post(claimed.path("control"), body, idempotency_key=same)
    again = ops.post(claimed.path("control"), body, idempotency_key=same)
    assert first.status == 200
    assert (again.status, again.content) == (first.status, first.content)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert "Idempotent-Replayed" not in first.headers

    other = body | {"reason": "something else"}
    assert ops.post(claimed.path("control"), other, idempotency_key=same).refusal == (
        422,
        "IDEMPOTENCY_KEY_REUSED",
    )


NIL, MAX = str(UUID(int=0)), str(UUID(int=2**128 - 1))


@pytest.mark.parametrize(
    "bad",
    ["", "no-uuid", NIL, MAX, "00000000-0000-7000-8000-000000000001"],
    ids=["empty", "text", "nil", "max", "of 1970"],
)
def test_a_key_is_a_uuid_whose_time_can_be_right(ops, claimed, bad):
    body = {"action": "PAUSE", "reason": "why", "expected_task_revision": claimed.job["revision"]}
    refused = ops.post(claimed.path("control"), body, idempotency_key=bad)
    assert refused.refusal == (400, "IDEMPOTENCY_KEY_INVALID")


def test_a_key_of_any_version_is_unique_in_what_the_operation_is_named(ops, claimed):
    """By default its own name; another `Operation-Id` makes another request of it; section 3."""
    body = {"action": "PAUSE", "reason": "why", "expected_task_revision": claimed.job["revision"]}
    same, path = str(uuid4()), claimed.path("control")
    first = ops.post(path, body, idempotency_key=same)
    assert first.status == 200
    again = ops.post(path, body, idempotency_key=same, operation_id="control_job")
    assert (again.content, again.headers["Idempotent-Replayed"]) == (first.content, "true")
    other = ops.post(path, body, idempotency_key=same, operation_id="twice")
    assert other.refusal == (409, "REVISION_MISMATCH")


def test_who_changes_something_once_says_under_which_key(ops, worker, target, claimed):
    agent = f"/v1/agents/{target.agent}"
    for caller, path in (
        (ops, claimed.path("control")),
        (ops, f"{agent}/admission"),
        (worker, f"{agent}/activate"),
        (worker, "/v1/executions/permits"),
        (worker, "/v1/executions"),
        (worker, "/v1/facts"),
        (worker, "/v1/uploads"),
        (worker, f"/v1/uploads/{uuid4()}/complete"),
    ):
        refused = caller.post(path, {})
        assert refused.status == 400, path
        assert refused.body["code"] == "INVALID_ARGUMENT"


def test_a_refusal_that_is_for_ever_is_kept_under_its_key_and_one_that_passes_is_not(
    ops, worker, envelope, claimed
):
    """Kept are refusals whose rule is never, stop or read; section 3."""
    task, same = envelope(), key()
    ops.post("/v1/jobs", task)
    other = task | {"title": "Another title"}
    first = ops.post("/v1/jobs", other, idempotency_key=same)
    again = ops.post("/v1/jobs", other, idempotency_key=same)
    assert first.refusal == (409, "TASK_CONTENT_MISMATCH")
    assert (again.content, again.headers["Idempotent-Replayed"]) == (first.content, "true")

    passing = key()
    body = {"action": "PAUSE", "reason": "why", "expected_task_revision": 999}
    for _ in range(2):
        stale = ops.post(claimed.path("control"), body, idempotency_key=passing)
        assert stale.refusal == (409, "REVISION_MISMATCH")
        assert "Idempotent-Replayed" not in stale.headers


def test_a_key_that_is_too_old_is_never_executed(ops, claimed):
    old_ms = int(time.time() * 1000) - 31 * 86_400_000
    old = UUID(int=(old_ms << 80) | (7 << 76) | (2 << 62) | (uuid4().int & ((1 << 60) - 1)))
    body = {"action": "STOP", "reason": "why", "expected_task_revision": claimed.job["revision"]}
    reply = ops.post(claimed.path("control"), body, idempotency_key=str(old))
    assert reply.refusal == (422, "IDEMPOTENCY_KEY_EXPIRED")
    assert ops.get(f"/v1/jobs/{claimed.task_id}").body["state"] == "active"
