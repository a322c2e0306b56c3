"""Rows of the ground: audit chain, idempotency records, facts, money, what operators leave."""

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
from governance.models.facts import Fact, FactSink, FactStream, PrunedFact, Pulse, StreamHold
from governance.models.idempotency import IdempotencyRecord
from governance.models.money import (
    Budget,
    BudgetWindow,
    LanguageModel,
    Price,
    PriceTier,
    Reservation,
    ReservationHold,
    Resolution,
    RouteDecision,
    RoutePolicy,
    RoutePolicyModel,
)

__all__ = [
    "AuditCheckpoint",
    "AuditCheckpointLeaf",
    "AuditEvent",
    "Budget",
    "BudgetWindow",
    "BulkItem",
    "BulkRun",
    "ChainHead",
    "EventMinute",
    "EventMinuteCursor",
    "Fact",
    "FactSink",
    "FactStream",
    "IdempotencyRecord",
    "LanguageModel",
    "Price",
    "PriceTier",
    "PrunedFact",
    "Pulse",
    "Reservation",
    "ReservationHold",
    "Resolution",
    "RouteDecision",
    "RoutePolicy",
    "RoutePolicyModel",
    "SavedView",
    "StreamHold",
]
