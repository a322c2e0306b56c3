"""The chains of the audit trail: what one must be, and how one is read.

A chain shows by itself that an event was edited, removed, inserted or moved: each event carries
the hash of the one before it, and the subject's own row says where the chain ends.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from itertools import groupby
from typing import Any, NamedTuple

from django.db import connection, transaction

from governance.core.audit import link
from governance.core.models import GENESIS, AuditEvent

ROWS_PER_FETCH = 2_000
FINDINGS_MAX = 1_000


class Kind(StrEnum):
    """A way in which the trail can be wrong."""

    EDITED = "edited"
    REMOVED = "removed"
    INSERTED = "inserted"
    REORDERED = "reordered"
    MISSING_CHAIN = "missing_chain"
    ORPHAN_CHAIN = "orphan_chain"
    CHECKPOINT = "checkpoint"
    UNREADABLE = "unreadable"


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
    """The findings of a verification, at most `FINDINGS_MAX`, and how much it looked at."""

    chains: int = 0
    events: int = 0
    checkpoints: int = 0
    findings: list[Finding] = field(default_factory=list)
    findings_left_out: int = 0

    @property
    def whole(self) -> bool:
        """Tell whether nothing is wrong."""
        return not self.findings

    def add(self, found: Iterable[Finding]) -> None:
        """Take the findings up; those past `FINDINGS_MAX` are counted only."""
        for finding in found:
            if len(self.findings) < FINDINGS_MAX:
                self.findings.append(finding)
            else:
                self.findings_left_out += 1

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON, with `whole`."""
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
    """Yield what the seam between two sound events of consecutive numbers shows."""
    if last is None and event.prev_hash != GENESIS:
        yield Finding(Kind.EDITED, event.subject, event.seq, "it does not begin the chain")
    elif last is not None and event.prev_hash != last.hash:
        detail = "the event after it continues another one"
        yield Finding(Kind.EDITED, last.subject, last.seq, detail)


def _count_faults(
    head: Head, claimed: Counter[int], moved: list[tuple[int, int]]
) -> Iterator[Finding]:
    """Yield what the numbers show that the events of a chain give themselves."""
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


# --- Reading ----------------------------------------------------------------------------------


@contextmanager
def snapshot() -> Iterator[None]:
    """Read all from one snapshot; inside a transaction of the caller, from that transaction's."""
    nested = connection.in_atomic_block
    with transaction.atomic(), connection.cursor() as cursor:
        if not nested:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("SET LOCAL statement_timeout = 0")
        yield


def stored_links(**wanted: Any) -> Iterator[Link]:
    """Yield the stored events that the look-ups of `filter` name, by subject and number."""
    rows = AuditEvent.objects.filter(**wanted).order_by("subject", "seq").values_list(*Link._fields)
    for row in rows.iterator(chunk_size=ROWS_PER_FETCH):
        event = Link(*row)
        yield event._replace(
            body=bytes(event.body), prev_hash=bytes(event.prev_hash), hash=bytes(event.hash)
        )
