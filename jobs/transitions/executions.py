"""External effects: route, permit, start, result, reconcile; contract sections 4 to 6.

An effect may begin only after `start` has committed its execution as `unknown`.  From then on
exactly one of three things is true: the attempt's worker reported the result, a person reconciled
it with evidence, or it is unknown, and the job goes nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from uuid_utils.compat import uuid7

from agents.entry import Entry
from governance.core import digests
from governance.core.errors import (
    BindingMismatch,
    DispatcherEpochStale,
    DomainError,
    ExecutionConflict,
    ExecutionPaused,
    InvalidArgument,
    InvalidTransition,
    LiveExecutionNotAuthorized,
    ModelReservationStateInvalid,
    NotFound,
    PermitExpired,
    PermitRevoked,
    PermitSpent,
    ResultDigestConflict,
    SessionSuperseded,
)
from governance.core.reasons import required
from governance.money import ledger
from governance.money.ledger import Resolved, Routed, RouteRequest
from governance.money.models import Reservation
from governance.money.pricing import Usage
from jobs.models import (
    Execution,
    ExecutionEvidence,
    ExecutionMode,
    LiveAuthorization,
    Permit,
    Reconciliation,
)
from jobs.transitions.preconditions import (
    check_token,
    need_active,
    need_lease,
    need_revision,
    need_session,
    reconcilable,
)
from jobs.transitions.work import LockedJob, Outcome, State, Work, digest, lock

#: A permit is short: it is asked for when the worker is about to act.
PERMIT_SECONDS = 300
RESULTS = frozenset({"succeeded", "failed", "not_started"})


@dataclass(frozen=True)
class Binding:
    """What every governed call names: "binding" in section 9 of the contract."""

    task_id: str
    attempt: int
    fencing_token: int
    external_request_id: str


@dataclass(frozen=True)
class IssuedPermit:
    """A permit, at the instant from which its deadline is reckoned."""

    permit: Permit
    at: datetime


@dataclass(frozen=True)
class ExecutionOutcome:
    """What was done about an execution, and the execution as it stands at that instant.

    `started` or `already_started`; of a result `recorded` or `already_recorded`, where
    `as_evidence` says that the attempt had ended, so that nothing else has changed.
    """

    outcome: str
    execution: Execution
    at: datetime
    as_evidence: bool = False


@transaction.atomic
def route(
    *,
    entry: Entry,
    binding: Binding,
    route_request_id: str,
    estimated_input_tokens: int,
    max_output_tokens: int,
    requirements: Sequence[str] = (),
) -> Routed:
    """Decide which model the attempt may use and reserve its budget, in one transaction.

    The same `route_request_id` again gives the same decision. Call N needs call N-1 to have ended.
    A refusal is a decision too, and is recorded: `refusal` of what is returned is to be answered.

    :raises BindingMismatch: an id is not the one that the server computes.
    :raises LeaseExpired, StaleFencingToken, InvalidTransition: the attempt may not act.
    """
    work, locked = _acting(entry, binding)
    attempt = locked.last_attempt
    assert attempt is not None
    known = _known_execution(locked, binding)
    routed = ledger.reserve(
        request=RouteRequest(
            route_request_id=route_request_id,
            external_request_id=binding.external_request_id,
            task_id=locked.job.task_id,
            job_id=locked.job.job_id,
            attempt=binding.attempt,
            fencing_token=binding.fencing_token,
            agent=locked.owner,
            job_type=locked.type.name,
            risk_tier=locked.job.risk_tier,
            runtime=attempt.runtime,
            estimated_input_tokens=estimated_input_tokens,
            max_output_tokens=max_output_tokens,
            requirements=tuple(requirements),
        ),
        started=known is not None and known.state == Execution.State.UNKNOWN,
    )
    if not routed.replayed:
        _mark_governed(work, locked)
        _note_money(work, locked, routed.event(), actor=work.worker.actor)
        work.save()
    return routed


@transaction.atomic
def permit(
    *,
    entry: Entry,
    binding: Binding,
    reservation_id: UUID | None,
    mode: str,
    expected_revision: int,
) -> IssuedPermit:
    """Issue the single-use right to start the attempt's execution.

    :param reservation_id: None only where the job type uses no model.
    :raises SessionRequired: the caller has no activated session.
    :raises RevisionMismatch: the job has moved on since `expected_revision`.
    :raises ModelReservationStateInvalid: the reservation is not held for this attempt.
    :raises LiveExecutionNotAuthorized: mode `live` without a recorded authorization.
    :raises PermitSpent: the attempt's execution has been started.
    """
    work, locked = _locked_by_session(entry, binding)
    _check_acting(work, locked, binding)
    caller = work.worker
    assert locked.lease is not None and locked.last_attempt is not None
    need_revision(locked, expected_revision)
    if locked.job.paused:
        raise ExecutionPaused()
    _check_reservation(locked, binding, reservation_id)
    if mode == ExecutionMode.LIVE and not _live_authorized(locked, work.now):
        raise LiveExecutionNotAuthorized()
    _end_lapsed_permit(work, locked)
    deadline = min(
        locked.lease.expires_at,
        locked.last_attempt.deadline_at or locked.lease.expires_at,
        work.now + timedelta(seconds=PERMIT_SECONDS),
    )
    assert caller.session_pk is not None  # whoever holds a lease has one
    issued = Permit(
        permit_id=uuid7(),
        job_id=locked.job.pk,
        attempt=binding.attempt,
        fencing_token=binding.fencing_token,
        external_request_id=binding.external_request_id,
        session_id=caller.session_pk,
        session_generation=caller.generation,
        dispatcher_epoch=caller.dispatcher_epoch,
        mode=mode,
        reservation_id=reservation_id,
        issued_at=work.now,
        deadline_at=deadline,
    )
    _mark_governed(work, locked)
    work.add(issued)
    work.note(
        locked,
        action="permit.issued",
        actor=caller.actor,
        details={"permit_id": str(issued.permit_id), "mode": mode},
    )
    work.save()
    return IssuedPermit(issued, work.now)


@transaction.atomic
def start(
    *,
    entry: Entry,
    permit_id: UUID,
    binding: Binding,
    execution_digest: str,
    runtime: str,
    request_sha256: str,
) -> ExecutionOutcome | DomainError:
    """Spend the permit and record the execution as `unknown`, before anything outside happens.

    The decision is stored once: the same request again gets the stored one (`already_started`),
    which never means that the effect may be begun again.  A refusal that is returned was recorded.

    :raises SessionRequired: the caller has no activated session.
    :raises PermitSpent, PermitRevoked, PermitExpired: the permit is not good (any more).
    :raises ExecutionConflict: the attempt's execution was started by another request.
    :raises ExecutionPaused: the job is paused.
    """
    work, locked = _locked_by_session(entry, binding)
    wanted = {
        "execution_digest": execution_digest,
        "runtime": runtime,
        "request_sha256": request_sha256,
    }
    known = _known_execution(locked, binding)
    if known is not None:
        same = known.permit.permit_id == permit_id and all(
            getattr(known, name) == value for name, value in wanted.items()
        )
        if not same:
            raise ExecutionConflict(current={"state": known.state})
        if known.state == Execution.State.REFUSED:
            return LiveExecutionNotAuthorized()
        return ExecutionOutcome("already_started", known, work.now)
    _check_acting(work, locked, binding)
    if locked.task.execution_digest != execution_digest:
        raise BindingMismatch("execution_digest is not that of the job's envelope.")
    if locked.last_attempt is None or locked.last_attempt.runtime != runtime:
        raise BindingMismatch("runtime is not the one that the attempt is pinned to.")
    found = _good_permit(work, locked, permit_id, binding)
    refusal = None
    if found.mode == ExecutionMode.LIVE and not _live_authorized(locked, work.now):
        refusal = LiveExecutionNotAuthorized()
    found.state = Permit.State.REVOKED if refusal else Permit.State.SPENT
    found.ended_at = work.now
    found.save(update_fields=["state", "ended_at"])
    execution = Execution(
        external_request_id=binding.external_request_id,
        job_id=locked.job.pk,
        attempt=binding.attempt,
        fencing_token=binding.fencing_token,
        permit=found,
        reservation_id=found.reservation_id,
        mode=found.mode,
        state=Execution.State.REFUSED if refusal else Execution.State.UNKNOWN,
        refusal_reason=refusal.reason if refusal else "",
        decided_at=work.now,
        deadline_at=found.deadline_at,
        **wanted,
    )
    work.add(execution)
    if not refusal:
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
            "mode": found.mode,
        },
    )
    work.save()
    return refusal or ExecutionOutcome("started", execution, work.now)


@transaction.atomic
def result(
    *,
    entry: Entry,
    external_request_id: str,
    task_id: str,
    attempt: int,
    fencing_token: int,
    execution_digest: str,
    outcome: str,
    result_sha256: str,
    result: Any = None,
    result_pointer: str = "",
    usage: dict[str, int] | None = None,
    error_code: str = "",
) -> ExecutionOutcome:
    """Bind the result to a started execution.

    From the attempt that still runs: recorded, and its first reservation settled with it.  From
    one that has ended: kept as evidence, states and money unchanged.

    :raises BindingMismatch: attempt, token, request id or digest are not those of the execution.
    :raises ResultDigestConflict: another result is recorded.
    :raises SessionSuperseded, DispatcherEpochStale: the session that made the running attempt may
        no longer act, and the request names no other.
    :raises ModelReservationStateInvalid: a later call of the attempt has not ended; nothing
        would end its reservation any more.
    """
    binding = Binding(task_id, attempt, fencing_token, external_request_id)
    content = {
        "outcome": outcome,
        "result_sha256": result_sha256,
        "result": result,
        "result_pointer": result_pointer,
        "usage": usage,
        "error_code": error_code,
    }
    work, locked = _locked(entry, binding)
    known = _known_execution(locked, binding)
    if known is None:
        raise NotFound("There is no execution of that id.")
    bound = (known.attempt, known.fencing_token, known.execution_digest)
    if bound != (attempt, fencing_token, execution_digest):
        raise BindingMismatch("attempt, fencing_token or execution_digest are not the execution's.")
    sha = digest(**content)
    if known.outcome_sha256:
        if known.outcome_sha256 != sha:
            raise ResultDigestConflict(current={"state": known.state})
        return ExecutionOutcome("already_recorded", known, work.now)
    if known.state == Execution.State.REFUSED:
        raise InvalidTransition("The execution was refused; it has no result.")
    current = (locked.job.attempt, locked.job.fencing_token) == (attempt, fencing_token)
    if not current or locked.job.state != State.ACTIVE:
        return _keep_evidence(work, locked, known, content, sha)
    check_token(work, locked, attempt, fencing_token)
    _check_later_calls(known)
    _bind_result(work, locked, known, content, sha)
    _end_first_reservation(work, locked, known, content)
    work.save()
    return ExecutionOutcome("recorded", known, work.now)


@transaction.atomic
def resolve_reservation(
    *,
    entry: Entry,
    binding: Binding,
    reservation_id: UUID,
    end: str,
    usage: dict[str, int] | None = None,
    provider_response_id: str = "",
    error_code: str = "",
    cost_basis: str = "",
) -> Resolved:
    """End a reservation of the attempt: `settled`, `released` or `failed`; contract section 9.

    A repetition is answered, or refused, by the recorded end, whatever the job has come to since.

    :raises ModelReservationStateInvalid: it has ended otherwise, or `released` after its
        execution started.
    :raises StaleFencingToken, InvalidTransition: the attempt has ended; what it left open is
        resolved with its end, or by a person.
    """
    work, locked = _locked(entry, binding)
    _check_identity(locked, binding)
    own = Reservation.objects.filter(
        reservation_id=reservation_id, external_request_id=binding.external_request_id
    ).first()
    if own is None:
        raise NotFound("There is no reservation of that id for this attempt.")
    if own.state in Reservation.OPEN or not _is_of_attempt(locked, binding):
        check_token(work, locked, binding.attempt, binding.fencing_token)
        need_active(locked)
    said = {"provider_response_id": provider_response_id, "error_code": error_code}
    actor = work.worker.actor
    if end == "settled":
        resolved = ledger.settle(
            reservation_id=reservation_id, usage=Usage.read(usage), actor=actor, **said
        )
    elif end == "failed":
        resolved = ledger.fail(
            reservation_id=reservation_id,
            usage=Usage.read(usage),
            cost_basis=cost_basis or None,
            actor=actor,
            **said,
        )
    else:
        resolved = ledger.release(reservation_id=reservation_id, actor=actor)
    if resolved.outcome == "recorded":
        _note_money(work, locked, resolved.event(), actor=actor)
        work.save()
    return resolved


@transaction.atomic
def reconcile(
    *,
    external_request_id: str,
    actor: str,
    verdict: str,
    reason: str,
    evidence: dict[str, Any] | None = None,
    result: Any = None,
    result_pointer: str = "",
    usage: dict[str, int] | None = None,
) -> Outcome:
    """Say what became of an execution whose outcome is unknown, with the evidence for it.

    `happened`: the job is completed (or to be reviewed) with the bound result, its reservation
    settled.  `not_happened`: queued again if attempts remain, else failed; the reservation is
    failed at no cost.  `undetermined`: nothing moves, the evidence is kept.  A job that was
    stopped, failed or escalated meanwhile stays what it is; the execution and money are resolved.

    :raises InvalidTransition: the execution is not unknown, is reconciled, or its attempt runs.
    :raises InvalidArgument: the task requires an output, and there is none.
    """
    reason = required(reason)
    if verdict not in Reconciliation.Verdict.values:
        raise InvalidArgument(f"verdict is one of {', '.join(Reconciliation.Verdict.values)}.")
    found = Execution.objects.select_related("job").filter(external_request_id=external_request_id)
    task_id = found.values_list("job__task_id", flat=True).first()
    if task_id is None:
        raise NotFound("There is no execution of that id.")
    work = lock([task_id])
    locked = work.get(task_id)
    execution = Execution.objects.select_for_update(no_key=True).get(
        external_request_id=external_request_id
    )
    reconciled = execution.reconciliations.exclude(verdict="undetermined").exists()
    if fault := reconcilable(execution, job=locked.job, reconciled=reconciled):
        raise fault
    work.add(
        Reconciliation(
            execution=execution,
            verdict=verdict,
            decided_by=actor,
            decided_at=work.now,
            reason=reason,
            evidence=evidence or {},
        )
    )
    if verdict == Reconciliation.Verdict.UNDETERMINED:
        work.note(
            locked,
            action="execution.undetermined",
            actor=actor,
            reason=reason,
            details={"external_request_id": external_request_id},
        )
        work.save()
        return Outcome("undetermined", locked)
    locked.job.unresolved_executions -= 1
    bound = {"result": result, "result_pointer": result_pointer, "usage": usage}
    _follow_verdict(work, locked, execution, verdict, actor, reason, bound)
    _reconcile_money(work, locked, execution, verdict, actor, reason, usage)
    work.save()
    return Outcome(verdict, locked)


# --- Guards -----------------------------------------------------------------------------------


def _locked(entry: Entry, binding: Binding) -> tuple[Work, LockedJob]:
    work = lock([binding.task_id], entry=entry, numbers=[binding.attempt])
    return work, work.get(binding.task_id)


def _locked_by_session(entry: Entry, binding: Binding) -> tuple[Work, LockedJob]:
    """Lock the job for an activated session; that is judged before token and state."""
    work, locked = _locked(entry, binding)
    need_session(work)
    return work, locked


def _acting(entry: Entry, binding: Binding) -> tuple[Work, LockedJob]:
    """Lock the job for a worker whose attempt must be live in every respect."""
    work, locked = _locked(entry, binding)
    _check_acting(work, locked, binding)
    return work, locked


def _check_acting(work: Work, locked: LockedJob, binding: Binding) -> None:
    check_token(work, locked, binding.attempt, binding.fencing_token)
    need_active(locked)
    need_lease(work, locked)
    _check_identity(locked, binding)


def _is_of_attempt(locked: LockedJob, binding: Binding) -> bool:
    """Whether the binding's token is the one that its attempt had."""
    attempt = locked.attempts.get(binding.attempt)
    return attempt is not None and attempt.fencing_token == binding.fencing_token


