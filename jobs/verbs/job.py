"""What operators can do to jobs, and submitters to the jobs that are theirs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

from governance.core.errors import DomainError
from governance.core.fields import Choice, Instant, Span, Whole
from governance.core.permissions import APPROVER, OPERATOR, Permission
from governance.core.verbs import Done, OneOf, Target, Verb, of_row
from jobs import transitions
from jobs.models import Job
from jobs.transitions import Outcome, controls, job_types, preconditions

APPROVE_EXECUTION = Permission(
    "approve_execution",
    "Can approve, reject or withdraw the execution of a held job",
    (APPROVER,),
)
REVIEW_JOB = Permission(
    "review_job", "Can accept, reject or send back what a job delivered", (OPERATOR, APPROVER)
)
EXTEND_RETRIES = Permission(
    "extend_retries", "Can send a failed job back for rework and extend its attempts", (OPERATOR,)
)
RESOLVE_ESCALATION = Permission("resolve_escalation", "Can resolve an escalated job", (OPERATOR,))
PAUSE_JOB = Permission("pause_job", "Can pause and resume a job", (OPERATOR,))
HOLD_JOB = Permission("hold_job", "Can hold a job back until a time, and release it", (OPERATOR,))
STOP_JOB = Permission("stop_job", "Can stop a job", (OPERATOR,))

JOB = Target(Job, key="task_id")


def on_job(move: Callable[..., Outcome], **fixed: Any) -> Callable[..., Outcome]:
    """Return a verb's call of a transition on one job.

    :param fixed: arguments that the verb decides, not who uses it.
    """

    def run(*, key: str, **request: Any) -> Outcome:
        return move(task_id=key, **fixed, **request)

    return run


def releasable(job: Job, /, *, actor: str, now: datetime) -> DomainError | None:
    """Return why a job is not released; None where a hold of it is in force."""
    return controls.releasable(job, at=now)


def approvable(job: Job, /, *, actor: str, now: datetime) -> DomainError | None:
    """Return why the actor may not approve the job; None where it may."""
    return preconditions.approvable(job, actor=actor)


def moved(outcome: Outcome) -> Done:
    """Say what a move on a job has done."""
    job = outcome.job
    return Done(
        f"{outcome.outcome.replace('_', ' ')}, now {job.state}",
        {
            "outcome": outcome.outcome,
            "state": job.state,
            "revision": job.revision,
            "attempt": job.attempt,
            "max_attempts": job.max_attempts,
        },
    )


VALID_SECONDS = Span(
    name="valid_seconds",
    given_as="valid_hours",
    unit="hours",
    least=1,
    most=job_types.APPROVAL_SECONDS_MAX,
    required=False,
    help="Empty: as the job type says. After that the job is held again.",
)
TO_MAX = Whole(
    name="to_max",
    option="to",
    label="or set the limit to",
    least=1,
    most=job_types.ATTEMPTS_MAX,
    required=False,
    help="Never below the attempts used, never above the job type's ceiling.",
)
EXTRA = Whole(
    name="extra", label="+N attempts", least=1, most=job_types.ATTEMPTS_MAX, required=False
)
REWORK_EXTRA = replace(
    EXTRA, help="Needed where no attempt is left; without, the job waits for an extension."
)

APPROVE = Verb(
    name="approve",
    on=JOB,
    label="Approve",
    permission=APPROVE_EXECUTION,
    effect="Lets each held job be executed, once, for exactly the envelope that it has; it is "
    "queued. Automatic retries are covered until the approval ends.",
    fields=(VALID_SECONDS,),
    run=on_job(transitions.approve),
    done=moved,
    precondition=approvable,
    as_seen=True,
    command="approve",
)
REJECT = Verb(
    name="reject",
    on=JOB,
    label="Reject",
    permission=APPROVE_EXECUTION,
    effect="Refuses the execution of each held job: it is stopped for good.",
    run=on_job(transitions.reject),
    done=moved,
    precondition=of_row(preconditions.rejectable),
    grave=True,
    as_seen=True,
    command="reject",
)
WITHDRAW_APPROVAL = Verb(
    name="withdraw_approval",
    on=JOB,
    label="Withdraw approval",
    permission=APPROVE_EXECUTION,
    effect="Takes the approval of each queued job back: it is held again. A job that runs "
    "already is not touched.",
    run=on_job(transitions.withdraw_approval),
    done=moved,
    precondition=of_row(preconditions.withdrawable),
    command="withdraw_approval",
)
ACCEPT = Verb(
    name="accept",
    on=JOB,
    label="Accept",
    permission=REVIEW_JOB,
    effect="Accepts what each job delivered: it is completed.",
    run=on_job(transitions.review, verdict="accepted"),
    done=moved,
    precondition=of_row(preconditions.reviewable, verdict="accepted"),
    as_seen=True,
    command="review",
)
SEND_BACK = Verb(
    name="send_back",
    on=JOB,
    label="Needs rework",
    permission=REVIEW_JOB,
    effect="Sends what each job delivered back, with your reason for its worker. With attempts "
    "left it is queued at once (high risk: held); else it waits for a retry extension.",
    run=on_job(transitions.review, verdict="needs_rework"),
    done=moved,
    precondition=of_row(preconditions.reviewable, verdict="needs_rework"),
    as_seen=True,
    command="review",
)
REVIEW_REJECT = Verb(
    name="review_reject",
    on=JOB,
    label="Reject the result",
    permission=REVIEW_JOB,
    effect="Refuses what each job delivered: it has failed.",
    run=on_job(transitions.review, verdict="rejected"),
    done=moved,
    precondition=of_row(preconditions.reviewable, verdict="rejected"),
    grave=True,
    as_seen=True,
    command="review",
)
REWORK = Verb(
    name="rework",
    on=JOB,
    label="Rework",
    permission=EXTEND_RETRIES,
    effect="Sends each failed or escalated job back to be done again, and grants the attempts "
    "that it needs, each grant with its own record.",
    fields=(REWORK_EXTRA, TO_MAX),
    rules=(OneOf(("extra", "to_max")),),
    run=on_job(transitions.rework),
    done=moved,
    precondition=of_row(preconditions.reworkable),
    as_seen=True,
    command="requeue",
)
EXTEND = Verb(
    name="extend",
    on=JOB,
    label="Extend retries",
    permission=EXTEND_RETRIES,
    effect="Raises the number of attempts that each job may make; one that waits for attempts "
    "is queued. A job of high risk needs a new approval then: one that waits is held, one that "
    "runs goes on, and is held before its next attempt.",
    fields=(replace(EXTRA, initial=1), TO_MAX),
    rules=(OneOf(("extra", "to_max"), required=True),),
    run=on_job(transitions.extend),
    done=moved,
    precondition=of_row(preconditions.extendable),
    command="extend_retries",
)
RESOLVE = Verb(
    name="resolve",
    on=JOB,
    label="Resolve escalation",
    permission=RESOLVE_ESCALATION,
    effect="Decides where each escalated job goes.",
    fields=(
        Choice(
            name="resolution",
            choices=(
                ("requeue", "Queue it again"),
                ("complete", "It is done: complete it"),
                ("fail", "It failed"),
                ("stop", "Stop it"),
            ),
            meant=True,
        ),
    ),
    run=on_job(transitions.resolve),
    done=moved,
    precondition=of_row(preconditions.resolvable, resolution="stop"),
    as_seen=True,
    command="resolve_escalation",
)
PAUSE = Verb(
    name="pause",
    on=JOB,
    label="Pause",
    permission=PAUSE_JOB,
    effect="Pauses each job: it is not claimed and starts no execution. One that runs keeps "
    "its lease, and its worker is told at the next heartbeat.",
    run=on_job(transitions.pause),
    done=moved,
    precondition=of_row(preconditions.pausable),
    command="pause_job",
    control="PAUSE",
)
RESUME = Verb(
    name="resume",
    on=JOB,
    label="Resume",
    permission=PAUSE_JOB,
    effect="Takes the pause of each job back.",
    run=on_job(transitions.resume),
    done=moved,
    precondition=of_row(preconditions.resumable),
    command="resume_job",
    control="RESUME",
)
HOLD = Verb(
    name="hold",
    on=JOB,
    label="Hold until",
    permission=HOLD_JOB,
    effect="Keeps each queued job from being claimed until then; it stays queued, and needs no "
    "release. A job that is on hold already gets the new end.",
    fields=(Instant(name="until", help="UTC, in the future."),),
    run=on_job(controls.hold),
    done=moved,
    precondition=of_row(controls.holdable),
    control="HOLD",
)
RELEASE = Verb(
    name="release",
    on=JOB,
    label="Release",
    permission=HOLD_JOB,
    effect="Ends the hold of each job before its time: it may be claimed as if it had never been "
    "on hold.",
    run=on_job(controls.release),
    done=moved,
    precondition=releasable,
    control="RELEASE",
)
STOP = Verb(
    name="stop",
    on=JOB,
    label="Stop",
    permission=STOP_JOB,
    effect="Stops each job for good. A running attempt is fenced at once, and its worker is "
    "told at the next heartbeat; an effect that has begun outside is not undone by this.",
    run=on_job(transitions.stop),
    done=moved,
    precondition=of_row(preconditions.stoppable),
    grave=True,
    command="stop_job",
    control="STOP",
)

VERBS: tuple[Verb[Any], ...] = (
    APPROVE,
    REJECT,
    WITHDRAW_APPROVAL,
    ACCEPT,
    SEND_BACK,
    REVIEW_REJECT,
    REWORK,
    EXTEND,
    RESOLVE,
    PAUSE,
    RESUME,
    HOLD,
    RELEASE,
    STOP,
)
