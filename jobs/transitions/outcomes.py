"""How an attempt ends by the worker's own word: complete, fail, escalate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agents.entry import Entry
from governance.core import sql
from governance.core.errors import DomainError, InvalidArgument, OutcomeConflict, OutcomeUnknown
from jobs.models import Attempt, Escalation
from jobs.transitions.preconditions import check_token, implied_attempt, need_active
from jobs.transitions.work import LockedJob, Outcome, State, Work, digest, lock, retry_at

#: Outcomes that a worker reported itself; the others were decided over its head.
REPORTED = frozenset({"completed", "failed", "escalated"})


def complete(*, entry: Entry, completions: list[dict[str, Any]]) -> list[Outcome | DomainError]:
    """Record the results of running attempts, each by itself, in one transaction.

    Each completion: `task_id`, `worker_id`, `attempt` and `fencing_token` (see `judge` for who may
    leave them out), `result` (JSON) and/or `result_pointer`, `needs_review`. The answers come in
    the asked order; a task named twice is answered the second time as its repetition.
    """

    def one(work: Work, locked: LockedJob, asked: dict[str, Any]) -> None:
        if locked.job.unresolved_executions:
            raise OutcomeUnknown("Report the result of the started execution first.")
        if locked.task.output_required and not _delivers(asked):
            raise InvalidArgument("This task requires an output: result or result_pointer.")
        attempt = work.end_attempt(locked, Attempt.Outcome.COMPLETED)
        attempt.result = asked.get("result")
        attempt.result_pointer = asked.get("result_pointer") or ""
        attempt.needs_review = bool(asked.get("needs_review"))
        reviewed = locked.job.review_required or attempt.needs_review
        work.move(
            locked,
            State.REVIEW_REQUIRED if reviewed else State.COMPLETED,
            action="job.delivered" if reviewed else "job.completed",
            actor=work.worker.actor,
            details={"outcome_sha256": _sha(asked)},
        )

    def _sha(asked: dict[str, Any]) -> str:
        return digest(
            kind="complete",
            result=asked.get("result"),
            result_pointer=asked.get("result_pointer") or "",
            needs_review=bool(asked.get("needs_review")),
        )

    return _record(entry, completions, one, _sha)


def fail(
    *,
    entry: Entry,
    task_id: str,
    attempt: int | None,
    fencing_token: int | None,
    error_message: str,
    error_code: str = "",
    retryable: bool = True,
    progress: Any = None,
) -> Outcome:
    """Record that the running attempt failed.

    Retryable with attempts left: queued again after the job type's backoff. Else `failed`. With
    an execution whose outcome is unknown: `in_doubt`, whatever the worker says.
    """

    def one(work: Work, locked: LockedJob, asked: dict[str, Any]) -> None:
        ended = work.end_attempt(locked, Attempt.Outcome.FAILED)
        ended.error_message, ended.error_code = error_message, error_code
        ended.retryable = retryable
        if progress is not None:
            ended.progress = progress
        details = {"error_code": error_code, "retryable": retryable}
        after_lost_attempt(
            work,
            locked,
            actor=work.worker.actor,
            reason=error_message,
            retryable=retryable,
            details=details,
            failed="job.attempt_failed",
        )

    def _sha(asked: dict[str, Any]) -> str:
        return digest(
            kind="fail", error_message=error_message, error_code=error_code, retryable=retryable
        )

    return _one(entry, task_id, attempt, fencing_token, one, _sha)


def escalate(
    *,
    entry: Entry,
    task_id: str,
    attempt: int | None,
    fencing_token: int | None,
    reason: str,
    notify_to: str = "",
) -> Outcome:
    """Hand the job to a human: the attempt ends, the job waits for an operator's resolution."""

    def one(work: Work, locked: LockedJob, asked: dict[str, Any]) -> None:
        work.end_attempt(locked, Attempt.Outcome.ESCALATED)
        open_escalation(
            work, locked, raised_by=work.worker.actor, reason=reason, notify_to=notify_to
        )
        work.move(
            locked,
            State.ESCALATED,
            action="job.escalated",
            actor=work.worker.actor,
            reason=reason,
            details={"notify_to": notify_to},
        )

    def _sha(asked: dict[str, Any]) -> str:
        return digest(kind="escalate", reason=reason, notify_to=notify_to)

    return _one(entry, task_id, attempt, fencing_token, one, _sha)


