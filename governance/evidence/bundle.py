"""The evidence bundle: all that is known of one subject's work, to be judged without this service.

A ZIP file whose `manifest.json`, a signed envelope, states the SHA-256 of every other member, and
of every line of those that are lines.  Its chain leads by a Merkle proof to a signed checkpoint.
The verifier goes along; it repeats these definitions on purpose, and a test compares.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import IO, Any
from uuid import UUID

from django.db import models

from governance.core import clock
from governance.core.audit import encode
from governance.core.digests import canonical, sha256_hex
from governance.core.models import AuditEvent
from governance.evidence import envelopes
from governance.evidence.chain import Head, stored_links
from governance.evidence.checkpoints import Checkpoint, inclusion
from governance.evidence.models import AuditCheckpoint

FORMAT = "fencepost-evidence/1"
MANIFEST_TYPE = "application/vnd.fencepost.evidence+json"
#: Every member is as old as the ZIP format can say, so that equal contents are equal files.
MEMBER_DATE = (1980, 1, 1, 0, 0, 0)
EMPTY: tuple[Any, ...] = (None, "", {}, [])
#: Tells of a payload's value whether it may leave.
Showable = Callable[[Any], bool]
README = """\
This is what the installation knows of one job, to be judged without it.

    python verify_evidence.py FILE.zip --key-fingerprint HEX

