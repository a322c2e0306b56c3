"""Preconditions: what a move demands of the rows that it has locked.

Those of people's verbs are pure functions over the rows: each returns the refusal that the verb
would raise, or None where it would be done, so that a page asks the transition's own rule of all
its rows and sends no query for it.  Those of workers' writes raise, and judge in this order: token,
holder, state, lease, admission.
"""

from __future__ import annotations

import math
from datetime import datetime
from uuid import UUID

from agents.entry import Caller, take_implicit
from agents.models import RiskTier
from governance.core.errors import (
    AdmissionClosed,
    DomainError,
    FencingTokenRequired,
    InvalidTransition,
    LeaseExpired,
    LeaseHeldByAnother,
    ModelCallRequired,
    OutcomeUnknown,
    PreconditionFailed,
    RevisionMismatch,
    SelfApproval,
    SessionRequired,
    StaleFencingToken,
)
from governance.money import ledger
from jobs.models import Attempt, Execution, Job, ModelUse, Review
from jobs.transitions.work import Content, EndedAttempt, LockedJob, State, Work

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
#: Outcomes that a worker reported itself; the others were decided over its head.
REPORTED = frozenset({"completed", "failed", "escalated", "deferred"})


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


def need_model_call(locked: LockedJob) -> None:
    """Refuse to complete work that must call a model and has not. Source: money, rule 1.

    :raises ModelCallRequired: no call of the attempt ended at what it used.
    """
    if locked.type.model_use != ModelUse.REQUIRED:
        return
    attempt = locked.last_attempt
    if (
        attempt is None
        or not attempt.governed
        or not ledger.has_called(external_request_id=locked.identity(attempt))
    ):
        raise ModelCallRequired(
            "No call of a model has ended at a cost; call one, or say `no_model_reason`.",
            current={"state": locked.job.state},
        )


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
    """Refuse a token, or an attempt, that is not the current one, and who does not hold it.

    A token is a counter that anybody may know: it moves nothing for another than its holder.

    :raises StaleFencingToken: with what is current.
    :raises PreconditionFailed: the job has moved on since the revision in If-Match.
    :raises LeaseHeldByAnother: another of the agent's sessions or workers holds the attempt.
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
    need_match(work, locked)
    if number in locked.attempts and not holds(work, locked):
        raise held_by_another(work, locked)
    _take_of_before(work, locked)


def _take_of_before(work: Work, locked: LockedJob) -> None:
    """Give the session of before whose attempt this is to the lineage that writes under it."""
    attempt, caller = locked.last_attempt, work.worker
    if attempt is None or caller.activated or caller.lineage is None:
        return
    if locked.lineages.get(attempt.number, caller.lineage) is None:
        locked.lineages[attempt.number] = caller.lineage
        work.also(
            take_implicit(
                agent_id=caller.agent_id, lineage=caller.lineage, workers=[attempt.worker_id]
            )
        )


def holds(work: Work, locked: LockedJob) -> bool:
    """Return whether the caller is who claimed the running or last attempt.

    Who names neither a session nor a worker is judged by the token alone, for attempts of the
    older contract. Source: contract, section 1.
    """
    attempt, caller = locked.last_attempt, work.worker
    if attempt is None:
        return False
    named = locked.worker_id or caller.worker_id
    activated = attempt.number in locked.activated
    if not (caller.activated or named):
        return not activated and of_lineage(work, locked, attempt.number)
    lineage = locked.lineages.get(attempt.number)
    return _made(work, locked, attempt, activated=activated, lineage=lineage)


def of_lineage(work: Work, locked: LockedJob, number: int) -> bool:
    """Return whether the caller's lineage made the attempt, or it is one of before lineages."""
    return locked.lineages.get(number) in (None, work.worker.lineage)


