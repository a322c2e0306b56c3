"""Heartbeats: the holders of leases say that they live, and learn what is wanted of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from agents.entry import (
    CALLER,
    CALLER_FAULT,
    Entry,
    admission_fault,
    fault_of,
    need_agent,
    session_fault,
)
from governance.core import redaction, sql
from governance.core.errors import (
    DomainError,
    LeaseExpired,
    LeaseHeldByAnother,
    NotFound,
    StaleFencingToken,
    WrongOwner,
)
from jobs.transitions.preconditions import seconds_left

HEARTBEATS_MAX = 500

# Whether the caller holds the lease of a session: `preconditions.holds`, in SQL.
HOLDS = """CASE WHEN %(session)s::uuid IS NOT NULL
                THEN s.kind = 'activated' AND s.session_id = %(session)s::uuid
                ELSE s.kind = 'implicit' AND %(worker)s IN ('', s.worker_id)
                     AND (s.lineage IS NULL OR s.lineage = %(lineage)s::uuid) END"""
# One statement, autocommit: nothing stays open while the socket is slow. Locks: the leases, in
# job order, waiting for a transition that is at one; the clock is read after that wait. Renews
# only what is still live, of a caller that may act, and never shortens. Updates no indexed column,
# so it stays HOT.
BEAT = f"""
WITH caller AS MATERIALIZED (
    SELECT {CALLER_FAULT} AS fault, f.dispatcher_epoch FROM {CALLER} WHERE a.id = %(agent)s
), named AS MATERIALIZED (
    SELECT q.*, j.id AS job_pk FROM unnest(%(tasks)s::text[], %(attempts)s::int[],
           %(tokens)s::bigint[], %(progress)s::text[])
           WITH ORDINALITY AS q(task_id, attempt, token, progress, place)
      LEFT JOIN jobs_job j ON j.task_id = q.task_id
), locked AS MATERIALIZED (
    SELECT l.job_id, l.attempt, l.fencing_token, l.expires_at, l.lease_seconds, l.session_id
      FROM jobs_lease l WHERE l.job_id IN (SELECT job_pk FROM named)
     ORDER BY l.job_id FOR NO KEY UPDATE
), timed AS MATERIALIZED (
    SELECT locked.*, s.agent_id, clock_timestamp() AS clock, c.fault AS caller_fault,
           {session_fault("s", "c.dispatcher_epoch")} AS holder_fault, {HOLDS} AS held
      FROM locked JOIN agents_session s ON s.id = locked.session_id CROSS JOIN caller c
), beaten AS (
    UPDATE jobs_lease l
       SET expires_at = GREATEST(l.expires_at, t.clock + make_interval(secs => l.lease_seconds)),
           heartbeat_at = t.clock, progress = COALESCE(q.progress::jsonb, l.progress)
      FROM timed t JOIN named q ON q.job_pk = t.job_id
     WHERE l.job_id = t.job_id AND t.fencing_token = q.token AND t.attempt = q.attempt
       AND t.expires_at > t.clock AND t.agent_id = %(agent)s
       AND t.caller_fault IS NULL AND t.holder_fault IS NULL AND t.held
    RETURNING l.job_id, l.attempt, l.fencing_token, l.expires_at, l.lease_seconds, t.clock
), seen AS (
    UPDATE agents_presence p SET last_heartbeat_at = t.clock
      FROM timed t JOIN beaten b ON b.job_id = t.job_id
     WHERE p.session_id = t.session_id
       AND p.last_heartbeat_at < t.clock - make_interval(secs => 10)
), taken AS (
    -- A session of before belongs to the first lineage that uses it; whoever is at it, does.
    UPDATE agents_session SET lineage = %(lineage)s::uuid WHERE id IN (
        SELECT s.id FROM agents_session s JOIN timed t ON t.session_id = s.id
          JOIN beaten b ON b.job_id = t.job_id
         WHERE s.kind = 'implicit' AND s.lineage IS NULL FOR NO KEY UPDATE OF s SKIP LOCKED)
)
SELECT q.place, q.token AS named_token, q.attempt AS named_attempt, q.job_pk, j.agent_id, j.state,
       j.paused, j.fencing_token, j.attempt, j.revision, b.expires_at, b.lease_seconds, b.clock,
       t.holder_fault, t.held, t.expires_at AS lease_ends_at, a.admission, c.fault,
       c.dispatcher_epoch, clock_timestamp() AS now,
       (SELECT p.outcome FROM jobs_attempt p WHERE p.job_id = q.job_pk AND p.number = q.attempt
           AND p.fencing_token = q.token) AS outcome
  FROM caller c
  LEFT JOIN named q ON true
  LEFT JOIN jobs_job j ON j.id = q.job_pk
  LEFT JOIN agents_agent a ON a.id = j.agent_id
  LEFT JOIN timed t ON t.job_id = q.job_pk
  LEFT JOIN beaten b
         ON b.job_id = q.job_pk AND b.attempt = q.attempt AND b.fencing_token = q.token
 ORDER BY q.place
