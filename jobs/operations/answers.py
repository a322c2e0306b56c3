"""Answers on jobs: what transitions and queries return, as JSON objects."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Annotated, Any, NotRequired, TypedDict, cast

from agents.models import RISK_TIERS
from governance.core.clock import instant
from governance.core.isolation import of_a_row
from governance.core.models import AuditEvent
from governance.core.wire import (
    AnyObject,
    InstantText,
    TextOrFlag,
    UriText,
    UuidText,
    explained,
    one_of,
)
from jobs.models import Job, Priority
from jobs.queries import JobRecord, heartbeat_interval_seconds
from jobs.transitions.claims import ClaimOutcome, LeaseGrant
from jobs.transitions.leases import Beat
from jobs.transitions.reflections import ReflectionOutcome
from jobs.transitions.work import Outcome

State = Annotated[str, one_of(Job.State.values)]


class JobOut(TypedDict):
    """A job."""

    job_id: UuidText
    task_id: str
    owner: str
    state: State
    status: State
    paused: bool
    task_type: str
    risk_tier: Annotated[str, one_of(RISK_TIERS)]
    priority: Annotated[str, one_of(Priority.labels)]
    source: str
    title: str
    goal: str
    inputs: AnyObject
    labels: Any
    output_required: TextOrFlag
    rollback_required: bool
    review_required: bool
    execution_approval_required: bool
    attempt: int
    attempt_number: int
    max_attempts: int
    revision: int
    claimed_by: str | None
    result: Any
    result_pointer: str | None
    error_code: str | None
    error_message: str | None
    execution_digest: str
    available_at: InstantText
    hold_until: InstantText | None
    deadline_at: InstantText | None
    expires_if_not_started_at: InstantText | None
    created_at: InstantText
    state_since: InstantText
    finished_at: InstantText | None


class UnreadableOut(TypedDict):
    """What stands in a list for what cannot be read; the others are there."""

    task_id: str
    unreadable: Annotated[str, explained("what is wrong, for a person")]


class LeaseOut(TypedDict):
    """A lease; seconds count from the request's start."""

    ttl_seconds: int
    heartbeat_interval_seconds: int
    expires_at: InstantText


class ReworkOut(TypedDict):
    """What a reviewer wants changed."""

    reason: str
    attempt: int


class StoryOut(TypedDict):
    """What the next attempt is told of an earlier one; texts are cut to 4 KiB."""

    attempt: int
    outcome: str
    error_code: str | None
    error_message: str | None
    result: Any
    result_pointer: str | None
    progress: Any
    rework_reason: str | None
    answer: Annotated[str | None, explained("what a person said to its escalation")]
    truncated: NotRequired[bool]


class GrantedOut(TypedDict):
    """What a claim grants its worker, of the job and beside it."""

    attempt: int
    fencing_token: int
    runtime: str
    lease: LeaseOut
    envelope: AnyObject
    execution_digest: str
    attempt_deadline_at: InstantText | None
    previous_progress: Any
    rework: ReworkOut | None
    story: list[StoryOut]


class ClaimedJobOut(JobOut):
    """A job, with what its claimant needs to work on it."""

    fencing_token: NotRequired[int]
    runtime: NotRequired[str]
    lease: NotRequired[LeaseOut]
    envelope: NotRequired[Annotated[AnyObject, explained("DSSE envelope")]]
    attempt_deadline_at: NotRequired[InstantText | None]
    previous_progress: NotRequired[Any]
    rework: NotRequired[ReworkOut | None]
    story: NotRequired[list[StoryOut]]


class JobAnswerOut(TypedDict):
    """What was done, and the job as it is now."""

    outcome: str
    job: JobOut


