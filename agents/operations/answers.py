"""The answers of the agents API: what transitions and queries return, as JSON objects."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, NotRequired, Protocol, TypedDict

from agents.models import RISK_TIERS, Agent, Session
from agents.queries import AgentPresence, AgentStatus, heartbeat_interval_seconds
from agents.transitions.admission import Admission, UnderWay
from agents.transitions.presence import Standing
from agents.workload import JobTypeOut
from governance.core.clock import instant
from governance.core.wire import AnyObject, InstantText, UuidText, explained, one_of
from governance.money.models import Budget
from governance.money.notes import NoRoom

AdmissionState = Annotated[str, one_of(Agent.Admission.values)]


class Inhibit(Protocol):
    """What an inhibit is answered from: its row, or what the gate has read of it."""

    @property
    def reason(self) -> str: ...
    @property
    def owner(self) -> str: ...
    @property
    def ends_at(self) -> datetime | None: ...


class GateOut(TypedDict):
    """Whether the agent may take new work."""

    state: AdmissionState
    generation: int
    barrier_id: NotRequired[str]


class InhibitOut(TypedDict):
    """A maintenance inhibit that is in force."""

    reason: str
    owner: str
    ends_at: InstantText | None


class StandingOut(TypedDict):
    """What a process is told when it says that it lives."""

    admission: GateOut
    inhibit: InhibitOut | None
    dispatcher_epoch: UuidText
    heartbeat_interval_seconds: int


class AdmissionOut(TypedDict):
    """How the admission stands after the change."""

    state: AdmissionState
    generation: int
    barrier_id: str
    active_leases: int
    effects_until: Annotated[
        InstantText | None, explained("until when what was started before may still act")
    ]


class NotAskingOut(TypedDict):
    """A type that a process does not ask for now, as it says."""

    task_type: str
    reason: str
    until: InstantText


class NoRoomOut(TypedDict):
    """A scope whose jobs are passed over: a budget or a limit has no room for their calls."""

    scope: Annotated[str, one_of(Budget.Scope.values)]
    key: str
    reason: str
    until: InstantText
    budget_id: int | None
    budget: str | None
    limit_id: int | None
    limit: str | None


class LiveSessionOut(TypedDict):
    """A session that may act, or waits for approval."""

    session_id: UuidText
    kind: Annotated[str, one_of(("implicit", "activated"))]
    state: Annotated[str, one_of(("current", "pending"))]
    worker_id: str
    cell_id: str
    boot_id: str
    session_generation: int
    dispatcher_epoch: UuidText
    runtime: str
    last_heartbeat_at: InstantText | None
    not_asking: list[NotAskingOut]


class StatusOut(TypedDict):
    """How an agent stands."""

    agent: str
    enabled: bool
    runtime: str
    dispatcher_epoch: UuidText
    admission: GateOut
    inhibit: InhibitOut | None
    active_leases: int
    freshness: Annotated[str, one_of(("fresh", "late", "stale", "never"))]
    last_heartbeat_at: InstantText | None
    last_heartbeat_age_seconds: float | None
    heartbeat_interval_seconds: int
    sessions: list[LiveSessionOut]
    no_room: list[NoRoomOut]
    as_of: InstantText


class BootstrapOut(TypedDict):
    """What an agent may do, and what it verifies envelopes with."""

    agent: str
    runtime: str
    max_risk_tier: Annotated[str, one_of(RISK_TIERS)]
    cells_need_approval: bool
    dispatcher_epoch: UuidText
    admission: GateOut
    inhibit: InhibitOut | None
    heartbeat_interval_seconds: int
    job_types: list[JobTypeOut]
    limits: dict[str, int]
    protocol: dict[str, str]
    keys: Annotated[AnyObject, explained("public keys, as /.well-known/fencepost/keys.json")]


def standing(found: Standing) -> StandingOut:
    """Return what a process is told when it says that it lives."""
    return {
        "admission": {
            "state": found.admission["state"],
            "generation": found.admission["generation"],
        },
        "inhibit": _inhibit(found.inhibit),
        "dispatcher_epoch": str(found.dispatcher_epoch),
        "heartbeat_interval_seconds": found.heartbeat_interval_seconds,
    }


def admission(changed: Admission) -> AnyObject:
    """Return the facts of a change of the admission."""
    return {
        "state": changed.state,
        "generation": changed.generation,
        "barrier_id": changed.barrier_id,
    }


def moment_of_admission(under_way: Admission | UnderWay) -> AnyObject:
    """Return what of that answer is true only as it is given."""
    return {
        "active_leases": under_way.active_leases,
        "effects_until": instant(under_way.effects_until),
    }


def status(found: AgentStatus, presence: AgentPresence, full: Sequence[NoRoom]) -> StatusOut:
    """Return how an agent stands: admission, inhibit, presence, live sessions, what has no room."""
    agent, age = found.agent, presence.age_seconds
    return {
        "agent": agent.name,
        "enabled": agent.enabled,
        "runtime": agent.runtime,
        "dispatcher_epoch": str(found.dispatcher_epoch),
        "admission": _gate(agent),
        "inhibit": _inhibit(found.inhibit),
        "active_leases": presence.active_leases,
        "freshness": presence.freshness,
        "last_heartbeat_at": instant(presence.heard_at),
        "last_heartbeat_age_seconds": None if age is None else round(age, 3),
        "heartbeat_interval_seconds": heartbeat_interval_seconds(agent),
        "sessions": [_session(row, found.at) for row in presence.sessions],
        "no_room": [_no_room(note) for note in full],
        "as_of": instant(found.at),
    }


def bootstrap(
    found: AgentStatus,
    *,
    job_types: list[JobTypeOut],
    limits: dict[str, int],
    protocol: dict[str, str],
    keys: AnyObject,
) -> BootstrapOut:
    """Return what an agent may do: types of task, highest risk tier, how it stands."""
    agent = found.agent
    return {
        "agent": agent.name,
        "runtime": agent.runtime,
        "max_risk_tier": agent.max_risk_tier,
        "cells_need_approval": agent.approve_cells,
        "dispatcher_epoch": str(found.dispatcher_epoch),
        "admission": _gate(agent),
        "inhibit": _inhibit(found.inhibit),
        "heartbeat_interval_seconds": heartbeat_interval_seconds(agent),
        "job_types": job_types,
        "limits": limits,
        "protocol": protocol,
        "keys": keys,
    }


def _gate(agent: Agent) -> GateOut:
    return {
        "state": agent.admission,
        "generation": agent.admission_generation,
        "barrier_id": agent.barrier_id,
    }


def _inhibit(inhibit: Inhibit | None) -> InhibitOut | None:
    if inhibit is None:
        return None
    return {
        "reason": inhibit.reason,
        "owner": inhibit.owner,
        "ends_at": instant(inhibit.ends_at),
    }


def _no_room(note: NoRoom) -> NoRoomOut:
    return {
        "scope": note.scope,
        "key": note.key,
        "reason": note.reason,
        "until": instant(note.until),
        "budget_id": note.budget_id,
        "budget": str(note.budget) if note.budget else None,
        "limit_id": note.limit_id,
        "limit": str(note.limit) if note.limit else None,
    }


def _session(row: Session, at: datetime) -> LiveSessionOut:
    seen = getattr(row, "presence", None)
    return {
        "session_id": str(row.session_id),
        "kind": row.kind,
        "state": row.state,
        "worker_id": row.worker_id,
        "cell_id": row.cell_id,
        "boot_id": row.boot_id,
        "session_generation": row.generation,
        "dispatcher_epoch": str(row.dispatcher_epoch),
        "runtime": seen.runtime if seen else row.runtime,
        "last_heartbeat_at": instant(seen.last_heartbeat_at) if seen else None,
        "not_asking": [
            {"task_type": each.task_type, "reason": each.reason, "until": instant(each.until)}
            for each in (seen.not_asked_for(at=at) if seen else ())
        ],
    }
