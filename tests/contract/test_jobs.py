"""Section 1: intake, claims, outcomes, heartbeats, control."""

from __future__ import annotations

from uuid import uuid4

import pytest

from tests.contract.conftest import claim_new, key, timeless

JOB_MEMBERS = {
    *("job_id", "task_id", "owner", "state", "status", "task_type", "risk_tier", "priority"),
    *("title", "goal", "inputs", "output_required", "attempt", "attempt_number", "max_attempts"),
    *("attempts_left", "deferrals", "revision", "claimed_by", "result_pointer", "review_required"),
    *("execution_approval_required", "error_message"),
    *("attempts_left", "lease", "progress", "escalation_reason"),
}


def state_of(caller, task_id):
    return caller.get(f"/v1/jobs/{task_id}").body["state"]


def test_a_task_becomes_one_job_for_ever(ops, envelope):
    task = envelope()
    made = ops.post("/v1/jobs", task)
    assert (made.status, made.body["outcome"]) == (201, "queued")
    assert made.body["job"].keys() >= JOB_MEMBERS
    again = ops.post("/v1/intake/task", task)
    assert (again.status, again.body["outcome"]) == (200, "already_queued")
    assert again.body["job"]["job_id"] == made.body["job"]["job_id"]
    other = ops.post("/v1/jobs", task | {"title": "Another title"})
    assert other.refusal == (409, "TASK_CONTENT_MISMATCH")
    assert other.body["code"] == "ALREADY_EXISTS"


def test_a_task_that_needs_approval_is_held_and_cannot_be_claimed(ops, worker, envelope):
    task = envelope(execution_approval_required=True)
    made = ops.post("/v1/jobs", task)
    assert (made.status, made.body["outcome"]) == (201, "held")
    reply = worker.post(f"/v1/jobs/{task['task_id']}/claim", {"worker_id": "w"})
    assert reply.refusal == (409, "INVALID_TRANSITION")
    assert reply.body["current"]["state"] == "held"


def test_a_batch_answers_in_order_and_one_bad_item_spoils_no_other(ops, envelope):
    good, bad, last = envelope(), envelope(title=""), envelope()
    reply = ops.post("/v1/jobs/batch", [good, bad, good, last])
    assert reply.status == 200
    assert [item["status"] for item in reply.body["results"]] == [201, 400, 200, 201]
    assert reply.body["results"][3]["job"]["task_id"] == last["task_id"]


def test_a_claim_makes_an_attempt_with_its_lease(claimed):
    assert claimed.job["state"] == "active"
    assert claimed.job["attempt"] == claimed.job["attempt_number"] == 1
    assert claimed.job["fencing_token"] >= 1
    lease = claimed.job["lease"]
    assert 0 < lease["ttl_seconds"] <= 60
    assert 0 < lease["heartbeat_interval_seconds"] < 60
    assert claimed.job["envelope"] and claimed.job["execution_digest"]


def test_a_claim_names_its_models_and_has_inputs_in_clear_only_for_who_asks(ops, worker, envelope):
    for asked in (True, False):
        task = envelope(inputs={"n": 1})
        ops.post("/v1/jobs", task)
        sent = {"worker_id": f"w-{uuid4()}", "lease_seconds": 60, "include_inputs": asked}
        claim = worker.post(f"/v1/jobs/{task['task_id']}/claim", sent).body
        assert isinstance(claim["models"], list) and claim["envelope"]
        assert ("inputs" in claim["job"]) is asked


def test_attempts_are_told_in_full_to_workers_and_in_short_to_the_submitter(ops, worker, claimed):
    [told] = worker.get(claimed.path("attempts")).body["results"]
    assert (told["attempt"], told["outcome"], told["worker_id"]) == (1, None, claimed.worker_id)
    [seen] = ops.get(claimed.path("attempts")).body["results"]
    assert seen.keys() >= {"attempt", "outcome", "error_code", "error_message", "claimed_at"}
    assert not seen.keys() & {"result", "progress", "rework_reason", "answer", "worker_id"}


def test_another_worker_is_told_who_cannot_be_disturbed(worker, claimed):
    reply = worker.post(claimed.path("claim"), {"worker_id": "somebody-else"})
    assert reply.refusal == (409, "LEASE_HELD_BY_ANOTHER")


def test_a_claim_in_the_name_of_another_agent_is_forbidden(ops, worker, envelope):
    task = envelope()
    ops.post("/v1/jobs", task)
    sent = {"worker_id": "w", "owner": "somebody_else"}
    refused = worker.post(f"/v1/jobs/{task['task_id']}/claim", sent)
    assert refused.refusal == (403, "WRONG_OWNER")
    assert state_of(ops, task["task_id"]) == "queued"


