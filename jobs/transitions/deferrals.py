"""Deferrals: a worker gives its job back without a verdict, because there is no room for it now."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from agents.entry import Entry
from governance.core import sql
from governance.core.errors import (
    InvalidTransition,
    ModelReservationStateInvalid,
    OutcomeUnknown,
)
from governance.core.redaction import without_secrets
from governance.money import ledger, room
from governance.money.ledger import Standing
from governance.money.scopes import scopes_of
from jobs.models import Attempt, Execution, ModelUse
from jobs.scopes import of_job
from jobs.transitions.outcomes import already_recorded
from jobs.transitions.work import LockedJob, Outcome, State, Work, lock, redacted_content

DEFER_SECONDS_MAX = 86_400
#: After a refusal for want of room, where there is room again by the time of the deferral.
ROOM_AGAIN_SECONDS = 1
#: Error codes of attempts that were deferred: for a later one, or as the job's last.
DEFERRED = "DEFERRED"
DEFERRALS_EXHAUSTED = "DEFERRALS_EXHAUSTED"
ATTEMPTS_EXHAUSTED = "ATTEMPTS_EXHAUSTED"

#: What the service makes of the cause: it knows of it, has the worker's word alone, or no longer
#: takes that word.
CONFIRMED, UNCONFIRMED, EXHAUSTED = "confirmed", "unconfirmed", "exhausted"


@dataclass(frozen=True)
class DeferOutcome(Outcome):
    """The outcome of a deferral. `cause` is what was made of it; None of a repetition."""

    cause: str | None = None


@sql.move
def defer(
    *,
    entry: Entry,
    task_id: str,
    attempt: int | None,
    fencing_token: int | None,
    reason: str,
    retry_after_seconds: int,
) -> DeferOutcome:
    """End the running attempt without a verdict; its job may be claimed again after that time.

    The attempt does not count against the job's limit, unless a call of it cost something and the
    service does not confirm the cause. A cause that it confirms is bounded by the job's deadlines
    alone; of others there are `max_deferrals` of the job type until a person decides about the
    job, and the next one fails it. Source: contract, section 1.

    Where a budget had no room, that is noted, and says when the job is given out again: as soon
    as there is room.

    :param retry_after_seconds: 1 to `DEFER_SECONDS_MAX`; without jitter, for who asks knows why.
    :raises OutcomeUnknown: an execution was started and has no result.
    :raises InvalidTransition: its result is a success, or the job is not active.
    :raises ModelReservationStateInvalid: a reservation of the attempt is open.
    """
    work = lock([task_id], entry=entry, numbers=[attempt], unnumbered=attempt is None)
    locked = work.get(task_id)
    content = redacted_content(kind="defer", reason=reason, retry_after_seconds=retry_after_seconds)
    if already_recorded(work, locked, number=attempt, token=fencing_token, content=content):
        return DeferOutcome("already_recorded", locked)
    standing = _judged(locked)
    cause = _cause(work, locked, standing)
    counted = cause == EXHAUSTED or (cause == UNCONFIRMED and standing.cost)
    ended = work.end_attempt(
        locked, Attempt.Outcome.FAILED if cause == EXHAUSTED else Attempt.Outcome.DEFERRED
    )
    reason = without_secrets(reason)
    ended.outcome_sha256, ended.error_message = content.stored, reason
    if not counted:
        locked.job.deferrals += 1
    if cause == UNCONFIRMED:
        locked.job.unconfirmed_deferrals += 1
    ended.error_code = _code(locked, cause)
    if ended.error_code == DEFERRED:
        seconds = _wait_seconds(locked, standing, retry_after_seconds)
        locked.job.available_at = work.now + timedelta(seconds=seconds)
    work.move(
        locked,
        State.QUEUED if ended.error_code == DEFERRED else State.FAILED,
        action="job.attempt_failed" if cause == EXHAUSTED else "job.deferred",
        actor=work.worker.actor,
        reason=reason,
        details={
            "error_code": ended.error_code,
            "cause": cause,
            "counted": counted,
            "retry_after_seconds": retry_after_seconds,
        },
    )
    work.save()
    return DeferOutcome("recorded", locked, cause)


def _judged(locked: LockedJob) -> Standing:
    """Return how the money of the running attempt stands; refuse where it may not be deferred.

    :raises OutcomeUnknown, InvalidTransition, ModelReservationStateInvalid: as `defer` does.
    """
    attempt = locked.last_attempt
    assert attempt is not None
    if locked.job.unresolved_executions:
        raise OutcomeUnknown("Report the result of the started execution first.")
    if not attempt.governed:
        return Standing()
    started = Execution.objects.filter(job_id=locked.job.pk, attempt=attempt.number)
    if started.filter(state=Execution.State.SUCCEEDED).exists():
        raise InvalidTransition(
            "The execution has succeeded; complete the job, or fail it.",
            current={"state": locked.job.state},
        )
    standing = ledger.read_standing(external_request_id=locked.identity(attempt))
    if standing.still_open:
        raise ModelReservationStateInvalid(
            "A reservation of the attempt is open; resolve it first.",
            current={"state": locked.job.state},
        )
    refused = started.filter(refusal_reason__in=ledger.REFUSED_STARTS)
    return replace(standing, refused_room=standing.refused_room or refused.exists())


def _cause(work: Work, locked: LockedJob, standing: Standing) -> str:
    """Return what the service makes of the cause: of its own rows, never of the worker's words."""
    if standing.refused_room or work.worker.admission != "open":
        return CONFIRMED
    within = locked.job.unconfirmed_deferrals < locked.type.max_deferrals
    return UNCONFIRMED if within else EXHAUSTED


def _wait_seconds(locked: LockedJob, standing: Standing, wanted: int) -> int:
    """Return how long the job waits by itself: no longer than budgets and limits have no room."""
    decision = standing.over_budget or standing.over_limit
    if decision is None:
        return wanted
    scopes = scopes_of(
        agent=decision.agent,
        job_type=decision.job_type,
        task_id=decision.task_id,
        **of_job(locked.job, locked.task),
    )
    by_scope = locked.type.model_use == ModelUse.REQUIRED
    if standing.over_limit is not None:
        return min(wanted, room.note_of_limits(decision=decision, scopes=scopes, by_scope=by_scope))
    noted = room.note(decision=decision, scopes=scopes, by_scope=by_scope)
    return 0 if noted else min(wanted, ROOM_AGAIN_SECONDS)


def _code(locked: LockedJob, cause: str) -> str:
    if cause == EXHAUSTED:
        return DEFERRALS_EXHAUSTED
    return DEFERRED if locked.job.attempts_left > 0 else ATTEMPTS_EXHAUSTED
