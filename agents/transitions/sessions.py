"""Sessions: a process of an agent becomes somebody in particular, and its successor fences it.

Every move here holds the agent's gate (`agents.barrier`), so that from its commit on no write of a
superseded session can commit.  The leases of a superseded session go to the sweeper.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Annotated, Any, TypedDict
from uuid import UUID

from django.db import transaction
from django.db.models import Max
from uuid_utils.compat import uuid7

from agents import barrier, workload
from agents.models import (
    Activation,
    Agent,
    CellApproval,
    Credential,
    Fleet,
    FormerSession,
    Presence,
    Session,
)
from agents.principals import Principal, agent_disabled, need_certificate
from agents.queries import heartbeat_interval_seconds
from governance.core import audit, clock
from governance.core.clock import instant
from governance.core.digests import canonical
from governance.core.errors import (
    DispatcherEpochStale,
    IdempotencyKeyReused,
    InvalidTransition,
    NotFound,
    PermissionDenied,
    SessionOfAnother,
    SessionSuperseded,
)
from governance.core.idempotency import Key, take
from governance.core.reasons import required
from governance.core.wire import InstantText, UuidText, explained, one_of

LIVE = (Session.State.CURRENT, Session.State.PENDING)
#: What a process says of itself, and may say otherwise when it comes back.
DESCRIBED = ("protocol_version", "runtime", "capabilities")


@dataclass(frozen=True)
class Boot:
    """What a process says of itself when it activates. It authorizes nothing by saying so."""

    cell_id: str
    boot_id: str
    protocol_version: str
    runtime: str = ""
    capabilities: dict[str, Any] = field(default_factory=dict)
    previous_session_id: UUID | None = None


class CredentialOut(TypedDict):
    """The credential that the activation was made with."""

    prefix: str
    scopes: list[str]
    expires_at: InstantText | None


class SessionStateOut(TypedDict):
    """The session that the process has from now on."""

    session_id: UuidText
    session_generation: int
    dispatcher_epoch: UuidText
    heartbeat_interval_seconds: int
    state: Annotated[str, one_of(("current", "pending"))]
    agent: str
    cell_id: str
    boot_id: str
    rebound: Annotated[bool, explained("whether live leases were bound to a new epoch")]
    credential: CredentialOut


@transaction.atomic
def activate(
    *,
    principal: Principal,
    agent: str,
    operation_id: str,
    boot: Boot,
    key: Key | None = None,
) -> SessionStateOut:
    """Make the process the current session of its cell, and fence the one before at once.

    The same operation again gives the answer that it was recorded with, as long as its session
    may act; so does the same `key`, which is taken behind the agent's gate.  A boot that
    is current already keeps its session; with `previous_session_id` under a new dispatcher epoch
    it is bound to that epoch under a new id: its live leases stay its own, its unspent permits are
    revoked.  Where the agent's policy asks for it, the session of a cell that nobody has approved
    for this lineage and certificate is `pending` until an operator does.

    :raises PermissionDenied: the credential is another's, or the agent is disabled.
    :raises ClientCertificateRequired: the agent demands one.
    :raises SessionOfAnother: the cell has a live session of another lineage or certificate, which
        an operator has not released; or the operation was such a one's.
    :raises DispatcherEpochStale: the operation's session has been bound to a newer epoch since.
    :raises SessionSuperseded: this boot, or this operation's session, has been superseded.
    :raises IdempotencyKeyReused: the operation id was used with other content.
    """
    if principal.kind != "agent" or principal.name != agent:
        raise PermissionDenied("A credential activates sessions of its own agent only.")
    [row] = barrier.hold([agent])
    if not row.enabled:
        raise agent_disabled()
    need_certificate(demanded=row.require_certificates, bound_to=principal.certificate_sha256)
    before = row.activations.select_related("session").filter(operation_id=operation_id).first()
    if before is not None:
        _need_standing(before, principal)
    take(key)
    sha = hashlib.sha256(canonical(_plain(boot))).hexdigest()
    if before is not None:
        return _again(before, sha)
    now = clock.now()
    session, rebound = _session_of(row, boot, principal, operation_id, now)
    Presence.objects.update_or_create(
        session=session, defaults={"last_heartbeat_at": now, "runtime": boot.runtime}
    )
    answer = _answer(row, session, principal, rebound=rebound)
    Activation.objects.create(
        agent=row,
        operation_id=operation_id,
        request_sha256=sha,
        session=session,
        answer=answer,
        created_at=now,
    )
    return answer


@transaction.atomic
def approve_cell(*, agent: str, cell_id: str, actor: str, reason: str) -> CellApproval:
    """Let a cell act for the agent; a session of it that waits becomes current.

    The approval is for the lineage and the certificate of that session; where none waits, for
    those of the first that comes.  It takes the place of an approval for others.

    :raises NotFound: there is no such agent.
    :raises InvalidTransition: the cell is approved already.
    """
    reason = required(reason)
    [row] = barrier.hold([agent])
    waiting = row.sessions.filter(cell_id=cell_id, kind="activated", state="pending").first()
    older = row.cell_approvals.filter(cell_id=cell_id, withdrawn_at=None).first()
    if older is not None and (waiting is None or _covers(older, waiting)):
        raise InvalidTransition("The cell is approved already.")
    now = clock.now()
    if older is not None:
        _withdraw(row, older, actor, "Another was approved in its place.", now)
    approval = CellApproval.objects.create(
        agent=row,
        cell_id=cell_id,
        lineage=waiting.lineage if waiting else None,
        certificate_sha256=waiting.certificate_sha256 if waiting else "",
        approved_by=actor,
        approved_at=now,
        reason=reason,
    )
    details = _of_approval(approval)
    _note(row, "cell.approved", actor, now, reason=reason, details=details, rows=[approval])
    if waiting is not None:
        _supersede(row, row.sessions.filter(cell_id=cell_id, state="current"), actor, now)
        waiting.state = Session.State.CURRENT
        waiting.save(update_fields=["state"])
        _note(row, "session.activated", actor, now, details=_named(waiting))
    return approval


@transaction.atomic
def withdraw_cell(*, agent: str, cell_id: str, actor: str, reason: str) -> CellApproval:
    """Take the approval of a cell back; its sessions are superseded at once.

    :raises NotFound: there is no such agent, or no approval in force.
    """
    reason = required(reason)
    [row] = barrier.hold([agent])
    approval = row.cell_approvals.filter(cell_id=cell_id, withdrawn_at=None).first()
    if approval is None:
        raise NotFound("The cell has no approval in force.")
    now = clock.now()
    _withdraw(row, approval, actor, reason, now)
    if row.approve_cells:
        _supersede(row, row.sessions.filter(cell_id=cell_id), actor, now)
    return approval


@transaction.atomic
def release_cell(*, session_id: UUID, actor: str, reason: str) -> Session:
    """End the live session of a cell, so that another lineage or certificate may take it.

    Its leases go to the sweeper. Source: contract, section 1, "Who holds an attempt".

    :raises NotFound: there is no such session.
    :raises InvalidTransition: it has ended already, or is an implicit one.
    """
    reason = required(reason)
    found = Session.objects.filter(session_id=session_id)
    agent = found.values_list("agent__name", flat=True).first()
    if agent is None:
        raise NotFound("There is no such session.")
    [row] = barrier.hold([agent])
    session = found.get()
    if refusal := releasable(session):
        raise refusal
    now = clock.now()
    _note(row, "cell.released", actor, now, reason=reason, details=_named(session))
    _supersede(row, row.sessions.filter(pk=session.pk), actor, now)
    session.refresh_from_db()
    return session


def free_cell(*, agent: str, cell_id: str, actor: str, reason: str) -> Session | None:
    """Release a cell if somebody has it: for who is about to take it with a fresh credential.

    :raises InvalidTransition: it has ended meanwhile.
    """
    held = Session.objects.filter(
        agent__name=agent, cell_id=cell_id, kind=Session.Kind.ACTIVATED, state__in=LIVE
    )
    session_id = held.values_list("session_id", flat=True).first()
    if session_id is None:
        return None
    return release_cell(session_id=session_id, actor=actor, reason=reason)


def releasable(session: Session) -> InvalidTransition | None:
    """Return why the session holds no cell that could be released; None where it does."""
    if session.kind != Session.Kind.ACTIVATED:
        return InvalidTransition("An implicit session holds no cell.")
    return None if session.state in LIVE else InvalidTransition(f"It is {session.state}.")


def end_lineage(agent: Agent, *, lineage: UUID, actor: str, at: datetime) -> int:
    """Supersede all sessions of a lineage that has no live credential left; return how many.

    For who holds the agent's gate. Names of workers are many, so that they are one event.
    """
    live = agent.sessions.filter(lineage=lineage).exclude(state=Session.State.SUPERSEDED)
    ended = _supersede(agent, live, actor, at)
    implicit = live.filter(kind=Session.Kind.IMPLICIT)
    names = implicit.update(state=Session.State.SUPERSEDED, superseded_at=at)
    if names:
        details = {"lineage": str(lineage), "worker_ids": names}
        _note(agent, "session.superseded", actor, at, details=details)
    return ended + names


def _need_standing(before: Activation, principal: Principal) -> None:
    """Refuse to repeat an activation whose session the caller no longer has by that answer.

    :raises SessionOfAnother, DispatcherEpochStale, SessionSuperseded: as `activate` does.
    """
    session = before.session
    _need_own(session, principal)
    if before.answer["session_id"] != str(session.session_id):
        raise _stale()
    if session.state == Session.State.SUPERSEDED:
        raise SessionSuperseded()


def _need_own(session: Session, principal: Principal) -> None:
    """Refuse a session of another lineage or certificate: `agents.entry.stranger`, in Python.

    :raises SessionOfAnother: it is one.
    """
    strange = session.lineage not in (None, principal.lineage)
    certificate = session.certificate_sha256
    if strange or (certificate and certificate not in principal.certificates):
        raise SessionOfAnother(
            "The cell's session belongs to another lineage of credentials or another client "
            "certificate; an operator has to release it first."
        )


def _stale() -> DispatcherEpochStale:
    epoch = str(Fleet.objects.get().dispatcher_epoch)
    return DispatcherEpochStale(current={"dispatcher_epoch": epoch})


def _withdraw(agent: Agent, approval: CellApproval, actor: str, reason: str, now: datetime) -> None:
    approval.withdrawn_at, approval.withdrawn_by = now, actor
    approval.withdraw_reason = reason
    approval.save(update_fields=["withdrawn_at", "withdrawn_by", "withdraw_reason"])
    details = _of_approval(approval)
    _note(agent, "cell.withdrawn", actor, now, reason=reason, details=details, rows=[approval])


def _covers(approval: CellApproval, session: Session) -> bool:
    """Return whether an approval is for the session's lineage and certificate."""
    lineage = approval.lineage in (None, session.lineage)
    return lineage and approval.certificate_sha256 in ("", session.certificate_sha256)


