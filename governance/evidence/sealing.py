"""Proof that the audit trail is whole: verify the chains, seal them, export what was sealed.

A chain shows by itself that an event was edited, removed, inserted or moved.  Somebody who may
write every table could forge a whole chain with its head; a checkpoint, which signs where all
chains stood, shows that as long as its signature or an exported copy is out of their reach.

Source: RFC 6962 section 2.1 (Merkle tree hash, with leaves and nodes told apart); DSSE v1.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from itertools import groupby
from typing import Any, NamedTuple, TextIO

from django.apps import apps
from django.db import connection, transaction
from django.db.utils import OperationalError

from governance.core import clock, sql
from governance.core.audit import encode, link
from governance.core.digests import canonical
from governance.core.models import GENESIS, AuditEvent, ChainHead
from governance.evidence import envelopes
from governance.evidence.models import AuditCheckpoint, AuditCheckpointLeaf

#: A document of public keys, as `envelopes.public_keys` returns it.
PublicKeys = Mapping[str, Any]

CHECKPOINT_TYPE = "application/vnd.fencepost.audit-checkpoint+json"
EXPORT_TYPE = "application/vnd.fencepost.audit-export+json"
EXPORT_FORMAT = "fencepost-audit/1"
#: Advisory lock class of the one sealer that works at a time.
LOCK_CLASS = 3
#: How long a seal may make writers queue behind it, and how often it tries.
LOCK_WAIT_MS = 250
LOCK_TRIES_MAX = 8
EVENTS_PER_CHECKPOINT_MAX = 100_000
HEADS_PER_BATCH = 1_000
ROWS_PER_FETCH = 2_000
FINDINGS_MAX = 1_000


class Kind(StrEnum):
    """What can be wrong with the trail."""

    EDITED = "edited"
    REMOVED = "removed"
    INSERTED = "inserted"
    REORDERED = "reordered"
    MISSING_CHAIN = "missing_chain"
    ORPHAN_CHAIN = "orphan_chain"
    CHECKPOINT = "checkpoint"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: what, in whose chain, at which number."""

    kind: Kind
    subject: str
    seq: int | None
    detail: str

    def __str__(self) -> str:
        place = self.subject if self.seq is None else f"{self.subject}#{self.seq}"
        return f"{self.kind}: {place}: {self.detail}"


@dataclass
class Report:
    """What a verification looked at and what it found; at most `FINDINGS_MAX` are kept."""

    chains: int = 0
    events: int = 0
    checkpoints: int = 0
    findings: list[Finding] = field(default_factory=list)
    findings_left_out: int = 0

    @property
    def whole(self) -> bool:
        return not self.findings

    def add(self, found: Iterable[Finding]) -> None:
        for finding in found:
            if len(self.findings) < FINDINGS_MAX:
                self.findings.append(finding)
            else:
                self.findings_left_out += 1

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "whole": self.whole}


class Link(NamedTuple):
    """One stored event, as the walk over a chain needs it. `at` is compared as an instant."""

    subject: str
    seq: int
    body: bytes
    prev_hash: bytes
    hash: bytes
    at: datetime | None = None
    action: str | None = None
    actor: str | None = None
    reason: str | None = None
    request_id: str | None = None


class Head(NamedTuple):
    """Where a chain is said to end."""

    subject: str
    seq: int
    hash: bytes


# --- The walk over one chain ------------------------------------------------------------------


def walk(head: Head, links: Iterable[Link]) -> Iterator[Finding]:
    """Yield what is wrong with the chain that should end at `head`.

    :param links: the stored events of the subject, by ascending `seq`.
    """
    claimed: Counter[int] = Counter()
    moved: list[tuple[int, int]] = []
    last: Link | None = None
    last_number, last_sound = 0, True
    for event in links:
        number, faults = _examine(event)
        yield from faults
        # Beside an intruder the seam says nothing: two events have the number before.
        if number == last_number + 1 and claimed[last_number] <= 1 and last_sound and not faults:
            yield from _link_faults(last, event)
        if number != event.seq:
            moved.append((event.seq, number))
        claimed[number] += 1
        last, last_number, last_sound = event, number, not faults
    yield from _count_faults(head, claimed, moved)
    if last is not None and last_sound and last_number == head.seq and last.hash != head.hash:
        yield Finding(Kind.EDITED, head.subject, head.seq, "it is not the event the head points to")


