"""Presence: a process says that it lives, and learns how things stand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction

from agents.entry import Caller, Entry, Inhibit, add_implicit, enter, take_implicit, too_many_names
from agents.models import Agent, NotAsked
from agents.queries import heartbeat_interval_seconds
from governance.core import sql
from governance.core.clock import instant
from governance.core.errors import PermissionDenied
from governance.core.redaction import without_secrets

WORKERS_MAX = 100

# Locks: the presence rows, in key order. Updates no indexed column, so it stays HOT.
BEAT = """
INSERT INTO agents_presence (session_id, last_heartbeat_at, runtime, not_asking)
SELECT s.id, clock_timestamp(), %(runtime)s, %(not_asking)s::jsonb FROM agents_session s
 WHERE s.agent_id = %(agent_id)s AND (s.id = %(session_pk)s
       OR (s.kind = 'implicit' AND s.worker_id = ANY(%(workers)s::text[])
           AND s.lineage IS NOT DISTINCT FROM %(lineage)s::uuid))
 ORDER BY s.id
    ON CONFLICT (session_id) DO UPDATE
   SET last_heartbeat_at = EXCLUDED.last_heartbeat_at, runtime = EXCLUDED.runtime,
       not_asking = EXCLUDED.not_asking
"""
KNOWN = """
SELECT count(*)::int AS workers FROM agents_session
 WHERE agent_id = %(agent_id)s AND kind = 'implicit' AND worker_id = ANY(%(workers)s::text[])
   AND lineage IS NOT DISTINCT FROM %(lineage)s::uuid
"""


@dataclass(frozen=True)
class Standing:
    """What a process is told when it says that it lives."""

    admission: dict[str, Any]
    inhibit: Inhibit | None
    dispatcher_epoch: UUID
    heartbeat_interval_seconds: int


@transaction.atomic
def beat(
    *,
    entry: Entry,
    agent: str,
    runtime: str = "",
    worker_ids: list[str],
    not_asking: Sequence[NotAsked] = (),
) -> Standing:
    """Note that a session, or workers of the older contract, are alive.

    :param worker_ids: implicit sessions that are alive, made if they are new.
    :param not_asking: the types that the process does not ask for now, in place of what it said
        before.
    :raises PermissionDenied: the credential is another agent's.
    :raises SessionOfAnother, SessionRequired, SessionSuperseded, SessionNotApproved,
        DispatcherEpochStale: the session may not act; it must activate.
    :raises RateLimited: the agent has taken too many new names today.
    """
    if entry.principal.kind != "agent" or entry.principal.name != agent:
        raise PermissionDenied("A credential speaks for its own agent only.")
    caller, _ = enter(entry)
    workers = sorted(set(worker_ids[:WORKERS_MAX]))
    makes = [
        take_implicit(agent_id=caller.agent_id, lineage=caller.lineage, workers=workers),
    ]
    makes += [add_implicit(principal=entry.principal, worker_id=worker) for worker in workers]
    noted = {
        "agent_id": caller.agent_id,
        "session_pk": caller.session_pk,
        "workers": workers,
        "lineage": caller.lineage,
        "runtime": runtime,
        "not_asking": _as_json(not_asking),
    }
    *_, [known] = sql.pipeline(*makes, sql.Statement(BEAT, noted), sql.Statement(KNOWN, noted))
    if known["workers"] < len(workers):
        raise too_many_names()
    return _standing(caller, Agent.objects.get(pk=caller.agent_id))


def _as_json(types: Sequence[NotAsked]) -> str | None:
    rows = [
        {
            "task_type": each.task_type,
            "reason": without_secrets(each.reason),
            "until": instant(each.until),
        }
        for each in types
    ]
    return json.dumps(rows) if rows else None


def _standing(caller: Caller, agent: Agent) -> Standing:
    return Standing(
        admission={"state": caller.admission, "generation": caller.admission_generation},
        inhibit=caller.inhibit,
        dispatcher_epoch=caller.dispatcher_epoch,
        heartbeat_interval_seconds=heartbeat_interval_seconds(agent),
    )
