"""Sections 4 and 5: permits and executions, under an identity that the client computes itself."""

from __future__ import annotations

import pytest

from tests.contract.conftest import RESULT_SHA256, Acting, claim_new, key, request_id


def test_a_started_execution_is_unknown_until_its_result_is_bound(ops, acting):
    permit = acting.permit()
    assert permit.body["state"] == "issued"
    assert permit.body["deadline_seconds"] > 0
    started = acting.start(permit.body["permit_id"])
    assert (started.body["decision"], started.body["state"]) == ("issued", "unknown")
    assert started.body["external_request_id"] == acting.id
    assert started.body["may_begin"] is True
    assert "repeated" not in started.body

    delivery = acting.held.authority | {"result": {}}
    refused = acting.caller.post(acting.held.path("complete"), delivery, **acting.session)
    assert refused.refusal == (409, "OUTCOME_UNKNOWN")
    assert refused.body["retry"]["rule"] == "reconcile"

    bound = acting.result()
    assert bound.body["outcome"] == "recorded"
    assert bound.body["execution"]["state"] == "succeeded"
    assert acting.result().body["outcome"] == "already_recorded"
    found = acting.caller.get(f"/v1/executions/{acting.id}").body
    assert {"may_begin", "repeated", "deadline_seconds"}.isdisjoint(found)
    assert (found["state"], found["result_sha256"]) == ("succeeded", RESULT_SHA256)
    done = acting.caller.post(acting.held.path("complete"), delivery, **acting.session)
    assert done.body["job"]["state"] == "completed"


def test_a_start_is_answered_again_and_never_made_again(acting):
    permit = acting.permit().body["permit_id"]
    same = key()
    first = acting.start(permit, same)
    replayed, repeated = acting.start(permit, same), acting.start(permit)
    assert (first.status, replayed.status, repeated.status) == (201, 201, 200)
    moment = ("may_begin", "repeated", "deadline_seconds")
    for again in (replayed, repeated):
        assert (again.body["may_begin"], again.body["repeated"]) == (True, True)
        assert {**first.body, **{name: 0 for name in moment}} == {
            **again.body,
            **{name: 0 for name in moment},
        }
    assert repeated.body["external_request_id"] == acting.id
    other = acting.start(permit, request_sha256="ef" * 32)
    assert other.refusal == (409, "EXECUTION_CONFLICT")
    assert acting.permit().refusal in ((409, "PERMIT_SPENT"), (409, "REVISION_MISMATCH"))


def test_a_result_with_another_digest_is_a_conflict(acting):
    acting.begin()
    acting.result()
    other = acting.result(result_sha256="ef" * 32)
    assert other.refusal == (409, "RESULT_DIGEST_CONFLICT")
    assert other.body["code"] == "ABORTED"


def test_the_server_computes_the_identity_itself(acting):
    foreign = request_id(acting.held.job, attempt=2)
    reply = acting.permit(external_request_id=foreign)
    assert reply.refusal == (400, "BINDING_MISMATCH")
    permit = acting.permit().body["permit_id"]
    for over in ({"execution_digest": "ab" * 32}, {"runtime": "another"}):
        assert acting.start(permit, **over).refusal == (400, "BINDING_MISMATCH")


@pytest.mark.parametrize("attempt", [True, "1", 0, 1.5])
def test_an_attempt_is_a_whole_number_from_1(acting, attempt):
    assert acting.permit(attempt=attempt).status == 400


def test_a_stale_token_or_revision_gets_no_permit(acting):
    stale = acting.permit(fencing_token=acting.held.job["fencing_token"] + 1)
    assert stale.refusal == (409, "STALE_FENCING_TOKEN")
    moved = acting.permit(expected_revision=acting.held.job["revision"] + 1)
    assert moved.refusal == (409, "REVISION_MISMATCH")


def test_a_worker_without_a_session_gets_no_permit(ops, worker, envelope):
    held = claim_new(ops, worker, envelope())
    acting = Acting(worker, held, {})
    assert acting.permit().refusal == (401, "SESSION_REQUIRED")


def test_live_execution_needs_an_authorization(acting):
    reply = acting.permit(mode="live")
    if reply.status < 400:
        reply = acting.start(reply.body["permit_id"])
    assert reply.refusal == (403, "LIVE_EXECUTION_NOT_AUTHORIZED")


def test_a_paused_job_starts_nothing(ops, acting):
    permit = acting.permit().body["permit_id"]
    pause = {
        "action": "PAUSE",
        "reason": "why",
        "expected_task_revision": acting.held.job["revision"],
    }
    assert ops.post(acting.held.path("control"), pause, idempotency_key=key()).status == 200
    assert acting.start(permit).refusal == (409, "EXECUTION_PAUSED")


def test_an_unknown_execution_of_a_failed_attempt_is_in_doubt(ops, acting):
    acting.begin()
    failure = {"error_message": "no", "error_code": "E", "retryable": True}
    sent = acting.held.authority | failure
    reply = acting.caller.post(acting.held.path("fail"), sent, **acting.session)
    assert reply.body["job"]["state"] == "in_doubt"
    claim = acting.caller.post(acting.held.path("claim"), {}, **acting.session)
    assert claim.refusal == (409, "OUTCOME_UNKNOWN")
    late = acting.result()
    assert (late.status, late.body["result_code"]) == (202, "ACCEPTED")
    assert ops.get(f"/v1/jobs/{acting.held.task_id}").body["state"] == "in_doubt"


def test_an_execution_that_is_not_there_is_not_found(acting):
    reply = acting.caller.get("/v1/executions/xr_" + "0" * 64)
    assert (reply.status, reply.body["retry"]["rule"]) == (404, "never")
    assert reply.body["code"] == "NOT_FOUND"


def test_another_agent_acts_for_nobody(stranger, target, acting):
    body = acting.binding | {"reservation_id": None, "mode": "mock", "expected_revision": 1}
    path = "/v1/executions/permits"
    assert stranger.post(path, body, idempotency_key=key()).status in (401, 403)
    assert stranger.get(f"/v1/executions/{acting.id}").status in (403, 404)
