"""Ends of an attempt by its worker's own word: complete, fail, escalate (`deferrals`: defer)."""

from __future__ import annotations

from typing import Any

from agents.entry import Entry
from governance.core import sql
from governance.core.errors import DomainError, InvalidArgument, OutcomeConflict, OutcomeUnknown
from governance.core.redaction import cleaned, without_secrets
from jobs.models import Attempt, Escalation
from jobs.transitions.preconditions import (
    REPORTED,
    check_token,
    implied_attempt,
    need_active,
    need_model_call,
    recorded_before,
)
from jobs.transitions.work import (
    Content,
    LockedJob,
    Outcome,
    State,
    Work,
    lock,
    plain_content,
    redacted_content,
    retry_at,
)


@sql.move
def complete(*, entry: Entry, completions: list[dict[str, Any]]) -> list[Outcome | DomainError]:
    """Record what running attempts delivered, each by itself, in one transaction.

    Each completion: `task_id`; `worker_id`, default the request's; `attempt` and `fencing_token`
    (see `implied_attempt` for who may leave them out); `result` (JSON) and/or `result_pointer`;
    `needs_review`; `no_model_reason`. The answers come in the asked order; a task named twice is
    answered the second time as its repetition.
    """
    work = lock(
        [each["task_id"] for each in completions],
        entry=entry,
        numbers=[each.get("attempt") for each in completions],
        unnumbered=any(each.get("attempt") is None for each in completions),
    )
    answers: list[Outcome | DomainError] = []
    for completion in completions:
        try:
            answers.append(_complete_one(work, completion))
        except DomainError as refusal:
            answers.append(refusal)
    work.save()
    return answers


def _complete_one(work: Work, completion: dict[str, Any]) -> Outcome:
    """Judge and apply one completion, unsaved.

    All is judged before the first write, so that a refused one leaves no trace among the others.
    """
    result, pointer = completion.get("result"), completion.get("result_pointer") or ""
    needs_review = bool(completion.get("needs_review"))
    content = _content(completion, result, pointer, needs_review)
    locked = work.get(completion["task_id"])
    locked.worker_id = completion.get("worker_id") or ""
    if already_recorded(
        work,
        locked,
        number=completion.get("attempt"),
        token=completion.get("fencing_token"),
        content=content,
    ):
        return Outcome("already_recorded", locked)
    if locked.job.unresolved_executions:
        raise OutcomeUnknown("Report the result of the started execution first.")
    if locked.task.output_required and result is None and not pointer:
        raise InvalidArgument("This task requires an output: result or result_pointer.")
    no_model_reason = without_secrets(completion.get("no_model_reason") or "")
    if not no_model_reason:
        need_model_call(locked)
    attempt = work.end_attempt(locked, Attempt.Outcome.COMPLETED)
    attempt.outcome_sha256 = content.stored
    attempt.result, attempt.result_pointer = result, pointer
    attempt.needs_review = needs_review
    reviewed = locked.job.review_required or needs_review or bool(no_model_reason)
    work.move(
        locked,
        State.REVIEW_REQUIRED if reviewed else State.COMPLETED,
        action="job.delivered" if reviewed else "job.completed",
        actor=work.worker.actor,
        reason=no_model_reason,
        details={"outcome_sha256": content.stored},
    )
    return Outcome("recorded", locked)


def _content(completion: dict[str, Any], result: Any, pointer: str, needs_review: bool) -> Content:
    """Return what a completion says. A reason is words, of which secrets are taken out."""
    content = {"result": result, "result_pointer": pointer, "needs_review": needs_review}
    if reason := completion.get("no_model_reason"):
        return redacted_content(kind="complete", **content, no_model_reason=reason)
    return plain_content(kind="complete", **content)


