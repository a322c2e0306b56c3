"""The signed statement of what may be done is verified before anything is done."""

import base64
import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fencepost_worker.claim import Claim
from fencepost_worker.client import GaveUp
from fencepost_worker.envelopes import (
    PAYLOAD_TYPE,
    EnvelopeUnverified,
    KeyRing,
    KeysUnavailable,
    pre_authentication_encoding,
    read_keys,
    verified_job,
)
from fencepost_worker.identity import canonical, sha256_hex


def verify(claim, keys, agent="hermes"):
    return verified_job(claim, agent=agent, keys=keys, wait=lambda seconds: False)


def changed(claim, **over):
    return Claim.from_document(claim.document | over)


def signed_again(plane, claim, *, kind=PAYLOAD_TYPE, key=None, keyid="test-key", **over):
    """Return the claim with a payload that a key signed anew, its digest adjusted."""
    task = json.loads(base64.b64decode(claim.document["envelope"]["payload"])) | over
    payload = canonical({k: v for k, v in task.items() if v is not ...})
    signature = (key or plane.key).sign(pre_authentication_encoding(kind, payload))
    envelope = {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": kind,
        "signatures": [{"keyid": keyid, "sig": base64.b64encode(signature).decode()}],
    }
    return changed(claim, envelope=envelope, execution_digest=sha256_hex(payload))


def test_what_is_done_is_what_was_signed(make_claim, keys):
    job = verify(make_claim("task-1", inputs={"n": [1, 2.5, "ü"]}), keys)

    assert job.task["inputs"] == {"n": [1, 2.5, "ü"]}
    assert "attempt" not in job.task


@pytest.mark.parametrize(
    "envelope",
    [
        None,
        {},
        "text",
        {"payload": "e30=", "payloadType": "text/plain", "signatures": []},
        {"payload": "e30=", "payloadType": PAYLOAD_TYPE, "signatures": []},
        {"payload": "e30=", "payloadType": PAYLOAD_TYPE, "signatures": [None, {"sig": "AA=="}]},
        {"payload": "not base64!", "payloadType": PAYLOAD_TYPE, "signatures": []},
        {"payload": 7, "payloadType": PAYLOAD_TYPE, "signatures": None},
    ],
)
def test_what_is_no_signed_envelope_is_refused(make_claim, keys, envelope):
    with pytest.raises(EnvelopeUnverified):
        verify(changed(make_claim(), envelope=envelope), keys)


def test_a_changed_payload_is_refused(make_claim, keys):
    claim = make_claim()
    other = base64.b64encode(b'{"task_id":"task-2"}').decode()
    envelope = claim.document["envelope"] | {"payload": other}
    with pytest.raises(EnvelopeUnverified, match="no signature"):
        verify(changed(claim, envelope=envelope), keys)


def test_the_signature_of_an_unknown_key_is_refused(plane, make_claim, keys):
    claim = signed_again(plane, make_claim(), key=Ed25519PrivateKey.generate())
    with pytest.raises(EnvelopeUnverified, match="no signature"):
        verify(claim, keys)
    with pytest.raises(EnvelopeUnverified, match="no signature"):
        verify(signed_again(plane, claim, keyid="other-key"), keys)


def test_a_signature_over_another_type_is_refused(plane, make_claim, keys):
    with pytest.raises(EnvelopeUnverified):
        verify(signed_again(plane, make_claim(), kind="application/json"), keys)


def test_a_digest_that_is_not_the_payloads_is_refused(make_claim, keys):
    with pytest.raises(EnvelopeUnverified, match="digest"):
        verify(changed(make_claim(), execution_digest="0" * 64), keys)


def test_an_envelope_for_another_agent_is_refused(make_claim, keys):
    with pytest.raises(EnvelopeUnverified, match="another agent"):
        verify(make_claim(), keys, agent="openclaw")


@pytest.mark.parametrize("over", [{"attempt": 1}, {"goal": ...}])
def test_a_payload_states_its_members_exactly(plane, make_claim, keys, over):
    with pytest.raises(EnvelopeUnverified, match="members"):
        verify(signed_again(plane, make_claim(), **over), keys)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("goal", "Do something else instead."),
        ("inputs", {"n": 2}),
        ("risk_tier", "high"),
        ("review_required", 0),
        ("task_id", "task-9"),
        ("owner", "openclaw"),
    ],
)
def test_a_job_that_says_something_else_than_its_envelope_is_refused(make_claim, keys, name, value):
    with pytest.raises(EnvelopeUnverified, match=name):
        verify(changed(make_claim("task-1", inputs={"n": 1}), **{name: value}), keys)


def test_keys_are_fetched_once_and_again_for_an_unknown_one(plane, make_claim, client, monkeypatch):
    keys = KeyRing(plane=client)
    claim = make_claim()
    verify(claim, keys)
    verify(claim, keys)
    assert len(plane.calls("keys.json")) == 1

    unknown = signed_again(plane, claim, keyid="newer-key")
    with pytest.raises(EnvelopeUnverified):
        verify(unknown, keys)
    assert len(plane.calls("keys.json")) == 1, "not at every such envelope"

    monkeypatch.setattr("fencepost_worker.envelopes.REFRESH_SECONDS", 0.0)
    published = plane.keys_document()
    newer = published["keys"][0] | {"keyid": "newer-key"}
    monkeypatch.setattr(plane, "keys_document", lambda: {"keys": [*published["keys"], newer]})
    verify(unknown, keys)


def test_pinned_keys_are_the_only_ones(plane, make_claim, client):
    claim = make_claim()
    verify(claim, KeyRing(plane=client, pinned=read_keys(plane.keys_document())))
    with pytest.raises(EnvelopeUnverified):
        verify(claim, KeyRing(plane=client, pinned={}))

    assert not plane.calls("keys.json")


@pytest.mark.parametrize("document", [{}, {"keys": "none"}])
def test_keys_that_are_not_served_say_nothing_against_an_envelope(
    plane, make_claim, keys, monkeypatch, document
):
    monkeypatch.setattr(plane, "keys_document", lambda: document)
    with pytest.raises(KeysUnavailable):
        verify(make_claim(), keys)


def test_keys_that_cannot_be_fetched_in_time_end_the_wait(plane, make_claim, keys):
    plane.fail_next("keys.json", status=503)
    with pytest.raises(GaveUp):
        verify(make_claim(), keys)