class ClaimAnswerOut(TypedDict):
    """The job, with token and lease where they were granted."""

    outcome: Annotated[str, one_of(("claimed", "already_running", "already_completed"))]
    job: ClaimedJobOut
    fencing_token: NotRequired[int]
    lease: NotRequired[LeaseOut]
    attempt: NotRequired[int]
    runtime: NotRequired[str]
    envelope: NotRequired[AnyObject]
    execution_digest: NotRequired[str]
    attempt_deadline_at: NotRequired[InstantText | None]
    previous_progress: NotRequired[Any]
    rework: NotRequired[ReworkOut | None]
    story: NotRequired[list[StoryOut]]
    status: NotRequired[Annotated[int, explained("of an item of several: always 200")]]


class ClaimsOut(TypedDict):
    """The jobs that were claimed; none is an answer, too."""

    results: list[ClaimAnswerOut]
    retry_after_seconds: int | None


class ReflectionAnswerOut(JobAnswerOut):
    """The number of the reflection, and the job."""

    sequence_number: int


class ControlAnswerOut(JobAnswerOut):
    """What was done, and the job as it is now."""

    result_code: Annotated[str, one_of(("APPLIED",))]


class BatchOut(TypedDict):
    """One result per item, in the asked order: its `status` with an answer or a problem."""

    results: list[AnyObject]


class _PageOut(TypedDict):
    next: UriText | None
    previous: UriText | None


class JobPageOut(_PageOut):
    """A page of jobs."""

    results: list[JobOut | UnreadableOut]


class EventOut(TypedDict):
    """One event of the job's audit chain; hashes are hexadecimal."""

    subject: str
    seq: int
    at: InstantText
    action: str
    actor: str
    reason: str
    request_id: str
    before: Any
    after: Any
    details: AnyObject
    prev_hash: str
    hash: str


class UnreadableEventOut(TypedDict):
    """What stands in place of an event that cannot be read."""

    subject: str
    seq: int
    unreadable: Annotated[str, explained("what is wrong, for a person")]


class EventPageOut(_PageOut):
    """A page of a job's audit events, oldest first."""

    results: list[EventOut | UnreadableEventOut]


def job(record: JobRecord) -> JobOut:
    """Return the job; contract section 1, "Shapes"."""
    row, task, attempt = record.job, record.task, record.last_attempt
    return {
        "job_id": str(row.job_id),
        "task_id": row.task_id,
        "owner": record.owner,
        "state": row.state,
        "status": row.state,
        "paused": row.paused,
        "task_type": record.job_type,
        "risk_tier": row.risk_tier,
        "priority": Priority(row.priority).label,
        "source": task.source,
        "title": task.title,
        "goal": task.goal,
        "inputs": task.inputs,
        "labels": task.labels,
        "output_required": task.output_as_given,
        "rollback_required": task.rollback_required,
        "review_required": row.review_required,
        "execution_approval_required": row.execution_approval_required,
        "attempt": row.attempt,
        "attempt_number": row.attempt,
        "max_attempts": row.max_attempts,
        "revision": row.revision,
        "claimed_by": attempt.worker_id if attempt and row.state == "active" else None,
        "result": attempt.result if attempt else None,
        "result_pointer": (attempt.result_pointer or None) if attempt else None,
        "error_code": (attempt.error_code or None) if attempt else None,
        "error_message": (attempt.error_message or None) if attempt else None,
        "execution_digest": task.execution_digest,
        "available_at": instant(row.available_at),
        "hold_until": instant(row.hold_until),
        "deadline_at": instant(row.deadline_at),
        "expires_if_not_started_at": instant(row.expires_if_not_started_at),
        "created_at": instant(row.created_at),
        "state_since": instant(row.state_since),
        "finished_at": instant(row.finished_at),
    }


def moved(outcome: Outcome) -> JobAnswerOut:
    """Return what a move on one job is answered with."""
    return {"outcome": outcome.outcome, "job": job(outcome.record)}


def controlled(outcome: Outcome) -> ControlAnswerOut:
    """Return what a control of a job is answered with."""
    return {**moved(outcome), "result_code": "APPLIED"}


