"""The exported trail: checkpoints and the events that they seal, as signed JSON lines.

An export is kept out of reach of whoever may write the database, and verifies without it.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any, TextIO

from governance.core import clock, sql
from governance.core.audit import encode
from governance.evidence import envelopes
from governance.evidence.chain import (
    Finding,
    Head,
    Kind,
    Link,
    Report,
    snapshot,
    stored_links,
    walk,
)
from governance.evidence.checkpoints import Checkpoint, PublicKeys, checkpoint_faults
from governance.evidence.models import AuditCheckpoint

EXPORT_TYPE = "application/vnd.fencepost.audit-export+json"
EXPORT_FORMAT = "fencepost-audit/1"


def write(out: TextIO, *, events: bool = True) -> dict[str, Any]:
    """Write all checkpoints, and the events that they seal, as signed JSON lines.

    The last line is a DSSE envelope over the SHA-256 of all lines before it. Returns its payload.
    """
    digest = hashlib.sha256()
    counts: Counter[str] = Counter()

    def write_line(kind: str, content: dict[str, Any]) -> None:
        line = encode({"type": kind, **content}) + b"\n"
        digest.update(line)
        counts[kind] += 1
        out.write(line.decode())

    # Neither is exported as it stands in a column but in signed or hashed bytes.
    with snapshot(), sql.bounded_instants():
        write_line("header", {"format": EXPORT_FORMAT, "at": clock.now().isoformat()})
        last = AuditCheckpoint.objects.order_by("-number").first()
        for row in AuditCheckpoint.objects.order_by("number").iterator(chunk_size=100):
            write_line("checkpoint", asdict(Checkpoint.of(row)))
            for subject, seq, hash_ in row.leaves.values_list("subject", "seq", "hash"):
                write_line("leaf", {"subject": subject, "seq": seq, "hash": bytes(hash_).hex()})
        if events and last is not None:
            for event in stored_links(id__lte=last.last_event_id):
                write_line("event", _event_line(event))
    payload = {"format": EXPORT_FORMAT, "sha256": digest.hexdigest(), "counts": dict(counts)}
    envelope = envelopes.sign(payload, payload_type=EXPORT_TYPE)
    out.write(encode({"type": "signature", "envelope": envelope}).decode() + "\n")
    return payload


def _event_line(event: Link) -> dict[str, Any]:
    return {
        "subject": event.subject,
        "seq": event.seq,
        "body": event.body.decode(),
        "prev_hash": event.prev_hash.hex(),
        "hash": event.hash.hex(),
    }


def verify(
    lines: Iterable[str],
    *,
    trusted: PublicKeys | None = None,
    against_database: bool = False,
) -> Report:
    """Check an export by itself: its signature, checkpoints and, where it has them, its chains.

    :param trusted: the public keys to trust; by default those of this installation.
    :param against_database: also find each exported checkpoint in the database, which shows when
        its newest checkpoints were cut off there.
    """
    reader = _ExportReader(trusted)
    for line in lines:
        reader.read(line)
    reader.finish()
    if against_database:
        reader.report.add(_unlike_database(reader.hashes))
    return reader.report


def _unlike_database(exported: dict[int, str]) -> Iterator[Finding]:
    stored = {
        number: bytes(digest).hex()
        for number, digest in AuditCheckpoint.objects.values_list("number", "hash")
    }
    for number, digest in exported.items():
        if stored.get(number) != digest:
            detail = (
                "it differs from the export" if number in stored else "it is only in the export"
            )
            yield Finding(Kind.CHECKPOINT, "checkpoint", number, detail)


class _ExportReader:
    """Reads an export line by line; holds one checkpoint, one chain and the newest leaves."""

    def __init__(self, trusted: PublicKeys | None) -> None:
        self.trusted = trusted
        self.report = Report()
        self.hashes: dict[int, str] = {}
        self._digest = hashlib.sha256()
        self._counts: Counter[str] = Counter()
        self._signature: dict[str, Any] | None = None
        self._before: Checkpoint | None = None
        self._open: tuple[Checkpoint, list[Head]] | None = None
        self._heads: dict[str, Head] = {}
        self._chain: list[Link] = []

    def read(self, line: str) -> None:
        """Take up one line; a line that cannot be read is a finding."""
        try:
            item = json.loads(line)
            kind = item.pop("type")
            if kind == "signature":
                self._signature = item["envelope"]
                return
            if self._signature is not None:
                self._fault("there are lines after the signature")
            self._digest.update(line.rstrip("\r\n").encode() + b"\n")
            self._counts[kind] += 1
            getattr(self, f"_read_{kind}")(item)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self._fault(f"a line cannot be read ({error.__class__.__name__})")

    def finish(self) -> None:
        """Judge what is left open, and the signature over all lines."""
        self._close_checkpoint()
        self._close_chain()
        if self._counts["event"]:
            for head in self._heads.values():
                self.report.add(walk(head, ()))
        payload = {
            "format": EXPORT_FORMAT,
            "sha256": self._digest.hexdigest(),
            "counts": dict(self._counts),
        }
        try:
            signed = envelopes.verify(
                self._signature or {}, payload_type=EXPORT_TYPE, trusted=self.trusted
            )
        except envelopes.EnvelopeInvalid as error:
            self._fault(f"its signature does not verify ({error})")
        else:
            if json.loads(signed) != payload:
                self._fault("its lines are not the ones that were signed")

    def _read_header(self, item: dict[str, Any]) -> None:
        if item["format"] != EXPORT_FORMAT:
            self._fault(f"its format {item['format']} is not {EXPORT_FORMAT}")

    def _read_checkpoint(self, item: dict[str, Any]) -> None:
        self._close_checkpoint()
        self._open = (Checkpoint(**item), [])

    def _read_leaf(self, item: dict[str, Any]) -> None:
        if self._open is None:
            raise ValueError("a leaf without its checkpoint")
        head = Head(item["subject"], item["seq"], bytes.fromhex(item["hash"]))
        self._open[1].append(head)
        self._heads[head.subject] = head

    def _read_event(self, item: dict[str, Any]) -> None:
        self._close_checkpoint()
        event = Link(
            item["subject"],
            item["seq"],
            item["body"].encode(),
            bytes.fromhex(item["prev_hash"]),
            bytes.fromhex(item["hash"]),
        )
        if self._chain and self._chain[0].subject != event.subject:
            self._close_chain()
        self._chain.append(event)

    def _close_checkpoint(self) -> None:
        if self._open is None:
            return
        checkpoint, heads = self._open
        self.report.add(checkpoint_faults(checkpoint, heads, self._before, trusted=self.trusted))
        self.report.checkpoints += 1
        self.hashes[checkpoint.number] = checkpoint.hash
        self._before, self._open = checkpoint, None

    def _close_chain(self) -> None:
        if not self._chain:
            return
        subject = self._chain[0].subject
        head = self._heads.pop(subject, None)
        if head is None:
            self.report.add([Finding(Kind.ORPHAN_CHAIN, subject, None, "no checkpoint knows it")])
        else:
            self.report.add(walk(head, self._chain))
        self.report.chains += 1
        self.report.events += len(self._chain)
        self._chain = []

    def _fault(self, detail: str) -> None:
        self.report.add([Finding(Kind.CHECKPOINT, "export", None, detail)])
