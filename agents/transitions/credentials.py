"""Credentials: made, rotated with an overlap, revoked at once.

A fresh credential begins a lineage, which its rotations keep: sessions belong to the lineage, and
end with its last live credential.  Each move is an event on the chain of the principal, whose row
is the lock that orders them.  The token itself is returned once and kept nowhere.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from django.db import transaction
from django.db.models import Q, QuerySet

from agents import barrier, tokens
from agents.models import Agent, Credential, Scope, Submitter
from agents.transitions.sessions import end_lineage
from governance.core import audit, clock
from governance.core.errors import FieldFault, InvalidArgument, InvalidTransition, NotFound
from governance.core.reasons import required

AGENT_SCOPES = frozenset({Scope.WORK, Scope.READ, Scope.ADMIT})
SUBMITTER_SCOPES = frozenset({Scope.SUBMIT, Scope.READ, Scope.CONTROL, Scope.ADMIT})
#: What a submitter gets unasked; `control` and `admit` are granted by name.
SUBMITTER_DEFAULT = frozenset({Scope.SUBMIT, Scope.READ})
OVERLAP_SECONDS_MAX = 30 * 86_400
LIFE_DAYS_MAX = 3650
SHA256_HEX_CHARS = 64


@dataclass(frozen=True)
class Issued:
    """A new credential and its token, which is not to be had again."""

    credential: Credential
    token: str


@transaction.atomic
def create(
    *,
    actor: str,
    reason: str,
    agent: str = "",
    submitter: str = "",
    scopes: Collection[str] | None = None,
    expires_days: int | None = None,
    certificate_sha256: str = "",
    note: str = "",
) -> Issued:
    """Make a credential of an agent or of a submitter, which must exist.

    :param scopes: by default all that an agent may have, or `submit` and `read`.
    :param certificate_sha256: fingerprint of the client certificate that it is bound to, as hex
        with or without colons.
    :raises NotFound: there is no such principal.
    :raises InvalidArgument: a scope that this kind of principal cannot have, a bad fingerprint or
        life, or no reason.
    """
    reason = required(reason)
    head = _locked(agent=agent, submitter=submitter)
    granted = _scopes(head, scopes)
    if expires_days is not None and not 1 <= expires_days <= LIFE_DAYS_MAX:
        raise InvalidArgument(f"A credential lives 1 to {LIFE_DAYS_MAX} days.")
    now = clock.now()
    return _issue(
        head,
        actor=actor,
        at=now,
        reason=reason,
        action="credential.created",
        scopes=granted,
        expires_at=now + timedelta(days=expires_days) if expires_days else None,
        lineage=uuid4(),
        certificate_sha256=fingerprint(certificate_sha256),
        note=note,
    )


@transaction.atomic
def rotate(
    *,
    prefix: str,
    actor: str,
    reason: str,
    overlap_seconds: int = 3600,
    certificate_sha256: str = "",
) -> Issued:
    """Make the successor of a credential; the old one expires after the overlap, or before.

    It keeps the lineage, and so the sessions and leases of who uses it.

    :param certificate_sha256: fingerprint of a further client certificate, which the successor is
        taken with beside the one of its predecessor; default only that.
    :raises NotFound: there is no such credential.
    :raises InvalidTransition: it has been revoked, or its lineage has ended.
    :raises InvalidArgument: a bad overlap or fingerprint, or no reason.
    """
    reason = required(reason)
    if not 0 <= overlap_seconds <= OVERLAP_SECONDS_MAX:
        raise InvalidArgument(f"The overlap is 0 to {OVERLAP_SECONDS_MAX} seconds.")
    old, head = _locked_credential(prefix)
    if refusal := revocable(old):
        raise refusal
    now = clock.now()
    if not _live(old.lineage, now).exists() and _of(old.lineage, revoked=True).exists():
        raise InvalidTransition("Its lineage was revoked; make a fresh credential.")
    added = fingerprint(certificate_sha256)
    bound = added or old.certificate_sha256
    life = old.expires_at - old.created_at if old.expires_at else None
    ends = now + timedelta(seconds=overlap_seconds)
    old.expires_at = min(ends, old.expires_at) if old.expires_at else ends
    old.save(update_fields=["expires_at"])
    return _issue(
        head,
        actor=actor,
        at=now,
        reason=reason,
        action="credential.rotated",
        before={"prefix": old.prefix, "expires_at": old.expires_at.isoformat()},
        follows=old,
        scopes=sorted(old.scopes),
        expires_at=now + life if life else None,
        lineage=old.lineage,
        certificate_sha256=bound,
        former_certificate_sha256=old.certificate_sha256 if added else "",
        note=old.note,
    )


@transaction.atomic
def revoke(*, prefix: str, actor: str, reason: str) -> Credential:
    """Revoke a credential from this instant on.

    With the last live one of an agent's lineage its sessions are superseded, and their leases go
    to the sweeper: no write that was admitted under them commits once this has.

    :raises NotFound: there is no such credential.
    :raises InvalidTransition: it was revoked already.
    """
    reason = required(reason)
    agent = Credential.objects.filter(prefix=prefix).values_list("agent__name", flat=True).first()
    if agent is not None:
        barrier.hold([agent])
    credential, head = _locked_credential(prefix)
    if refusal := revocable(credential):
        raise refusal
    credential.revoked_at = clock.now()
    credential.revoked_by = actor
    credential.save(update_fields=["revoked_at", "revoked_by"])
    lineage, now = credential.lineage, credential.revoked_at
    audit.record(
        head,
        action="credential.revoked",
        actor=actor,
        at=now,
        reason=reason,
        details={"prefix": prefix, "lineage": str(lineage)},
        rows=[credential],
    )
    if isinstance(head, Agent) and not _live(lineage, now).exists():
        end_lineage(head, lineage=lineage, actor=actor, at=now)
    return credential


def _of(lineage: UUID, *, revoked: bool) -> QuerySet[Credential]:
    return Credential.objects.filter(lineage=lineage, revoked_at__isnull=not revoked)


def _live(lineage: UUID, now: datetime) -> QuerySet[Credential]:
    """Return the credentials of a lineage that are neither revoked nor expired."""
    return _of(lineage, revoked=False).filter(Q(expires_at=None) | Q(expires_at__gt=now))


def revocable(credential: Credential) -> InvalidTransition | None:
    """Return why a credential can be neither revoked nor rotated; None where it still can."""
    return InvalidTransition("It is revoked already.") if credential.revoked_at else None


def fingerprint(text: str) -> str:
    """Return a SHA-256 fingerprint as 64 lower-case hex digits; empty stays empty.

    :raises InvalidArgument: it is not one.
    """
    plain = text.replace(":", "").strip().lower()
    if plain and (len(plain) != SHA256_HEX_CHARS or not set(plain) <= set("0123456789abcdef")):
        raise InvalidArgument(
            "A certificate fingerprint is the hex of its SHA-256.",
            errors=[FieldFault("/certificate_sha256", "64 hexadecimal digits")],
        )
    return plain


def _issue(
    head: Agent | Submitter,
    *,
    actor: str,
    at: datetime,
    reason: str,
    action: str,
    scopes: list[str],
    expires_at: datetime | None,
    lineage: UUID,
    certificate_sha256: str,
    former_certificate_sha256: str = "",
    note: str,
    before: dict[str, str] | None = None,
    follows: Credential | None = None,
) -> Issued:
    token = tokens.generate()
    credential = Credential.objects.create(
        agent=head if isinstance(head, Agent) else None,
        submitter=head if isinstance(head, Submitter) else None,
        prefix=token.prefix,
        hashed_key=token.hashed,
        scopes=scopes,
        created_at=at,
        created_by=actor,
        expires_at=expires_at,
        lineage=lineage,
        certificate_sha256=certificate_sha256,
        former_certificate_sha256=former_certificate_sha256,
        note=note,
    )
    audit.record(
        head,
        action=action,
        actor=actor,
        at=at,
        reason=reason,
        before=before,
        after={
            "prefix": token.prefix,
            "scopes": scopes,
            "expires_at": expires_at.isoformat() if expires_at else None,
            "lineage": str(lineage),
            "certificate_sha256": certificate_sha256,
            "former_certificate_sha256": former_certificate_sha256,
        },
        rows=[credential, *([follows] if follows else [])],
    )
    return Issued(credential, token.text)


def _scopes(head: Agent | Submitter, requested: Collection[str] | None) -> list[str]:
    allowed = AGENT_SCOPES if isinstance(head, Agent) else SUBMITTER_SCOPES
    if requested is None:
        return sorted(AGENT_SCOPES if isinstance(head, Agent) else SUBMITTER_DEFAULT)
    if not requested or not set(requested) <= allowed:
        raise InvalidArgument(
            f"{head.principal} can have the scopes {', '.join(sorted(allowed))}.",
            errors=[FieldFault("/scopes", "not all of them can be given")],
        )
    return sorted(set(requested))


def _locked(*, agent: str = "", submitter: str = "") -> Agent | Submitter:
    if bool(agent) == bool(submitter):
        raise InvalidArgument("Name an agent or a submitter.")
    found: Agent | Submitter | None
    if agent:
        found = Agent.objects.select_for_update(no_key=True).filter(name=agent).first()
    else:
        found = Submitter.objects.select_for_update(no_key=True).filter(name=submitter).first()
    if found is None:
        raise NotFound(f"There is no {'agent' if agent else 'submitter'} {agent or submitter}.")
    return found


def _locked_credential(prefix: str) -> tuple[Credential, Agent | Submitter]:
    """Lock the principal and then the credential, as every move here does."""
    found = Credential.objects.select_related("agent", "submitter").filter(prefix=prefix).first()
    if found is None:
        raise NotFound("There is no such credential.")
    head = _locked(
        agent=found.agent.name if found.agent else "",
        submitter=found.submitter.name if found.submitter else "",
    )
    return Credential.objects.select_for_update(no_key=True, of=("self",)).get(pk=found.pk), head
