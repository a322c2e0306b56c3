"""The guard: are the workers that are expected alive? Derived from ages, never stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Max, Q

from agents import workload
from agents.models import Agent, MaintenanceInhibit, Presence
from governance.core import clock

HEALTHY, DEGRADED, INHIBITED = "healthy", "degraded", "inhibited"
FRESH, LATE, STALE, NEVER = "fresh", "late", "stale", "never"


@dataclass(frozen=True)
class Watch:
    """How an agent looks: `age_seconds` since it was last heard of, None if it never was."""

    agent: str
    expected: bool
    freshness: str
    age_seconds: float | None
    fresh_seconds: int
    stale_seconds: int
    inhibited: bool
    heard_at: datetime | None

    @property
    def alarming(self) -> bool:
        """Tell whether the guard raises an alarm over it."""
        return self.expected and self.freshness != FRESH and not self.inhibited


@dataclass(frozen=True)
class Guard:
    """The verdict, and every agent that it rests on."""

    state: str
    at: datetime
    agents: Sequence[Watch]
    inhibits: Sequence[MaintenanceInhibit]

    @property
    def missing(self) -> list[Watch]:
        """Return the agents that make the guard degraded, the longest silent first."""
        alarming = [watch for watch in self.agents if watch.alarming]
        return sorted(alarming, key=lambda watch: -(watch.age_seconds or float("inf")))


def inhibits_in_force(at: datetime) -> list[MaintenanceInhibit]:
    """Return the inhibits that hold at an instant. Index: inhibit_open_idx."""
    rows = MaintenanceInhibit.objects.select_related("agent").filter(
        Q(ends_at=None) | Q(ends_at__gt=at), lifted_at=None, starts_at__lte=at
    )
    return list(rows.order_by("starts_at"))


def look() -> Guard:
    """Judge the fleet: `inhibited` while an inhibit holds, else `degraded` when an expected agent
    is not fresh, else `healthy`.

    An agent was last heard of when one of its sessions or one of its leases was.
    """
    now = clock.now()
    inhibits = inhibits_in_force(now)
    everywhere = any(row.agent_id is None for row in inhibits)
    named = {row.agent_id for row in inhibits}
    agents = list(Agent.objects.filter(enabled=True).order_by("name"))
    heard = last_heard([agent.pk for agent in agents])
    watches = [
        _watch(agent, heard.get(agent.pk), now, inhibited=everywhere or agent.pk in named)
        for agent in agents
    ]
    if inhibits:
        state = INHIBITED
    else:
        state = DEGRADED if any(watch.alarming for watch in watches) else HEALTHY
    return Guard(state, now, watches, inhibits)


def last_heard(agent_ids: Sequence[int]) -> dict[int, datetime]:
    """Return when each agent was last heard of, by its sessions or its leases."""
    rows = Presence.objects.filter(
        session__agent_id__in=agent_ids, session__state="current"
    ).values_list("session__agent_id")
    heard: dict[int, datetime] = dict(rows.annotate(at=Max("last_heartbeat_at")))
    for agent_id, at in workload.ask().last_beats(agent_ids=agent_ids).items():
        heard[agent_id] = max(at, heard.get(agent_id, at))
    return heard


def freshness(agent: Agent, age_seconds: float | None) -> str:
    """Return what an age means for an agent; its thresholds belong to the worse side."""
    if age_seconds is None:
        return NEVER
    if age_seconds < agent.fresh_seconds:
        return FRESH
    return LATE if age_seconds < agent.stale_seconds else STALE


def _watch(agent: Agent, heard_at: datetime | None, now: datetime, *, inhibited: bool) -> Watch:
    age = (now - heard_at).total_seconds() if heard_at else None
    return Watch(
        agent=agent.name,
        expected=agent.expected,
        freshness=freshness(agent, age),
        age_seconds=age,
        fresh_seconds=agent.fresh_seconds,
        stale_seconds=agent.stale_seconds,
        inhibited=inhibited,
        heard_at=heard_at,
    )
