"""Answers on jobs: what transitions and queries return, as JSON objects."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, NotRequired, TypedDict, cast

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
from governance.money.apis import Api
from jobs.models import Effects, Job, Lease, ModelUse, Priority
from jobs.queries import JobRecord, heartbeat_interval_seconds
from jobs.transitions.claims import ClaimOutcome, LeaseGrant
from jobs.transitions.leases import Beat
from jobs.transitions.reflections import ReflectionOutcome
from jobs.transitions.story import AttemptRow, shortened
from jobs.transitions.work import Outcome

State = Annotated[str, one_of(Job.State.values)]
#: What workers have made as large as it is.
CUT_OF_SEVERAL: tuple[Literal["result", "error_message", "progress", "escalation_reason"], ...] = (
    "result",
    "error_message",
    "progress",
    "escalation_reason",
)


class LeaseSeenOut(TypedDict):
    """The lease of a running attempt, as it is seen from outside."""

    expires_at: InstantText
    heartbeat_at: InstantText


class ListedJobOut(TypedDict):
    """A job, as lists have it."""

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
    labels: Any
    output_required: TextOrFlag
    rollback_required: bool
    review_required: bool
    execution_approval_required: bool
    attempt: int
    attempt_number: int
    max_attempts: int
    attempts_left: Annotated[int, explained("attempts that may yet end with a verdict")]
    deferrals: Annotated[int, explained("attempts that do not count against max_attempts")]
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
    updated_at: InstantText


class _OwnOut(TypedDict):
    progress: Annotated[Any, explained("the last of the running attempt, or of the last one")]
    escalation_reason: Annotated[str | None, explained("while a person is asked for")]


class SeveralJobOut(ListedJobOut, _OwnOut):
    """A job among several that a call is about; texts, and JSON as text, are cut to 4 KiB."""

    lease: LeaseSeenOut | None
    truncated: NotRequired[bool]


class JobOut(ListedJobOut, _OwnOut):
    """A job."""

    lease: LeaseSeenOut | None
    inputs: AnyObject


class UnreadableOut(TypedDict):
    """What stands in a list for what cannot be read; the others are there."""

    task_id: str
    unreadable: Annotated[str, explained("what is wrong, for a person")]


class LeaseOut(TypedDict):
    """A lease; seconds count from the request's start."""

    ttl_seconds: int
    heartbeat_interval_seconds: int
    expires_at: InstantText


HeldLeaseOut = Annotated[
    LeaseOut | None,
    explained("null in a repeated answer where the caller does not hold it (any more)"),
]


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


class ModelOut(TypedDict):
    """A model that the attempt may use, at its place in the policy's order."""

    position: int
    provider: str
    model: str
    api: Annotated[str, one_of(Api.values), explained("over which calls of it are made")]
    max_output_tokens: Annotated[int, explained("what a call is held at that states no limit")]
    context_tokens_max: Annotated[int | None, explained("null: not known")]
    output_tokens_max: Annotated[int | None, explained("null: not known")]


class ModelTermsOut(TypedDict, total=False):
    """What a worker is told of the model calls of its attempt, as type and policy have it."""

    model_use: Annotated[str, one_of(ModelUse.values)]
    effects: Annotated[str, one_of(Effects.values)]
    open_calls_max: Annotated[int, explained("so many of its model calls may be open at a time")]
    models: Annotated[list[ModelOut], explained("what its policy allows, in the order of choice")]


class _AttemptOut(TypedDict):
    attempt: int
    outcome: Annotated[str | None, explained("null: it runs")]
    error_code: str | None
    error_message: str | None
    claimed_at: InstantText
    deadline_at: InstantText | None
    ended_at: InstantText | None