def claimed(outcome: ClaimOutcome) -> ClaimAnswerOut:
    """Return what a claim is answered with.

    What it grants stands in the job as well, which so is all that its worker needs.
    """
    found: ClaimedJobOut = {**job(outcome.record)}
    if outcome.grant is None:
        return {"outcome": outcome.outcome, "job": found}
    granted = _granted(outcome.record, outcome.grant)
    return {"outcome": outcome.outcome, "job": {**found, **granted}, **granted}


def claims(outcomes: list[ClaimOutcome], *, retry_after_seconds: int | None = None) -> ClaimsOut:
    """Return what a claim of the next jobs is answered with."""
    results: list[ClaimAnswerOut] = [{"status": 200, **claimed(outcome)} for outcome in outcomes]
    return {"results": results, "retry_after_seconds": retry_after_seconds}


def beat(renewed: Beat) -> AnyObject:
    """Return what the heartbeat of a lease is answered with."""
    answer = {"outcome": renewed.outcome, "control": renewed.control}
    if renewed.outcome == "ended":
        return {**answer, "ttl_seconds": 0, "state": renewed.state}
    lease = _lease(renewed.expires_at, renewed.lease_seconds, at=renewed.at)
    return {**answer, **lease, "revision": renewed.revision}


def reflected(outcome: ReflectionOutcome) -> ReflectionAnswerOut:
    """Return what a reflection is answered with."""
    return {**moved(outcome), "sequence_number": outcome.sequence_number}


def page(
    jobs: list[JobOut | UnreadableOut], *, next: str | None, previous: str | None
) -> JobPageOut:
    """Return a page of jobs, with the cursors of the pages beside it."""
    return {"results": jobs, "next": next, "previous": previous}


def unreadable_job(task_id: str) -> UnreadableOut:
    """Return what stands in a list for a job that cannot be read."""
    return {"task_id": task_id, "unreadable": "This job cannot be read; an operator has to look."}


def events(rows: list[AuditEvent], *, next: str | None, previous: str | None) -> EventPageOut:
    """Return a page of a job's audit events, as they were hashed, with their hashes."""
    return {"results": [_shown(row) for row in rows], "next": next, "previous": previous}


def _shown(row: AuditEvent) -> EventOut | UnreadableEventOut:
    try:
        return _event(row)
    except Exception as error:
        if not of_a_row(error):
            raise
    wrong = "The bytes of this event are not those of one; verify the trail."
    return {"subject": row.subject, "seq": row.seq, "unreadable": wrong}


def _event(row: AuditEvent) -> EventOut:
    hashes = {"prev_hash": bytes(row.prev_hash).hex(), "hash": bytes(row.hash).hex()}
    return cast(EventOut, json.loads(bytes(row.body)) | hashes)


def _granted(record: JobRecord, grant: LeaseGrant) -> GrantedOut:
    rework = grant.past.rework
    return {
        "attempt": grant.attempt.number,
        "fencing_token": grant.attempt.fencing_token,
        "runtime": grant.attempt.runtime,
        "lease": _lease(grant.lease.expires_at, grant.lease.lease_seconds, at=grant.at),
        "envelope": record.task.envelope,
        "execution_digest": record.task.execution_digest,
        "attempt_deadline_at": instant(grant.attempt.deadline_at),
        "previous_progress": grant.past.progress,
        "rework": {"reason": rework.reason, "attempt": rework.attempt} if rework else None,
        "story": cast(list[StoryOut], grant.past.story),
    }


def _lease(expires_at: datetime, lease_seconds: int, *, at: datetime) -> LeaseOut:
    """Return a lease; `ttl_seconds` is what its holder reckons with."""
    return {
        "ttl_seconds": seconds_until(expires_at, at),
        "heartbeat_interval_seconds": heartbeat_interval_seconds(lease_seconds),
        "expires_at": instant(expires_at),
    }


def seconds_until(end: datetime, at: datetime) -> int:
    """Return the whole seconds that are left, none where the end has passed."""
    return max(0, int((end - at) / timedelta(seconds=1)))