def _check_later_calls(execution: Execution) -> None:
    still_open = Reservation.objects.filter(
        external_request_id=execution.external_request_id, state__in=Reservation.OPEN
    )
    if execution.reservation_id is not None:
        still_open = still_open.exclude(reservation_id=execution.reservation_id)
    if (waiting := still_open.first()) is not None:
        raise ModelReservationStateInvalid(
            "A later call of this attempt has not ended; resolve its reservation first.",
            current={"reservation_id": str(waiting.reservation_id), "state": waiting.state},
        )


def _check_identity(locked: LockedJob, binding: Binding) -> None:
    """Refuse a request id that is not the one of task, job, execution, runtime and attempt."""
    attempt = locked.attempts.get(binding.attempt)
    if attempt is None:
        raise BindingMismatch("There is no such attempt.")
    expected = digests.external_request_id(
        task_id=locked.job.task_id,
        job_id=str(locked.job.job_id),
        execution_digest=locked.task.execution_digest,
        runtime=attempt.runtime,
        attempt=binding.attempt,
    )
    if binding.external_request_id != expected:
        raise BindingMismatch()


def _check_reservation(locked: LockedJob, binding: Binding, reservation_id: UUID | None) -> None:
    if reservation_id is None:
        if locked.type.uses_model:
            raise InvalidArgument("This job type uses a model; a reservation is required.")
        return
    # Whoever would end it locks the job first, as this transaction has.
    found = Reservation.objects.filter(
        reservation_id=reservation_id,
        external_request_id=binding.external_request_id,
        state=Reservation.State.HELD,
    )
    if not found.exists():
        raise ModelReservationStateInvalid("The reservation is not held for this attempt.")


