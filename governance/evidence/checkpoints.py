"""Checkpoints: signed statements of where the audit chains stood.

Somebody who may write every table could forge a whole chain with its head; a checkpoint, which
signs where all chains stood, shows that as long as its signature or an exported copy is out of
their reach.

Source: RFC 6962 section 2.1 (Merkle tree hash, with leaves and nodes told apart); DSSE v1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from django.db import connection, transaction
from django.db.utils import OperationalError

from governance.core import clock, sql
from governance.core.audit import encode
from governance.core.digests import canonical
from governance.core.models import GENESIS, AuditEvent
from governance.evidence import envelopes
from governance.evidence.chain import ROWS_PER_FETCH, Finding, Head, Kind
from governance.evidence.models import AuditCheckpoint, AuditCheckpointLeaf

#: A document of public keys, as `envelopes.public_keys` returns it.
PublicKeys = Mapping[str, Any]

CHECKPOINT_TYPE = "application/vnd.fencepost.audit-checkpoint+json"
#: Advisory lock class of the one sealer that works at a time.
LOCK_CLASS = 3
#: How long a seal may make writers queue behind it, and how often it tries.
LOCK_WAIT_MS = 250
LOCK_TRIES_MAX = 8
EVENTS_PER_CHECKPOINT_MAX = 100_000
#: How many checkpoints one who waits for a seal makes; the sweeper seals the rest.
SEALS_MAX = 10


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
        """Return the checkpoint of a row."""
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
        """Return what is hashed and signed: all but hash and envelope."""
        fields = asdict(self)
        del fields["hash"], fields["envelope"]
        return fields

    @property
    def statement(self) -> bytes:
        """Return the bytes that are hashed and signed."""
        return canonical(self.stated)


def merkle_root(heads: Iterable[Head]) -> bytes:
    """Return the RFC 6962 tree hash over the heads, in the order of their subjects' bytes."""
    return _tree_hash(_leaf_hashes(_ordered(heads)))


def inclusion(heads: Iterable[Head], *, subject: str) -> tuple[int, list[bytes]]:
    """Return at which place the subject's head is a leaf, from 0, and its proof: RFC 6962 2.1.1.

    The proof is the hash beside it at each level, from the leaves up.

    :raises ValueError: no head is the subject's.
    """
    ordered = _ordered(heads)
    place = index = [head.subject for head in ordered].index(subject)
    hashes, path = _leaf_hashes(ordered), []
    while len(hashes) > 1:
        if (beside := index ^ 1) < len(hashes):
            path.append(hashes[beside])
        hashes, index = _level_above(hashes), index // 2
    return place, path


def _ordered(heads: Iterable[Head]) -> list[Head]:
    return sorted(heads, key=lambda head: head.subject.encode())


def _leaf_hashes(heads: Iterable[Head]) -> list[bytes]:
    return [hashlib.sha256(b"\x00" + _leaf_bytes(head)).digest() for head in heads]


def _leaf_bytes(head: Head) -> bytes:
    return encode({"subject": head.subject, "seq": head.seq, "hash": head.hash.hex()})


def _tree_hash(hashes: list[bytes]) -> bytes:
    if not hashes:
        return hashlib.sha256().digest()
    while len(hashes) > 1:
        hashes = _level_above(hashes)
    return hashes[0]


def _level_above(hashes: list[bytes]) -> list[bytes]:
    # Pairing level by level and carrying an odd one up gives the tree of RFC 6962.
    paired = [
        hashlib.sha256(b"\x01" + left + right).digest()
        for left, right in zip(hashes[::2], hashes[1::2], strict=False)
    ]
    return paired + hashes[len(paired) * 2 :]


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
        last = AuditCheckpoint.objects.order_by("-number")
        before = last.only("number", "last_event_id", "hash").first()
        first = before.last_event_id + 1 if before else 1
        if upper < first:
            return None
        upper = min(upper, _nth_event_id(first, upper))
        heads = _moved_heads(first, upper)
        if not heads:
            return None
        return _save_checkpoint(before, first, upper, heads)


def seal_through(*, subject: str) -> None:
    """Seal until a checkpoint covers the newest event of the subject, as far as seals succeed.

    Takes no transaction of its caller's: a seal makes writers wait as long as it lasts.
    """
    newest = AuditEvent.objects.filter(subject=subject).order_by("-seq")
    last = newest.values_list("id", flat=True).first()
    for _ in range(SEALS_MAX):
        covered = AuditCheckpoint.objects.order_by("-number").first()
        if last is None or (covered and covered.last_event_id >= last) or seal() is None:
            return


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
