"""Sections 4 and 9: artifacts by grant; the bytes go to the store and not through the API."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from tests.contract.conftest import TIMEOUT_SECONDS, Acting, Claimed, key

BYTES = b"# A specification\n"
GRANT_MEMBERS = {
    *("upload_id", "method", "url", "headers", "object_key", "expires_at", "max_bytes"),
}


@dataclass
class Uploading:
    """An acting session, and the calls that bring one object to the store."""

    acting: Acting
    body: bytes = BYTES

    @property
    def authority(self) -> dict[str, Any]:
        return {"task_id": self.acting.held.task_id, **self.acting.held.authority}

    @property
    def content(self) -> dict[str, Any]:
        return {"sha256": hashlib.sha256(self.body).hexdigest(), "size_bytes": len(self.body)}

    def grant(self, **over: Any):
        named = {"name": "spec.md", "media_type": "text/markdown"}
        return self.acting.post("/v1/uploads", self.authority | named | self.content | over)

    def complete(self, grant: Any, **over: Any):
        path = f"/v1/uploads/{grant.body['upload_id']}/complete"
        return self.acting.post(path, self.authority | self.content | over)


def put(grant: Any, body: bytes, url: str = "") -> int:
    """Send the bytes as the grant says: its method, its address, exactly its headers."""
    told = grant.body
    # The length is set by the client from what is sent.
    sent = {name: text for name, text in told["headers"].items() if name != "Content-Length"}
    with httpx2.Client(timeout=TIMEOUT_SECONDS, trust_env=False) as store:
        return store.request(
            told["method"], url or told["url"], content=body, headers=sent
        ).status_code


@pytest.fixture
def uploading(acting: Acting) -> Uploading:
    # A content of its own: a store may know the object of another test.
    return Uploading(acting, BYTES + str(uuid4()).encode())


def test_an_artifact_is_granted_put_and_accepted_once(ops, uploading):
    grant = uploading.grant()
    assert grant.status == 201
    assert grant.body.keys() >= GRANT_MEMBERS
    assert grant.body["max_bytes"] == len(uploading.body)
    assert str(uploading.acting.held.job["fencing_token"]) in grant.body["object_key"].split("/")
    assert put(grant, uploading.body) in (200, 201)

    done = uploading.complete(grant)
    assert (done.status, done.body["outcome"]) == (200, "recorded")
    assert done.body["result_code"] == "APPLIED"
    assert done.body["artifact_id"] and done.body["fact_id"]
    again = uploading.complete(grant)
    assert again.body == done.body | {"outcome": "already_recorded"}
    events = ops.get(uploading.acting.held.path("events")).body["results"]
    assert [event["action"] for event in events].count("artifact.uploaded") == 1


def test_nothing_is_accepted_before_the_store_has_it(uploading):
    grant = uploading.grant()
    assert uploading.complete(grant).refusal == (409, "CHECKSUM_MISMATCH")
    put(grant, uploading.body)
    assert uploading.complete(grant).status == 200


@pytest.mark.parametrize("change", [lambda b: b[:-1], lambda b: b + b"x", lambda b: b[::-1]])
def test_other_bytes_than_announced_are_not_accepted(uploading, change):
    grant = uploading.grant()
    assert put(grant, change(uploading.body)) >= 400
    assert uploading.complete(grant).refusal == (409, "CHECKSUM_MISMATCH")


def test_an_object_is_put_once(uploading):
    grant = uploading.grant()
    assert put(grant, uploading.body) in (200, 201)
    assert put(grant, uploading.body) == 412
    assert uploading.complete(grant).status == 200


def test_a_grant_that_was_changed_opens_nothing(uploading):
    grant = uploading.grant()
    middle = len(grant.body["url"]) * 3 // 4
    flipped = "A" if grant.body["url"][middle] != "A" else "B"
    forged = grant.body["url"][:middle] + flipped + grant.body["url"][middle + 1 :]
    assert put(grant, uploading.body, forged) in (400, 403, 404)
    assert uploading.complete(grant).refusal == (409, "CHECKSUM_MISMATCH")


def test_the_completion_names_what_was_granted(uploading):
    grant = uploading.grant()
    put(grant, uploading.body)
    assert uploading.complete(grant, sha256="0" * 64).refusal == (409, "CHECKSUM_MISMATCH")
    assert uploading.complete(grant, size_bytes=1).refusal == (409, "CHECKSUM_MISMATCH")
    assert uploading.complete(grant).status == 200
    assert uploading.complete(grant, size_bytes=1).refusal == (409, "CHECKSUM_MISMATCH")


def test_a_second_artifact_of_the_same_name_is_refused(uploading):
    other = Uploading(uploading.acting, uploading.body + b"more")
    first, second = uploading.grant(), other.grant()
    put(first, uploading.body), put(second, other.body)
    done = uploading.complete(first)
    refused = other.complete(second)
    assert refused.refusal == (409, "ARTIFACT_EXISTS")
    assert refused.body["current"] == {"artifact_id": done.body["artifact_id"]}


def test_a_fenced_attempt_gets_neither_grant_nor_artifact(ops, uploading):
    grant = uploading.grant()
    put(grant, uploading.body)
    held = uploading.acting.held
    stop = {"action": "STOP", "reason": "why", "expected_task_revision": held.job["revision"]}
    assert ops.post(held.path("control"), stop, idempotency_key=key()).status == 200
    assert uploading.grant().refusal == (409, "STALE_FENCING_TOKEN")
    assert uploading.complete(grant).refusal == (409, "STALE_FENCING_TOKEN")
    # Of several refusals the token's comes first.
    assert uploading.complete(grant, size_bytes=1).refusal == (409, "STALE_FENCING_TOKEN")


@pytest.mark.parametrize(
    "over",
    [
        {"name": "../spec.md"},
        {"name": "/etc/passwd"},
        {"name": "a/b"},
        {"name": "a\\b"},
        {"name": ".."},
        {"name": "a\nb"},
        {"name": ""},
        {"media_type": "text"},
        {"media_type": "text/html\r\nX: y"},
        {"size_bytes": -1},
        {"size_bytes": 1 << 50},
        {"sha256": "../" + "a" * 61},
        {"unknown": 1},
    ],
)
def test_a_malformed_grant_is_refused(uploading, over):
    assert uploading.grant(**over).status == 400


def test_an_upload_is_for_activated_sessions_with_a_key(ops, worker, uploading, claimed):
    implicit = Uploading(Acting(worker, claimed, {}))
    assert implicit.grant().refusal == (401, "SESSION_REQUIRED")
    body = uploading.authority | {"name": "a", "media_type": "text/plain"} | uploading.content
    session = uploading.acting.session
    assert worker.post("/v1/uploads", body, **session).refusal == (400, "IDEMPOTENCY_KEY_REQUIRED")
    assert ops.post("/v1/uploads", body, idempotency_key=key()).status == 403


def test_another_agent_reaches_no_upload(stranger, uploading):
    grant = uploading.grant()
    path = f"/v1/uploads/{grant.body['upload_id']}/complete"
    body = uploading.authority | uploading.content
    assert stranger.post(path, body, idempotency_key=key()).status == 403
    absent = uploading.acting.post(f"/v1/uploads/{uuid4()}/complete", body)
    assert (absent.status, absent.body["code"]) == (404, "NOT_FOUND")


def test_an_upload_belongs_to_its_task(uploading, claimed: Claimed):
    grant = uploading.grant()
    put(grant, uploading.body)
    elsewhere = {"task_id": claimed.task_id, **claimed.authority}
    refused = uploading.complete(grant, **elsewhere)
    assert refused.status in (401, 404, 409)
    assert uploading.complete(grant).status == 200
