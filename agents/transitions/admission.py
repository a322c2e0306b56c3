"""Admission: whether an agent may begin anything, and the barrier that makes a close final."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import transaction

from agents import barrier, workload
from agents.entry import Entry, enter
from agents.models import AdmissionChange, Agent
from agents.principals import Principal
from governance.core import audit, clock
from governance.core.errors import BarrierConflict, GenerationMismatch, NotFound, PermissionDenied
from governance.core.idempotency import Key, take
from governance.core.reasons import required

SWEEPER = "system:sweeper"


@dataclass(frozen=True)
class UnderWay:
    """What an agent has under way at an instant; the members are those of `Admission`."""

    active_leases: int
    effects_until: datetime | None


@dataclass(frozen=True)
class Admission:
    """How an agent's admission stands after a change.

    `active_leases` is as of the answer, and so is `effects_until`: until when what was started
    before may still act, or None.
    """

    state: str
    generation: int
    barrier_id: str
    active_leases: int
    effects_until: datetime | None


@transaction.atomic
def set_admission(
    *,
    agent: str,
    state: str,
    barrier_id: str,
    actor: str,
    reason: str,
    expected_generation: int | None = None,
    principal: Principal | None = None,
    session: tuple[UUID | None, UUID | None] = (None, None),
    key: Key | None = None,
) -> Admission:
    """Open, drain or close an agent, and return when nothing admitted before can commit any more.

    After a close no claim, route, permit or start of it commits. Source: contract section 4.

    The same barrier with the same content is answered as before and moves nothing.

    :param expected_generation: the generation that the caller saw; None takes whatever there is,
        which only people and commands may do.
    :param principal: the API caller; an agent may only drain itself.
    :param session: the session and epoch that the request names, judged as for any write of it.
    :param key: the idempotency key of its request.
    :raises PermissionDenied: an agent asks for more than to be drained.
    :raises NotFound: there is no such agent.
    :raises BarrierConflict: the barrier id was used for another change.
    :raises GenerationMismatch: the admission has changed since, with what it is as `current`.
    :raises SessionOfAnother, SessionRequired, SessionSuperseded, SessionNotApproved,
        DispatcherEpochStale: an agent names a session that may not act.
    """
    reason = required(reason)
    itself = _is_agent(principal, agent, state)
    try:
        [row] = barrier.hold([agent])
    except NotFound:
        take(key)
        raise
    by = _named(principal, session)
    # A stored answer is for who may still act.
    take(key)
    before = row.admission_changes.filter(barrier_id=barrier_id).first()
    if before is not None:
        return _again(before, state, expected_generation)
    if expected_generation is not None and expected_generation != row.admission_generation:
        current = {"admission": row.admission, "generation": row.admission_generation}
        raise GenerationMismatch(current=current)
    if itself and row.admission != Agent.Admission.OPEN:
        raise PermissionDenied("An agent may only move itself from open to draining.")
    return _change(row, state, barrier_id, actor, reason, by=by)


@transaction.atomic
def end_drain(*, agent: str) -> bool:
    """Close a draining agent whose last lease is gone; return whether that was so."""
    [row] = barrier.hold([agent])
    if row.admission != Agent.Admission.DRAINING or workload.active_leases(row.pk):
        return False
    name = f"drained:{row.admission_generation}"
    _change(row, Agent.Admission.CLOSED, name, SWEEPER, "The last lease is gone.")
    return True


def end_drains() -> int:
    """Close every draining agent whose last lease is gone; return how many. For the sweeper.

    Must not be called inside a transaction: each agent is closed in one of its own.
    """
    draining = list(
        Agent.objects.filter(admission=Agent.Admission.DRAINING).values_list("pk", "name")
    )
    ended = 0
    for pk, name in draining:
        if workload.active_leases(pk) == 0:
            ended += end_drain(agent=name)
    return ended


def _is_agent(principal: Principal | None, agent: str, state: str) -> bool:
    """Return whether an agent asks; refuse what no agent may ask for."""
    if principal is None or principal.kind != "agent":
        return False
    if principal.name != agent or state != Agent.Admission.DRAINING:
        raise PermissionDenied("An agent may only move itself from open to draining.")
    return True


def _named(principal: Principal | None, session: tuple[UUID | None, UUID | None]) -> dict[str, str]:
    """Return what the event names an API caller by: its credential, and the session that it names.

    :raises SessionOfAnother, SessionRequired, SessionSuperseded, SessionNotApproved,
        DispatcherEpochStale: an agent's session is not one that may act.
    """
    if principal is None:
        return {}
    session_id, epoch = session
    if principal.kind == "agent" and session_id is not None:
        caller, _ = enter(Entry(principal, session_id=session_id, epoch=epoch))
        return caller.named()
    return {"credential": principal.credential_prefix}


def _again(before: AdmissionChange, state: str, expected: int | None) -> Admission:
    same = expected is None or expected == before.expected_generation
    if before.state != state or not same:
        raise BarrierConflict()
    return _standing(before.agent_id, before.state, before.generation, before.barrier_id)


def _change(
    row: Agent,
    state: str,
    barrier_id: str,
    actor: str,
    reason: str,
    *,
    by: dict[str, str] | None = None,
) -> Admission:
    now = clock.now()
    before = {"admission": row.admission, "generation": row.admission_generation}
    AdmissionChange.objects.create(
        agent=row,
        barrier_id=barrier_id,
        expected_generation=row.admission_generation,
        state=state,
        generation=row.admission_generation + 1,
        actor=actor,
        reason=reason,
        at=now,
    )
    row.admission, row.barrier_id = state, barrier_id
    row.admission_generation += 1
    row.save(update_fields=["admission", "admission_generation", "barrier_id"])
    audit.record(
        row,
        action="admission.changed",
        actor=actor,
        at=now,
        reason=reason,
        before=before,
        after={"admission": state, "generation": row.admission_generation},
        details={"barrier_id": barrier_id, **(by or {})},
        rows=[row],
    )
    return _standing(row.pk, state, row.admission_generation, barrier_id)


def _standing(agent_id: int, state: str, generation: int, barrier_id: str) -> Admission:
    """Return the answer, with what the agent has under way now. Read behind its lock."""
    now = _under_way(agent_id)
    return Admission(state, generation, barrier_id, now.active_leases, now.effects_until)


def under_way(*, agent: str) -> UnderWay:
    """Return what the agent has under way now, for whoever repeats a change that was made.

    No lock: what began before the change has ended or is in sight, as it had when that committed.

    :raises NotFound: there is no such agent.
    """
    row = Agent.objects.filter(name=agent).first()
    if row is None:
        raise NotFound("There is no such agent.")
    return _under_way(row.pk)


def _under_way(agent_id: int) -> UnderWay:
    return UnderWay(
        active_leases=workload.active_leases(agent_id),
        effects_until=workload.effects_until(agent_id),
    )
