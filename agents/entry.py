"""The gate of every worker write: the caller is still who it was, and may act at all.

One network round trip: the shared advisory lock of the agent, then session, epoch, admission and
inhibit as they stand *after* the lock, then whatever the transition wants to lock and read.  Who
closes admission, sets an inhibit, activates a session or rotates the epoch takes the exclusive
lock, so that what is read here stays true until this transaction ends.

Whether a caller may act is one rule, `CALLER_FAULT`: in SQL, since heartbeats renew and judge in
one statement, and translated to its refusal by `admission_fault`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from uuid_utils.compat import uuid7

from agents.principals import Principal, agent_disabled
from governance.core import sql
from governance.core.errors import (
    ClientCertificateRequired,
    DispatcherEpochStale,
    DomainError,
    PermissionDenied,
    RateLimited,
    SessionNotApproved,
    SessionOfAnother,
    SessionRequired,
    SessionSuperseded,
)
from governance.core.idempotency import Key

#: First argument of the two-key advisory locks on agents; the second is the agent's primary key.
AGENT_LOCK = 1

LOCK_SHARED = "SELECT pg_advisory_xact_lock_shared(%s, %s)"

#: Why a caller, or a session, may not act: each word that the SQL below gives, as its refusal.
FAULTS: dict[str, Callable[[UUID], DomainError]] = {
    "disabled": lambda epoch: agent_disabled(),
    "no certificate": lambda epoch: ClientCertificateRequired(),
    # An implicit session is a name that anybody with the token can say: no cell was approved.
    "no session": lambda epoch: SessionRequired(
        "This agent acts through approved sessions only; activate."
    ),
    "unknown session": lambda epoch: SessionRequired("The session is not known; activate."),
    "another": lambda epoch: SessionOfAnother(),
    "not approved": lambda epoch: SessionNotApproved(),
    "superseded": lambda epoch: SessionSuperseded(),
    "stale epoch": lambda epoch: DispatcherEpochStale(current={"dispatcher_epoch": str(epoch)}),
}
#: Faults under which what has happened outside is still told, and kept. Source: contract, section
#: 1, "Who holds an attempt".
FENCED = frozenset({"superseded", "stale epoch"})


def session_fault(session: str, epoch: str) -> str:
    """Return the SQL of why a session may not act: a word of `FAULTS`, or NULL.

    :param session: alias of its row; without a row there is no fault.
    :param epoch: the SQL of the dispatcher epoch in force.
    """
    return (
        f"CASE WHEN {session}.state = 'pending' THEN 'not approved'"
        f" WHEN {session}.state = 'superseded' THEN 'superseded'"
        f" WHEN {session}.kind = 'activated' AND {session}.dispatcher_epoch <> {epoch}"
        " THEN 'stale epoch' END"
    )


def stranger(session: str) -> str:
    """Return the SQL of whether a session belongs to another lineage or certificate: NULL for no.

    A session of before has no lineage yet, and one that came without a certificate needs none.

    :param session: alias of its row.
    """
    return (
        f"({session}.lineage <> %(lineage)s::uuid OR {session}.certificate_sha256 <> ''"
        f" AND {session}.certificate_sha256 <> ALL(%(certificates)s::text[]))"
    )


#: The SQL of why the caller may not act, over the rows of `CALLER`: the one statement of that rule.
CALLER_FAULT = f"""CASE
    WHEN NOT a.enabled THEN 'disabled'
    WHEN a.require_certificates AND NOT %(bound)s THEN 'no certificate'
    WHEN %(session)s::uuid IS NULL AND a.approve_cells THEN 'no session'
    WHEN %(session)s::uuid IS NOT NULL AND s.id IS NULL THEN 'unknown session'
    WHEN s.kind = 'activated' AND {stranger("s")} THEN 'another'
    WHEN s.session_id <> %(session)s::uuid THEN 'stale epoch'
    ELSE COALESCE({session_fault("s", "f.dispatcher_epoch")},
                  CASE WHEN %(epoch)s::uuid <> f.dispatcher_epoch THEN 'stale epoch' END) END"""
_CALLER = """agents_agent a
  LEFT JOIN agents_fleet f ON f.id = 1
  LEFT JOIN agents_session s ON s.agent_id = a.id AND """
# The agent, the fleet and the session that the request names, also by an id that it had under an
# older epoch. Indexes: primary keys, session_id, former_id.
CALLER = _CALLER + (
    "s.kind = 'activated' AND s.id = COALESCE("
    "(SELECT id FROM agents_session WHERE session_id = %(session)s::uuid),"
    " (SELECT session_id FROM agents_formersession WHERE former_id = %(session)s::uuid))"
)
# The same of the older contract: of a worker, its lineage's, or one of before that no lineage has
# taken yet. Index: session_one_implicit_per_holder.
CALLER_BY_NAME = _CALLER + (
    "s.kind = 'implicit' AND s.worker_id = %(worker)s"
    " AND (s.lineage IS NULL OR s.lineage = %(lineage)s::uuid)"
)


def _reading(caller: str) -> str:
    return f"""
