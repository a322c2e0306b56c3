"""Rows of the ground: audit chain, idempotency records, facts."""

from governance.models.audit import (
    AuditCheckpoint,
    AuditCheckpointLeaf,
    AuditEvent,
    ChainHead,
)
from governance.models.facts import Fact
from governance.models.idempotency import IdempotencyRecord

__all__ = [
    "AuditCheckpoint",
    "AuditCheckpointLeaf",
    "AuditEvent",
    "ChainHead",
    "Fact",
    "IdempotencyRecord",
]