def _of_approval(approval: CellApproval) -> dict[str, Any]:
    return {
        "cell_id": approval.cell_id,
        "lineage": str(approval.lineage) if approval.lineage else None,
        "certificate_sha256": approval.certificate_sha256,
    }


def _again(before: Activation, sha: str) -> SessionStateOut:
    """Return the recorded answer, if it is one to this request; with its session as it is now."""
    if before.request_sha256 != sha:
        raise IdempotencyKeyReused("The activation_operation_id was used with other content.")
    recorded: SessionStateOut = before.answer
    return recorded | {"state": before.session.state}


def _session_of(
    agent: Agent, boot: Boot, principal: Principal, operation_id: str, now: datetime
) -> tuple[Session, bool]:
    """Return the session that this boot has from now on, and whether it was bound anew."""
    epoch = Fleet.objects.get().dispatcher_epoch
    for holder in agent.sessions.filter(kind="activated", cell_id=boot.cell_id, state__in=LIVE):
        _need_own(holder, principal)
    mine = agent.sessions.filter(kind="activated", cell_id=boot.cell_id, boot_id=boot.boot_id)
    live = mine.filter(state__in=LIVE).order_by("-generation").first()
    claimed = boot.previous_session_id
    if live is None and mine.exists():
        raise SessionSuperseded("This boot has been superseded and never activates again.")
    if live is not None and claimed is not None and not _was(live, claimed):
        raise SessionSuperseded("previous_session_id is not the session of this boot.")
    if live is not None and live.dispatcher_epoch == epoch:
        _describe(agent, live, boot, principal, now)
        return live, False
    if live is not None and claimed is not None:
        _rebind(agent, live, principal, operation_id, epoch, now)
        _describe(agent, live, boot, principal, now)
        return live, True
    return _begin(agent, boot, principal, operation_id, epoch, now), False


