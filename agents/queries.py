"""Reads on agents: how one stands, and what it may do."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from agents import guard, workload
from agents.models import Agent, Fleet, MaintenanceInhibit, Session
from agents.principals import Principal
from governance.core import clock
from governance.core.clock import instant
from governance.core.errors import NotFound, PermissionDenied

SESSIONS_MAX = 100
#: An agent counts as late when it was silent for three of these.
BEATS_PER_FRESH = 3
BEAT_SECONDS_MIN = 1


def heartbeat_interval_seconds(agent: Agent) -> int:
    """Return how often a process of the agent should say that it lives."""
    return max(BEAT_SECONDS_MIN, agent.fresh_seconds // BEATS_PER_FRESH)


def visible_agent(*, principal: Principal, agent: str) -> Agent:
    """Return the agent, if the caller may look at it: an agent at itself, else who may admit.

    :raises PermissionDenied: the caller may not; asked before the agent is looked up.
    :raises NotFound: there is no such agent.
    """
    if principal.kind == "agent" and principal.name != agent:
        raise PermissionDenied("An agent may look at itself only.")
    if principal.kind != "agent":
        principal.require("admit")
    row = Agent.objects.filter(name=agent).first()
    if row is None:
        raise NotFound("There is no such agent.")
    return row


def status(*, agent: Agent) -> dict[str, Any]:
    """Return how an agent stands: admission, inhibit, presence, its live sessions."""
    now = clock.now()
    sessions = agent.sessions.select_related("presence").exclude(state=Session.State.SUPERSEDED)
    heard_at = guard.last_heard([agent.pk]).get(agent.pk)
    age = (now - heard_at).total_seconds() if heard_at else None
    return {
        "agent": agent.name,
        "enabled": agent.enabled,
        "runtime": agent.runtime,
        "dispatcher_epoch": str(Fleet.objects.get().dispatcher_epoch),
        "admission": _admission(agent),
        "inhibit": _inhibit(agent, now),
        "active_leases": workload.active_leases(agent.pk),
        "freshness": guard.freshness(agent, age),
        "last_heartbeat_at": instant(heard_at),
        "last_heartbeat_age_seconds": None if age is None else round(age, 3),
        "heartbeat_interval_seconds": heartbeat_interval_seconds(agent),
        "sessions": [_session(row) for row in sessions.order_by("-pk")[:SESSIONS_MAX]],
        "as_of": instant(now),
    }


def bootstrap(*, agent: Agent) -> dict[str, Any]:
    """Return what an agent may do: types of task, highest risk tier, how it stands."""
    return {
        "agent": agent.name,
        "runtime": agent.runtime,
        "max_risk_tier": agent.max_risk_tier,
        "cells_need_approval": agent.approve_cells,
        "dispatcher_epoch": str(Fleet.objects.get().dispatcher_epoch),
        "admission": _admission(agent),
        "inhibit": _inhibit(agent, clock.now()),
        "heartbeat_interval_seconds": heartbeat_interval_seconds(agent),
        "job_types": workload.ask().job_types(agent_id=agent.pk),
        "limits": workload.ask().limits(),
    }


def _admission(agent: Agent) -> dict[str, Any]:
    return {
        "state": agent.admission,
        "generation": agent.admission_generation,
        "barrier_id": agent.barrier_id,
    }


def _inhibit(agent: Agent, now: datetime) -> dict[str, Any] | None:
    """Return the inhibit that holds the agent back the longest."""
    holding = [row for row in guard.inhibits_in_force(now) if row.agent_id in (None, agent.pk)]
    if not holding:
        return None
    return inhibit_view(max(holding, key=_end))


def inhibit_view(row: MaintenanceInhibit) -> dict[str, Any]:
    """Return an inhibit as the API answers it."""
    return {"reason": row.reason, "owner": row.owner, "ends_at": instant(row.ends_at)}


def _end(row: MaintenanceInhibit) -> tuple[bool, float]:
    return row.ends_at is None, row.ends_at.timestamp() if row.ends_at else 0.0


def _session(row: Session) -> dict[str, Any]:
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
    }
