"""The audit trail in the database, verified: chains against heads, checkpoints against events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from itertools import groupby
from operator import or_

from django.apps import apps
from django.db import connection
from django.db.models import DateTimeField, Q

from governance.core import sql
from governance.core.fields import INSTANT_MAX, INSTANT_MIN
from governance.core.models import AuditEvent, ChainHead
from governance.evidence.chain import (
    FINDINGS_MAX,
    ROWS_PER_FETCH,
    Finding,
    Head,
    Kind,
    Link,
    Report,
    snapshot,
    stored_links,
    walk,
)
from governance.evidence.checkpoints import Checkpoint, checkpoint_faults
from governance.evidence.models import AuditCheckpoint

HEADS_PER_BATCH = 1_000

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


def verify(*, progress: Callable[[int, int], None] = lambda done, total: None) -> Report:
    """Check every chain against its head, and every checkpoint against events and signature.

    Reads one snapshot, so that it may run beside writers. A row that cannot be read as it is stored
    is named, and stops nothing.

    :param progress: is told the chains that are done, and how many there are.
    """
    report = Report()
    # An event's instant that is out of bounds so differs from its bytes, and is found.
    with snapshot(), sql.bounded_instants():
        models = [model for model in apps.get_models() if issubclass(model, ChainHead)]
        total = sum(model._default_manager.count() for model in models)
        report.add(_unreadable_heads(models))
        for batch in _head_batches(models):
            report.add(_batch_faults(batch, report))
            progress(report.chains, total)
        if report.events != AuditEvent.objects.count():
            report.add(_orphans(models))
        report.add(_checkpoint_faults(report))
        report.add(_leaf_faults())
    return report


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


def _unreadable_heads(models: list[type[ChainHead]]) -> Iterator[Finding]:
    """Yield the instants of subjects that no reader can hold."""
    for model in models:
        outs = {
            field: Q(**{f"{field.name}__lt": INSTANT_MIN})
            | Q(**{f"{field.name}__gte": INSTANT_MAX})
            for field in model._meta.concrete_fields
            if isinstance(field, DateTimeField)
        }
        # One look at the table, where every instant is as it should be.
        if not (outs and model._default_manager.filter(reduce(or_, outs.values())).exists()):
            continue
        for field, out in outs.items():
            for row in model._default_manager.filter(out).order_by("pk")[:FINDINGS_MAX]:
                subject = row.audit_subject  # type: ignore[attr-defined]
                detail = f"{field.name} of its row is out of bounds"
                yield Finding(Kind.UNREADABLE, subject, None, detail)


def _batch_faults(heads: dict[str, Head], report: Report) -> Iterator[Finding]:
    unseen = dict(heads)
    for subject, links in groupby(
        stored_links(subject__in=list(heads)), lambda event: event.subject
    ):
        yield from walk(unseen.pop(subject), _counted(links, report))
    for head in unseen.values():
        yield from walk(head, ())
    report.chains += len(heads)


def _counted(links: Iterable[Link], report: Report) -> Iterator[Link]:
    for event in links:
        report.events += 1
        yield event


def _orphans(models: list[type[ChainHead]]) -> Iterator[Finding]:
    """Yield the chains whose subject has no row; looked for only where events are left over."""
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
    """Yield the leaves whose event is another or gone: a chain was forged, or cut, as a whole."""
    with connection.cursor() as cursor:
        cursor.execute(LEAVES_WITHOUT_EVENT)
        for number, subject, seq, gone in cursor.fetchall():
            detail = f"it is not as checkpoint {number} sealed it"
            yield Finding(Kind.REMOVED if gone else Kind.EDITED, subject, seq, detail)


def _unsealed_past(last_event_id: int) -> Iterator[Finding]:
    """Yield the events that claim to be older than the last checkpoint and are in none."""
    with connection.cursor() as cursor:
        cursor.execute(EVENTS_WITHOUT_LEAF, [last_event_id])
        for subject, seq in cursor.fetchall():
            yield Finding(Kind.INSERTED, subject, seq, "it is older than a checkpoint without it")