def _was(session: Session, claimed: UUID) -> bool:
    """Return whether a session has this id, or had it under an older epoch."""
    return session.session_id == claimed or session.former.filter(former_id=claimed).exists()


def _describe(
    agent: Agent, session: Session, boot: Boot, principal: Principal, now: datetime
) -> None:
    """Keep what a boot that comes back says of itself, and audit what it says otherwise."""
    given = {name: getattr(boot, name) for name in DESCRIBED}
    was = (session.lineage, session.certificate_sha256)
    # It names the lineage and the certificate that its process has now.
    session.lineage = session.lineage or principal.lineage
    session.certificate_sha256 = principal.presented_sha256 or session.certificate_sha256
    if was != (session.lineage, session.certificate_sha256):
        session.save(update_fields=["lineage", "certificate_sha256"])
        details = _named(session, by=principal) | {"certificate_before": was[1]}
        _note(agent, "session.taken", principal.text, now, details=details)
    changed = sorted(name for name, value in given.items() if getattr(session, name) != value)
    if not changed:
        return
    before = session.runtime
    for name in changed:
        setattr(session, name, given[name])
    session.save(update_fields=changed)
    details = _named(session, by=principal) | {
        "changed": changed,
        "runtime_before": before,
        "runtime": session.runtime,
        "capabilities_sha256": hashlib.sha256(canonical(session.capabilities)).hexdigest(),
    }
    _note(agent, "session.described", principal.text, now, details=details)