class AttemptOut(_AttemptOut):
    """An attempt, with its `story` and who made it; texts are cut to 4 KiB.

    What follows `ended_at` is for the workers of the job's agent.
    """

    truncated: NotRequired[bool]
    result: NotRequired[Any]
    result_pointer: NotRequired[str | None]
    progress: NotRequired[Any]
    rework_reason: NotRequired[str | None]
    answer: NotRequired[str | None]
    worker_id: NotRequired[str]
    session_id: NotRequired[Annotated[UuidText | None, explained("null without a session")]]
    runtime: NotRequired[str]


class UnreadableAttemptOut(TypedDict):
    """What stands in a list for an attempt that cannot be read; the others are there."""

    attempt: int
    unreadable: Annotated[str, explained("what is wrong, for a person")]


class CoordinatesOut(TypedDict):
    """What a claim grants its worker, of the job and beside it."""

    attempt: int
    fencing_token: int
    runtime: str
    lease: LeaseOut
    execution_digest: str
    attempts_left: int
    attempt_deadline_at: InstantText | None


class ClaimedJobOut(ListedJobOut, _OwnOut):
    """A job, with what its claimant holds of it; `lease` is null where nothing was granted."""

    lease: LeaseOut | None
    inputs: NotRequired[Annotated[AnyObject, explained("where they were asked for")]]
    fencing_token: NotRequired[int]
    runtime: NotRequired[str]
    attempt_deadline_at: NotRequired[InstantText | None]


class JobAnswerOut(TypedDict):
    """What was done, and the job as it is now."""

    outcome: str
    job: JobOut


class ClaimAnswerOut(ModelTermsOut):
    """The job, with token and lease where they were granted."""

    outcome: Annotated[str, one_of(("claimed", "already_running", "already_completed"))]
    job: ClaimedJobOut
    fencing_token: NotRequired[int]
    lease: NotRequired[HeldLeaseOut]
    attempt: NotRequired[int]
    runtime: NotRequired[str]
    envelope: NotRequired[Annotated[AnyObject, explained("DSSE envelope")]]
    execution_digest: NotRequired[str]
    attempts_left: NotRequired[int]
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

    results: list[ListedJobOut | UnreadableOut]


class AttemptPageOut(_PageOut):
    """A page of a job's attempts, oldest first."""

    results: list[AttemptOut | UnreadableAttemptOut]


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
    lease = _lease_seen(record.lease)
    return {**listed(record), **_own(record), "lease": lease, "inputs": record.task.inputs}


def job_of_several(record: JobRecord) -> SeveralJobOut:
    """Return a job of several that a call is about: all but its inputs, and nothing large."""
    lease = _lease_seen(record.lease)
    found: SeveralJobOut = {**listed(record), **_own(record), "lease": lease}
    truncated = False
    for name in CUT_OF_SEVERAL:
        found[name], cut = shortened(found[name])
        truncated = truncated or cut
    return {**found, "truncated": True} if truncated else found


def _lease_seen(lease: Lease | None) -> LeaseSeenOut | None:
    if lease is None:
        return None
    return {
        "expires_at": instant(lease.expires_at),
        "heartbeat_at": instant(lease.heartbeat_at),
    }


def _own(record: JobRecord) -> _OwnOut:
    escalated = record.job.state == Job.State.ESCALATED
    return {
        "progress": record.progress,
        "escalation_reason": record.escalation_reason if escalated else None,
    }


def listed(record: JobRecord) -> ListedJobOut:
    """Return a job as lists have it."""
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
        "labels": task.labels,
        "output_required": task.output_as_given,
        "rollback_required": task.rollback_required,
        "review_required": row.review_required,
        "execution_approval_required": row.execution_approval_required,
        "attempt": row.attempt,
        "attempt_number": row.attempt,
        "max_attempts": row.max_attempts,
        "attempts_left": row.attempts_left,
        "deferrals": row.deferrals,
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
        "updated_at": instant(row.last_changed_at),
    }


def moved(outcome: Outcome) -> JobAnswerOut:
    """Return what a move on one job is answered with."""
    return {"outcome": outcome.outcome, "job": job(outcome.record)}


