"""What is signed, by which key, and what verifies."""

from __future__ import annotations

import base64
import copy
import multiprocessing
import os
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey

from governance.core import digests
from governance.evidence import envelopes

PAYLOAD = {
    "task_id": "task-1",
    "job_id": "018f0000-0000-7000-8000-000000000001",
    "agent": "hermes",
    "task_type": "artifact_production",
    "risk_tier": "low",
    "title": "Write the report",
    "goal": "One page for the board.",
    "inputs": {"pages": 1, "language": "en"},
    "output_required": True,
    "review_required": False,
    "execution_approval_required": False,
    "rollback_required": False,
    "issued_at": "2026-01-02T03:04:05Z",
}


@pytest.fixture(autouse=True)
def data_dir(tmp_path, settings):
    settings.DATA_DIR = tmp_path / "data"
    return settings.DATA_DIR


def test_a_signed_envelope_verifies_to_its_canonical_payload():
    envelope = envelopes.sign(PAYLOAD)

    assert envelopes.verify(envelope) == digests.canonical(PAYLOAD)
    assert envelopes.payload_of(envelope) == digests.canonical(PAYLOAD)
    assert envelope["payloadType"] == "application/vnd.fencepost.execution-envelope+json"


def test_another_implementation_of_dsse_verifies_it_with_the_published_keys():
    envelope = envelopes.sign(PAYLOAD)
    keys = [
        SSlibKey(k["keyid"], k["keytype"], k["scheme"], k["keyval"])
        for k in envelopes.public_keys()["keys"]
    ]

    accepted = Envelope.from_dict(copy.deepcopy(envelope)).verify(keys, 1)

    assert list(accepted) == [envelope["signatures"][0]["keyid"]]


@pytest.mark.parametrize("field", ["attempt", "runtime", "priority", "labels", "max_attempts"])
def test_nothing_that_changes_between_attempts_can_be_signed(field):
    with pytest.raises(ValueError, match=field):
        envelopes.sign(PAYLOAD | {field: 1})


def test_a_missing_field_is_not_signed():
    with pytest.raises(ValueError, match="goal"):
        envelopes.sign({k: v for k, v in PAYLOAD.items() if k != "goal"})


def test_the_digest_is_the_same_for_every_attempt():
    digest = digests.execution_digest(envelopes.payload_of(envelopes.sign(PAYLOAD)))
    binding = {"task_id": "task-1", "job_id": PAYLOAD["job_id"], "runtime": "openai"}

    ids = {
        digests.external_request_id(**binding, execution_digest=digest, attempt=attempt)
        for attempt in (1, 2, 3)
    }

    assert digest == digests.execution_digest(envelopes.payload_of(envelopes.sign(PAYLOAD)))
    assert len(ids) == 3


def _changed_payload(envelope):
    payload = digests.canonical(PAYLOAD | {"risk_tier": "high"})
    return envelope | {"payload": base64.b64encode(payload).decode()}


def _foreign_key(envelope):
    signature = envelope["signatures"][0]
    return envelope | {"signatures": [signature | {"keyid": "0" * 64}]}


def _changed_signature(envelope):
    signature = envelope["signatures"][0]
    return envelope | {"signatures": [signature | {"sig": base64.b64encode(b"x" * 64).decode()}]}


@pytest.mark.parametrize(
    "forge",
    [
        _changed_payload,
        _foreign_key,
        _changed_signature,
        lambda envelope: envelope | {"payloadType": "text/plain"},
        lambda envelope: envelope | {"signatures": []},
        lambda envelope: envelope | {"signatures": None},
        lambda envelope: envelope | {"signatures": envelope["signatures"] * 9},
        lambda envelope: envelope | {"signatures": ["x"]},
        lambda envelope: envelope | {"signatures": [{"keyid": 1, "sig": 2}]},
        lambda envelope: envelope | {"payload": "not base64!"},
        lambda envelope: {},
    ],
)
def test_a_forged_envelope_does_not_verify(forge):
    with pytest.raises(envelopes.EnvelopeInvalid):
        envelopes.verify(forge(envelopes.sign(PAYLOAD)))


def test_the_type_is_inside_the_signature():
    other = envelopes.sign(PAYLOAD, payload_type="application/vnd.fencepost.other+json")

    with pytest.raises(envelopes.EnvelopeInvalid):
        envelopes.verify(other | {"payloadType": envelopes.EXECUTION_TYPE})


def test_after_a_rotation_old_envelopes_verify_and_new_ones_carry_the_new_key():
    before = envelopes.sign(PAYLOAD)

    old, new = envelopes.rotate()
    after = envelopes.sign(PAYLOAD)

    assert before["signatures"][0]["keyid"] == old != new == after["signatures"][0]["keyid"]
    assert envelopes.verify(before) == envelopes.verify(after)
    assert [(k["keyid"], k["state"]) for k in envelopes.public_keys()["keys"]] == [
        (new, "active"),
        (old, "retired"),
    ]


def test_nothing_private_is_kept_of_a_retired_key(data_dir):
    envelopes.sign(PAYLOAD)
    envelopes.rotate()

    private = [p.name for p in (data_dir / "keys").glob("*.pem") if b"PRIVATE" in p.read_bytes()]

    assert private == ["signing.pem"]


def test_a_crash_in_the_middle_of_a_rotation_leaves_one_usable_key(monkeypatch):
    before = envelopes.sign(PAYLOAD)
    monkeypatch.setattr(envelopes, "_new_pem", lambda: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        envelopes.rotate()

    assert envelopes.verify(before)
    assert len(envelopes.public_keys()["keys"]) == 1


def test_key_files_are_for_their_owner_only(data_dir):
    envelopes.sign(PAYLOAD)
    envelopes.rotate()

    folder = data_dir / "keys"
    modes = {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}

    assert modes == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_key_that_others_can_read_is_not_used(data_dir):
    envelopes.sign(PAYLOAD)
    os.replace(data_dir / "keys/signing.pem", data_dir / "keys/other")
    (data_dir / "keys/signing.pem").write_bytes((data_dir / "keys/other").read_bytes())
    (data_dir / "keys/signing.pem").chmod(0o644)

    with pytest.raises(envelopes.SigningKeyUnusable, match="0600"):
        envelopes.sign(PAYLOAD)


def test_a_damaged_key_is_not_replaced(data_dir):
    (data_dir / "keys").mkdir(parents=True)
    (data_dir / "keys/signing.pem").write_bytes(b"damaged")
    (data_dir / "keys/signing.pem").chmod(0o600)

    with pytest.raises(envelopes.SigningKeyUnusable):
        envelopes.sign(PAYLOAD)

    assert (data_dir / "keys/signing.pem").read_bytes() == b"damaged"


def test_concurrent_first_use_makes_one_key():
    with ThreadPoolExecutor(16) as pool:
        keyids = set(pool.map(lambda _: envelopes.active_key().keyid, range(64)))

    assert len(keyids) == 1


def _keyid_in_a_process(folder, barrier, answers):
    from django.conf import settings

    settings.DATA_DIR = folder
    barrier.wait(timeout=20)
    answers.put(envelopes.active_key().keyid)


def test_processes_that_start_together_make_one_key(data_dir):
    fork = multiprocessing.get_context("fork")
    barrier, answers = fork.Barrier(4), fork.Queue()
    started = [
        fork.Process(target=_keyid_in_a_process, args=(data_dir, barrier, answers))
        for _ in range(4)
    ]
    for process in started:
        process.start()
    keyids = {answers.get(timeout=20) for _ in started}
    for process in started:
        process.join(timeout=20)

    assert keyids == {envelopes.active_key().keyid}
