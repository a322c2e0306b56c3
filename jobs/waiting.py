"""Reads for operators: what waits for a person, what waits in the queues, what runs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import Exists, F, OuterRef, Q, QuerySet

from agents.models import RISK_RANK, RISK_TIERS
from governance.core import sql
from jobs.models import WAITING_STATES, Execution, Job, Reconciliation, SetAside
from jobs.models.set_aside import FAILURES_MIN

#: A queue is counted no further than this; how old its oldest job is, is exact nevertheless.
DEPTH_MAX = 2000
#: The sweeper's pulse, whose details are what its last round failed at.
SWEEPER = "sweeper"
#: A sweeper ends its rounds every few seconds; one that is silent for so long is not there.
SWEEPER_SILENT_SECONDS = 60
CLAIMABLE_AT = Job.CLAIMABLE_AT.format("j")

#: Of an execution: whether somebody has found out what became of it.
RECONCILED = Exists(
    Reconciliation.objects.filter(execution=OuterRef("pk")).exclude(
        verdict=Reconciliation.Verdict.UNDETERMINED
    )
)

# Locks: none. Index: job_claim_idx, from its start: no sort, at most DEPTH_MAX + 1 rows per agent;
# the oldest of each priority is the first entry of its part of the index.
READ_QUEUES = f"""
SELECT a.id, a.name, q.depth, q.tiers, o.oldest_at, l.leases, l.expired, clock_timestamp() AS now
  FROM agents_agent a
  LEFT JOIN LATERAL (
       SELECT sum(n)::int AS depth, jsonb_object_agg(risk_tier, n)::text AS tiers FROM (
           SELECT risk_tier, count(*) AS n FROM (
               SELECT j.risk_tier FROM jobs_job j
                WHERE j.agent_id = a.id AND j.state = 'queued' AND NOT j.paused
                ORDER BY j.priority DESC, {CLAIMABLE_AT}, j.id LIMIT %(limit)s) AS head
            GROUP BY risk_tier) AS tier) AS q ON true
  LEFT JOIN LATERAL (
       SELECT min(first.claimable_at) AS oldest_at FROM (VALUES (3), (2), (1), (0)) AS p (priority)
         CROSS JOIN LATERAL (
              SELECT {CLAIMABLE_AT} AS claimable_at FROM jobs_job j
               WHERE j.agent_id = a.id AND j.priority = p.priority AND j.state = 'queued'
                 AND NOT j.paused AND {CLAIMABLE_AT} <= clock_timestamp()
               ORDER BY {CLAIMABLE_AT} LIMIT 1) AS first) AS o ON true
  LEFT JOIN (
       SELECT j.agent_id, count(*) AS leases,
              count(*) FILTER (WHERE l.expires_at < clock_timestamp()) AS expired
         FROM jobs_lease l JOIN jobs_job j ON j.id = l.job_id GROUP BY j.agent_id
       ) AS l ON l.agent_id = a.id
 WHERE a.enabled ORDER BY a.name
"""

# Locks: none. Index: job_risk_idx, at most `limit` entries of each agent and tier.
ABOVE_RISK = f"""
SELECT j.id FROM agents_agent a
 CROSS JOIN unnest(ARRAY{list(RISK_TIERS)}) AS t (tier)
 CROSS JOIN LATERAL (
       SELECT j.id, j.state_since FROM jobs_job j
        WHERE j.agent_id = a.id AND j.risk_tier = t.tier AND j.state = 'queued'
          AND j.risk_tier <> 'low'
        ORDER BY j.state_since LIMIT %(limit)s) AS j
 WHERE {RISK_RANK.format("t.tier")} > {RISK_RANK.format("a.max_risk_tier")}
 ORDER BY j.state_since, j.id LIMIT %(limit)s
"""

#: Whether setting aside is stopped: jobs that would be, were there not so many of them.
BRAKED_SECONDS = 300
BRAKED = f"""EXISTS (SELECT FROM jobs_setaside WHERE set_at IS NULL AND count >= {FAILURES_MIN}
   AND last_seen_at > clock_timestamp() - interval '{BRAKED_SECONDS} seconds')"""

# Locks: none. Index: job_by_state_idx, at most `limit` entries of each state.
COUNT_WAITING = f"""
SELECT s.state, w.waiting FROM unnest(%(states)s::text[]) AS s (state)
 CROSS JOIN LATERAL (
       SELECT count(*)::int AS waiting FROM (
           SELECT 1 FROM jobs_job j WHERE j.state = s.state LIMIT %(limit)s) AS capped) AS w