SELECT {CALLER_FAULT} AS fault, a.id AS agent_id, a.name AS agent, a.max_risk_tier, a.admission,
       a.admission_generation, f.dispatcher_epoch,
       s.id AS session_pk, s.session_id, s.kind, s.worker_id, s.runtime, s.generation, s.lineage,
       i.id AS inhibit_id, i.reason AS inhibit_reason, i.owner AS inhibit_owner,
       i.ends_at AS inhibit_ends_at, clock_timestamp() AS now,
       COALESCE(p.last_heartbeat_at < clock_timestamp() - make_interval(secs => 10), true)
           AS seen_due
  FROM {caller}
  LEFT JOIN agents_presence p ON p.session_id = s.id
  LEFT JOIN LATERAL (
        SELECT * FROM agents_maintenanceinhibit m
         WHERE (m.agent_id = a.id OR m.agent_id IS NULL) AND m.lifted_at IS NULL
           AND m.starts_at <= clock_timestamp()
           AND (m.ends_at IS NULL OR m.ends_at > clock_timestamp())
         ORDER BY m.ends_at DESC NULLS FIRST LIMIT 1) i ON true
 WHERE a.id = %(agent)s
"""


# Locks: none of its own; must follow LOCK_SHARED in a statement of its own, since a statement that
# waits for a lock still reads the snapshot from before the wait.  Index: inhibit_open_idx.
READ_CALLER = _reading(CALLER)
READ_CALLER_BY_NAME = _reading(CALLER_BY_NAME)

#: New names of one agent in a day. A worker that takes another name for every job is fine; one
#: that takes a name for every request is broken, and these rows are kept.
IMPLICIT_A_DAY_MAX = 10_000
RETRY_SECONDS = 3600

# Locks: the new row. Index: session_implicit_made_idx, at most so many entries of the last day.
ADD_IMPLICIT = """
INSERT INTO agents_session (session_id, agent_id, kind, state, worker_id, cell_id, boot_id,
                            generation, dispatcher_epoch, activation_operation_id,
                            protocol_version, runtime, capabilities, created_at, lineage,
                            certificate_sha256)
SELECT %(session)s, %(agent)s, 'implicit', 'current', %(worker)s, '', '', 1, f.dispatcher_epoch,
       '', '', '', '{}', clock_timestamp(), %(lineage)s::uuid, ''
  FROM agents_fleet f
 WHERE f.id = 1 AND (
       SELECT count(*) FROM agents_session s
        WHERE s.agent_id = %(agent)s AND s.kind = 'implicit'
          AND s.created_at > statement_timestamp() - interval '1 day') < %(most)s
    ON CONFLICT DO NOTHING
"""
# Sessions of before belong to the first lineage that uses them. Locks: their rows, once for ever.
# Index: session_one_implicit_per_holder.
TAKE_IMPLICIT = """
UPDATE agents_session SET lineage = %(lineage)s::uuid
 WHERE agent_id = %(agent)s AND kind = 'implicit' AND worker_id = ANY(%(workers)s::text[])
   AND lineage IS NULL
