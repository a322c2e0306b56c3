"""Rows of the ground: audit chain, idempotency records, facts, what operators leave behind."""

from governance.models.audit import (
    AuditCheckpoint,
    AuditCheckpointLeaf,
    AuditEvent,
    ChainHead,
)
from governance.models.console import (
    BulkItem,
    BulkRun,
    EventMinute,
    EventMinuteCursor,
    SavedView,
)
from governance.models.facts import Fact, FactSink, FactStream, Pulse, StreamHold
from governance.models.idempotency import IdempotencyRecord

__all__ = [
    "AuditCheckpoint",
    "AuditCheckpointLeaf",
    "AuditEvent",
    "BulkItem",
    "BulkRun",
    "ChainHead",
    "EventMinute",
    "EventMinuteCursor",
    "Fact",
    "FactSink",
    "FactStream",
    "IdempotencyRecord",
    "Pulse",
    "SavedView",
    "StreamHold",
]