def _live_authorized(locked: LockedJob, now: datetime) -> bool:
    attempt = locked.last_attempt
    return (
        attempt is not None
        and LiveAuthorization.objects.filter(
            agent_id=locked.job.agent_id,
            runtime=attempt.runtime,
            revoked_at=None,
            ends_at__gt=now,
        ).exists()
    )


def _end_lapsed_permit(work: Work, locked: LockedJob) -> None:
    """Make room for a new permit: a lapsed one has expired, one that nobody can use is revoked.

    :raises PermitSpent: the attempt's execution has been started.
    :raises ExecutionConflict: a permit is still good.
    """
    caller = work.worker
    found = (
        Permit.objects.select_for_update(no_key=True)
        .filter(job_id=locked.job.pk, attempt=locked.job.attempt, state__in=["issued", "spent"])
        .first()
    )
    if found is None:
        return
    if found.state == Permit.State.SPENT:
        raise PermitSpent()
    bound = (found.session_id, found.session_generation, found.dispatcher_epoch)
    lapsed = found.deadline_at <= work.now
    # Bound to a session as it was before it was bound to a new epoch, or to one that is gone.
    usable = bound == (caller.session_pk, caller.generation, caller.dispatcher_epoch)
    if usable and not lapsed:
        raise ExecutionConflict(
            "A permit of this attempt is open; repeat its request with the same key to read it.",
            current={"permit_id": str(found.permit_id)},
        )
    found.state = Permit.State.EXPIRED if lapsed else Permit.State.REVOKED
    found.ended_at = work.now
    found.save(update_fields=["state", "ended_at"])


