"""Section 4: sessions, presence, admission."""

from __future__ import annotations

from uuid import uuid4

from tests.contract.conftest import claim_new, headers, key


def test_the_same_activation_gets_the_same_session(cell):
    first = cell.activate("a", "op-" + cell.cell_id)
    assert first.status == 200
    assert first.body.keys() >= {
        *("session_id", "session_generation", "dispatcher_epoch"),
        "heartbeat_interval_seconds",
    }
    assert cell.activate("a", "op-" + cell.cell_id).body == first.body
    other = cell.activate("b", "op-" + cell.cell_id)
    assert other.refusal == (422, "IDEMPOTENCY_KEY_REUSED")


def test_a_newer_boot_fences_the_older_for_ever(cell, ops, worker, envelope):
    old = cell.activate("a")
    held = claim_new(ops, worker, envelope(), **headers(old))
    new = cell.activate("b")
    assert new.body["session_generation"] > old.body["session_generation"]
    body = held.authority | {"result": {}}
    reply = worker.post(held.path("complete"), body, **headers(old))
    assert reply.refusal == (401, "SESSION_SUPERSEDED")
    assert cell.activate("a").refusal == (401, "SESSION_SUPERSEDED")
    beat = worker.post(f"{cell.path}/heartbeat", {"runtime": "command"}, **headers(old))
    assert beat.refusal == (401, "SESSION_SUPERSEDED")
    lease = held.authority | {"task_id": held.task_id}
    renewed = worker.post("/v1/leases/heartbeat", {"leases": [lease]}, **headers(old))
    assert renewed.refusal == (401, "SESSION_SUPERSEDED")


def test_the_holding_session_gets_its_lease_again(cell, ops, worker, envelope):
    session = cell.activate("a")
    held = claim_new(ops, worker, envelope(), **headers(session))
    again = worker.post(held.path("claim"), {"worker_id": held.worker_id}, **headers(session))
    assert again.body["outcome"] == "already_running"
    assert again.body["fencing_token"] == held.job["fencing_token"]


def test_an_unknown_session_and_a_foreign_epoch_are_refused(cell, worker):
    session = cell.activate("a")
    unknown = headers(session) | {"fencepost_session": str(uuid4())}
    assert worker.post(f"{cell.path}/heartbeat", {}, **unknown).status == 401
    foreign = headers(session) | {"fencepost_epoch": str(uuid4())}
    reply = worker.post(f"{cell.path}/heartbeat", {}, **foreign)
    assert reply.refusal == (409, "DISPATCHER_EPOCH_STALE")
    assert reply.body["current"]["dispatcher_epoch"] == session.body["dispatcher_epoch"]


def test_an_unsupported_protocol_is_refused_with_the_range(cell):
    reply = cell.activate("a", protocol_version="0.1")
    assert reply.status == 400
    assert reply.body["current"]["supported"].keys() >= {"min", "max"}


def test_presence_tells_admission_inhibit_and_epoch(cell, worker):
    session = cell.activate("a")
    told = worker.post(f"{cell.path}/heartbeat", {"runtime": "command"}, **headers(session)).body
    assert told["admission"]["state"] == "open"
    assert told["admission"]["generation"] >= 1
    assert told["inhibit"] is None
    assert told["dispatcher_epoch"] == session.body["dispatcher_epoch"]
    status = worker.get(f"{cell.path}/status").body
    assert cell.cell_id in [live["cell_id"] for live in status["sessions"]]


def test_bootstrap_says_what_the_agent_may_do(cell, worker, target):
    told = worker.get(f"{cell.path}/bootstrap").body
    assert target.task_type in [kind["task_type"] for kind in told["job_types"]]
    assert told["keys"]["keys"]


def test_nobody_speaks_for_another_agent(cell, stranger):
    body = {"runtime": "command"}
    assert stranger.post(f"{cell.path}/heartbeat", body).status == 403
    assert stranger.get(f"{cell.path}/status").status == 403


def test_admission_is_a_barrier_with_a_generation(cell, ops, worker, envelope):
    before = ops.get(f"{cell.path}/status").body["admission"]["generation"]

    def move(state, expected, barrier=None, caller=ops):
        body = {
            "state": state,
            "barrier_id": barrier or str(uuid4()),
            "expected_generation": expected,
            "reason": "conformance",
        }
        return caller.post(f"{cell.path}/admission", body, idempotency_key=key())

    held = claim_new(ops, worker, envelope())
    task = envelope()
    ops.post("/v1/jobs", task)
    claim = f"/v1/jobs/{task['task_id']}/claim"
    try:
        barrier = str(uuid4())
        drained = move("draining", before, barrier, caller=worker)
        assert drained.body["generation"] == before + 1
        assert drained.body["active_leases"] >= 1
        assert worker.post(claim, {"worker_id": "w"}).refusal == (409, "ADMISSION_DRAINING")
        lease = held.authority | {"task_id": held.task_id}
        [beat] = worker.post("/v1/leases/heartbeat", {"leases": [lease]}).body["results"]
        assert beat["control"] == "drain"
        assert move("open", before + 1, caller=worker).status == 403

        replayed = move("draining", before, barrier, caller=ops)
        assert replayed.body["generation"] == before + 1
        assert move("closed", before, barrier).refusal == (409, "BARRIER_CONFLICT")
        stale = move("closed", before)
        assert stale.refusal == (409, "GENERATION_MISMATCH")
        assert stale.body["current"]["generation"] == before + 1

        assert move("closed", before + 1).body["state"] == "closed"
        assert worker.post(claim, {"worker_id": "w"}).refusal == (409, "ADMISSION_CLOSED")
    finally:
        now = ops.get(f"{cell.path}/status").body["admission"]["generation"]
        assert move("open", now).body["state"] == "open"
    assert worker.post(claim, {"worker_id": "w", "lease_seconds": 60}).status == 200
