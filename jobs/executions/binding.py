"""Bindings: the attempt that a governed call names, locked and judged before anything else."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from agents.entry import Entry
from governance.core.errors import (
    BindingMismatch,
    EffectsClosed,
    InvalidArgument,
    ModelReservationStateInvalid,
)
from governance.money import ledger
from governance.money.ledger import (
    Adjusted,
    Reported,
    Resolved,
    Routed,
    Settled,
    Unreserved,
)
from governance.money.models import Reservation
from governance.money.pricing import read_usage, text_of
from jobs.models import Effects, Execution, ModelUse
from jobs.transitions.preconditions import (
    check_token,
    held_by_another,
    need_active,
    need_lease,
    need_not_closed,
    need_revision,
    of_lineage,
)
from jobs.transitions.work import LockedJob, Work, lock


@dataclass(frozen=True)
class Binding:
    """The attempt of a governed call: "binding" in section 9 of the contract."""

    task_id: str
    attempt: int
    fencing_token: int
    external_request_id: str


def lock_bound(entry: Entry, binding: Binding, *, late: bool = False) -> tuple[Work, LockedJob]:
    """Lock the job that the binding names, for the worker that calls.

    :param late: also for a session that is superseded or of an older epoch (`Caller.fenced`).
    :raises NotFound, WrongOwner: it is no job of the caller's agent.
    """
    entry = replace(entry, late=late)
    work = lock([binding.task_id], entry=entry, numbers=[binding.attempt])
    return work, work.get(binding.task_id)


def need_acting(
    work: Work, locked: LockedJob, binding: Binding, *, expected_revision: int | None = None
) -> None:
    """Refuse an attempt that may not begin an effect: token, state, lease, admission, identity.

    :param expected_revision: at which the caller expects the job, where it says so.
    :raises StaleFencingToken, RevisionMismatch, InvalidTransition, LeaseExpired, BindingMismatch:
        it may not act.
    :raises EffectsClosed: its agent is closed, for what was claimed before too.
    """
    check_token(work, locked, binding.attempt, binding.fencing_token)
    need_revision(locked, expected_revision)
    need_active(locked)
    need_lease(work, locked)
    need_not_closed(work.worker, EffectsClosed)
    need_identity(locked, binding)


def need_identity(locked: LockedJob, binding: Binding) -> None:
    """Refuse a request id that is not the one of task, job, execution, runtime and attempt.

    :raises BindingMismatch: contract section 5 says how it is computed.
    """
    attempt = locked.attempts.get(binding.attempt)
    if attempt is None:
        raise BindingMismatch("There is no such attempt.")
    if binding.external_request_id != locked.identity(attempt):
        raise BindingMismatch()


def need_held_reservation(locked: LockedJob, binding: Binding, reservation_id: UUID | None) -> None:
    """Refuse to begin without a reservation that is held for this attempt.

    :param reservation_id: None only where the job type calls no model, or where its executions
        touch more than models: there the start comes before any route. Source: contract, section 9.
    :raises InvalidArgument: a reservation is needed.
    :raises ModelReservationStateInvalid: the reservation is another's, or has ended.
    """
    if reservation_id is None:
        if locked.type.model_use != ModelUse.NONE and locked.type.effects == Effects.MODEL_ONLY:
            raise InvalidArgument("This job type touches only models; a reservation is required.")
        return
    # Whoever would end it locks the job first, as this transaction has.
    held = Reservation.objects.filter(
        reservation_id=reservation_id,
        external_request_id=binding.external_request_id,
        state=Reservation.State.HELD,
    )
    if not held.exists():
        raise ModelReservationStateInvalid("The reservation is not held for this attempt.")


def need_lineage(work: Work, locked: LockedJob, attempt: int) -> None:
    """Refuse what another lineage of the agent says of an attempt. Source: contract, section 1.

    :raises LeaseHeldByAnother: it is not the lineage that made the attempt.
    """
    if attempt in locked.attempts and not of_lineage(work, locked, attempt):
        raise held_by_another(work, locked)


def lock_execution(locked: LockedJob, binding: Binding) -> Execution | None:
    """Lock and return the execution of the binding, with its permit; None: none was started."""
    return (
        Execution.objects.select_for_update(no_key=True, of=("self",))
        .select_related("permit")
        .filter(job_id=locked.job.pk, external_request_id=binding.external_request_id)
        .first()
    )


def mark_governed(work: Work, locked: LockedJob) -> None:
    """Note that the running attempt has authority that must end with it."""
    attempt = locked.last_attempt
    assert attempt is not None
    if not attempt.governed:
        attempt.governed = True
        work.touch_attempt(attempt)


def book_unreserved(
    work: Work,
    locked: LockedJob,
    of: Binding | Execution,
    *,
    usage: Any,
    actor: str,
    reason: str = "",
    reservation_id: UUID | None = None,
) -> Unreserved | None:
    """Book what is reported of an attempt beyond what its calls were booked at, and say so.

    :param of: what names the attempt. :param usage: as it was sent.
    :param reservation_id: the ended reservation that it is about, where it is about one call.
    """
    read = read_usage(usage)
    if read is None:
        return None
    done = ledger.book(
        reported=Reported(
            external_request_id=of.external_request_id,
            task_id=locked.job.task_id,
            job_id=locked.job.job_id,
            attempt=of.attempt,
            agent=locked.owner,
            job_type=locked.type.name,
            risk_tier=locked.job.risk_tier,
            usage=read,
            reservation_id=reservation_id,
        ),
        actor=actor,
    )
    if done is not None:
        note_money(work, locked, done, actor=actor, reason=reason)
    return done


def note_money(
    work: Work,
    locked: LockedJob,
    done: Routed | Resolved | Adjusted | Unreserved | Settled,
    *,
    actor: str,
    reason: str = "",
) -> None:
    """Chain what the ledger did to the job whose money it is."""
    event = done.event()
    work.note(locked, action=event["action"], actor=actor, reason=reason, details=event["after"])
    if isinstance(done, Resolved) and done.resolution.overrun:
        work.note(locked, action="ledger.overrun", actor=actor, details=_overrun(done))
    if isinstance(done, Resolved | Unreserved) and done.dispute is not None:
        event = done.dispute.event()
        work.note(locked, action=event["action"], actor=actor, details=event["after"])


def _overrun(done: Resolved) -> dict[str, Any]:
    """Return what is told of a call that cost more than was held for it."""
    held, cost = done.reservation.amount, done.resolution.cost
    return {
        "reservation_id": str(done.reservation.reservation_id),
        "held": text_of(held),
        "actual": text_of(cost),
        "over": text_of(cost - held),
        "currency": done.reservation.currency,
    }