def _examine(event: Link) -> tuple[int, list[Finding]]:
    """Return the number that the event gives itself, and what its own bytes show."""
    if link(event.prev_hash, event.body) != event.hash:
        detail = "its bytes do not give its hash"
        return event.seq, [Finding(Kind.EDITED, event.subject, event.seq, detail)]
    try:
        body = json.loads(event.body)
        number, subject = int(body["seq"]), body["subject"]
        differing = [
            name
            for name in ("action", "actor", "reason", "request_id")
            if (shown := getattr(event, name)) is not None and shown != body[name]
        ]
        if event.at is not None and event.at != datetime.fromisoformat(body["at"]):
            differing.append("at")
    except (ValueError, KeyError, TypeError):
        detail = "its bytes are not those of an event"
        return event.seq, [Finding(Kind.INSERTED, event.subject, event.seq, detail)]
    if subject != event.subject:
        detail = f"it is an event of {subject}"
        return event.seq, [Finding(Kind.INSERTED, event.subject, event.seq, detail)]
    if differing:
        detail = f"{', '.join(differing)} differ from its bytes"
        return number, [Finding(Kind.EDITED, event.subject, event.seq, detail)]
    return number, []


def _link_faults(last: Link | None, event: Link) -> Iterator[Finding]:
    """What the seam between two sound events of consecutive numbers shows."""
    if last is None and event.prev_hash != GENESIS:
        yield Finding(Kind.EDITED, event.subject, event.seq, "it does not begin the chain")
    elif last is not None and event.prev_hash != last.hash:
        detail = "the event after it continues another one"
        yield Finding(Kind.EDITED, last.subject, last.seq, detail)


def _count_faults(
    head: Head, claimed: Counter[int], moved: list[tuple[int, int]]
) -> Iterator[Finding]:
    """What the numbers show that the events of a chain give themselves."""
    if head.seq and not claimed:
        yield Finding(
            Kind.MISSING_CHAIN, head.subject, None, f"all of its {head.seq} events are gone"
        )
        return
    missing = [n for n in range(1, head.seq + 1) if n not in claimed]
    for first, final in _runs(missing):
        events = f"event {first} is" if first == final else f"events {first} to {final} are"
        yield Finding(Kind.REMOVED, head.subject, first, f"{events} gone")
    surplus = [n for n, times in sorted(claimed.items()) if times > 1 or n > head.seq or n < 1]
    for number in surplus:
        detail = "more than one event has this number" if claimed[number] > 1 else "past the head"
        yield Finding(Kind.INSERTED, head.subject, number, detail)
    if not missing and not surplus:
        for place, number in moved:
            yield Finding(Kind.REORDERED, head.subject, place, f"it is event {number}")


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Yield (first, last) of each run of consecutive integers."""
    for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        members = [number for _, number in run]
        yield members[0], members[-1]


# --- Verify the database ----------------------------------------------------------------------


def verify(*, progress: Callable[[int, int], None] = lambda done, total: None) -> Report:
    """Check every chain against its head, and every checkpoint against events and signature.

    Reads one snapshot, so that it may run beside writers.

    :param progress: is told the chains that are done, and how many there are.
    """
    report = Report()
    with _snapshot():
        models = [model for model in apps.get_models() if issubclass(model, ChainHead)]
        total = sum(model._default_manager.count() for model in models)
        for batch in _head_batches(models):
            report.add(_batch_faults(batch, report))
            progress(report.chains, total)
        if report.events != AuditEvent.objects.count():
            report.add(_orphans(models))
        report.add(_checkpoint_faults(report))
        report.add(_leaf_faults())
    return report


@contextmanager
def _snapshot() -> Iterator[None]:
    """One snapshot for all reads; inside a transaction of the caller, that transaction's."""
    nested = connection.in_atomic_block
    with transaction.atomic(), connection.cursor() as cursor:
        if not nested:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("SET LOCAL statement_timeout = 0")
        yield


