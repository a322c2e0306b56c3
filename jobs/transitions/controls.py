"""Stop, pause and resume: steering a job from outside, whoever works on it."""

from __future__ import annotations

from django.db import transaction

from governance.core.reasons import required
from jobs.models import Attempt
from jobs.transitions.decisions import locked_at
from jobs.transitions.preconditions import pausable, resumable, stoppable
from jobs.transitions.work import Outcome, State


@transaction.atomic
def stop(*, task_id: str, actor: str, reason: str, expected_revision: int | None = None) -> Outcome:
    """Stop a job for good. A running attempt is fenced at once and told at its next heartbeat.

    An execution whose outcome is unknown stays to be reconciled; the job itself is over.

    :raises InvalidTransition: the job is finished already.
    :raises RevisionMismatch: it has moved on since `expected_revision`.
    """
    reason = required(reason)
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