def _known_execution(locked: LockedJob, binding: Binding) -> Execution | None:
    return (
        Execution.objects.select_for_update(no_key=True, of=("self",))
        .select_related("permit")
        .filter(job_id=locked.job.pk, external_request_id=binding.external_request_id)
        .first()
    )


def _good_permit(work: Work, locked: LockedJob, permit_id: UUID, binding: Binding) -> Permit:
    """Return the locked permit if it lets this caller start now."""
    caller = work.worker
    found = (
        Permit.objects.select_for_update(no_key=True)
        .filter(permit_id=permit_id, job_id=locked.job.pk)
        .first()
    )
    if found is None:
        raise NotFound("There is no permit of that id.")
    if found.session_id != caller.session_pk or found.session_generation != caller.generation:
        raise SessionSuperseded("The permit belongs to another session.")
    if found.dispatcher_epoch != caller.dispatcher_epoch:
        raise DispatcherEpochStale()
    bound = (found.attempt, found.fencing_token, found.external_request_id)
    if bound != (binding.attempt, binding.fencing_token, binding.external_request_id):
        raise BindingMismatch("The permit is bound to another request.")
    if found.state == Permit.State.SPENT:
        raise PermitSpent()
    if found.state == Permit.State.REVOKED:
        raise PermitRevoked()
    if found.state == Permit.State.EXPIRED or found.deadline_at <= work.now:
        raise PermitExpired()
    if locked.job.paused:
        raise ExecutionPaused()
    _check_reservation(locked, binding, found.reservation_id)
    return found


