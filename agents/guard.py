"""The guard: are the workers that are expected alive? Derived from ages, never stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q

from agents import workload
from agents.models import Agent, MaintenanceInhibit, NotAsked, Presence, Session
from governance.core import clock

HEALTHY, DEGRADED, INHIBITED = "healthy", "degraded", "inhibited"
FRESH, LATE, STALE, NEVER = "fresh", "late", "stale", "never"
#: A worker that has been silent for longer is not named any more: it was taken away.
NAMED_FOR = timedelta(days=1)
NAMED_MAX = 20


@dataclass(frozen=True)
class Worker:
    """A process of an agent, and the seconds since it was last heard of."""

    name: str
    age_seconds: float


@dataclass(frozen=True)
class Watch:
    """How an agent looks: `age_seconds` since it was last heard of, None if it never was.

    `workers_fresh` of its workers are fresh, of `workers_expected`. Where some are missing,
    `silent` names those that were heard of within a day, the longest silent last.
    """

    agent: str
    expected: bool
    freshness: str
    age_seconds: float | None
    fresh_seconds: int
    stale_seconds: int
    inhibited: bool
    heard_at: datetime | None
    workers_fresh: int = 0
    workers_expected: int = 1
    silent: Sequence[Worker] = ()
    #: What workers of it do not ask for now, as they say, each type once.
    not_asking: Sequence[NotAsked] = ()

    @property
    def alarming(self) -> bool:
        """Tell whether the guard raises an alarm over it."""
        return self.expected and not self.inhibited and self.workers_missing > 0

    @property
    def workers_missing(self) -> int:
        """Return how many more workers of it should be fresh."""
        return max(self.workers_expected - self.workers_fresh, 0)


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
    has fewer fresh workers than are expected of it, else `healthy`.

    A worker is a session; it was last heard of when it, or one of its leases, was.
    """
    now = clock.now()
    inhibits = inhibits_in_force(now)
    everywhere = any(row.agent_id is None for row in inhibits)
    named = {row.agent_id for row in inhibits}
    agents = list(Agent.objects.filter(enabled=True).order_by("name"))
    heard = _heard([agent.pk for agent in agents])
    unasked = _not_asking(now)
    watches = [
        _watch(
            agent,
            heard.get(agent.pk, {}),
            now,
            inhibited=everywhere or agent.pk in named,
            not_asking=unasked.get(agent.pk, ()),
        )
        for agent in agents
    ]
    if inhibits:
        state = INHIBITED
    else:
        state = DEGRADED if any(watch.alarming for watch in watches) else HEALTHY
    return Guard(state, now, watches, inhibits)


def last_heard(agent_ids: Sequence[int]) -> dict[int, datetime]:
    """Return when each agent was last heard of, by its sessions or its leases."""
    return {agent: max(beats.values()) for agent, beats in _heard(agent_ids).items()}


def _heard(agent_ids: Sequence[int]) -> dict[int, dict[int, datetime]]:
    """Return per agent when each of its current sessions was last heard of."""
    heard: dict[int, dict[int, datetime]] = {}
    beats = Presence.objects.filter(session__agent_id__in=agent_ids, session__state="current")
    rows = list(beats.values_list("session__agent_id", "session_id", "last_heartbeat_at"))
    for agent_id, session_id, at in rows + workload.ask().beats(agent_ids=agent_ids):
        sessions = heard.setdefault(agent_id, {})
        sessions[session_id] = max(at, sessions.get(session_id, at))
    return heard


def freshness(agent: Agent, age_seconds: float | None) -> str:
    """Return what an age means for an agent; its thresholds belong to the worse side."""
    if age_seconds is None:
        return NEVER
    if age_seconds < agent.fresh_seconds:
        return FRESH
    return LATE if age_seconds < agent.stale_seconds else STALE


def _not_asking(now: datetime) -> dict[int, list[NotAsked]]:
    """Return per agent what its current sessions do not ask for, of each type what ends last."""
    rows = Presence.objects.filter(session__state="current").exclude(not_asking=None)
    found: dict[int, dict[str, NotAsked]] = {}
    for row in rows.select_related("session").only("not_asking", "session__agent_id"):
        types = found.setdefault(row.session.agent_id, {})
        for each in row.not_asked_for(at=now):
            if each.task_type not in types or types[each.task_type].until < each.until:
                types[each.task_type] = each
    return {agent: [types[name] for name in sorted(types)] for agent, types in found.items()}


def _watch(
    agent: Agent,
    heard: dict[int, datetime],
    now: datetime,
    *,
    inhibited: bool,
    not_asking: Sequence[NotAsked],
) -> Watch:
    heard_at = max(heard.values(), default=None)
    age = (now - heard_at).total_seconds() if heard_at else None
    fresh_since = now - timedelta(seconds=agent.fresh_seconds)
    fresh = sum(at > fresh_since for at in heard.values())
    lacking = agent.expected and fresh < agent.workers_expected
    return Watch(
        agent=agent.name,
        expected=agent.expected,
        freshness=freshness(agent, age),
        age_seconds=age,
        fresh_seconds=agent.fresh_seconds,
        stale_seconds=agent.stale_seconds,
        inhibited=inhibited,
        heard_at=heard_at,
        workers_fresh=fresh,
        workers_expected=agent.workers_expected,
        silent=_silent(heard, fresh_since, now) if lacking else (),
        not_asking=not_asking,
    )


def _silent(heard: dict[int, datetime], since: datetime, now: datetime) -> list[Worker]:
    quiet = {pk: at for pk, at in heard.items() if now - NAMED_FOR < at <= since}
    newest = sorted(quiet, key=quiet.__getitem__, reverse=True)[:NAMED_MAX]
    names = {row.pk: row.worker_id or row.cell_id for row in Session.objects.filter(pk__in=newest)}
    return [Worker(names[pk], (now - quiet[pk]).total_seconds()) for pk in newest]