UNION ALL
SELECT 'above_risk', (SELECT count(*)::int FROM ({ABOVE_RISK}) AS above)
UNION ALL
SELECT 'set_aside', (SELECT count(*)::int FROM (
       SELECT FROM jobs_setaside WHERE set_at IS NOT NULL LIMIT %(limit)s) AS capped)
UNION ALL
SELECT 'unswept', (SELECT count(*)::int FROM jsonb_object_keys(p.details -> 'failures'))
       + coalesce(jsonb_array_length(p.details -> 'chores'), 0)
  FROM governance_pulse p WHERE p.name = %(sweeper)s
"""


@dataclass(frozen=True)
class Queue:
    """One agent's queue. `depth` may be `DEPTH_MAX + 1`, which means more than `DEPTH_MAX`."""

    agent_id: int
    agent: str
    depth: int
    oldest_seconds: float | None
    leases: int
    expired_leases: int
    tiers: dict[str, int] = field(default_factory=dict)

    @property
    def more(self) -> bool:
        return self.depth > DEPTH_MAX


def queues() -> list[Queue]:
    """Return the queue of every agent, in one statement that never counts far."""
    [rows] = sql.pipeline(sql.Statement(READ_QUEUES, {"limit": DEPTH_MAX + 1}))
    return [
        Queue(
            agent_id=row["id"],
            agent=row["name"],
            depth=row["depth"] or 0,
            oldest_seconds=_age(row["oldest_at"], row["now"]),
            leases=row["leases"] or 0,
            expired_leases=row["expired"] or 0,
            tiers=json.loads(row["tiers"] or "{}"),
        )
        for row in rows
    ]


def waiting(state: str) -> QuerySet[Job]:
    """Return the jobs in one of the states that wait for a person. Served by `job_inbox_idx`."""
    return Job.objects.filter(state=state).order_by("state_since")


def jobs_above_risk(limit: int) -> QuerySet[Job]:
    """Return the queued jobs whose risk tier is above their agent's highest, oldest first.

    Nobody can claim them: the agent's tier was lowered after they had come in.
    """
    [rows] = sql.pipeline(sql.Statement(ABOVE_RISK, {"limit": limit}))
    return Job.objects.filter(pk__in=[row["id"] for row in rows]).order_by("state_since", "pk")


def unresolved() -> QuerySet[Execution]:
    """Return the executions whose outcome a person has to find out, oldest first.

    Those of running attempts are not among them: their worker may still report. Served by
    `execution_unknown_idx`.
    """
    running = Q(job__state=Job.State.ACTIVE, job__attempt=F("attempt"))
    return (
        Execution.objects.filter(~RECONCILED, state=Execution.State.UNKNOWN)
        .exclude(running)
        .order_by("id")
    )


def count_waiting(*, up_to: int) -> dict[str, int]:
    """Count the jobs that wait in each state that waits for a person, no further than `up_to`.

    `above_risk` counts what `jobs_above_risk` returns. `unswept` is what the sweeper failed at in
    its last round; absent before its first.
    """
    [rows] = sql.pipeline(
        sql.Statement(
            COUNT_WAITING, {"states": list(WAITING_STATES), "limit": up_to, "sweeper": SWEEPER}
        )
    )
    return {row["state"]: row["waiting"] for row in rows}


def set_aside() -> QuerySet[SetAside]:
    """Return what is set aside, oldest first. Served by `setaside_set_idx`."""
    return SetAside.objects.filter(set_at__isnull=False).order_by("set_at")


def setting_aside_stopped() -> bool:
    """Return whether so many rows fail that none is set aside any more: no fault of rows."""
    [[row]] = sql.pipeline(sql.Statement(f"SELECT {BRAKED} AS braked"))
    return bool(row["braked"])


def _age(at: datetime | None, now: Any) -> float | None:
    return (now - at).total_seconds() if at else None