@pytest.mark.parametrize("seconds", [59, 3601, "60", True])
def test_a_lease_has_its_bounds(ops, worker, envelope, seconds):
    task = envelope()
    ops.post("/v1/jobs", task)
    sent = {"worker_id": "w", "lease_seconds": seconds}
    assert worker.post(f"/v1/jobs/{task['task_id']}/claim", sent).status == 400


def test_the_next_jobs_are_claimed_under_a_key(ops, worker, envelope):
    task = envelope(priority="urgent")
    ops.post("/v1/jobs", task)
    sent = {"worker_id": f"w-{uuid4()}", "limit": 1, "lease_seconds": 60}
    assert worker.post("/v1/claims", sent).refusal == (400, "IDEMPOTENCY_KEY_REQUIRED")
    same = key()
    first = worker.post("/v1/claims", sent, idempotency_key=same)
    assert first.status == 200
    [item] = first.body["results"]
    assert item["job"]["priority"] == "urgent"
    again = worker.post("/v1/claims", sent, idempotency_key=same)
    assert timeless(again) == timeless(first)


def test_a_claim_repeated_when_its_lease_is_gone_gives_no_authority(ops, worker, envelope):
    """Told are the claim and the job as it stands, and neither token nor envelope; section 3."""
    task = envelope(priority="urgent")
    ops.post("/v1/jobs", task)
    path, sent, same = f"/v1/jobs/{task['task_id']}", {"worker_id": f"w-{uuid4()}"}, key()
    first = worker.post(f"{path}/claim", sent, idempotency_key=same)
    token = first.body["fencing_token"]
    done = sent | {"attempt": 1, "fencing_token": token, "result": 1}
    assert worker.post(f"{path}/complete", done).status == 200

    again = worker.post(f"{path}/claim", sent, idempotency_key=same)

    assert (again.status, again.headers["Idempotent-Replayed"]) == (200, "true")
    assert again.body.keys() == {"outcome", "job", "attempt", "lease"}
    assert (again.body["outcome"], again.body["attempt"]) == ("claimed", 1)
    assert (again.body["lease"], again.body["job"]["state"]) == (None, "completed")
    assert again.body["job"].keys().isdisjoint({"fencing_token", "envelope"})


def test_a_delivery_is_recorded_once(worker, claimed):
    body = claimed.authority | {"worker_id": claimed.worker_id, "result": {"n": 1}}
    first = worker.post(claimed.path("complete"), body)
    assert (first.status, first.body["outcome"]) == (200, "recorded")
    assert first.body["job"]["state"] == "completed"
    again = worker.post(claimed.path("complete"), body)
    assert again.body["outcome"] == "already_recorded"
    other = worker.post(claimed.path("complete"), body | {"result": {"n": 2}})
    assert other.refusal == (409, "OUTCOME_CONFLICT")
    assert other.body["code"] == "ABORTED"
    reply = worker.post(claimed.path("claim"), {"worker_id": "w"})
    assert (reply.status, reply.body["outcome"]) == (200, "already_completed")


def test_a_worker_may_ask_for_a_review(worker, claimed):
    body = claimed.authority | {"worker_id": claimed.worker_id, "result": {}, "needs_review": True}
    reply = worker.post(claimed.path("complete"), body)
    assert reply.body["job"]["state"] == "review_required"


def test_a_stale_token_writes_nothing(ops, worker, claimed):
    body = {
        "attempt": 1,
        "fencing_token": claimed.job["fencing_token"] + 1,
        "worker_id": claimed.worker_id,
    }
    for verb, more in (
        ("complete", {"result": {}}),
        ("fail", {"error_message": "no", "error_code": "E", "retryable": True}),
        ("escalate", {"reason": "no"}),
    ):
        reply = worker.post(claimed.path(verb), body | more)
        assert reply.refusal == (409, "STALE_FENCING_TOKEN")
        assert reply.body["retry"]["rule"] == "refresh"
    found = ops.get(f"/v1/jobs/{claimed.task_id}").body
    assert (found["state"], found["revision"]) == ("active", claimed.job["revision"])


def test_the_older_contract_names_only_the_worker(worker, claimed):
    reply = worker.post(
        claimed.path("complete"), {"worker_id": claimed.worker_id, "result_pointer": "out/1"}
    )
    assert (reply.status, reply.body["outcome"]) == (200, "recorded")


