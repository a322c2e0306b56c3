"""Stop, pause, resume, hold, release: steering a job from outside, whoever works on it."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from django.db import transaction

from governance.core.errors import DomainError, FieldFault, InvalidArgument, InvalidTransition
from governance.core.fields import INSTANT_MAX
from governance.core.isolation import in_any_case
from governance.core.reasons import required
from jobs.models import Attempt, Job
from jobs.transitions.decisions import locked_at
from jobs.transitions.preconditions import in_states, pausable, resumable, stoppable
from jobs.transitions.work import Outcome, State


def stop(*, task_id: str, actor: str, reason: str, expected_revision: int | None = None) -> Outcome:
    """Stop a job for good. A running attempt is fenced at once and told at its next heartbeat.

    An execution whose outcome is unknown stays to be reconciled; the job itself is over. A job
    with an instant that no reader can hold is stopped as well.

    :raises InvalidTransition: the job is finished already.
    :raises RevisionMismatch: it has moved on since `expected_revision`.
    """
    named = {"task_id": task_id, "actor": actor, "reason": required(reason)}
    return in_any_case(partial(_stop, **named, expected_revision=expected_revision))


@transaction.atomic
def _stop(*, task_id: str, actor: str, reason: str, expected_revision: int | None) -> Outcome:
    work, locked = locked_at(task_id, expected_revision)
    if fault := stoppable(locked.job):
        raise fault
    if locked.job.state == State.ACTIVE:
        work.end_attempt(locked, Attempt.Outcome.STOPPED)
        locked.job.fencing_token += 1
    if locked.job.state == State.ESCALATED:
        work.end_escalation(locked, actor=actor, reason=reason)
    work.move(locked, State.STOPPED, action="job.stopped", actor=actor, reason=reason)
    work.save()
    return Outcome("stopped", locked)


@transaction.atomic
def pause(
    *, task_id: str, actor: str, reason: str, expected_revision: int | None = None
) -> Outcome:
    """Pause a job: it is not claimed, starts no execution, and its worker is told to pause.

    :raises InvalidTransition: it is finished, or paused already.
    """
    return _flag(task_id, actor, reason, expected_revision, paused=True)


@transaction.atomic
def resume(
    *, task_id: str, actor: str, reason: str, expected_revision: int | None = None
) -> Outcome:
    """Take the pause of a job back.

    :raises InvalidTransition: it is finished, or not paused.
    """
    return _flag(task_id, actor, reason, expected_revision, paused=False)


def _flag(
    task_id: str, actor: str, reason: str, expected_revision: int | None, *, paused: bool
) -> Outcome:
    reason = required(reason)
    work, locked = locked_at(task_id, expected_revision)
    if fault := pausable(locked.job) if paused else resumable(locked.job):
        raise fault
    locked.job.paused = paused
    locked.job.revision += 1
    done = "paused" if paused else "resumed"
    work.note(locked, action=f"job.{done}", actor=actor, reason=reason)
    work.save()
    return Outcome(done, locked)


def holdable(job: Job) -> DomainError | None:
    """Return why the job cannot be put on hold, nor its hold be given another end."""
    return in_states(job, {State.QUEUED})


def releasable(job: Job, *, at: datetime) -> DomainError | None:
    """Return why the job cannot be released. :param at: its hold must be in force then."""
    if fault := in_states(job, {State.QUEUED}):
        return fault
    if job.on_hold(at=at):
        return None
    current = {"state": job.state, "revision": job.revision}
    return InvalidTransition("The job is not on hold.", current=current)


@transaction.atomic
def hold(
    *,
    task_id: str,
    actor: str,
    reason: str,
    until: datetime,
    expected_revision: int | None = None,
) -> Outcome:
    """Keep a queued job from being claimed until an instant; a hold in force gets another end.

    Not to be confused with the state `held`, which waits for an approval. Source: contract
    section 1.

    :raises InvalidTransition: the job is not queued.
    :raises InvalidArgument: `until` is not in the future, or later than instants go.
    """
    reason = required(reason)
    work, locked = locked_at(task_id, expected_revision)
    if fault := holdable(locked.job):
        raise fault
    if not work.now < until < INSTANT_MAX:
        bounds = FieldFault("/until", f"after now, and before {INSTANT_MAX.year}")
        raise InvalidArgument("A hold ends in the future.", errors=[bounds])
    locked.job.hold_until = until
    locked.job.revision += 1
    details = {"hold_until": until.isoformat()}
    work.note(locked, action="job.put_on_hold", actor=actor, reason=reason, details=details)
    work.save()
    return Outcome("put_on_hold", locked)


@transaction.atomic
def release(
    *, task_id: str, actor: str, reason: str, expected_revision: int | None = None
) -> Outcome:
    """End the hold of a queued job: it may be claimed as if it had never been on hold.

    :raises InvalidTransition: the job is not queued, or no hold of it is in force.
    """
    reason = required(reason)
    work, locked = locked_at(task_id, expected_revision)
    if fault := releasable(locked.job, at=work.now):
        raise fault
    locked.job.hold_until = None
    locked.job.revision += 1
    work.note(locked, action="job.released", actor=actor, reason=reason)
    work.save()
    return Outcome("released", locked)
