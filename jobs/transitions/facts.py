"""Facts that agents state: recorded once, receipted, and relayed like the service's own."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q
from uuid_utils.compat import uuid7

from agents.entry import Caller, Entry, enter
from agents.models import Agent
from governance.core import audit, clock, outbox, sql
from governance.core.digests import canonical, sha256_hex
from governance.core.errors import ChecksumMismatch, FactDigestConflict, FieldFault, InvalidArgument
from governance.core.models import Fact, PrunedFact
from jobs.transitions.preconditions import check_token
from jobs.transitions.work import LockedJob, Work, lock

#: Class of the advisory locks on (principal, fact id): the same fact twice is judged in turn.
LOCK_CLASS = 5
FACT_BYTES_MAX = 256 * 1024
LOCK_FACT = "SELECT pg_advisory_xact_lock(%s, hashtext(%s))"


@dataclass(frozen=True)
class Subject:
    """The attempt that a fact is about, and the authority to speak for it."""

    task_id: str
    attempt: int
    fencing_token: int


@dataclass(frozen=True)
class Stated:
    """A fact as its principal states it. `content_sha256` is of the canonical bytes of `data`."""

    fact_id: str
    content_sha256: str
    type: str
    data: dict[str, Any]

    @property
    def audited(self) -> dict[str, Any]:
        """Return what an audit event keeps of the fact: never the data."""
        return {
            "fact_id": self.fact_id,
            "type": self.type,
            "content_sha256": self.content_sha256,
        }


@dataclass(frozen=True)
class Receipt:
    """Proof that a fact is durably recorded, not that anybody has read it.

    `sequence` is None where the fact is kept as evidence only.
    """

    receipt_id: UUID
    fact_id: str
    sequence: int | None
    recorded_at: datetime
    content_sha256: str

    @classmethod
    def of(cls, fact: Fact) -> Receipt:
        """Return the receipt of a fact that was just recorded."""
        return cls(**{each.name: getattr(fact, each.name) for each in fields(cls)})


@sql.move
def state_fact(*, entry: Entry, stated: Stated, subject: Subject | None = None) -> Receipt:
    """Record a fact and return its receipt; the same fact again has the same receipt.

    A fact under a token that is no longer current is kept as evidence: it has no number in the
    job's stream, is not relayed, and leaves its id free: stated again under the current token it
    is recorded like any other. Source: contract sections 3 and 9.

    :raises FactDigestConflict: the principal has stated other content under this id: another
        type, subject or data.
    :raises ChecksumMismatch: the digest is not that of the data.
    :raises InvalidArgument: the type is one of the service's own, or the data is too large.
    :raises NotFound, WrongOwner: the subject is not a job of this agent.
    :raises LeaseHeldByAnother: the token is another's.
    """
    _check(stated)
    principal = entry.principal.text
    identity = sql.Statement(LOCK_FACT, (LOCK_CLASS, f"{principal}|{stated.fact_id}"))
    if subject is None:
        caller, _ = enter(entry, also=[identity])
        known = _known(principal, stated, stream=principal)
        return known or _state_of_agent(caller, principal, stated)
    work = lock([subject.task_id], entry=entry, numbers=[subject.attempt], first=[identity])
    locked = work.get(subject.task_id)
    current = _is_current(locked, subject)
    known = _known(principal, stated, stream=locked.job.audit_subject, as_evidence=not current)
    return known or _state_of_job(work, locked, principal, stated, subject, current=current)


def _check(stated: Stated) -> None:
    body = canonical(stated.data)
    if len(body) > FACT_BYTES_MAX:
        fault = FieldFault("/data", f"{FACT_BYTES_MAX} bytes at most")
        raise InvalidArgument("The fact is too large.", errors=[fault])
    if stated.type.startswith(outbox.TYPE_PREFIX):
        fault = FieldFault("/type", f"{outbox.TYPE_PREFIX} is what the service itself states")
        raise InvalidArgument("That type is not yours.", errors=[fault])
    if sha256_hex(body) != stated.content_sha256:
        raise ChecksumMismatch("content_sha256 is not the SHA-256 of the canonical data.")


def _is_current(locked: LockedJob, subject: Subject) -> bool:
    """Return whether the subject is the job's present attempt, under its token."""
    job = locked.job
    return (subject.attempt, subject.fencing_token) == (job.attempt, job.fencing_token)


def _known(
    principal: str, stated: Stated, *, stream: str, as_evidence: bool = False
) -> Receipt | None:
    """Return the receipt of a fact that is recorded already, also when its data is pruned.

    :param stream: of the subject, which is content as type and data are.
    :param as_evidence: the fact comes too late: that it was kept before counts as well.
    :raises FactDigestConflict: with those parts of the recorded content that are others.
    """
    identity = {"principal": principal, "fact_id": stated.fact_id}
    columns = [each.name for each in fields(Receipt)] + ["type", "stream"]
    content = {
        "content_sha256": stated.content_sha256,
        "type": stated.type,
        "stream": stream,
    }
    rows = Fact.objects.filter(Q(relayed=True) | Q(**content), **identity)
    kept = rows.values(*columns)
    found = list(kept.union(PrunedFact.objects.filter(**identity).values(*columns), all=True))
    for row in found:
        if row["sequence"] is None:
            continue
        # An earlier release kept of a pruned fact neither type nor stream.
        others = {name: row[name] for name in content if row[name] not in ("", content[name])}
        if others:
            raise FactDigestConflict(current=others)
        return _receipt_of(row)
    return _receipt_of(found[0]) if found and as_evidence else None


def _receipt_of(row: dict[str, Any]) -> Receipt:
    return Receipt(**{each.name: row[each.name] for each in fields(Receipt)})


def _state_of_job(
    work: Work,
    locked: LockedJob,
    principal: str,
    stated: Stated,
    subject: Subject,
    *,
    current: bool,
) -> Receipt:
    if current:
        check_token(work, locked, subject.attempt, subject.fencing_token)
    fact = _fact(principal, stated, stream=locked.job.audit_subject, at=work.now)
    fact.relayed = current
    details = stated.audited | {"attempt": subject.attempt}
    action = "fact.stated" if current else "fact.kept"
    work.relay(locked, fact, action=action, actor=principal, details=details)
    work.save()
    return Receipt.of(fact)


def _state_of_agent(caller: Caller, principal: str, stated: Stated) -> Receipt:
    agent = Agent.objects.select_for_update(no_key=True).get(pk=caller.agent_id)
    fact = _fact(principal, stated, stream=principal, at=clock.now())
    fact.sequence = outbox.next_in_stream(principal)
    fact.save(force_insert=True)
    audit.record(
        agent,
        action="fact.stated",
        actor=principal,
        at=fact.recorded_at,
        details=caller.named() | stated.audited,
    )
    return Receipt.of(fact)


def _fact(principal: str, stated: Stated, *, stream: str, at: Any) -> Fact:
    return Fact(
        fact_id=stated.fact_id,
        principal=principal,
        stream=stream,
        type=stated.type,
        data=stated.data,
        content_sha256=stated.content_sha256,
        receipt_id=uuid7(),
        recorded_at=at,
    )