"""

# A process that asks for work lives, also one that sends no other heartbeat. Noted every 10 s at
# most (`seen_due`). Locks: the presence row, which nobody holds for long.
NOTE_PRESENCE = """
INSERT INTO agents_presence (session_id, last_heartbeat_at, last_claim_at, runtime)
VALUES (%(session)s, clock_timestamp(), clock_timestamp(), %(runtime)s)
    ON CONFLICT (session_id) DO UPDATE
   SET last_heartbeat_at = excluded.last_heartbeat_at, last_claim_at = excluded.last_claim_at
"""


@dataclass(frozen=True)
class Entry:
    """Who calls, as the request says it: the principal, and a session or a `worker_id`.

    :param key: the idempotency key that the gate takes, where the request has one.
    :param late: what is told is kept also from a session that is superseded or of an older epoch.
    :param if_match: the revision at which the request expects its job, where it says so.
    """

    principal: Principal
    worker_id: str = ""
    session_id: UUID | None = None
    epoch: UUID | None = None
    key: Key | None = None
    if_match: int | None = None
    late: bool = False

    @property
    def named(self) -> dict[str, Any]:
        """Return what the SQL that judges the caller asks for, beside the agent."""
        return {
            "session": self.session_id,
            "epoch": self.epoch,
            "worker": self.worker_id,
        } | self.principal.authenticated


@dataclass(frozen=True)
class Inhibit:
    """A maintenance inhibit that is in force; of several, the one that ends last."""

    reason: str
    owner: str
    ends_at: datetime | None


@dataclass(frozen=True)
class Caller:
    """Who calls, as the database says it.

    `session_pk` is None for a writer without a session, and `worker_id` empty for one that names
    nobody; `credential` is the prefix of the one that it came with, `lineage` its lineage.
    `fenced`: its session may act no more, or not before it is bound anew.
    """

    agent_id: int
    agent: str
    session_pk: int | None
    session_id: UUID | None
    kind: str
    worker_id: str
    runtime: str
    generation: int
    dispatcher_epoch: UUID
    admission: str
    admission_generation: int
    max_risk_tier: str
    inhibit: Inhibit | None
    now: datetime
    credential: str = ""
    lineage: UUID | None = None
    key: UUID | None = None
    if_match: int | None = None
    fenced: bool = False

    @property
    def actor(self) -> str:
        """Return the caller as the audit trail names it."""
        return f"agent:{self.agent}"

    @property
    def activated(self) -> bool:
        """Return whether the caller acts under an activated session."""
        return self.kind == "activated"

    def named(self, worker_id: str = "") -> dict[str, str]:
        """Return what an audit event names the caller by, beside its agent.

        The session or else the worker, and the credential.

        :param worker_id: whom an item of a batch names; default the request's.
        """
        if self.activated:
            named = {"session_id": str(self.session_id)}
        else:
            named = {"worker_id": worker_id or self.worker_id}
        return named | {"credential": self.credential}


def enter(
    entry: Entry, *, also: Sequence[sql.Statement] = (), make_session: bool = False
) -> tuple[Caller, list[list[sql.Row]]]:
    """Admit the caller into the open transaction and run `also` in the same round trip.

    In the order of locks: the agent's, the request's key, what `also` takes; and in the order of
    judgement: the caller, the stored answer. `also` takes nothing where there is one.

    :param make_session: create the implicit session of an unknown `worker_id` (claims do).
    :raises PermissionDenied: the agent is disabled, or the principal is no agent.
    :raises ClientCertificateRequired: the agent demands one.
    :raises SessionOfAnother, SessionRequired, SessionSuperseded, SessionNotApproved,
        DispatcherEpochStale: the session is not, or no longer, one that may act.
    :raises RateLimited: the agent has taken too many names today.
    :raises Answered, IdempotencyInFlight, IdempotencyKeyReused, IdempotencyKeyExpired: as
        `Key.judge` does.
    """
    agent_id = need_agent(entry.principal)
    read = sql.Statement(
        READ_CALLER if entry.session_id else READ_CALLER_BY_NAME,
        entry.named | {"agent": agent_id},
    )
    lock = sql.Statement(LOCK_SHARED, (AGENT_LOCK, agent_id))
    key = entry.key
    if key is None:
        _, [row], *rest = sql.pipeline(lock, read, *also)
    else:
        fresh = [key.unless_answered(statement) for statement in also]
        _, taken, found, [row], *rest = sql.pipeline(lock, *key.statements, read, *fresh)
    fenced = entry.late and row["fault"] in FENCED
    if not fenced and (fault := admission_fault(row)) is not None:
        raise fault
    if key is not None:
        key.judge(taken, found, session_pk=row["session_pk"])
    if row["kind"] == "implicit" and row["lineage"] is None and entry.principal.lineage:
        row = _take(entry, read)
    if make_session and row["session_pk"] is None:
        _, [row] = sql.pipeline(
            add_implicit(principal=entry.principal, worker_id=entry.worker_id), read
        )
        if row["session_pk"] is None:
            raise too_many_names()
    if make_session and row["seen_due"] and row["session_pk"] is not None:
        seen = {"session": row["session_pk"], "runtime": row["runtime"] or ""}
        sql.pipeline(sql.Statement(NOTE_PRESENCE, seen))
    return _caller(entry, row, fenced=fenced), rest


def _take(entry: Entry, read: sql.Statement) -> sql.Row:
    """Give a session of before to the lineage that uses it first, and read who calls again."""
    taken = take_implicit(
        agent_id=entry.principal.id, lineage=entry.principal.lineage, workers=[entry.worker_id]
    )
    _, [row] = sql.pipeline(taken, read)
    return row


def need_agent(principal: Principal) -> int:
    """Return the primary key of the agent that calls.

    :raises PermissionDenied: the principal is no agent.
    """
    if principal.kind != "agent":
        raise PermissionDenied("Only an agent's credential may do that.")
    return principal.id


def admission_fault(row: sql.Row) -> DomainError | None:
    """Return why the caller that `CALLER_FAULT` judged may not act, or None."""
    return fault_of(row["fault"], row["dispatcher_epoch"])


def fault_of(word: str | None, dispatcher_epoch: UUID) -> DomainError | None:
    """Return the refusal that a word of `FAULTS` stands for, or None for none."""
    return FAULTS[word](dispatcher_epoch) if word else None


def add_implicit(*, principal: Principal, worker_id: str) -> sql.Statement:
    """Return the statement that makes the session of a worker's name, while there is room."""
    made = {
        "session": uuid7(),
        "agent": principal.id,
        "lineage": principal.lineage,
        "worker": worker_id,
        "most": IMPLICIT_A_DAY_MAX,
    }
    return sql.Statement(ADD_IMPLICIT, made)


