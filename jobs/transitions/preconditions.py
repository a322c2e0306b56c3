"""Preconditions: what a move demands of the rows that it has locked.

Those of people's verbs are pure functions over the rows: each returns the refusal that the verb
would raise, or None where it would be done, so that a page asks the transition's own rule of all
its rows and sends no query for it.  Those of workers' writes raise, and judge in this order: token,
state, lease, admission.
"""

from __future__ import annotations

from datetime import datetime

from agents.entry import Caller, fault_of
from agents.models import RiskTier
from governance.core.errors import (
    AdmissionClosed,
    DomainError,
    FencingTokenRequired,
    InvalidTransition,
    LeaseExpired,
    LeaseHeldByAnother,
    OutcomeUnknown,
    PreconditionFailed,
    RevisionMismatch,
    SelfApproval,
    SessionRequired,
    StaleFencingToken,
)
from jobs.models import Execution, Job, Review
from jobs.transitions.work import LockedJob, State, Work

#: The actors that are people, by where they come from: `user:anna` at the console, `command:anna`
#: at a shell. The function `jobs_person` of the database holds the same list.
PERSONS = ("user", "command")
REWORKABLE = frozenset({State.FAILED, State.REVIEW_REQUIRED, State.ESCALATED})
EXTENDABLE = frozenset(
    {State.HELD, State.QUEUED, State.ACTIVE, State.REVIEW_REQUIRED, State.NEEDS_REWORK,
     State.ESCALATED}
)  # fmt: skip
#: Resolutions of an escalation that let the work go on, or count it as done.
RESUMING = frozenset({"requeue", "complete"})


# --- People's verbs ---------------------------------------------------------------------------


def approvable(job: Job, *, actor: str) -> DomainError | None:
    """Return why the actor may not approve the job.

    `SelfApproval` where it submitted the job, answers for its submitter, or asked for it to be
    tried again.
    """
    if fault := in_states(job, {State.HELD}):
        return fault
    return SelfApproval() if asked_for(job, actor=actor) else None


def rejectable(job: Job) -> DomainError | None:
    """Return why the job cannot be rejected."""
    return in_states(job, {State.HELD})


def withdrawable(job: Job) -> DomainError | None:
    """Return why there is no approval of the job to withdraw."""
    if fault := in_states(job, {State.QUEUED}):
        return fault
    if not job.execution_approval_required:
        return InvalidTransition("The job has no approval to withdraw.")
    return None


def reviewable(job: Job, *, verdict: str) -> DomainError | None:
    """Return why the job cannot be judged so. :param verdict: of `Review.Verdict`."""
    if verdict == Review.Verdict.NEEDS_REWORK and (fault := _resolved(job)):
        return fault
    return in_states(job, {State.REVIEW_REQUIRED})


def reworkable(job: Job) -> DomainError | None:
    """Return why the job cannot be sent back to be done again."""
    return _resolved(job) or in_states(job, REWORKABLE)


def extendable(job: Job) -> DomainError | None:
    """Return why the job cannot be granted further attempts."""
    if fault := _resolved(job):
        return fault
    if job.state == State.FAILED:
        return InvalidTransition(
            "A failed job is extended by sending it back: needs rework, with the extension.",
            current={"state": job.state},
        )
    return in_states(job, EXTENDABLE)


def resolvable(job: Job, *, resolution: str) -> DomainError | None:
    """Return why the job's escalation cannot be resolved so.

    :param resolution: `requeue`, `complete`, `fail` or `stop`.
    """
    if resolution in RESUMING and (fault := _resolved(job)):
        return fault
    return in_states(job, {State.ESCALATED})


def stoppable(job: Job) -> DomainError | None:
    """Return why the job cannot be stopped."""
    if job.state in job.FINISHED:
        return InvalidTransition(f"The job is {job.state} already.", current={"state": job.state})
    return None


def pausable(job: Job) -> DomainError | None:
    """Return why the job cannot be paused."""
    return _unlike(job, paused=True)


def resumable(job: Job) -> DomainError | None:
    """Return why the job's pause cannot be taken back."""
    return _unlike(job, paused=False)


def reconcilable(execution: Execution, *, job: Job, reconciled: bool) -> DomainError | None:
    """Return why nobody may say what became of the execution.

    :param job: whose execution it is.
    :param reconciled: whether there is a verdict already other than `undetermined`.
    """
    if execution.state != Execution.State.UNKNOWN:
        return InvalidTransition(
            f"The execution is {execution.state}.", current={"state": execution.state}
        )
    if reconciled:
        return InvalidTransition("The execution is reconciled already.")
    if job.state == State.ACTIVE and job.attempt == execution.attempt:
        return InvalidTransition("The attempt is still running; its worker may report the result.")
    return None


def person(actor: str) -> str:
    """Return who acts, without where from: the same for `user:anna`, `command:anna` and `anna`."""
    origin, _, name = actor.partition(":")
    return name if origin in PERSONS else actor


def asked_for(job: Job, *, actor: str) -> bool:
    """Return whether the actor submitted the job, answers for its submitter, or asked again."""
    askers = {person(name) for name in (job.submitted_by, job.requested_by, job.asked_again_by)}
    return person(actor) in askers


