"""Heartbeats: the holders of leases say that they live, and learn what is wanted of them."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from agents.principals import Principal
from governance.core import sql
from governance.core.errors import (
    DispatcherEpochStale,
    DomainError,
    LeaseExpired,
    NotFound,
    SessionNotApproved,
    SessionRequired,
    SessionSuperseded,
    StaleFencingToken,
    WrongOwner,
)
from jobs.queries import heartbeat_interval_seconds, instant

HEARTBEATS_MAX = 500

# One statement, autocommit: nothing stays open while the socket is slow. Locks: the leases, in
# job order, waiting for a transition that is at one; the clock is read after that wait. Renews
# only what is still live and never shortens. Updates no indexed column, so it stays HOT.
BEAT = """
WITH caller AS MATERIALIZED (
    SELECT f.dispatcher_epoch AS epoch, s.state, s.dispatcher_epoch AS session_epoch,
           %(session)s::uuid IS NULL OR COALESCE(s.state = 'current'
               AND f.dispatcher_epoch = ALL (ARRAY[s.dispatcher_epoch,
                   COALESCE(%(epoch)s::uuid, f.dispatcher_epoch)]), false) AS may
      FROM agents_fleet f
      LEFT JOIN agents_session s ON s.session_id = %(session)s::uuid AND s.agent_id = %(agent)s
           AND s.kind = 'activated'
     WHERE f.id = 1
), asked AS MATERIALIZED (
    SELECT q.*, j.id AS job_pk FROM unnest(%(tasks)s::text[], %(attempts)s::int[],
           %(tokens)s::bigint[], %(progress)s::text[])
           WITH ORDINALITY AS q(task_id, attempt, token, progress, place)
      LEFT JOIN jobs_job j ON j.task_id = q.task_id
), locked AS MATERIALIZED (
    SELECT l.job_id, l.attempt, l.fencing_token, l.expires_at, l.lease_seconds, l.session_id
      FROM jobs_lease l WHERE l.job_id IN (SELECT job_pk FROM asked)
     ORDER BY l.job_id FOR NO KEY UPDATE
), timed AS MATERIALIZED (
    SELECT locked.*, s.state AS session_state, s.agent_id, clock_timestamp() AS clock,
           c.may AND (s.kind = 'implicit' OR s.dispatcher_epoch = c.epoch) AS of_this_epoch
      FROM locked JOIN agents_session s ON s.id = locked.session_id CROSS JOIN caller c
), beaten AS (
    UPDATE jobs_lease l
       SET expires_at = GREATEST(l.expires_at, t.clock + make_interval(secs => l.lease_seconds)),
           heartbeat_at = t.clock, progress = COALESCE(q.progress::jsonb, l.progress)
      FROM timed t JOIN asked q ON q.job_pk = t.job_id
     WHERE l.job_id = t.job_id AND t.fencing_token = q.token AND t.attempt = q.attempt
       AND t.expires_at > t.clock AND t.session_state = 'current' AND t.agent_id = %(agent)s
       AND t.of_this_epoch
    RETURNING l.job_id, l.attempt, l.fencing_token, l.expires_at, l.lease_seconds, t.clock
), seen AS (
    UPDATE agents_presence p SET last_heartbeat_at = t.clock
      FROM timed t JOIN beaten b ON b.job_id = t.job_id
     WHERE p.session_id = t.session_id
       AND p.last_heartbeat_at < t.clock - make_interval(secs => 10)
)
SELECT q.place, q.token AS asked_token, q.attempt AS asked_attempt, q.job_pk, j.agent_id, j.state,
       j.paused, j.fencing_token, j.attempt, j.revision, b.expires_at, b.lease_seconds, b.clock,
       t.session_state, t.of_this_epoch, a.admission, c.state AS caller_state, c.epoch,
       c.session_epoch,
       (SELECT p.outcome FROM jobs_attempt p WHERE p.job_id = q.job_pk AND p.number = q.attempt
           AND p.fencing_token = q.token) AS outcome
  FROM asked q
 CROSS JOIN caller c
  LEFT JOIN jobs_job j ON j.id = q.job_pk
  LEFT JOIN agents_agent a ON a.id = j.agent_id
  LEFT JOIN timed t ON t.job_id = q.job_pk
  LEFT JOIN beaten b
         ON b.job_id = q.job_pk AND b.attempt = q.attempt AND b.fencing_token = q.token
 ORDER BY q.place