def take_implicit(*, agent_id: int, lineage: UUID | None, workers: Sequence[str]) -> sql.Statement:
    """Return the statement that gives workers' sessions of before, which have none, a lineage."""
    taken = {"agent": agent_id, "lineage": lineage, "workers": list(workers)}
    return sql.Statement(TAKE_IMPLICIT, taken)


def too_many_names() -> RateLimited:
    """Return the refusal of one more name than an agent may take in a day."""
    return RateLimited(
        f"The agent has taken {IMPLICIT_A_DAY_MAX} new worker ids in a day; use one of them.",
        after_seconds=RETRY_SECONDS,
    )


def _caller(entry: Entry, row: sql.Row, *, fenced: bool) -> Caller:
    inhibit = None
    if row["inhibit_id"] is not None:
        inhibit = Inhibit(row["inhibit_reason"], row["inhibit_owner"], row["inhibit_ends_at"])
    return Caller(
        agent_id=row["agent_id"],
        agent=row["agent"],
        session_pk=row["session_pk"],
        session_id=row["session_id"],
        kind=row["kind"] or "implicit",
        worker_id=entry.worker_id or row["worker_id"] or str(row["session_id"] or ""),
        runtime=row["runtime"] or "",
        generation=row["generation"] or 0,
        dispatcher_epoch=row["dispatcher_epoch"],
        admission=row["admission"],
        admission_generation=row["admission_generation"],
        max_risk_tier=row["max_risk_tier"],
        inhibit=inhibit,
        now=row["now"],
        credential=entry.principal.credential_prefix,
        lineage=entry.principal.lineage,
        key=entry.key.key if entry.key else None,
        if_match=entry.if_match,
        fenced=fenced,
    )