def _head_batches(models: list[type[ChainHead]]) -> Iterator[dict[str, Head]]:
    batch: dict[str, Head] = {}
    for model in models:
        for row in model._default_manager.order_by("pk").iterator(chunk_size=ROWS_PER_FETCH):
            subject = row.audit_subject  # type: ignore[attr-defined]
            batch[subject] = Head(subject, row.audit_seq, bytes(row.audit_head))
            if len(batch) == HEADS_PER_BATCH:
                yield batch
                batch = {}
    if batch:
        yield batch


def _batch_faults(heads: dict[str, Head], report: Report) -> Iterator[Finding]:
    unseen = dict(heads)
    for subject, links in groupby(_links(subject__in=list(heads)), lambda event: event.subject):
        yield from walk(unseen.pop(subject), _counted(links, report))
    for head in unseen.values():
        yield from walk(head, ())
    report.chains += len(heads)


def _links(**wanted: Any) -> Iterator[Link]:
    rows = AuditEvent.objects.filter(**wanted).order_by("subject", "seq").values_list(*Link._fields)
    for row in rows.iterator(chunk_size=ROWS_PER_FETCH):
        event = Link(*row)
        yield event._replace(
            body=bytes(event.body), prev_hash=bytes(event.prev_hash), hash=bytes(event.hash)
        )


def _counted(links: Iterable[Link], report: Report) -> Iterator[Link]:
    for event in links:
        report.events += 1
        yield event


def _orphans(models: list[type[ChainHead]]) -> Iterator[Finding]:
    """Chains whose subject has no row; looked for only where events are left over."""
    known = {subject for batch in _head_batches(models) for subject in batch}
    subjects = AuditEvent.objects.order_by("subject").values_list("subject", flat=True).distinct()
    for subject in subjects.iterator(chunk_size=ROWS_PER_FETCH):
        if subject not in known:
            yield Finding(Kind.ORPHAN_CHAIN, subject, None, "there is no such subject")


def _checkpoint_faults(report: Report) -> Iterator[Finding]:
    before: AuditCheckpoint | None = None
    for checkpoint in AuditCheckpoint.objects.order_by("number").iterator(chunk_size=100):
        leaves = checkpoint.leaves.values_list("subject", "seq", "hash")
        heads = [Head(subject, seq, bytes(digest)) for subject, seq, digest in leaves]
        yield from checkpoint_faults(
            Checkpoint.of(checkpoint), heads, Checkpoint.of(before) if before else None
        )
        report.checkpoints += 1
        before = checkpoint
    if before is not None:
        yield from _unsealed_past(before.last_event_id)


def _leaf_faults() -> Iterator[Finding]:
    """Leaves that no longer find the event they sealed: a chain was forged, or cut, as a whole."""
    with connection.cursor() as cursor:
        cursor.execute(LEAVES_WITHOUT_EVENT)
        for number, subject, seq, gone in cursor.fetchall():
            detail = f"it is not as checkpoint {number} sealed it"
            yield Finding(Kind.REMOVED if gone else Kind.EDITED, subject, seq, detail)


def _unsealed_past(last_event_id: int) -> Iterator[Finding]:
    """Events that claim to be older than the last checkpoint and are in none."""
    with connection.cursor() as cursor:
        cursor.execute(EVENTS_WITHOUT_LEAF, [last_event_id])
        for subject, seq in cursor.fetchall():
            yield Finding(Kind.INSERTED, subject, seq, "it is older than a checkpoint without it")


#: No locks; a hash join of all leaves with the events they name (index `audit_event_seq_once`).
LEAVES_WITHOUT_EVENT = """
SELECT c.number, l.subject, l.seq, e.id IS NULL
  FROM governance_auditcheckpointleaf l
  JOIN governance_auditcheckpoint c ON c.id = l.checkpoint_id
  LEFT JOIN governance_auditevent e ON e.subject = l.subject AND e.seq = l.seq
 WHERE e.hash IS DISTINCT FROM l.hash
 ORDER BY c.number, l.subject LIMIT 1000
"""

