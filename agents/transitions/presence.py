"""Presence: a process says that it lives, and learns how things stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction
from uuid_utils.compat import uuid7

from agents.entry import ADD_IMPLICIT, Caller, Entry, enter
from agents.models import Agent
from agents.transitions.sessions import heartbeat_interval_seconds
from governance import sql
from governance.errors import PermissionDenied

WORKERS_MAX = 100

# Locks: the presence rows, in key order. Updates no indexed column, so it stays HOT.
BEAT = """
INSERT INTO agents_presence (session_id, last_heartbeat_at, runtime)
SELECT s.id, clock_timestamp(), %(runtime)s FROM agents_session s
 WHERE s.agent_id = %(agent_id)s AND (s.id = %(session_pk)s
       OR (s.kind = 'implicit' AND s.worker_id = ANY(%(workers)s::text[])))
 ORDER BY s.id
    ON CONFLICT (session_id) DO UPDATE
   SET last_heartbeat_at = EXCLUDED.last_heartbeat_at, runtime = EXCLUDED.runtime
"""


@dataclass(frozen=True)
class Standing:
    """What a process is told when it says that it lives."""

    admission: dict[str, Any]
    inhibit: dict[str, Any] | None
    dispatcher_epoch: UUID
    heartbeat_interval_seconds: int


@transaction.atomic
def beat(*, entry: Entry, agent: str, runtime: str = "", worker_ids: list[str]) -> Standing:
    """Note that a session, or workers of the older contract, are alive.

    :param worker_ids: implicit sessions that are alive, made if they are new.
    :raises PermissionDenied: the credential is another agent's.
    :raises SessionRequired, SessionSuperseded, SessionNotApproved, DispatcherEpochStale: the
        session may not act; it must activate.
    """
    if entry.principal.kind != "agent" or entry.principal.name != agent:
        raise PermissionDenied("A credential speaks for its own agent only.")
    caller, _ = enter(entry)
    workers = sorted(set(worker_ids[:WORKERS_MAX]))
    makes = [sql.Statement(ADD_IMPLICIT, (uuid7(), caller.agent_id, worker)) for worker in workers]
    noted = {
        "agent_id": caller.agent_id,
        "session_pk": caller.session_pk,
        "workers": workers,
        "runtime": runtime,
    }
    sql.together(*makes, sql.Statement(BEAT, noted))
    return _standing(caller, Agent.objects.get(pk=caller.agent_id))


def _standing(caller: Caller, agent: Agent) -> Standing:
    return Standing(
        admission={"state": caller.admission, "generation": caller.admission_generation},
        inhibit=caller.inhibit,
        dispatcher_epoch=caller.dispatcher_epoch,
        heartbeat_interval_seconds=heartbeat_interval_seconds(agent),
    )