def _made(
    work: Work,
    locked: LockedJob,
    attempt: Attempt | EndedAttempt,
    *,
    activated: bool,
    lineage: UUID | None,
) -> bool:
    """Return whether the caller's session made the attempt, or the worker that it names."""
    caller = work.worker
    if caller.activated:
        return attempt.session_id == caller.session_pk
    if activated or lineage not in (None, caller.lineage):
        return False
    return attempt.worker_id == (locked.worker_id or caller.worker_id)


def held_by_another(work: Work, locked: LockedJob, detail: str = "") -> LeaseHeldByAnother:
    """Return the refusal of who does not hold the attempt, with what its lease has left."""
    lease, current = locked.lease, {"state": locked.job.state, "attempt": locked.job.attempt}
    left = None
    if lease is not None:
        left = seconds_left(lease.expires_at, at=work.now)
    return LeaseHeldByAnother(detail, current=current, after_seconds=left)


def seconds_left(ends_at: datetime, *, at: datetime) -> int:
    """Return the whole seconds, 1 at least, after which a lease protects its holder no more."""
    return max(1, math.ceil((ends_at - at).total_seconds()))


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
    """Refuse without an unexpired lease.

    :raises LeaseExpired: its time is over.
    """
    if locked.lease is None or locked.lease.expires_at <= work.now:
        raise LeaseExpired()


def need_not_closed(caller: Caller, refusal: type[AdmissionClosed] = AdmissionClosed) -> None:
    """Refuse to begin anything while the agent is closed: a claim, a route, a permit, a start.

    Read under the agent's lock, so that nothing begins once a close has been answered. Source:
    contract section 4.

    :raises AdmissionClosed: with the generation as `current`; the kind of it that is named.
    """
    if caller.admission == "closed":
        current = {"admission": caller.admission, "generation": caller.admission_generation}
        raise refusal(current=current)


def need_session(work: Work) -> None:
    """Refuse a caller of the older contract: a name authorizes no effects and no artifacts.

    :raises SessionRequired: the caller has no activated session.
    """
    if work.caller is None or not work.caller.activated:
        raise SessionRequired("This call is for activated sessions; activate.")


def implied_attempt(
    work: Work, locked: LockedJob, *, content: Content | None = None, unnamed: bool = False
) -> tuple[int, int]:
    """Return attempt and token of a write that names neither: its holder means the running one.

    Ambiguous where it may be the late word of an earlier attempt of the same holder: one that was
    taken from it, or that recorded the same. Source: contract, section 1.

    :param content: what the write says, None where outcomes are not compared.
    :param unnamed: take it also from who names nobody, for workers without sessions; then it may
        be the late word of any of them.
    :raises LeaseHeldByAnother: another holds the running attempt.
    :raises FencingTokenRequired: the write is ambiguous, or the caller made no attempt.
    """
    attempt, caller = locked.last_attempt, work.worker
    named = bool(caller.activated or locked.worker_id or caller.worker_id)
    if attempt is None or not (named or unnamed):
        raise FencingTokenRequired()
    if not holds(work, locked):
        if locked.job.state == State.ACTIVE:
            raise held_by_another(work, locked)
        raise FencingTokenRequired()
    for earlier in locked.ended:
        others = named and earlier.session_id != attempt.session_id
        if earlier.number == attempt.number or others:
            continue
        again = content is not None and content.recorded_as(earlier.outcome_sha256)
        if earlier.outcome not in REPORTED or again:
            raise FencingTokenRequired(
                f"This may be the late word of attempt {earlier.number}. Claim the job again: the"
                " answer has the attempt and the token of the one that runs; send them along.",
                current={"attempt": attempt.number, "state": locked.job.state},
            )
    return attempt.number, attempt.fencing_token


def recorded_before(work: Work, locked: LockedJob, *, content: Content) -> bool:
    """Return whether an earlier attempt of a caller that holds none has recorded just this."""
    return not holds(work, locked) and any(
        content.recorded_as(ended.outcome_sha256)
        and _made(work, locked, ended, activated=ended.activated, lineage=ended.lineage)
        for ended in locked.ended
    )