#: No locks; one pass over the sealed events.
EVENTS_WITHOUT_LEAF = """
SELECT e.subject, e.seq
  FROM governance_auditevent e
  LEFT JOIN (SELECT subject, max(seq) AS seq FROM governance_auditcheckpointleaf GROUP BY subject) l
    ON l.subject = e.subject
 WHERE e.id <= %s AND e.seq > coalesce(l.seq, 0)
 ORDER BY e.subject, e.seq LIMIT 1000
"""


# --- Checkpoints ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint as it is stated, signed and exported."""

    number: int
    at: str
    first_event_id: int
    last_event_id: int
    leaf_count: int
    root: str
    prev_hash: str
    hash: str
    envelope: dict[str, Any]

    @classmethod
    def of(cls, row: AuditCheckpoint) -> Checkpoint:
        return cls(
            number=row.number,
            at=row.at.isoformat(),
            first_event_id=row.first_event_id,
            last_event_id=row.last_event_id,
            leaf_count=row.leaf_count,
            root=bytes(row.root).hex(),
            prev_hash=bytes(row.prev_hash).hex(),
            hash=bytes(row.hash).hex(),
            envelope=row.envelope,
        )

    @property
    def stated(self) -> dict[str, Any]:
        """What is hashed and signed."""
        told = asdict(self)
        del told["hash"], told["envelope"]
        return told

    @property
    def statement(self) -> bytes:
        """The bytes that are hashed and signed."""
        return canonical(self.stated)


def merkle_root(heads: Iterable[Head]) -> bytes:
    """Return the RFC 6962 tree hash over the heads, in the order of their subjects' bytes."""
    ordered = sorted(heads, key=lambda head: head.subject.encode())
    hashes = [hashlib.sha256(b"\x00" + _leaf_bytes(head)).digest() for head in ordered]
    return _tree_hash(hashes)


def _leaf_bytes(head: Head) -> bytes:
    return encode({"subject": head.subject, "seq": head.seq, "hash": head.hash.hex()})


def _tree_hash(hashes: list[bytes]) -> bytes:
    # Pairing level by level and carrying an odd one up gives the tree of RFC 6962.
    if not hashes:
        return hashlib.sha256().digest()
    while len(hashes) > 1:
        paired = [
            hashlib.sha256(b"\x01" + left + right).digest()
            for left, right in zip(hashes[::2], hashes[1::2], strict=False)
        ]
        hashes = paired + hashes[len(paired) * 2 :]
    return hashes[0]


def checkpoint_faults(
    checkpoint: Checkpoint,
    heads: list[Head],
    before: Checkpoint | None,
    *,
    trusted: PublicKeys | None = None,
) -> Iterator[Finding]:
    """Yield what is wrong with a checkpoint, given its leaves and the checkpoint before it.

    :param trusted: the public keys to trust; by default those of this installation.
    """
    expected = (before.number + 1, before.hash) if before else (1, GENESIS.hex())
    faults = []
    if checkpoint.number != expected[0]:
        faults.append(f"checkpoint {expected[0]} is gone")
    elif checkpoint.prev_hash != expected[1]:
        faults.append("it does not continue the checkpoint before it")
    if before and checkpoint.first_event_id != before.last_event_id + 1:
        faults.append("it does not begin where the one before ended")
    if hashlib.sha256(checkpoint.statement).hexdigest() != checkpoint.hash:
        faults.append("its statement does not give its hash")
    if len(heads) != checkpoint.leaf_count or merkle_root(heads).hex() != checkpoint.root:
        faults.append("its leaves do not give its root")
    try:
        signed = envelopes.verify(
            checkpoint.envelope, payload_type=CHECKPOINT_TYPE, trusted=trusted
        )
    except envelopes.EnvelopeInvalid as error:
        faults.append(f"its signature does not verify ({error})")
    else:
        if signed != checkpoint.statement:
            faults.append("its signature is of another statement")
    for fault in faults:
        yield Finding(Kind.CHECKPOINT, "checkpoint", checkpoint.number, fault)


