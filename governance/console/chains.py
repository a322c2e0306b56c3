"""Whether the audit chain of one subject holds, for its page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from governance.core import audit
from governance.core.models import GENESIS, AuditEvent, ChainHead

#: A page checks and shows no more events than this; `manage.py verify_audit` checks all.
EVENTS_MAX = 500


@dataclass(frozen=True)
class Chain:
    """The newest events of a subject, oldest first, and what is wrong with them, if anything."""

    events: list[AuditEvent]
    fault: str
    whole: bool


def read_chain(head: ChainHead, *, subject: str) -> Chain:
    """Return the subject's newest events, checked against one another and against the head."""
    found = list(AuditEvent.objects.filter(subject=subject).order_by("-seq")[:EVENTS_MAX])
    events = found[::-1]
    whole = not events or events[0].seq == 1
    return Chain(events, _fault(events, head, whole=whole), whole)


def _fault(events: list[AuditEvent], head: Any, *, whole: bool) -> str:
    if not events:
        return "the chain is missing" if head.audit_seq else ""
    before = bytes(GENESIS) if whole else bytes(events[0].prev_hash)
    expected = events[0].seq
    for event in events:
        if event.seq != expected:
            return f"event {expected} is missing"
        if bytes(event.prev_hash) != before:
            return f"event {event.seq} does not follow the one before it"
        if audit.link(before, bytes(event.body)) != bytes(event.hash):
            return f"event {event.seq} was changed"
        before, expected = bytes(event.hash), expected + 1
    if events[-1].seq != head.audit_seq or before != bytes(head.audit_head):
        return f"the end of the chain is not event {events[-1].seq}"
    return ""