def _rebind(
    agent: Agent,
    session: Session,
    principal: Principal,
    operation_id: str,
    epoch: UUID,
    now: datetime,
) -> None:
    """Bind the session to the new epoch, under a new id.

    The row stays, so that its leases stay bound to it; who calls by the id that it had is told to
    activate.
    """
    former = FormerSession.objects.create(
        former_id=session.session_id,
        session=session,
        generation=session.generation,
        dispatcher_epoch=session.dispatcher_epoch,
        ended_at=now,
    )
    session.session_id = uuid7()
    session.generation = _next_generation(agent, session.cell_id)
    session.dispatcher_epoch = epoch
    session.activation_operation_id = operation_id
    session.save()
    details = _named(session, by=principal) | {
        "former_session_id": str(former.former_id),
        "permits_revoked": workload.ask().revoke_permits(session_pk=session.pk, at=now),
    }
    _note(agent, "session.rebound", principal.text, now, details=details)


def _begin(
    agent: Agent,
    boot: Boot,
    principal: Principal,
    operation_id: str,
    epoch: UUID,
    now: datetime,
) -> Session:
    """Make a new session. A pending one fences only other pending ones of its cell."""
    approved = not agent.approve_cells or _approved(agent, boot.cell_id, principal, now)
    older = agent.sessions.filter(kind="activated", cell_id=boot.cell_id)
    if not approved:
        older = older.filter(state=Session.State.PENDING)
    _supersede(agent, older, principal.text, now)
    session = Session.objects.create(
        session_id=uuid7(),
        agent=agent,
        kind=Session.Kind.ACTIVATED,
        lineage=principal.lineage,
        certificate_sha256=principal.presented_sha256,
        state=Session.State.CURRENT if approved else Session.State.PENDING,
        cell_id=boot.cell_id,
        boot_id=boot.boot_id,
        generation=_next_generation(agent, boot.cell_id),
        dispatcher_epoch=epoch,
        activation_operation_id=operation_id,
        protocol_version=boot.protocol_version,
        runtime=boot.runtime,
        capabilities=boot.capabilities,
        created_at=now,
    )
    action = "session.activated" if approved else "session.awaiting_approval"
    _note(agent, action, principal.text, now, details=_named(session, by=principal))
    return session


