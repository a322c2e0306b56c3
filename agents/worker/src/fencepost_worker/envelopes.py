"""Verifies the signed statement of what may be done, before anything is done.

Source: DSSE v1, https://github.com/secure-systems-lab/dsse/blob/master/protocol.md
"""

import base64
import binascii
import json
import threading
from collections.abc import Callable
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fencepost_worker.claim import Claim, Job
from fencepost_worker.client import Call, ControlPlane, Refused
from fencepost_worker.identity import canonical, sha256_hex
from fencepost_worker.timing import steady_now

PAYLOAD_TYPE = "application/vnd.fencepost.execution-envelope+json"
KEYS_PATH = "/.well-known/fencepost/keys.json"
#: An envelope with an unknown key makes us look for new keys, but not at every such envelope.
REFRESH_SECONDS = 5.0

#: The payload has these members and no others.
PAYLOAD_MEMBERS = frozenset(
    {
        "task_id",
        "job_id",
        "agent",
        "task_type",
        "risk_tier",
        "title",
        "goal",
        "inputs",
        "output_required",
        "review_required",
        "execution_approval_required",
        "rollback_required",
        "issued_at",
    }
)
#: What the job says beside its envelope, under the name that it has there.
STATED_BESIDE = {"owner": "agent"} | {
    name: name for name in PAYLOAD_MEMBERS - {"agent", "issued_at"}
}


class EnvelopeUnverified(Exception):
    """The claim's envelope does not prove what may be done."""


class KeysUnavailable(Exception):
    """The control plane does not serve its keys; that says nothing against the envelope."""


def pre_authentication_encoding(payload_type: str, payload: bytes) -> bytes:
    """Return the bytes that a DSSE signature covers."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def read_keys(document: dict[str, Any]) -> dict[str, Ed25519PublicKey]:
    """Return the Ed25519 keys of a keys document by their id; keys of other kinds are left out.

    :raises ValueError: the document holds no list of keys, or a broken one.
    """
    keys = document.get("keys")
    if not isinstance(keys, list):
        raise ValueError("the keys document has no list of keys")
    found = {}
    for key in keys:
        if isinstance(key, dict) and key.get("keytype") == "ed25519":
            public = bytes.fromhex(str((key.get("keyval") or {}).get("public", "")))
            found[str(key.get("keyid", ""))] = Ed25519PublicKey.from_public_bytes(public)
    return found


class KeyRing:
    """The control plane's public keys, fetched when first needed and when a new id turns up."""

    def __init__(
        self, *, plane: ControlPlane, pinned: dict[str, Ed25519PublicKey] | None = None
    ) -> None:
        """Make a ring. With `pinned` keys nothing is ever fetched and no other key is trusted."""
        self._plane = plane
        self._pinned = pinned is not None
        self._keys = pinned or {}
        self._fetched_at: float | None = None
        self._lock = threading.Lock()

    def find(self, keyid: str, *, wait: Callable[[float], bool]) -> Ed25519PublicKey | None:
        """Return the key of this id, or None when the control plane does not publish it.

        :param wait: as in `ControlPlane.deliver`.
        :raises KeysUnavailable: the control plane does not serve keys.
        :raises GaveUp: the keys could not be fetched in time.
        """
        with self._lock:
            if keyid not in self._keys and not self._pinned and self._stale():
                try:
                    answer = self._plane.deliver(Call("GET", KEYS_PATH), wait=wait)
                    self._keys = read_keys(answer.body)
                except (Refused, ValueError) as error:
                    raise KeysUnavailable(str(error)) from error
                self._fetched_at = steady_now()
            return self._keys.get(keyid)

    def _stale(self) -> bool:
        return self._fetched_at is None or steady_now() - self._fetched_at > REFRESH_SECONDS


def verified_job(claim: Claim, *, agent: str, keys: KeyRing, wait: Callable[[float], bool]) -> Job:
    """Return the job with its task as signed.

    :raises EnvelopeUnverified: no valid signature, another digest, another agent, or a task that
        differs from what the job says beside its envelope.
    :raises KeysUnavailable: the control plane does not serve keys.
    :raises GaveUp: the keys could not be fetched in time.
    """
    payload = _signed_payload(claim.document.get("envelope"), keys=keys, wait=wait)
    if sha256_hex(payload) != claim.execution_digest:
        raise EnvelopeUnverified("the execution digest is not that of the envelope")
    try:
        task = json.loads(payload)
    except ValueError as error:
        raise EnvelopeUnverified("the payload is not JSON") from error
    if not isinstance(task, dict) or task.keys() != PAYLOAD_MEMBERS:
        raise EnvelopeUnverified("the payload has not the members of an execution envelope")
    if task["agent"] != agent:
        raise EnvelopeUnverified("the envelope is for another agent")
    for stated, signed in STATED_BESIDE.items():
        if stated in claim.document and not _same(claim.document[stated], task[signed]):
            raise EnvelopeUnverified(f"the job's {stated} is not the signed one")
    return Job(claim=claim, task=task)


def _signed_payload(envelope: Any, *, keys: KeyRing, wait: Callable[[float], bool]) -> bytes:
    if not isinstance(envelope, dict) or envelope.get("payloadType") != PAYLOAD_TYPE:
        raise EnvelopeUnverified("there is no execution envelope")
    payload = _base64(envelope.get("payload"))
    covered = pre_authentication_encoding(PAYLOAD_TYPE, payload)
    signatures = envelope.get("signatures")
    for signature in signatures if isinstance(signatures, list) else []:
        if not isinstance(signature, dict):
            continue
        key = keys.find(str(signature.get("keyid", "")), wait=wait)
        if key is not None and _verifies(key, _base64(signature.get("sig")), covered):
            return payload
    raise EnvelopeUnverified("no signature of a known key verifies")


def _verifies(key: Ed25519PublicKey, signature: bytes, covered: bytes) -> bool:
    try:
        key.verify(signature, covered)
    except InvalidSignature:
        return False
    return True


def _base64(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError, binascii.Error) as error:
        raise EnvelopeUnverified("the envelope is not base64") from error


def _same(one: Any, other: Any) -> bool:
    # Python holds True == 1; canonical bytes do not.
    return canonical(one) == canonical(other)