def open_escalation(
    work: Work, locked: LockedJob, *, raised_by: str, reason: str, notify_to: str = ""
) -> None:
    """Open the job's escalation."""
    work.add(
        Escalation(
            job_id=locked.job.pk,
            attempt=locked.job.attempt,
            raised_by=raised_by,
            raised_at=work.now,
            reason=reason,
            notify_to=notify_to,
        )
    )


def after_lost_attempt(
    work: Work,
    locked: LockedJob,
    *,
    actor: str,
    reason: str,
    retryable: bool,
    failed: str,
    details: dict[str, Any] | None = None,
) -> None:
    """Move a job whose attempt ended without a result to where the contract says.

    Unknown execution -> `in_doubt`; attempts left and retryable -> `queued`; else `failed`.

    :param failed: the audit action.
    """
    job = locked.job
    if job.unresolved_executions:
        target = State.IN_DOUBT
    elif retryable and job.attempts_left > 0:
        job.available_at = retry_at(locked, work.now)
        target = State.QUEUED
    else:
        target = State.FAILED
    work.move(locked, target, action=failed, actor=actor, reason=reason, details=details)


def judge(work: Work, locked: LockedJob, asked: dict[str, Any], sha: str) -> bool:
    """Return whether the write is a repetition of the attempt's recorded outcome.

    Evaluated in the documented order: recorded outcome, then token, then state. A write without
    `attempt` and `fencing_token` (the older worker contract) passes only where it cannot be
    ambiguous: first attempt, the same worker, its claim answered once.

    :raises OutcomeConflict: the attempt has recorded another outcome.
    :raises StaleFencingToken: the token is not the current one.
    :raises FencingTokenRequired: the write is ambiguous.
    :raises InvalidTransition: the job is not active.
    """
    number, token = asked.get("attempt"), asked.get("fencing_token")
    if number is None or token is None:
        number, token = implied_attempt(work, locked, worker_id=asked.get("worker_id"))
    attempt = locked.attempts.get(number)
    known = attempt is not None and attempt.fencing_token == token
    if known and attempt is not None and attempt.ended_at is not None:
        if attempt.outcome_sha256 == sha:
            return True
        if attempt.outcome in REPORTED:
            raise OutcomeConflict(current={"outcome": attempt.outcome, "state": locked.job.state})
    check_token(work, locked, number, token)
    need_active(locked)
    return False


@sql.move
def _record(
    entry: Entry,
    asked: list[dict[str, Any]],
    apply: Callable[[Work, LockedJob, dict[str, Any]], None],
    sha_of: Callable[[dict[str, Any]], str],
) -> list[Outcome | DomainError]:
    """Lock all jobs, judge and apply each request by itself, save them together."""
    work = lock(
        [item["task_id"] for item in asked],
        entry=entry,
        numbers=[item.get("attempt") for item in asked],
    )
    answers = [_apply_one(work, item, apply, sha_of(item)) for item in asked]
    work.save()
    return answers


def _apply_one(
    work: Work,
    item: dict[str, Any],
    apply: Callable[[Work, LockedJob, dict[str, Any]], None],
    sha: str,
) -> Outcome | DomainError:
    """Guards all come before the first write, so that a refused item leaves no trace."""
    try:
        locked = work.get(item["task_id"])
        if judge(work, locked, item, sha):
            return Outcome("already_recorded", locked)
        apply(work, locked, item)
    except DomainError as refusal:
        return refusal
    attempt = locked.last_attempt
    assert attempt is not None
    attempt.outcome_sha256 = sha
    return Outcome("recorded", locked)


def _one(
    entry: Entry,
    task_id: str,
    attempt: int | None,
    fencing_token: int | None,
    apply: Callable[[Work, LockedJob, dict[str, Any]], None],
    sha_of: Callable[[dict[str, Any]], str],
) -> Outcome:
    item = {"task_id": task_id, "attempt": attempt, "fencing_token": fencing_token}
    [answer] = _record(entry, [item], apply, sha_of)
    if isinstance(answer, DomainError):
        raise answer
    return answer


def _delivers(asked: dict[str, Any]) -> bool:
    return asked.get("result") is not None or bool(asked.get("result_pointer"))