# --- Effects ----------------------------------------------------------------------------------


def _mark_governed(work: Work, locked: LockedJob) -> None:
    attempt = locked.last_attempt
    assert attempt is not None
    if not attempt.governed:
        attempt.governed = True
        work.touch_attempt(attempt)


def _bind_result(
    work: Work, locked: LockedJob, execution: Execution, content: dict[str, Any], sha: str
) -> None:
    execution.state = content["outcome"]
    execution.resulted_at = work.now
    execution.outcome_sha256 = sha
    for name in ("result_sha256", "result", "result_pointer", "usage", "error_code"):
        setattr(execution, name, content[name])
    execution.save()
    locked.job.unresolved_executions -= 1
    locked.job.revision += 1
    work.note(
        locked,
        action=f"execution.{content['outcome']}",
        actor=work.worker.actor,
        details={
            "external_request_id": execution.external_request_id,
            "result_sha256": content["result_sha256"],
        },
    )


def _keep_evidence(
    work: Work, locked: LockedJob, execution: Execution, content: dict[str, Any], sha: str
) -> ExecutionOutcome:
    """Keep what a worker says whose attempt has ended. Nothing else changes."""
    known = ExecutionEvidence.objects.filter(execution=execution, content_sha256=sha).exists()
    if not known:
        work.add(
            ExecutionEvidence(
                execution=execution,
                given_by=work.worker.actor,
                given_at=work.now,
                attempt=execution.attempt,
                fencing_token=execution.fencing_token,
                outcome=content["outcome"],
                content_sha256=sha,
                content=content,
            )
        )
        work.note(
            locked,
            action="execution.evidence_kept",
            actor=work.worker.actor,
            details={
                "external_request_id": execution.external_request_id,
                "outcome": content["outcome"],
                "content_sha256": sha,
            },
        )
        work.save()
    outcome = "already_recorded" if known else "recorded"
    return ExecutionOutcome(outcome, execution, work.now, as_evidence=True)