def test_a_claim_that_is_answered_again_gives_the_same_and_takes_nothing(worker, claimed):
    again = worker.post(claimed.path("claim"), {"worker_id": claimed.worker_id})
    assert (again.status, again.body["outcome"]) == (200, "already_running")
    for name in ("attempt", "fencing_token"):
        assert again.body[name] == claimed.job[name]
    assert again.body["envelope"]
    done = {"worker_id": claimed.worker_id, "result": {}}
    assert worker.post(claimed.path("complete"), done).body["outcome"] == "recorded"


@pytest.mark.parametrize("with_token", [True, False])
def test_a_write_of_another_holder_changes_nothing(ops, worker, claimed, with_token):
    authority = claimed.authority if with_token else {}
    for verb, more in (
        ("complete", {"result": {}}),
        ("fail", {"error_message": "no"}),
        ("escalate", {"reason": "no"}),
        ("reflections", {"what_worked": "no"}),
    ):
        reply = worker.post(claimed.path(verb), authority | more | {"worker_id": "intruder"})
        assert reply.refusal == (409, "LEASE_HELD_BY_ANOTHER")
        assert worker.post(claimed.path(verb), authority | more).status == 400
    beat = claimed.authority | {"task_id": claimed.task_id}
    sent = {"worker_id": "intruder", "leases": [beat]}
    [refusal] = worker.post("/v1/leases/heartbeat", sent).body["results"]
    assert (refusal["status"], refusal["reason"]) == (409, "LEASE_HELD_BY_ANOTHER")
    found = ops.get(f"/v1/jobs/{claimed.task_id}").body
    assert (found["state"], found["revision"]) == ("active", claimed.job["revision"])


def test_a_failure_is_tried_again_until_it_may_not(ops, worker, envelope):
    failed = {"error_message": "no", "error_code": "E", "retryable": True}
    first = claim_new(ops, worker, envelope(max_attempts=2))
    sent = first.authority | {"worker_id": first.worker_id} | failed
    reply = worker.post(first.path("fail"), sent)
    assert (reply.body["outcome"], reply.body["job"]["state"]) == ("recorded", "queued")
    assert worker.post(first.path("fail"), sent).body["outcome"] == "already_recorded"

    last = claim_new(ops, worker, envelope(max_attempts=1))
    sent = last.authority | {"worker_id": last.worker_id} | failed
    assert worker.post(last.path("fail"), sent).body["job"]["state"] == "failed"


def test_a_deferral_is_no_attempt_that_counts(ops, worker, envelope):
    held = claim_new(ops, worker, envelope(max_attempts=1))
    assert held.job["attempts_left"] == 0
    sent = held.authority | {"worker_id": held.worker_id}
    sent |= {"reason": "no quota", "retry_after_seconds": 600}
    reply = worker.post(held.path("defer"), sent)
    job = reply.body["job"]
    assert (reply.status, reply.body["outcome"], job["state"]) == (200, "recorded", "queued")
    assert (job["attempt"], job["deferrals"], job["attempts_left"]) == (1, 1, 1)
    assert worker.post(held.path("defer"), sent).body["outcome"] == "already_recorded"
    other = worker.post(held.path("defer"), sent | {"retry_after_seconds": 601})
    assert other.refusal == (409, "OUTCOME_CONFLICT")


def test_an_escalation_waits_for_a_human(worker, claimed):
    sent = claimed.authority | {"worker_id": claimed.worker_id, "reason": "I do not know."}
    reply = worker.post(claimed.path("escalate"), sent)
    assert (reply.body["outcome"], reply.body["job"]["state"]) == ("recorded", "escalated")
    assert worker.post(claimed.path("escalate"), sent).body["outcome"] == "already_recorded"


def test_a_heartbeat_renews_without_a_revision(ops, worker, claimed):
    beat = claimed.authority | {"task_id": claimed.task_id, "progress": {"done": 1}}
    reply = worker.post("/v1/leases/heartbeat", {"leases": [beat, beat | {"fencing_token": 99}]})
    renewed, stale = reply.body["results"]
    assert (renewed["control"], stale["reason"]) == ("continue", "STALE_FENCING_TOKEN")
    assert 0 < renewed["ttl_seconds"] <= 60
    found = ops.get(f"/v1/jobs/{claimed.task_id}").body
    assert found["revision"] == claimed.job["revision"]


def test_reflections_are_numbered_and_repeat(worker, claimed):
    note = {"what_worked": "a", "what_failed": "b", "pattern_observed": "c"}
    sent = claimed.authority | {"worker_id": claimed.worker_id} | note
    first = worker.post(claimed.path("reflections"), sent)
    assert first.body["sequence_number"] == 1
    same = worker.post(claimed.path("reflections"), sent | {"sequence_number": 1})
    assert same.body["outcome"] == "already_recorded"
    other = worker.post(
        claimed.path("reflections"), sent | {"sequence_number": 1, "what_worked": "z"}
    )
    assert other.refusal == (409, "REFLECTION_CONTENT_MISMATCH")
    assert worker.post(claimed.path("reflections"), sent).body["sequence_number"] == 2