@sql.move
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
    work = lock([task_id], entry=entry, numbers=[attempt], unnumbered=attempt is None)
    locked = work.get(task_id)
    content = redacted_content(
        kind="fail", error_message=error_message, error_code=error_code, retryable=retryable
    )
    if already_recorded(work, locked, number=attempt, token=fencing_token, content=content):
        return Outcome("already_recorded", locked)
    ended = work.end_attempt(locked, Attempt.Outcome.FAILED)
    ended.outcome_sha256 = content.stored
    error_message = without_secrets(error_message)
    ended.error_message, ended.error_code = error_message, error_code
    ended.retryable = retryable
    if progress is not None:
        ended.progress = cleaned(progress)
    after_lost_attempt(
        work,
        locked,
        actor=work.worker.actor,
        reason=error_message,
        retryable=retryable,
        details={"error_code": error_code, "retryable": retryable},
        failed="job.attempt_failed",
    )
    work.save()
    return Outcome("recorded", locked)


@sql.move
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
    work = lock([task_id], entry=entry, numbers=[attempt], unnumbered=attempt is None)
    locked = work.get(task_id)
    content = redacted_content(kind="escalate", reason=reason, notify_to=notify_to)
    if already_recorded(work, locked, number=attempt, token=fencing_token, content=content):
        return Outcome("already_recorded", locked)
    reason = without_secrets(reason)
    ended = work.end_attempt(locked, Attempt.Outcome.ESCALATED)
    ended.outcome_sha256 = content.stored
    work.add(
        Escalation(
            job_id=locked.job.pk,
            attempt=ended.number,
            raised_by=work.worker.actor,
            raised_at=work.now,
            reason=reason,
            notify_to=notify_to,
        )
    )
    work.move(
        locked,
        State.ESCALATED,
        action="job.escalated",
        actor=work.worker.actor,
        reason=reason,
        details={"notify_to": notify_to},
    )
    work.save()
    locked.escalation_reason = reason
    return Outcome("recorded", locked)


def after_lost_attempt(
    work: Work,
    locked: LockedJob,
    *,
    actor: str,
    reason: str,
    retryable: bool,
    failed: str,
    details: dict[str, Any] | None = None,
    backoff: bool = True,
) -> None:
    """Move a job whose attempt ended without a result to where the contract says.

    Unknown execution -> `in_doubt`; attempts left and retryable -> `queued`; else `failed`.

    :param failed: the audit action.
    :param backoff: whether the next attempt waits for the job type's delay.
    """
    job = locked.job
    if job.unresolved_executions:
        target = State.IN_DOUBT
    elif retryable and job.attempts_left > 0:
        job.available_at = retry_at(locked, work.now) if backoff else work.now
        target = State.QUEUED
    else:
        target = State.FAILED
    work.move(locked, target, action=failed, actor=actor, reason=reason, details=details)


def already_recorded(
    work: Work,
    locked: LockedJob,
    *,
    number: int | None,
    token: int | None,
    content: Content,
) -> bool:
    """Return whether the write is a repetition of the attempt's recorded outcome.

    Judged in the documented order: recorded outcome, then token, holder and state. For a write
    without `number` and `token` see `implied_attempt`.

    :param content: what the write says.
    :raises OutcomeConflict: the attempt has recorded another outcome.
    :raises StaleFencingToken: the token is not the current one.
    :raises LeaseHeldByAnother: the caller does not hold the attempt.
    :raises FencingTokenRequired: the write is ambiguous.
    :raises InvalidTransition: the job is not active.
    """
    if number is None or token is None:
        if recorded_before(work, locked, content=content):
            return True
        number, token = implied_attempt(work, locked, content=content)
    attempt = locked.attempts.get(number)
    if attempt is not None and attempt.fencing_token == token and attempt.ended_at is not None:
        if content.recorded_as(attempt.outcome_sha256):
            return True
        if attempt.outcome in REPORTED:
            raise OutcomeConflict(current={"outcome": attempt.outcome, "state": locked.job.state})
    check_token(work, locked, number, token)
    need_active(locked)
    return False