def _end_first_reservation(
    work: Work, locked: LockedJob, execution: Execution, content: dict[str, Any]
) -> None:
    """End the reservation that the execution was started with, unless the worker has already."""
    reservation_id = execution.reservation_id
    if reservation_id is None:
        return
    still_open = Reservation.objects.filter(
        reservation_id=reservation_id, state__in=Reservation.OPEN
    )
    if not still_open.exists():
        return
    usage, actor = Usage.read(content["usage"]), work.worker.actor
    if content["outcome"] == "succeeded":
        resolved = ledger.settle(
            reservation_id=reservation_id,
            usage=usage,
            actor=actor,
            error_code=content["error_code"],
        )
    else:
        # Of `not_started` the worker vouches that nothing was sent, so nothing was billed.
        unsent = content["outcome"] == "not_started"
        resolved = ledger.fail(
            reservation_id=reservation_id,
            usage=None if unsent else usage,
            cost_basis="none" if unsent else None,
            actor=actor,
            error_code=content["error_code"],
        )
    _note_money(work, locked, resolved.event(), actor=actor)


def _note_money(
    work: Work, locked: LockedJob, event: dict[str, Any], *, actor: str, reason: str = ""
) -> None:
    """Chain what the ledger did to the job whose money it is."""
    work.note(locked, action=event["action"], actor=actor, reason=reason, details=event["after"])