needs Python 3.11 and the package `cryptography`. Take the verifier from where you trust it rather
than from here, and the fingerprint from the installation (/.well-known/fencepost/keys.json, keyid):
keys in a bundle vouch for nobody.
"""


@dataclass(frozen=True)
class Payload:
    """A value that rows state by its digest; its bytes go along only where payloads do."""

    value: Any

    @property
    def content(self) -> bytes:
        """Return the RFC 8785 bytes, which are hashed."""
        return canonical(self.value)

    @property
    def digest(self) -> str:
        return sha256_hex(self.content)


@dataclass(frozen=True)
class Subject:
    """What a bundle is about: its audit subject, how people name it, its signed envelope."""

    audit_subject: str
    named: dict[str, str]
    envelope: dict[str, Any]
    #: Tables by name: their rows, of JSON values and `Payload`s.
    tables: dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Written:
    """A bundle that was written: what its manifest states, and whose keys signed what is in it."""

    manifest: dict[str, Any]
    signers: list[str]


@dataclass
class Members:
    """The members of a bundle, by name, and the payloads that were left out of it."""

    contents: dict[str, bytes] = field(default_factory=dict)
    lines: dict[str, list[str]] = field(default_factory=dict)
    withheld: set[str] = field(default_factory=set)

    def add(self, name: str, value: Any) -> None:
        """Add a member that is one JSON text."""
        self.contents[name] = encode(value) + b"\n"

    def add_lines(self, name: str, values: list[dict[str, Any]]) -> None:
        """Add a member that is a JSON text per line."""
        lines = [encode(value) for value in values]
        self.contents[name] = b"".join(line + b"\n" for line in lines)
        self.lines[name] = [sha256_hex(line) for line in lines]

    def stated(self) -> dict[str, Any]:
        """Return what the manifest states of each member."""
        return {
            name: {"sha256": sha256_hex(content), "bytes": len(content)}
            | ({"lines": self.lines[name]} if name in self.lines else {})
            for name, content in self.contents.items()
        }


def row_of(row: models.Model, *, plain: frozenset[str], hidden: frozenset[str]) -> dict[str, Any]:
    """Return the columns of a row, payloads as such.

    JSON and text without a bound are payloads unless they are named: a column that somebody adds
    shows nothing by accident.

    :param plain: JSON and text columns that everybody may see who may see the row.
    :param hidden: other columns that are payloads.
    """
    values: dict[str, Any] = {}
    for column in row._meta.concrete_fields:
        value = getattr(row, column.attname)
        free = isinstance(column, models.JSONField | models.TextField)
        payload = (free and column.name not in plain) or column.name in hidden
        values[column.attname] = Payload(value) if payload and value not in EMPTY else _json(value)
    return values


def write(
    out: IO[bytes],
    subject: Subject,
    *,
    verifier: bytes,
    with_payloads: bool,
    showable: Showable = lambda value: True,
) -> Written:
    """Write the bundle of a subject, and return what was written.

    Call it in a snapshot that has read the subject.

    :param verifier: the program that goes along.
    :param showable: tells of a payload's value whether it may leave, where payloads do.
    """
    members = Members()
    members.contents |= {"README.txt": README.encode(), "verify_evidence.py": verifier}
    members.add("keys.json", envelopes.public_keys())
    members.add("envelope.json", _envelope(subject, with_payloads, showable))
    _add_chain(members, subject.audit_subject)
    for name, rows in subject.tables.items():
        members.add_lines(f"rows/{name}.jsonl", [_row_stated(row) for row in rows])
        if with_payloads:
            _add_payloads(members, rows, showable)
    manifest = subject.named | {
        "format": FORMAT,
        "at": clock.now().isoformat(),
        "with_payloads": with_payloads,
        "withheld": sorted(members.withheld),
        "members": members.stated(),
    }
    signed = envelopes.sign(manifest, payload_type=MANIFEST_TYPE)
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {"manifest.json": canonical(signed), **members.contents}.items():
            archive.writestr(
                zipfile.ZipInfo(name, MEMBER_DATE), content, compress_type=zipfile.ZIP_DEFLATED
            )
    return Written(manifest, _signers(signed, members))


def _signers(manifest: dict[str, Any], members: Members) -> list[str]:
    signed = [manifest, json.loads(members.contents["envelope.json"])]
    if "checkpoint.json" in members.contents:
        signed.append(json.loads(members.contents["checkpoint.json"])["checkpoint"]["envelope"])
    keyids = [signature["keyid"] for each in signed for signature in each["signatures"]]
    return list(dict.fromkeys(keyids))


def unsealed(audit_subject: str) -> tuple[int, int] | None:
    """Return the first and last number of the events that no checkpoint covers; None: all are."""
    sealed = _sealed_head(audit_subject)
    last = AuditEvent.objects.filter(subject=audit_subject).order_by("-seq").first()
    first = sealed[1].seq + 1 if sealed else 1
    return (first, last.seq) if last is not None and last.seq >= first else None


def _add_chain(members: Members, subject: str) -> None:
    events = [
        {
            "body": event.body.decode(),
            "prev_hash": event.prev_hash.hex(),
            "hash": event.hash.hex(),
        }
        for event in stored_links(subject=subject)
    ]
    members.add_lines("chain.jsonl", events)
    if sealed := _sealed_head(subject):
        checkpoint, leaf = sealed
        rows = checkpoint.leaves.values_list("subject", "seq", "hash")
        heads = [Head(name, seq, bytes(digest)) for name, seq, digest in rows]
        index, path = inclusion(heads, subject=subject)
        proof = {
            "checkpoint": asdict(Checkpoint.of(checkpoint)),
            "leaf": {"subject": leaf.subject, "seq": leaf.seq, "hash": leaf.hash.hex()},
            "index": index,
            "path": [node.hex() for node in path],
        }
        members.add("checkpoint.json", proof)


def _sealed_head(subject: str) -> tuple[AuditCheckpoint, Head] | None:
    """Return the newest checkpoint that moved the subject's chain, and its leaf."""
    newest = AuditCheckpoint.objects.order_by("-number").first()
    if newest is None:
        return None
    events = AuditEvent.objects.filter(subject=subject, id__lte=newest.last_event_id)
    event = events.order_by("-seq").first()
    if event is None:
        return None
    checkpoint = (
        AuditCheckpoint.objects.filter(first_event_id__lte=event.pk).order_by("-number").first()
    )
    if checkpoint is None:
        return None
    leaf = checkpoint.leaves.filter(subject=subject).first()
    return (checkpoint, Head(leaf.subject, leaf.seq, bytes(leaf.hash))) if leaf else None


def _envelope(subject: Subject, with_payloads: bool, showable: Showable) -> dict[str, Any]:
    """Return the envelope; without its payload, which states the inputs, where none may leave."""
    payload = envelopes.payload_of(subject.envelope)
    if with_payloads and showable(json.loads(payload)):
        return subject.envelope
    rest = {name: value for name, value in subject.envelope.items() if name != "payload"}
    return rest | {"payload_sha256": sha256_hex(payload)}


def _add_payloads(members: Members, rows: list[dict[str, Any]], showable: Showable) -> None:
    for row in rows:
        for value in row.values():
            if not isinstance(value, Payload):
                continue
            if showable(value.value):
                members.contents[f"payloads/{value.digest}.json"] = value.content
            else:
                members.withheld.add(value.digest)


def _row_stated(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {"payload_sha256": value.digest, "bytes": len(value.content)}
        if isinstance(value, Payload)
        else value
        for name, value in row.items()
    }


def _json(value: Any) -> Any:
    if isinstance(value, bytes | memoryview):
        return bytes(value).hex()
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Decimal):
        return format(value, "f")
    return str(value) if isinstance(value, UUID) else value
