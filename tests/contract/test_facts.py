"""Sections 3, 8 and 9: facts that an agent states, and their receipts."""

from __future__ import annotations

import hashlib
import json
from uuid import UUID, uuid4

import pytest

from tests.contract.conftest import Cell, claim_new, headers, key


def fact(data=None, **over):
    """Return a fact that nobody has stated; of such plain data sorted keys are its RFC 8785."""
    data = {"pages": 3, "report": "r-1"} if data is None else data
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return {
        "fact_id": f"contract-{uuid4()}",
        "content_sha256": hashlib.sha256(text.encode()).hexdigest(),
        "type": "com.example.report.published",
        "data": data,
        "subject": None,
    } | over


def subject_of(held):
    return held.authority | {"task_id": held.task_id, "worker_id": held.worker_id}


@pytest.fixture
def state(worker):
    def call(body, same=None, caller=worker, **session):
        return caller.post("/v1/facts", body, idempotency_key=same or key(), **session)

    return call


def test_a_fact_gets_a_durable_receipt(state, claimed):
    asked = fact(subject=subject_of(claimed))
    first, second = state(asked), state(fact(subject=subject_of(claimed)))
    assert first.status == 200
    assert first.body.keys() >= {
        *("receipt_id", "fact_id", "sequence", "recorded_at", "result_code"),
    }
    assert UUID(first.body["receipt_id"])
    assert (first.body["fact_id"], first.body["result_code"]) == (asked["fact_id"], "ACCEPTED")
    assert second.body["sequence"] == first.body["sequence"] + 1


def test_the_same_fact_again_has_its_original_receipt(state, claimed):
    asked, same = fact(subject=subject_of(claimed)), key()
    first = state(asked, same)
    replayed, restated = state(asked, same), state(asked)
    assert (replayed.content, replayed.headers["Idempotent-Replayed"]) == (first.content, "true")
    assert restated.body == first.body
    assert "Idempotent-Replayed" not in restated.headers


def test_other_content_under_the_same_id_is_a_conflict(state):
    asked = fact()
    first = state(asked)
    other = state(fact({"report": "r-2"}, fact_id=asked["fact_id"]))
    assert other.refusal == (409, "FACT_DIGEST_CONFLICT")
    assert (other.body["code"], other.body["retry"]["rule"]) == ("ABORTED", "refresh")
    assert state(asked).body == first.body


def test_a_digest_that_is_not_that_of_the_data_is_refused_and_records_nothing(state):
    asked = fact()
    wrong = state(asked | {"content_sha256": "0" * 64})
    assert wrong.refusal == (409, "CHECKSUM_MISMATCH")
    assert wrong.body["code"] == "FAILED_PRECONDITION"
    assert state(asked).status == 200


def test_the_digest_is_of_the_canonical_form_and_not_of_the_bytes_sent(state):
    assert state(fact({"b": 1, "a": [True, None, "x"]})).status == 200


def test_a_fact_without_a_subject_is_the_agents_own(state):
    first, second = state(fact()), state(fact())
    assert second.body["sequence"] == first.body["sequence"] + 1


def test_a_fact_under_a_stale_token_is_kept_as_evidence(ops, state, claimed):
    stop = {
        "action": "STOP",
        "reason": "why",
        "expected_task_revision": claimed.job["revision"],
    }
    assert ops.post(claimed.path("control"), stop, idempotency_key=key()).status == 200
    asked = fact(subject=subject_of(claimed))
    kept = state(asked)
    assert (kept.status, kept.body["sequence"]) == (200, None)
    assert state(asked).body == kept.body
    actions = [event["action"] for event in ops.get(claimed.path("events")).body["results"]]
    assert actions.count("fact.kept") == 1


def test_a_fact_of_a_superseded_process_is_refused(ops, worker, target, envelope, state):
    cell = Cell(target, worker)
    old = headers(cell.activate("a"))
    held = claim_new(ops, worker, envelope(), **old)
    cell.activate("b")
    refused = state(fact(subject=subject_of(held)), **old)
    assert refused.refusal == (401, "SESSION_SUPERSEDED")
    assert state(fact(), **old).refusal == (401, "SESSION_SUPERSEDED")


def test_a_fact_needs_a_key_and_the_scope(state, worker, ops):
    assert worker.post("/v1/facts", fact()).refusal == (400, "IDEMPOTENCY_KEY_REQUIRED")
    assert state(fact(), caller=ops).refusal == (403, "PERMISSION_DENIED")


def test_nobody_states_facts_of_another_agents_job(state, stranger, claimed):
    refused = state(fact(subject=subject_of(claimed)), caller=stranger)
    assert (refused.status, refused.body["code"]) == (403, "PERMISSION_DENIED")


def test_the_same_id_of_another_principal_is_another_fact(state, stranger):
    asked = fact()
    mine, theirs = state(asked), state(asked, caller=stranger)
    assert theirs.status == 200
    assert theirs.body["receipt_id"] != mine.body["receipt_id"]


@pytest.mark.parametrize(
    "over",
    [
        {"fact_id": ""},
        {"fact_id": "x" * 121},
        {"type": "with space"},
        {"type": "dev.fencepost.job.completed"},
        {"content_sha256": "AB" * 32},
        {"data": [1]},
        {"subject": {"task_id": "t"}},
        {"unknown": 1},
    ],
)
def test_a_malformed_fact_is_refused(state, over):
    assert state(fact() | over).status == 400
