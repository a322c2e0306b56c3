"""Starts: the permit is spent and the execution recorded, before anything outside happens."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from agents.entry import Entry
from governance.core import sql
from governance.core.errors import (
    BindingMismatch,
    DomainError,
    ExecutionConflict,
    ExecutionPaused,
    LiveExecutionNotAuthorized,
    NotFound,
    PermitExpired,
    PermitRevoked,
    PermitSpent,
    SessionSuperseded,
)
from governance.money import ledger
from jobs.executions.binding import (
    Binding,
    lock_bound,
    lock_execution,
    need_acting,
    need_held_reservation,
)
from jobs.executions.permits import live_authorized, of_present_epoch
from jobs.models import Execution, ExecutionMode, Permit
from jobs.transitions.preconditions import (
    check_token,
    need_active,
    need_lease,
    need_session,
)
from jobs.transitions.work import LockedJob, Work


@dataclass(frozen=True)
class StartOutcome:
    """An execution that is `started` or was `already_started`, as it stands at an instant.

    `may_begin` says that the authority to begin its effect stands then, not that nothing began:
    where it was `already_started`, only a caller that has not marked its own beginning may.
    """

    outcome: str
    execution: Execution
    at: datetime
    may_begin: bool


@sql.move
def start(
    *,
    entry: Entry,
    permit_id: UUID,
    binding: Binding,
    execution_digest: str,
    runtime: str,
    request_sha256: str,
) -> StartOutcome | DomainError:
    """Spend the permit and record the execution as `unknown`, before anything outside happens.

    What the route was decided by is judged again: the model, the policy, a cap of 0, the word for
    live executions.  The decision is stored once: the same request again gets the stored one
    (`already_started`), with the authority to begin judged anew.  A refusal that is returned was
    recorded.

    :raises SessionRequired: the caller has no activated session.
    :raises ExecutionConflict: the attempt's execution was started by another request.
    :raises EffectsClosed: the agent is closed.
    :raises StaleFencingToken, InvalidTransition, LeaseExpired, BindingMismatch: the attempt may
        not act, or the request is not the one that its envelope and its runtime allow.
    :raises PermitSpent, PermitRevoked, PermitExpired: the permit is not good (any more).
    :raises ExecutionPaused: the job is paused.
    """
    work, locked = lock_bound(entry, binding)
    need_session(work)
    request = {
        "execution_digest": execution_digest,
        "runtime": runtime,
        "request_sha256": request_sha256,
    }
    known = lock_execution(locked, binding)
    if known is not None:
        return _repeated(work, locked, binding, known, permit_id, request)
    need_acting(work, locked, binding)
    if locked.task.execution_digest != execution_digest:
        raise BindingMismatch("execution_digest is not that of the job's envelope.")
    if locked.last_attempt is None or locked.last_attempt.runtime != runtime:
        raise BindingMismatch("runtime is not the one that the attempt is pinned to.")
    permit = _good_permit(work, locked, permit_id, binding)
    refusal = _refusal(work, locked, binding, permit)
    permit.state = Permit.State.REVOKED if refusal else Permit.State.SPENT
    permit.ended_at = work.now
    permit.save(update_fields=["state", "ended_at"])
    execution = Execution(
        external_request_id=binding.external_request_id,
        job_id=locked.job.pk,
        attempt=binding.attempt,
        fencing_token=binding.fencing_token,
        permit=permit,
        reservation_id=permit.reservation_id,
        mode=permit.mode,
        effects=locked.type.effects,
        state=Execution.State.REFUSED if refusal else Execution.State.UNKNOWN,
        refusal_reason=refusal.reason if refusal else "",
        decided_at=work.now,
        deadline_at=permit.deadline_at,
        **request,
    )
    work.add(execution)
    if refusal is None:
        work.also(ledger.mark_in_doubt(external_request_ids=[binding.external_request_id]))
        locked.job.unresolved_executions += 1
        locked.job.revision += 1
    work.note(
        locked,
        action="execution.refused" if refusal else "execution.started",
        actor=work.worker.actor,
        reason=refusal.detail if refusal else "",
        details={
            "external_request_id": binding.external_request_id,
            "permit_id": str(permit_id),
            "mode": permit.mode,
        },
    )
    work.save()
    return refusal or StartOutcome("started", execution, work.now, may_begin=True)


def _refusal(work: Work, locked: LockedJob, binding: Binding, permit: Permit) -> DomainError | None:
    """Return why policy does not let the execution start now, whatever it said before."""
    if permit.mode == ExecutionMode.LIVE and not live_authorized(locked, at=work.now):
        return LiveExecutionNotAuthorized()
    return ledger.refusal_of_start(external_request_id=binding.external_request_id)


def _repeated(
    work: Work,
    locked: LockedJob,
    binding: Binding,
    known: Execution,
    permit_id: UUID,
    request: dict[str, str],
) -> StartOutcome | DomainError:
    """Answer a start of an attempt whose execution was decided before.

    :raises ExecutionConflict: by another permit or request.
    """
    same = known.permit.permit_id == permit_id and all(
        getattr(known, name) == value for name, value in request.items()
    )
    if not same:
        raise ExecutionConflict(current={"state": known.state})
    if known.state == Execution.State.REFUSED:
        refused = ledger.REFUSED_STARTS.get(known.refusal_reason, LiveExecutionNotAuthorized)
        return refused()
    may_begin = _may_begin(work, locked, binding, known)
    return StartOutcome("already_started", known, work.now, may_begin=may_begin)


def _may_begin(work: Work, locked: LockedJob, binding: Binding, known: Execution) -> bool:
    """Return whether the authority of a started execution stands: token, lease, session, deadline.

    Nobody may have said what became of it either. Source: contract section 3.
    """
    if known.state != Execution.State.UNKNOWN or known.deadline_at <= work.now:
        return False
    try:
        check_token(work, locked, binding.attempt, binding.fencing_token)
        need_active(locked)
        need_lease(work, locked)
        _need_own_session(work, known.permit)
    except DomainError:
        return False
    # What was begun goes on over a new epoch; what was not is begun under the one before no more.
    return of_present_epoch(work.worker, known.permit) and not known.reconciliations.exists()


def _need_own_session(work: Work, permit: Permit) -> None:
    """Refuse a caller of another session than the permit's.

    :raises SessionSuperseded: it is one.
    """
    if permit.session_id != work.worker.session_pk:
        raise SessionSuperseded("The permit belongs to another session.")


def _good_permit(work: Work, locked: LockedJob, permit_id: UUID, binding: Binding) -> Permit:
    """Lock and return the permit if it lets this caller start now.

    :raises NotFound, SessionSuperseded, BindingMismatch: it is not there, or of another session or
        attempt.
    :raises PermitSpent, PermitRevoked, PermitExpired, ExecutionPaused,
        ModelReservationStateInvalid: not (any more).
    """
    found = (
        Permit.objects.select_for_update(no_key=True)
        .filter(permit_id=permit_id, job_id=locked.job.pk)
        .first()
    )
    if found is None:
        raise NotFound("There is no permit of that id.")
    _need_own_session(work, found)
    bound = (found.attempt, found.fencing_token, found.external_request_id)
    if bound != (binding.attempt, binding.fencing_token, binding.external_request_id):
        raise BindingMismatch("The permit is bound to another request.")
    if found.state == Permit.State.SPENT:
        raise PermitSpent()
    # One of an older epoch went with it: whoever has activated since asks again.
    if found.state == Permit.State.REVOKED or not of_present_epoch(work.worker, found):
        raise PermitRevoked()
    if found.state == Permit.State.EXPIRED or found.deadline_at <= work.now:
        raise PermitExpired()
    if locked.job.paused:
        raise ExecutionPaused()
    need_held_reservation(locked, binding, found.reservation_id)
    return found
