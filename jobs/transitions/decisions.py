"""Decisions of people: approvals, reviews, rework, retry extensions, escalations."""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction

from governance.core.errors import InvalidArgument, RetryCeilingReached
from governance.core.reasons import required
from jobs.models import Approval, Escalation, RetryExtension, Review
from jobs.transitions.preconditions import (
    approvable,
    approval_expired,
    asks_anew,
    extendable,
    need_revision,
    rejectable,
    resolvable,
    reviewable,
    reworkable,
    withdrawable,
)
from jobs.transitions.work import LockedJob, Outcome, State, Work, lock

#: How an escalation may end a job, and in which state. `requeue` leads where the job's attempts
#: and its risk let it go.
ENDINGS = {"complete": State.COMPLETED, "fail": State.FAILED, "stop": State.STOPPED}
RESOLUTIONS = ("requeue", *ENDINGS)


@transaction.atomic
def approve(
    *,
    task_id: str,
    actor: str,
    reason: str,
    valid_seconds: int | None = None,
    expected_revision: int | None = None,
) -> Outcome:
    """Approve the execution of a held job; it is queued, and covered until the approval ends.

    The approval is for the job's `execution_digest`. It covers automatic retries as well; a claim
    after its end puts the job back on hold.

    :param valid_seconds: default from the job type.
    :raises SelfApproval: the actor submitted the job, answers for its submitter, or asked for it
        to be tried again. The database refuses it as well.
    """
    reason = required(reason)
    work, locked = locked_at(task_id, expected_revision)
    if fault := approvable(locked.job, actor=actor):
        raise fault
    seconds = valid_seconds or locked.type.approval_valid_seconds
    until = work.now + timedelta(seconds=seconds)
    work.add(
        Approval(
            job_id=locked.job.pk,
            execution_digest=locked.task.execution_digest,
            decision=Approval.Decision.APPROVED,
            decided_by=actor,
            decided_at=work.now,
            reason=reason,
            valid_until=until,
        )
    )
    locked.job.approval_valid_until = until
    locked.job.available_at = max(locked.job.available_at, work.now)
    work.move(
        locked,
        State.QUEUED,
        action="job.approved",
        actor=actor,
        reason=reason,
        details={
            "execution_digest": locked.task.execution_digest,
            "valid_until": until.isoformat(),
        },
    )
    return _done(work, locked, "approved")


@transaction.atomic
def reject(
    *, task_id: str, actor: str, reason: str, expected_revision: int | None = None
) -> Outcome:
    """Reject a held job: it is stopped for good."""
    reason = required(reason)
    work, locked = locked_at(task_id, expected_revision)
    if fault := rejectable(locked.job):
        raise fault
    work.add(_decision(work, locked, Approval.Decision.REJECTED, actor, reason))
    work.move(locked, State.STOPPED, action="job.rejected", actor=actor, reason=reason)
    return _done(work, locked, "rejected")


@transaction.atomic
def withdraw_approval(
    *, task_id: str, actor: str, reason: str, expected_revision: int | None = None
) -> Outcome:
    """Take back the approval of a job that waits in the queue: it is held again."""
    reason = required(reason)
    work, locked = locked_at(task_id, expected_revision)
    if fault := withdrawable(locked.job):
        raise fault
    work.add(_decision(work, locked, Approval.Decision.WITHDRAWN, actor, reason))
    locked.job.approval_valid_until = None
    work.move(locked, State.HELD, action="job.approval_withdrawn", actor=actor, reason=reason)
    return _done(work, locked, "withdrawn")


@transaction.atomic
def review(
    *,
    task_id: str,
    actor: str,
    verdict: str,
    reason: str,
    expected_revision: int | None = None,
) -> Outcome:
    """Judge what an attempt delivered: `accepted`, `needs_rework` or `rejected`.

    Rework goes on to the queue at once when attempts are left (on hold for a high risk), with a
    second audit event; else it waits for a retry extension.
    """
    reason = required(reason)
    if verdict not in Review.Verdict.values:
        raise InvalidArgument(f"verdict is one of {', '.join(Review.Verdict.values)}.")
    work, locked = locked_at(task_id, expected_revision)
    if fault := reviewable(locked.job, verdict=verdict):
        raise fault
    _add_review(work, locked, verdict, actor, reason)
    if verdict == Review.Verdict.ACCEPTED:
        work.move(locked, State.COMPLETED, action="job.accepted", actor=actor, reason=reason)
    elif verdict == Review.Verdict.REJECTED:
        work.move(locked, State.FAILED, action="job.review_rejected", actor=actor, reason=reason)
    else:
        _send_back(work, locked, actor, reason)
    return _done(work, locked, verdict)