def moved_of_several(outcome: Outcome) -> AnyObject:
    """Return what an item of a batch of moves is answered with."""
    return {"outcome": outcome.outcome, "job": job_of_several(outcome.record)}


def controlled(outcome: Outcome) -> ControlAnswerOut:
    """Return what a control of a job is answered with."""
    return {**moved(outcome), "result_code": "APPLIED"}


def claimed(outcome: ClaimOutcome, *, inputs: bool = True) -> ClaimAnswerOut:
    """Return what a claim is answered with.

    What it grants stands beside the job; of it the coordinates of the attempt stand in the job as
    well.

    :param inputs: whether they are given in clear, beside the envelope that has them signed.
    """
    record, grant = outcome.record, outcome.grant
    found: ClaimedJobOut = {**listed(record), **_own(record), "lease": None}
    if inputs:
        found["inputs"] = record.task.inputs
    if grant is None and outcome.attempt is not None:
        return {"outcome": outcome.outcome, "job": found, "attempt": outcome.attempt, "lease": None}
    if grant is None:
        return {"outcome": outcome.outcome, "job": found}
    held = _coordinates(record, grant)
    rework = grant.past.rework
    return {
        "outcome": outcome.outcome,
        "job": {**found, **held},
        **held,
        "envelope": record.task.envelope,
        **cast(ModelTermsOut, grant.model_terms),
        "previous_progress": grant.past.progress,
        "rework": {"reason": rework.reason, "attempt": rework.attempt} if rework else None,
        "story": cast(list[StoryOut], grant.past.story),
    }


def claims(
    outcomes: list[ClaimOutcome], *, inputs: bool = True, retry_after_seconds: int | None = None
) -> ClaimsOut:
    """Return what a claim of the next jobs is answered with. :param inputs: as of `claimed`."""
    results: list[ClaimAnswerOut] = [
        {"status": 200, **claimed(outcome, inputs=inputs)} for outcome in outcomes
    ]
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
    jobs: list[ListedJobOut | UnreadableOut], *, next: str | None, previous: str | None
) -> JobPageOut:
    """Return a page of jobs, with the cursors of the pages beside it."""
    return {"results": jobs, "next": next, "previous": previous}


def unreadable_job(task_id: str) -> UnreadableOut:
    """Return what stands in a list for a job that cannot be read."""
    return {"task_id": task_id, "unreadable": "This job cannot be read; an operator has to look."}


def attempts(
    rows: list[AttemptOut | UnreadableAttemptOut], *, next: str | None, previous: str | None
) -> AttemptPageOut:
    """Return a page of a job's attempts."""
    return {"results": rows, "next": next, "previous": previous}


def unreadable_attempt(number: int) -> UnreadableAttemptOut:
    """Return what stands in a list for an attempt that cannot be read."""
    return {
        "attempt": number,
        "unreadable": "This attempt cannot be read; an operator has to look.",
    }


def attempt(row: AttemptRow, *, whole: bool) -> AttemptOut:
    """Return an attempt as its job's list has it.

    :param whole: for the workers of its agent, who alone are told whose it was.
    """
    times = {
        "claimed_at": instant(row.claimed_at),
        "deadline_at": instant(row.deadline_at),
        "ended_at": instant(row.ended_at),
    }
    session = str(row.session_id) if row.session_id else None
    named = {"worker_id": row.worker_id, "session_id": session, "runtime": row.runtime}
    return cast(AttemptOut, row.entry | times | (named if whole else {}))


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


def _coordinates(record: JobRecord, grant: LeaseGrant) -> CoordinatesOut:
    return {
        "attempt": grant.attempt.number,
        "fencing_token": grant.attempt.fencing_token,
        "runtime": grant.attempt.runtime,
        "lease": _lease(grant.lease.expires_at, grant.lease.lease_seconds, at=grant.at),
        "execution_digest": record.task.execution_digest,
        "attempts_left": record.job.attempts_left,
        "attempt_deadline_at": instant(grant.attempt.deadline_at),
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
