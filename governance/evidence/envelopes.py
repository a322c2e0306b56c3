"""Signed envelopes (DSSE, Ed25519) and the keys that sign them.

The active key is `DATA_DIR/keys/signing.pem`, made on first use.  Of a retired key only the public
half is kept, so that what it signed still verifies and nothing new can be signed with it.  Web
processes on several machines share one `DATA_DIR/keys`.

Source: Dead Simple Signing Envelope v1 (secure-systems-lab/dsse, protocol.md).
"""

from __future__ import annotations

import base64
import binascii
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)
from django.conf import settings

from governance.core.digests import canonical, sha256_hex

EXECUTION_TYPE = "application/vnd.fencepost.execution-envelope+json"
#: What an execution envelope states: all of it and nothing else. An attempt is never part of it.
EXECUTION_FIELDS = frozenset(
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
SIGNING_KEY = "signing.pem"
#: How many signatures of an envelope are looked at.
SIGNATURES_MAX = 8


class EnvelopeInvalid(ValueError):
    """The envelope is malformed, of another type, or signed by no key of ours."""


class SigningKeyUnusable(RuntimeError):
    """The signing key cannot be read, or others on this machine could read it."""


@dataclass(frozen=True)
class SigningKey:
    """An Ed25519 key; `keyid` is the SHA-256 (hex) of the 32 public bytes."""

    keyid: str
    private: Ed25519PrivateKey


def sign(payload: Mapping[str, Any], *, payload_type: str = EXECUTION_TYPE) -> dict[str, Any]:
    """Return the DSSE envelope, a JSON object, over the canonical bytes of `payload`.

    :raises ValueError: the payload has no canonical form, or an execution envelope would state
        more or less than `EXECUTION_FIELDS`.
    :raises SigningKeyUnusable: the key file is not ours alone, or not a key.
    """
    if payload_type == EXECUTION_TYPE and payload.keys() != EXECUTION_FIELDS:
        odd = ", ".join(sorted(payload.keys() ^ EXECUTION_FIELDS))
        raise ValueError(f"an execution envelope states its fields exactly; check: {odd}")
    body = canonical(payload)
    key = active_key()
    signature = key.private.sign(pre_authentication(payload_type, body))
    return {
        "payload": base64.b64encode(body).decode(),
        "payloadType": payload_type,
        "signatures": [{"keyid": key.keyid, "sig": base64.b64encode(signature).decode()}],
    }


def verify(
    envelope: Mapping[str, Any],
    *,
    payload_type: str = EXECUTION_TYPE,
    trusted: Mapping[str, Any] | None = None,
) -> bytes:
    """Return the payload bytes of an envelope that a key of ours, active or retired, signed.

    :param trusted: a document of public keys, as `public_keys` returns it, to go by instead.
    :raises EnvelopeInvalid: it does not verify, or is of another type.
    """
    body = payload_of(envelope)
    if envelope.get("payloadType") != payload_type:
        raise EnvelopeInvalid("the envelope is of another type")
    signatures = envelope.get("signatures")
    if not isinstance(signatures, list) or len(signatures) > SIGNATURES_MAX:
        raise EnvelopeInvalid(f"an envelope has 1 to {SIGNATURES_MAX} signatures")
    document = public_keys() if trusted is None else trusted
    keys = {entry["keyid"]: entry["keyval"]["public"] for entry in document["keys"]}
    signed = pre_authentication(payload_type, body)
    for signature in signatures:
        if not isinstance(signature, Mapping):
            continue
        public = keys.get(str(signature.get("keyid")))
        if public is not None and _verifies(public, signature.get("sig"), signed):
            return body
    raise EnvelopeInvalid("no key of ours signed this envelope")


def payload_of(envelope: Mapping[str, Any]) -> bytes:
    """Return the payload bytes of an envelope, without verifying who signed them.

    :raises EnvelopeInvalid: it has no payload, or is not even an object.
    """
    if not isinstance(envelope, Mapping):
        raise EnvelopeInvalid("it is no envelope")
    return _decoded(envelope.get("payload"))


def pre_authentication(payload_type: str, body: bytes) -> bytes:
    """Return the bytes that are signed (PAE): the type is inside, so none can be swapped."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(body), body)


def public_keys() -> dict[str, Any]:
    """Return the document at `/.well-known/fencepost/keys.json`, the active key first.

    Each key has `keyid`, `keytype`, `scheme`, `keyval.public` (64 hexadecimal digits) and
    `state` (`active` or `retired`).
    """
    active = active_key()
    raw = active.private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    entries = [_entry(active.keyid, raw, "active")]
    for path in sorted(_folder().glob("retired-*.pem")):
        raw = _retired(path, path.stat().st_mtime_ns)
        if (keyid := sha256_hex(raw)) != active.keyid:
            entries.append(_entry(keyid, raw, "retired"))
    return {"keys": entries}


def active_key() -> SigningKey:
    """Return the key that signs, made now if there is none. Notices a rotation at once."""
    path = Path(settings.DATA_DIR) / "keys" / SIGNING_KEY
    try:
        found = path.stat()
    except FileNotFoundError:
        _make_first(_folder() / SIGNING_KEY)
        found = path.stat()
    return _load(path, found.st_ino, found.st_mtime_ns)


def rotate() -> tuple[str, str]:
    """Retire the active key, make another, and return both key ids, the retired one first.

    Whoever signs at the same moment uses one of the two; both verify.
    """
    with _locked() as folder:
        old = active_key()
        public = old.private.public_key().public_bytes(
            Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
        )
        # First the public half: a crash between the two steps must leave the old key verifiable.
        os.replace(_written(folder, public), folder / f"retired-{old.keyid}.pem")
        os.replace(_written(folder, _new_pem()), folder / SIGNING_KEY)
        _sync(folder)
        return old.keyid, active_key().keyid


def _make_first(path: Path) -> None:
    """Make the key file, complete from its first moment; of several at once one wins."""
    made = _written(path.parent, _new_pem())
    try:
        os.link(made, path)
    except FileExistsError:
        return
    finally:
        made.unlink()
    _sync(path.parent)


def _folder() -> Path:
    folder = Path(settings.DATA_DIR) / "keys"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _new_pem() -> bytes:
    return Ed25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )


def _written(folder: Path, content: bytes) -> Path:
    """Return a new file of the folder with `content`, mode 0600 and on disk."""
    path = folder / f".new-{secrets.token_hex(8)}"
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return path


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _locked() -> Iterator[Path]:
    folder = _folder()
    handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield folder
    finally:
        os.close(handle)


@lru_cache(maxsize=2)
def _load(path: Path, _inode: int, _mtime_ns: int) -> SigningKey:
    # Inode and time are part of the cache's key: another file is another key.
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise SigningKeyUnusable(f"{path.name} must be readable by its owner only (mode 0600)")
    try:
        private = load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError) as error:
        raise SigningKeyUnusable(f"{path.name} cannot be read: {error}") from error
    if not isinstance(private, Ed25519PrivateKey):
        raise SigningKeyUnusable(f"{path.name} is not an Ed25519 key")
    raw = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return SigningKey(sha256_hex(raw), private)


@lru_cache(maxsize=64)
def _retired(path: Path, _mtime_ns: int) -> bytes:
    public = load_pem_public_key(path.read_bytes())
    return public.public_bytes(Encoding.Raw, PublicFormat.Raw)


def _entry(keyid: str, public: bytes, state: str) -> dict[str, Any]:
    return {
        "keyid": keyid,
        "keytype": "ed25519",
        "scheme": "ed25519",
        "keyval": {"public": public.hex()},
        "state": state,
    }


def _verifies(public_hex: str, sig: object, signed: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_hex)).verify(_decoded(sig), signed)
    except (InvalidSignature, EnvelopeInvalid):
        return False
    return True


def _decoded(text: object) -> bytes:
    if not isinstance(text, str):
        raise EnvelopeInvalid("payload and sig are base64 text")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise EnvelopeInvalid("payload and sig are base64 text") from error