def approval_expired(job: Job, *, at: datetime) -> bool:
    """Return whether the job needs an approval and has none that holds at that instant."""
    until = job.approval_valid_until
    return job.execution_approval_required and (until is None or until <= at)


def asks_anew(job: Job) -> bool:
    """Return whether the job needs a new approval each time that a person sends it on."""
    return job.risk_tier == RiskTier.HIGH


def need_revision(locked: LockedJob, expected: int | None) -> None:
    """Refuse when the job has moved on since the caller looked.

    :raises RevisionMismatch: with the current revision and state.
    """
    if expected is not None and expected != locked.job.revision:
        raise RevisionMismatch(current={"revision": locked.job.revision, "state": locked.job.state})


def in_states(job: Job, allowed: frozenset[str] | set[str]) -> DomainError | None:
    """Return why a move that needs one of these states cannot be made."""
    if job.state in allowed:
        return None
    return InvalidTransition(
        f"The job is {job.state}; this needs {' or '.join(sorted(allowed))}.",
        current={"state": job.state, "revision": job.revision},
    )


def _resolved(job: Job) -> DomainError | None:
    if not job.unresolved_executions:
        return None
    return OutcomeUnknown(
        "An execution of the job is unresolved; reconcile it first.",
        current={"unresolved_executions": job.unresolved_executions},
    )


def _unlike(job: Job, *, paused: bool) -> DomainError | None:
    if job.state not in job.FINISHED and job.paused != paused:
        return None
    return InvalidTransition(
        f"The job is {job.state}{' and paused' if job.paused else ''}.",
        current={"state": job.state, "paused": job.paused},
    )


# --- Workers' writes --------------------------------------------------------------------------


def check_token(work: Work, locked: LockedJob, number: int, token: int) -> None:
    """Refuse a token, or an attempt, that is not the current one.

    An activated session's attempt is written for by an activated session, or by nobody that has
    been fenced: whoever leaves its session out of the request is judged by the attempt's.

    :raises StaleFencingToken: with what is current.
    :raises SessionSuperseded, DispatcherEpochStale: the session that made the attempt may no
        longer act, and the request names no other.
    :raises PreconditionFailed: the job has moved on since the revision in If-Match.
    """
    if token != locked.job.fencing_token or number != locked.job.attempt:
        raise StaleFencingToken(
            current={
                "fencing_token": locked.job.fencing_token,
                "attempt": locked.job.attempt,
                "state": locked.job.state,
                "revision": locked.job.revision,
            }
        )
    caller, session = work.caller, locked.sessions.get(number)
    if caller and session and session.activated and not caller.activated:
        if (fault := fault_of(session.fault, caller.dispatcher_epoch)) is not None:
            raise fault
    need_match(work, locked)


def need_match(work: Work, locked: LockedJob) -> None:
    """Refuse when the job has moved on since the revision that the caller names in If-Match.

    Judged after the recorded outcome: a repetition of the very request that has moved the job is
    answered. Source: RFC 9110, 13.1.1.

    :raises PreconditionFailed: with the current revision.
    """
    if work.caller is not None and work.caller.if_match not in (None, locked.job.revision):
        raise PreconditionFailed(current={"revision": locked.job.revision})


def need_active(locked: LockedJob) -> None:
    """Refuse when the job is not at work.

    :raises InvalidTransition: with the state that it is in.
    """
    if locked.job.state != State.ACTIVE:
        raise InvalidTransition(
            f"The job is {locked.job.state}.", current={"state": locked.job.state}
        )


def need_lease(work: Work, locked: LockedJob) -> None:
    """Refuse without an unexpired lease, or under a session that does not hold it.

    :raises LeaseExpired: its time is over.
    :raises LeaseHeldByAnother: another activated session than the caller's holds it.
    """
    if locked.lease is None or locked.lease.expires_at <= work.now:
        raise LeaseExpired()
    if work.worker.activated and locked.lease.session_id != work.worker.session_pk:
        raise LeaseHeldByAnother()


def need_not_closed(caller: Caller) -> None:
    """Refuse to begin anything while the agent is closed: a claim, a route, a permit, a start.

    Read under the agent's lock, so that nothing begins once a close has been answered. Source:
    contract section 4.

    :raises AdmissionClosed: with the generation as `current`.
    """
    if caller.admission == "closed":
        current = {"admission": caller.admission, "generation": caller.admission_generation}
        raise AdmissionClosed(current=current)


def need_session(work: Work) -> None:
    """Refuse a caller of the older contract: a name authorizes no effects and no artifacts.

    :raises SessionRequired: the caller has no activated session.
    """
    if work.caller is None or not work.caller.activated:
        raise SessionRequired("This call is for activated sessions; activate.")


def implied_attempt(
    work: Work, locked: LockedJob, *, worker_id: str | None = None
) -> tuple[int, int]:
    """Return attempt and token of a write that names neither, where only one can be meant.

    :param worker_id: whom an item of a batch names; default the caller.
    """
    attempt, caller = locked.last_attempt, work.caller
    session = locked.sessions.get(locked.job.attempt)
    if (
        attempt is None
        or caller is None
        or caller.activated
        or session is None
        or session.activated
        or locked.job.attempt != 1
        or attempt.claim_answers != 1
        or attempt.worker_id != (worker_id or caller.worker_id)
    ):
        raise FencingTokenRequired()
    return attempt.number, attempt.fencing_token
