"""Reads on agents: how one stands, and what it may do."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from agents import guard, workload
from agents.models import Agent, Fleet, MaintenanceInhibit, Session
from agents.principals import Principal
from governance.core import clock
from governance.core.errors import NotFound, PermissionDenied
from governance.money import room
from governance.money.notes import NoRoom

SESSIONS_MAX = 100
#: An agent counts as late when it was silent for three of these.
BEATS_PER_FRESH = 3
BEAT_SECONDS_MIN = 1


@dataclass(frozen=True)
class AgentStatus:
    """How an agent stands at an instant."""

    agent: Agent
    dispatcher_epoch: UUID
    inhibit: MaintenanceInhibit | None
    at: datetime


@dataclass(frozen=True)
class AgentPresence:
    """What is seen of an agent: when a process of it was last heard of, its leases and sessions."""

    heard_at: datetime | None
    age_seconds: float | None
    freshness: str
    active_leases: int
    sessions: list[Session]


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


def status(*, agent: Agent) -> AgentStatus:
    """Return how an agent stands: the epoch, and the inhibit that holds it back the longest."""
    now = clock.now()
    holding = [row for row in guard.inhibits_in_force(now) if row.agent_id in (None, agent.pk)]
    return AgentStatus(
        agent=agent,
        dispatcher_epoch=Fleet.objects.get().dispatcher_epoch,
        inhibit=max(holding, key=_end) if holding else None,
        at=now,
    )


def presence(*, agent: Agent, at: datetime) -> AgentPresence:
    """Return what is seen of an agent at an instant, with its newest sessions."""
    heard_at = guard.last_heard([agent.pk]).get(agent.pk)
    age = (at - heard_at).total_seconds() if heard_at else None
    live = agent.sessions.select_related("presence").exclude(state=Session.State.SUPERSEDED)
    return AgentPresence(
        heard_at=heard_at,
        age_seconds=age,
        freshness=guard.freshness(agent, age),
        active_leases=workload.active_leases(agent.pk),
        sessions=list(live.order_by("-pk")[:SESSIONS_MAX]),
    )


def no_room(*, agent: Agent) -> list[NoRoom]:
    """Return what has no room now of the scopes that the agent's jobs fall under."""
    types = [each["task_type"] for each in workload.ask().job_types(agent_id=agent.pk)]
    return room.of_agent(agent=agent.name, job_types=types)


def _end(row: MaintenanceInhibit) -> tuple[bool, float]:
    return row.ends_at is None, row.ends_at.timestamp() if row.ends_at else 0.0