def test_control_is_compare_and_set_and_the_worker_learns_of_it(ops, worker, claimed):
    beat = {"leases": [claimed.authority | {"task_id": claimed.task_id}]}

    def control(action, revision):
        sent = {"action": action, "reason": "why", "expected_task_revision": revision}
        return ops.post(claimed.path("control"), sent, idempotency_key=key())

    def told():
        [item] = worker.post("/v1/leases/heartbeat", beat).body["results"]
        return item["control"]

    revision = claimed.job["revision"]
    paused = control("PAUSE", revision)
    assert paused.body["result_code"] == "APPLIED"
    assert told() == "pause"
    assert control("STOP", revision).refusal == (409, "REVISION_MISMATCH")
    resumed = control("RESUME", paused.body["job"]["revision"])
    assert told() == "continue"
    stopped = control("STOP", resumed.body["job"]["revision"])
    assert stopped.body["job"]["state"] == "stopped"
    assert told() == "stop"
    body = claimed.authority | {"worker_id": claimed.worker_id, "result": {}}
    assert worker.post(claimed.path("complete"), body).status == 409
    assert state_of(ops, claimed.task_id) == "stopped"


def test_a_revision_in_if_match_is_a_precondition_of_control(ops, claimed):
    revision = claimed.job["revision"]
    sent = {"action": "PAUSE", "reason": "why", "expected_task_revision": revision}
    stale = ops.post(claimed.path("control"), sent, if_match='"r999"', idempotency_key=key())
    assert stale.refusal == (412, "REVISION_MISMATCH")
    tag = ops.get(f"/v1/jobs/{claimed.task_id}").headers["ETag"]
    done = ops.post(claimed.path("control"), sent, if_match=tag, idempotency_key=key())
    assert done.status == 200


def test_a_task_that_breaks_the_rules_of_risk_is_refused(ops, envelope):
    for over in (
        {"risk_tier": "high"},
        {"risk_tier": "high", "review_required": True},
        {"preferred_owner": "nobody_there"},
        {"preferred_owner": "openclaw", "owner_role": "hermes"},
    ):
        task = envelope(**over)
        assert ops.post("/v1/jobs", task).status == 400
        assert ops.get(f"/v1/jobs/{task['task_id']}").status == 404


def test_a_half_authority_is_none(worker, claimed):
    for half in ({"attempt": 1}, {"fencing_token": claimed.job["fencing_token"]}):
        reply = worker.post(claimed.path("complete"), half | {"result": {}})
        assert reply.refusal == (409, "FENCING_TOKEN_REQUIRED")


def test_completions_in_a_batch_are_judged_each_by_itself(ops, worker, envelope):
    first, second = (claim_new(ops, worker, envelope()) for _ in range(2))
    done = [
        {"task_id": held.task_id, "worker_id": held.worker_id, "result": {}} | held.authority
        for held in (first, second)
    ]
    done[1] |= {"fencing_token": 999_999}
    reply = worker.post("/v1/jobs/complete/batch", {"completions": [*done, done[0]]})
    statuses = [item["status"] for item in reply.body["results"]]
    assert (reply.status, statuses) == (200, [200, 409, 200])
    assert reply.body["results"][1]["reason"] == "STALE_FENCING_TOKEN"
    assert reply.body["results"][2]["outcome"] == "already_recorded"


def test_a_revision_in_if_match_is_a_precondition(worker, claimed):
    body = claimed.authority | {"worker_id": claimed.worker_id, "result": {}}
    assert worker.post(claimed.path("complete"), body, if_match='"r999"').status == 412
    tag = worker.get(f"/v1/jobs/{claimed.task_id}").headers["ETag"]
    assert worker.post(claimed.path("complete"), body, if_match=tag).status == 200


def test_jobs_are_listed_in_pages(ops, envelope):
    for _ in range(3):
        ops.post("/v1/jobs", envelope())
    first = ops.get("/v1/jobs?page_size=2").body
    assert len(first["results"]) == 2
    assert "count" not in first
    assert ops.send("GET", first["next"]).body["results"]


def test_the_events_of_a_job_tell_its_life(ops, claimed):
    events = ops.get(claimed.path("events")).body["results"]
    assert sorted(event["seq"] for event in events) == [1, 2]
    assert {event["action"] for event in events} == {"job.queued", "job.claimed"}