"""

#: Outcomes that were decided over the worker's head and that it is told as a stop.
STOPPING = frozenset({"stopped", "deadline_exceeded", "timed_out"})


@dataclass(frozen=True)
class Beat:
    """What became of a heartbeat, and what is wanted of the lease's holder.

    :param outcome: `renewed`, or `ended` where the attempt was ended over its holder's head.
    :param control: `continue`, `pause`, `drain` or `stop`.
    :param state: of the job, and `revision` its revision.
    :param expires_at: the end of a lease that was renewed at `at`, for `lease_seconds` as a rule.
    """

    outcome: str
    control: str
    state: str
    revision: int
    at: datetime
    expires_at: datetime
    lease_seconds: int = 0

    @property
    def ttl_seconds(self) -> int:
        """Return the whole seconds that the lease lasts."""
        return int((self.expires_at - self.at).total_seconds())


def heartbeat(*, entry: Entry, beats: list[dict[str, Any]]) -> list[Beat | DomainError]:
    """Renew leases and return, for each, how long it lasts and what is wanted, or its refusal.

    Each beat: `task_id`, `attempt`, `fencing_token`, `progress` (JSON, kept for the next attempt).
    A heartbeat never revives an expired lease and never shortens one; it raises no revision and
    writes no audit event. A lease named twice is beaten by its first mention; one of another
    holder is refused.

    :raises PermissionDenied, ClientCertificateRequired, SessionOfAnother, SessionRequired,
        SessionNotApproved, SessionSuperseded,
        DispatcherEpochStale: the caller may not act, as any other write of it would be refused;
        nothing is renewed.
    """
    agent_id = need_agent(entry.principal)
    first: dict[tuple[Any, ...], dict[str, Any]] = {}
    for beat in beats:
        first.setdefault(_lease_of(beat), beat)
    named = list(first.values())
    progress = [
        json.dumps(redaction.cleaned(b["progress"]), ensure_ascii=False)
        if b.get("progress") is not None
        else None
        for b in named
    ]
    params = {
        "tasks": [b["task_id"] for b in named],
        "attempts": [b["attempt"] for b in named],
        "tokens": [b["fencing_token"] for b in named],
        "progress": progress,
        "agent": agent_id,
    } | entry.named
    [rows] = sql.pipeline(sql.Statement(BEAT, params))
    # The caller is judged for no lease at all, too: that is one row without a place.
    if (fault := admission_fault(rows[0])) is not None:
        raise fault
    pairs = zip(named, rows[: len(named)], strict=True)
    found = {_lease_of(beat): _outcome(agent_id, row) for beat, row in pairs}
    return [found[_lease_of(beat)] for beat in beats]


def _lease_of(beat: dict[str, Any]) -> tuple[Any, ...]:
    return beat["task_id"], beat["attempt"], beat["fencing_token"]


def _outcome(agent_id: int, row: sql.Row) -> Beat | DomainError:
    if row["job_pk"] is None:
        return NotFound("There is no job of that task_id.")
    if row["agent_id"] != agent_id:
        return WrongOwner()
    if row["expires_at"] is not None:
        control = "pause" if row["paused"] else "continue"
        if control == "continue" and row["admission"] != "open":
            control = "drain"
        return Beat(
            "renewed",
            control,
            row["state"],
            row["revision"],
            at=row["clock"],
            expires_at=row["expires_at"],
            lease_seconds=row["lease_seconds"],
        )
    current = {
        "fencing_token": row["fencing_token"],
        "attempt": row["attempt"],
        "state": row["state"],
        "revision": row["revision"],
    }
    if row["outcome"] in STOPPING or row["state"] == "stopped":
        now = row["now"]
        return Beat("ended", "stop", row["state"], row["revision"], at=now, expires_at=now)
    if row["named_token"] != row["fencing_token"] or row["named_attempt"] != row["attempt"]:
        return StaleFencingToken(current=current)
    if row["held"] is False:
        left = seconds_left(row["lease_ends_at"], at=row["now"])
        return LeaseHeldByAnother(current=current, after_seconds=left)
    return fault_of(row["holder_fault"], row["dispatcher_epoch"]) or LeaseExpired(current=current)