"""

#: Outcomes that were decided over the worker's head and that it is told as a stop.
STOPPING = frozenset({"stopped", "deadline_exceeded", "timed_out"})


def heartbeat(
    *,
    principal: Principal,
    beats: list[dict[str, Any]],
    session_id: UUID | None = None,
    epoch: UUID | None = None,
) -> list[dict[str, Any] | DomainError]:
    """Renew leases and answer, for each, how long it lasts and what is wanted.

    Each beat: `task_id`, `attempt`, `fencing_token`, `progress` (JSON, kept for the next attempt).
    An answer holds `ttl_seconds` and `control`: `continue`, `pause`, `drain` or `stop`; or is a
    refusal. A heartbeat never revives an expired lease and never shortens one; it raises no
    revision and writes no audit event. A lease named twice is beaten by its first mention.

    :param session_id: the session that calls, and `epoch` the dispatcher epoch that it knows.
    :raises SessionRequired, SessionNotApproved, SessionSuperseded, DispatcherEpochStale: it may
        not act, or not before it has activated again; nothing is renewed.
    """
    first: dict[tuple[Any, ...], dict[str, Any]] = {}
    for beat in beats:
        first.setdefault(_lease_of(beat), beat)
    asked = list(first.values())
    progress = [
        json.dumps(b["progress"], ensure_ascii=False) if b.get("progress") is not None else None
        for b in asked
    ]
    params = {
        "tasks": [b["task_id"] for b in asked],
        "attempts": [b["attempt"] for b in asked],
        "tokens": [b["fencing_token"] for b in asked],
        "progress": progress,
        "agent": principal.id,
        "session": session_id,
        "epoch": epoch,
    }
    [rows] = sql.pipeline(sql.Statement(BEAT, params))
    if session_id is not None and rows:
        _check_caller(rows[0], epoch)
    answers = {
        _lease_of(beat): _answer(principal, row) for beat, row in zip(asked, rows, strict=True)
    }
    return [answers[_lease_of(beat)] for beat in beats]


def _check_caller(row: sql.Row, epoch: UUID | None) -> None:
    """Refuse as `agents.entry` does; the statement has renewed nothing then."""
    if row["caller_state"] is None:
        raise SessionRequired("The session is not known; activate.")
    if row["caller_state"] == "pending":
        raise SessionNotApproved()
    if row["caller_state"] != "current":
        raise SessionSuperseded()
    if row["session_epoch"] != row["epoch"] or epoch not in (None, row["epoch"]):
        raise DispatcherEpochStale(current={"dispatcher_epoch": str(row["epoch"])})


def _lease_of(beat: dict[str, Any]) -> tuple[Any, ...]:
    return beat["task_id"], beat["attempt"], beat["fencing_token"]


def _answer(principal: Principal, row: sql.Row) -> dict[str, Any] | DomainError:
    if row["job_pk"] is None:
        return NotFound("There is no job of that task_id.")
    if row["agent_id"] != principal.id:
        return WrongOwner()
    if row["expires_at"] is not None:
        control = "pause" if row["paused"] else "continue"
        if control == "continue" and row["admission"] != "open":
            control = "drain"
        ttl = int((row["expires_at"] - row["clock"]).total_seconds())
        return {
            "outcome": "renewed",
            "ttl_seconds": ttl,
            "expires_at": instant(row["expires_at"]),
            "heartbeat_interval_seconds": heartbeat_interval_seconds(row["lease_seconds"]),
            "control": control,
            "revision": row["revision"],
        }
    current = {
        "fencing_token": row["fencing_token"],
        "attempt": row["attempt"],
        "state": row["state"],
    }
    if row["outcome"] in STOPPING or row["state"] == "stopped":
        return {"outcome": "ended", "ttl_seconds": 0, "control": "stop", "state": row["state"]}
    if row["asked_token"] != row["fencing_token"] or row["asked_attempt"] != row["attempt"]:
        return StaleFencingToken(current=current)
    if row["session_state"] not in (None, "current"):
        return SessionSuperseded()
    if row["of_this_epoch"] is False:
        return DispatcherEpochStale(current={"dispatcher_epoch": str(row["epoch"])})
    return LeaseExpired(current=current)