@transaction.atomic
def rework(
    *,
    task_id: str,
    actor: str,
    reason: str,
    extra: int | None = None,
    to_max: int | None = None,
    expected_revision: int | None = None,
) -> Outcome:
    """Send a failed, delivered or escalated job back to be done again.

    :param extra, to_max: with either, a retry extension is granted in the same transaction.
    :raises OutcomeUnknown: an execution of the job is unresolved.
    :raises RetryCeilingReached: the extension is beyond the job type's ceiling.
    """
    reason = required(reason)
    work, locked = locked_at(task_id, expected_revision)
    if fault := reworkable(locked.job):
        raise fault
    if extra is not None or to_max is not None:
        _extend(work, locked, actor=actor, reason=reason, extra=extra, to_max=to_max)
    if locked.job.state == State.ESCALATED:
        work.end_escalation(locked, actor=actor, reason=reason)
    _add_review(work, locked, Review.Verdict.NEEDS_REWORK, actor, reason)
    _send_back(work, locked, actor, reason)
    return _done(work, locked, "needs_rework")


@transaction.atomic
def extend(
    *,
    task_id: str,
    actor: str,
    reason: str,
    extra: int | None = None,
    to_max: int | None = None,
    expected_revision: int | None = None,
) -> Outcome:
    """Grant further attempts: "+N" (`extra`) or "set to N" (`to_max`). One grant row each.

    A job that waits in `needs_rework` for want of attempts goes on to the queue. One of high risk
    needs a new approval: queued, it is held at once; running, its next attempt is.

    :raises InvalidArgument: neither or both given, or not above the present limit.
    :raises RetryCeilingReached: beyond the job type's ceiling.
    :raises OutcomeUnknown: an execution of the job is unresolved.
    :raises InvalidTransition: the job is finished; a failed one is sent back with `rework`.
    """
    reason = required(reason)
    work, locked = locked_at(task_id, expected_revision)
    if fault := extendable(locked.job):
        raise fault
    _extend(work, locked, actor=actor, reason=reason, extra=extra, to_max=to_max)
    if locked.job.state == State.NEEDS_REWORK:
        _requeue(work, locked, actor, reason)
    return _done(work, locked, "extended")


@transaction.atomic
def resolve(
    *,
    task_id: str,
    actor: str,
    resolution: str,
    reason: str,
    expected_revision: int | None = None,
) -> Outcome:
    """Resolve an escalation: `requeue`, `complete`, `fail` or `stop`.

    :raises OutcomeUnknown: requeue or complete while an execution is unresolved.
    """
    reason = required(reason)
    if resolution not in RESOLUTIONS:
        raise InvalidArgument(f"resolution is one of {', '.join(RESOLUTIONS)}.")
    work, locked = locked_at(task_id, expected_revision)
    if fault := resolvable(locked.job, resolution=resolution):
        raise fault
    Escalation.objects.filter(job_id=locked.job.pk, resolved_at=None).update(
        resolution=resolution, resolved_at=work.now, resolved_by=actor, resolve_reason=reason
    )
    if resolution == "requeue":
        locked.job.asked_again_by = actor
        if locked.job.attempts_left > 0:
            _requeue(work, locked, actor, reason, action="job.escalation_resolved")
        else:
            work.move(
                locked, State.NEEDS_REWORK, action="job.escalation_resolved", actor=actor,
                reason=reason,
            )  # fmt: skip
    else:
        work.move(
            locked,
            ENDINGS[resolution],
            action="job.escalation_resolved",
            actor=actor,
            reason=reason,
        )
    return _done(work, locked, "resolved")


def locked_at(task_id: str, expected_revision: int | None) -> tuple[Work, LockedJob]:
    """Lock one job for a person's act.

    :raises NotFound: there is none.
    :raises RevisionMismatch: it has moved on since the caller looked.
    """
    work = lock([task_id])
    locked = work.get(task_id)
    need_revision(locked, expected_revision)
    return work, locked


def _done(work: Work, locked: LockedJob, outcome: str) -> Outcome:
    """Save the decision; what was deferred before it counts against no bound any more."""
    locked.job.unconfirmed_deferrals = 0
    work.save()
    return Outcome(outcome, locked)