def _approved(agent: Agent, cell_id: str, principal: Principal, now: datetime) -> bool:
    """Return whether the cell is approved for who boots; the first that comes takes an open one."""
    approval = agent.cell_approvals.filter(cell_id=cell_id, withdrawn_at=None).first()
    if approval is None:
        return False
    if approval.lineage is None:
        approval.lineage = principal.lineage
        approval.certificate_sha256 = principal.presented_sha256
        approval.save(update_fields=["lineage", "certificate_sha256"])
        details = _of_approval(approval) | {"credential": principal.credential_prefix}
        _note(agent, "cell.taken", principal.text, now, details=details, rows=[approval])
    lineage = approval.lineage == principal.lineage
    return lineage and approval.certificate_sha256 in ("", *principal.certificates)


def _supersede(agent: Agent, sessions: Any, actor: str, now: datetime) -> int:
    live = list(sessions.filter(kind="activated", state__in=LIVE).order_by("pk"))
    for session in live:
        session.state, session.superseded_at = Session.State.SUPERSEDED, now
        session.save(update_fields=["state", "superseded_at"])
        _note(agent, "session.superseded", actor, now, details=_named(session))
    return len(live)


def _next_generation(agent: Agent, cell_id: str) -> int:
    cell = agent.sessions.filter(kind="activated", cell_id=cell_id)
    return (cell.aggregate(newest=Max("generation"))["newest"] or 0) + 1


def _answer(
    agent: Agent, session: Session, principal: Principal, *, rebound: bool
) -> SessionStateOut:
    credential = Credential.objects.get(pk=principal.credential_id)
    return {
        "session_id": str(session.session_id),
        "session_generation": session.generation,
        "dispatcher_epoch": str(session.dispatcher_epoch),
        "heartbeat_interval_seconds": heartbeat_interval_seconds(agent),
        "state": session.state,
        "agent": agent.name,
        "cell_id": session.cell_id,
        "boot_id": session.boot_id,
        "rebound": rebound,
        "credential": {
            "prefix": credential.prefix,
            "scopes": sorted(credential.scopes),
            "expires_at": instant(credential.expires_at),
        },
    }


def _named(session: Session, by: Principal | None = None) -> dict[str, Any]:
    credential = {"credential": by.credential_prefix} if by is not None else {}
    return credential | {
        "session_id": str(session.session_id),
        "cell_id": session.cell_id,
        "boot_id": session.boot_id,
        "session_generation": session.generation,
        "dispatcher_epoch": str(session.dispatcher_epoch),
        "lineage": str(session.lineage) if session.lineage else None,
        "certificate_sha256": session.certificate_sha256,
    }


def _note(
    agent: Agent,
    action: str,
    actor: str,
    now: datetime,
    *,
    reason: str = "",
    details: dict[str, Any],
    rows: Sequence[CellApproval] = (),
) -> None:
    audit.record(
        agent, action=action, actor=actor, at=now, reason=reason, details=details, rows=rows
    )


def _plain(boot: Boot) -> dict[str, Any]:
    plain = asdict(boot)
    previous = plain["previous_session_id"]
    return plain | {"previous_session_id": str(previous) if previous else None}