def seal() -> AuditCheckpoint | None:
    """Seal what was appended since the last checkpoint; None when there is nothing to seal.

    Returns None too when another sealer is at work, or when writers did not leave a gap in time:
    the next run takes it up.  Seals at most `EVENTS_PER_CHECKPOINT_MAX` events.
    """
    upper = _settled_event_id()
    if upper is None:
        return None
    with transaction.atomic():
        if not _sealing_alone():
            return None
        before = AuditCheckpoint.objects.order_by("-number").first()
        first = before.last_event_id + 1 if before else 1
        if upper < first:
            return None
        upper = min(upper, _nth_event_id(first, upper))
        heads = _moved_heads(first, upper)
        if not heads:
            return None
        return _save_checkpoint(before, first, upper, heads)


def _settled_event_id() -> int | None:
    """Return an id up to which no event is still uncommitted.

    SHARE conflicts with writers: whoever had taken an id below has committed or rolled back when
    the lock is granted. The lock goes at once, the reading and signing happens without it.
    """
    for _ in range(LOCK_TRIES_MAX):
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(f"SET LOCAL lock_timeout = {LOCK_WAIT_MS}")
                cursor.execute("LOCK TABLE governance_auditevent IN SHARE MODE")
                cursor.execute("SELECT coalesce(max(id), 0) FROM governance_auditevent")
                return int(cursor.fetchone()[0])
        except OperationalError as error:
            if sql.sqlstate(error) != "55P03":
                raise
    return None


def _sealing_alone() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s, 0)", [LOCK_CLASS])
        return bool(cursor.fetchone()[0])


def _nth_event_id(first: int, upper: int) -> int:
    ids = AuditEvent.objects.filter(id__gte=first, id__lte=upper).order_by("id")
    nth = ids.values_list("id", flat=True)[EVENTS_PER_CHECKPOINT_MAX - 1 :][:1]
    return next(iter(nth), upper)


def _moved_heads(first: int, upper: int) -> list[Head]:
    rows = (
        AuditEvent.objects.filter(id__gte=first, id__lte=upper)
        .order_by("subject", "-seq")
        .distinct("subject")
        .values_list("subject", "seq", "hash")
    )
    return [Head(subject, seq, bytes(digest)) for subject, seq, digest in rows]


def _save_checkpoint(
    before: AuditCheckpoint | None, first: int, upper: int, heads: list[Head]
) -> AuditCheckpoint:
    row = AuditCheckpoint(
        number=before.number + 1 if before else 1,
        at=clock.now(),
        first_event_id=first,
        last_event_id=upper,
        leaf_count=len(heads),
        root=merkle_root(heads),
        prev_hash=bytes(before.hash) if before else GENESIS,
        hash=b"",
        envelope={},
    )
    checkpoint = Checkpoint.of(row)
    row.hash = hashlib.sha256(checkpoint.statement).digest()
    row.envelope = envelopes.sign(checkpoint.stated, payload_type=CHECKPOINT_TYPE)
    row.save(force_insert=True)
    AuditCheckpointLeaf.objects.bulk_create(
        [
            AuditCheckpointLeaf(checkpoint=row, subject=head.subject, seq=head.seq, hash=head.hash)
            for head in heads
        ],
        batch_size=ROWS_PER_FETCH,
    )
    return row


# --- Export -----------------------------------------------------------------------------------


def export(out: TextIO, *, events: bool = True) -> dict[str, Any]:
    """Write all checkpoints, and the events that they seal, as signed JSON lines.

    The last line is a DSSE envelope over the SHA-256 of all lines before it. Returns its payload.
    """
    digest = hashlib.sha256()
    counts: Counter[str] = Counter()

    def write(kind: str, content: dict[str, Any]) -> None:
        line = encode({"type": kind, **content}) + b"\n"
        digest.update(line)
        counts[kind] += 1
        out.write(line.decode())

    with _snapshot():
        write("header", {"format": EXPORT_FORMAT, "at": clock.now().isoformat()})
        last = AuditCheckpoint.objects.order_by("-number").first()
        for row in AuditCheckpoint.objects.order_by("number").iterator(chunk_size=100):
            write("checkpoint", asdict(Checkpoint.of(row)))
            for subject, seq, hash_ in row.leaves.values_list("subject", "seq", "hash"):
                write("leaf", {"subject": subject, "seq": seq, "hash": bytes(hash_).hex()})
        if events and last is not None:
            for event in _links(id__lte=last.last_event_id):
                write("event", _event_line(event))
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


def verify_export(
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