def end_approval(work: Work, locked: LockedJob, *, actor: str, reason: str) -> None:
    """Close the approval of a queued job that has run out: the job is held again."""
    _note_expiry(work, locked, actor=actor, reason=reason)
    work.move(
        locked,
        State.HELD,
        action="job.approval_expired",
        actor=actor,
        reason=reason,
        details={"execution_digest": locked.task.execution_digest},
    )


def _note_expiry(work: Work, locked: LockedJob, *, actor: str, reason: str) -> None:
    """Write that the approval has run out, where there was one."""
    if locked.job.approval_valid_until is None:
        return
    expired = _decision(work, locked, Approval.Decision.EXPIRED, actor, reason)
    expired.valid_until = locked.job.approval_valid_until
    work.add(expired)
    locked.job.approval_valid_until = None


def _decision(work: Work, locked: LockedJob, decision: str, actor: str, reason: str) -> Approval:
    return Approval(
        job_id=locked.job.pk,
        execution_digest=locked.task.execution_digest,
        decision=decision,
        decided_by=actor,
        decided_at=work.now,
        reason=reason,
    )


def _add_review(work: Work, locked: LockedJob, verdict: str, actor: str, reason: str) -> None:
    work.add(
        Review(
            job_id=locked.job.pk,
            attempt=locked.job.attempt,
            verdict=verdict,
            decided_by=actor,
            decided_at=work.now,
            reason=reason,
        )
    )


def _send_back(work: Work, locked: LockedJob, actor: str, reason: str) -> None:
    """Move to `needs_rework`, and on to the queue when attempts are left: two events."""
    locked.job.asked_again_by = actor
    work.move(locked, State.NEEDS_REWORK, action="job.sent_back", actor=actor, reason=reason)
    if locked.job.attempts_left > 0:
        _requeue(work, locked, actor, reason)


def _requeue(
    work: Work, locked: LockedJob, actor: str, reason: str, action: str = "job.requeued"
) -> None:
    """Queue the job again; one of high risk is held, for it needs a new approval."""
    job = locked.job
    job.available_at = work.now
    if approval_expired(job, at=work.now):
        _note_expiry(
            work, locked, actor=actor, reason="The approval had expired when the job was sent back."
        )
        work.move(locked, State.HELD, action=action, actor=actor, reason=reason)
    elif asks_anew(job):
        job.approval_valid_until = None
        work.move(locked, State.HELD, action=action, actor=actor, reason=reason)
    else:
        work.move(locked, State.QUEUED, action=action, actor=actor, reason=reason)


def _extend(
    work: Work,
    locked: LockedJob,
    *,
    actor: str,
    reason: str,
    extra: int | None,
    to_max: int | None,
) -> None:
    """Write the grant and raise the limit."""
    if (extra is None) == (to_max is None):
        raise InvalidArgument('Give either "+N" (extra) or "set to N" (to_max).')
    job, ceiling = locked.job, locked.type.max_attempts_ceiling
    target = to_max if to_max is not None else job.max_attempts + (extra or 0)
    if target <= job.max_attempts:
        raise InvalidArgument(f"The limit is {job.max_attempts} already; it can only be raised.")
    if target > ceiling:
        raise RetryCeilingReached(
            f"The ceiling of {locked.type.name} is {ceiling} attempts.",
            current={"max_attempts": job.max_attempts, "ceiling": ceiling},
        )
    work.add(
        RetryExtension(
            job_id=job.pk,
            from_max=job.max_attempts,
            to_max=target,
            ceiling=ceiling,
            granted_by=actor,
            granted_at=work.now,
            reason=reason,
        )
    )
    before, job.max_attempts = job.max_attempts, target
    job.revision += 1
    if asks_anew(job):
        job.asked_again_by = actor
    if asks_anew(job) and job.state == State.ACTIVE and not approval_expired(job, at=work.now):
        # The running attempt goes on; the next one finds the approval ended.
        job.approval_valid_until = work.now
    if asks_anew(job) and job.state == State.QUEUED:
        job.approval_valid_until = None
        work.move(locked, State.HELD, action="job.held", actor=actor, reason=reason)
    work.note(
        locked,
        action="job.extended",
        actor=actor,
        reason=reason,
        details={"from_max": before, "to_max": target, "ceiling": ceiling},
    )