def _follow_verdict(
    work: Work,
    locked: LockedJob,
    execution: Execution,
    verdict: str,
    actor: str,
    reason: str,
    bound: dict[str, Any],
) -> None:
    job = locked.job
    details = {"external_request_id": execution.external_request_id, "verdict": verdict}
    if job.state != State.IN_DOUBT or job.unresolved_executions:
        job.revision += 1
        work.note(
            locked, action="execution.reconciled", actor=actor, reason=reason, details=details
        )
        return
    if verdict == Reconciliation.Verdict.HAPPENED:
        details |= _bind_to_attempt(work, locked, execution, bound)
        target = State.REVIEW_REQUIRED if job.review_required else State.COMPLETED
    elif job.attempts_left > 0:
        job.available_at = work.now
        target = State.QUEUED
    else:
        target = State.FAILED
    work.move(
        locked, target, action="execution.reconciled", actor=actor, reason=reason, details=details
    )


def _bind_to_attempt(
    work: Work, locked: LockedJob, execution: Execution, bound: dict[str, Any]
) -> dict[str, Any]:
    """Bind the result to the attempt: what the operator gave, else the worker's late evidence."""
    origin, given = "operator", bound
    if bound["result"] is None and not bound["result_pointer"]:
        late = _late_success(execution)
        if late is None and locked.task.output_required:
            raise InvalidArgument("This task requires an output: result or result_pointer.")
        if late is None:
            return {"result_from": "none"}
        origin, given = "evidence", late.content
    attempt = locked.attempts[execution.attempt]
    attempt.result = given["result"]
    attempt.result_pointer = given["result_pointer"] or ""
    work.touch_attempt(attempt)
    return {"result_from": origin, "result_sha256": digest(result=given["result"])}


def _late_success(execution: Execution) -> ExecutionEvidence | None:
    return execution.evidence.filter(outcome="succeeded").order_by("-id").first()


def _reconcile_money(
    work: Work,
    locked: LockedJob,
    execution: Execution,
    verdict: str,
    actor: str,
    reason: str,
    usage: dict[str, int] | None,
) -> None:
    """End every reservation of the execution that is still open, by the verdict."""
    happened = verdict == Reconciliation.Verdict.HAPPENED
    late = _late_success(execution)
    first = usage or (late.content.get("usage") if late else None)
    still_open = Reservation.objects.filter(
        external_request_id=execution.external_request_id, state__in=Reservation.OPEN
    ).values_list("reservation_id", flat=True)
    for reservation_id in still_open.order_by("reservation_id"):
        used = first if reservation_id == execution.reservation_id else None
        resolved = ledger.reconcile(
            reservation_id=reservation_id,
            happened=happened,
            usage=Usage.read(used) if happened else None,
            actor=actor,
            reason=reason,
        )
        _note_money(work, locked, resolved.event(), actor=actor, reason=reason)
