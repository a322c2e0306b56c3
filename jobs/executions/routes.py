"""Money of an attempt's model calls: decide and reserve before each, end the reservation after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from agents.entry import Entry
from governance.core import sql
from governance.core.errors import (
    DomainError,
    ExecutionPaused,
    InvalidTransition,
    LiveExecutionNotAuthorized,
    ModelNotAllowed,
    ModelReservationStateInvalid,
    NotFound,
)
from governance.money import ledger
from governance.money.ledger import End, Routed, RouteRequest
from governance.money.models import Reservation, Resolution
from governance.money.pricing import Usage, read_usage
from jobs.executions.binding import (
    Binding,
    book_unreserved,
    lock_bound,
    lock_execution,
    mark_governed,
    need_acting,
    need_identity,
    need_lineage,
    note_money,
)
from jobs.executions.permits import live_authorized
from jobs.executions.results import RESULTS
from jobs.models import Execution, ExecutionMode, ModelUse
from jobs.scopes import of_job
from jobs.transitions.preconditions import check_token, need_active
from jobs.transitions.work import LockedJob, State, Work

#: How long a call may take to begin once it has its route, where nothing ends it sooner.
BEGIN_WITHIN_SECONDS_MAX = 60


@dataclass(frozen=True)
class RouteStanding:
    """How a decision of before stands: what it reserved, and how long its call may take to begin.

    `begin_within_seconds` is as in `Routed`, and 0 where the attempt may no longer act.
    """

    reservation: Reservation | None
    begin_within_seconds: int | None


@dataclass(frozen=True)
class ResolveOutcome:
    """An end of a reservation that is `recorded` or was `already_recorded`.

    `as_evidence`: it came from a holder that decides no more; without a `resolution` only its word
    was kept, and the reservation is in `state` as before.
    """

    outcome: str
    state: str
    resolution: Resolution | None
    as_evidence: bool = False


@sql.move
def route(
    *,
    entry: Entry,
    binding: Binding,
    route_request_id: str,
    estimated_input_tokens: int = 0,
    max_output_tokens: int = 0,
    request_bytes: int | None = None,
    requirements: Sequence[str] = (),
    request_sha256: str = "",
    wanted_model: str = "",
    api: str = "",
    fallback_of: str = "",
) -> Routed:
    """Decide which model the attempt may use and reserve its budget, in one transaction.

    The same `route_request_id` again gives what was issued; what was refused is decided again. N of
    a call is the next free number, and `open_calls_max` of the job type bounds the calls that are
    open at a time.  A refusal is a decision too, and is recorded: `refusal` of what is returned is
    to be answered.

    Where the attempt's execution has been started, a route is the start of its call, and says how
    long that may take to begin. Source: contract section 9.

    :raises BindingMismatch: an id is not the one that the server computes.
    :raises LeaseExpired, StaleFencingToken, InvalidTransition, EffectsClosed: the attempt may
        not act.
    :raises ModelNotAllowed: its job type calls no model.
    :raises ExecutionPaused, LiveExecutionNotAuthorized: its execution has been started, and the
        job is paused since, or its word for live executions is not in force any more.
    :raises InvalidTransition: its execution has its result, after which it calls nothing.
    """
    work, locked = lock_bound(entry, binding)
    need_acting(work, locked, binding)
    need_model_use(locked)
    attempt = locked.last_attempt
    assert attempt is not None
    execution = lock_execution(locked, binding)
    started = execution is not None and execution.state == Execution.State.UNKNOWN
    if execution is not None and started:
        _need_startable(work, locked, execution)
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
            request_bytes=request_bytes,
            requirements=tuple(requirements),
            request_sha256=request_sha256,
            wanted_model=wanted_model,
            api=api,
            fallback_of=fallback_of,
            open_calls_max=locked.type.open_calls_max,
            **of_job(locked.job, locked.task),
        ),
        started=started,
    )
    if not routed.replayed:
        _need_no_result(execution)
        mark_governed(work, locked)
        note_money(work, locked, routed, actor=work.worker.actor)
        work.save()
    return replace(routed, begin_within_seconds=_begin_within(work, locked, execution))


def _need_startable(work: Work, locked: LockedJob, execution: Execution) -> None:
    """Refuse a call of a started execution that could not be started now.

    :raises ExecutionPaused, LiveExecutionNotAuthorized: why.
    """
    if locked.job.paused:
        raise ExecutionPaused()
    if execution.mode == ExecutionMode.LIVE and not live_authorized(locked, at=work.now):
        raise LiveExecutionNotAuthorized()


def _need_no_result(execution: Execution | None) -> None:
    """Refuse a new call of an execution that is over. Source: contract, section 5.

    :raises InvalidTransition: it has its result.
    """
    if execution is not None and execution.state in RESULTS:
        raise InvalidTransition("The execution has its result: it calls no model any more.")


def need_model_use(locked: LockedJob) -> None:
    """Refuse a call of work that calls no model. Source: money, rule 1.

    :raises ModelNotAllowed: its job type says so.
    """
    if locked.type.model_use == ModelUse.NONE:
        raise ModelNotAllowed(f"Jobs of the type {locked.type.name} call no model.")


@transaction.atomic
def routed_before(*, entry: Entry, binding: Binding, decision_id: UUID) -> RouteStanding:
    """Return how a decision of the attempt stands now.

    :raises NotFound, WrongOwner: it is no job of the caller's agent.
    """
    work, locked = lock_bound(entry, binding)
    execution = lock_execution(locked, binding)
    reservation = Reservation.objects.filter(
        decision_id=decision_id, external_request_id=binding.external_request_id
    ).first()
    within = _begin_within(work, locked, execution)
    try:
        need_acting(work, locked, binding)
    except DomainError:
        within = None if within is None else 0
    return RouteStanding(reservation, within)


def _begin_within(work: Work, locked: LockedJob, execution: Execution | None) -> int | None:
    """Return how many seconds a call may take to begin; None where no execution was started.

    What the lease and the attempt have left, bounded; 0 where nothing more may begin.
    """
    if execution is None or execution.state == Execution.State.REFUSED:
        return None
    lease, attempt = locked.lease, locked.last_attempt
    if execution.state != Execution.State.UNKNOWN or locked.job.paused or not (lease and attempt):
        return 0
    ends = [end for end in (lease.expires_at, attempt.deadline_at) if end is not None]
    left = int((min(ends) - work.now) / timedelta(seconds=1))
    return max(0, min(left, BEGIN_WITHIN_SECONDS_MAX))


@sql.move
def resolve_reservation(
    *,
    entry: Entry,
    binding: Binding,
    reservation_id: UUID,
    end: str,
    usage: Any = None,
    provider_response_id: str = "",
    error_code: str = "",
    cost_basis: str = "",
) -> ResolveOutcome | DomainError:
    """End a reservation of the attempt: `settled`, `released` or `failed`; contract section 9.

    A repetition is answered, or refused, by the recorded end, whatever the job has come to since.
    From an attempt that has ended, or whose session may act no more: kept as evidence; a call that
    was made, or that says what it used, is booked, anything else ends nothing.  Source: contract,
    section 1, "Who holds an attempt".
    A call that used something was made, whatever else is said of it: one that is `released` with
    usage has `failed` at that.  Usage that comes once it has ended otherwise is booked as
    unreserved, as far as it is beyond what was booked; the refusal is then a value, to be answered
    once that is committed.

    :param usage: any JSON; one that is odd is kept and flagged, and the estimate booked.
    :raises InvalidArgument: usage or cost basis contradict the end.
    :raises ModelReservationStateInvalid: it has ended otherwise, or `released` after its
        execution started.
    :raises StaleFencingToken: the token is not the attempt's.
    :raises LeaseHeldByAnother: the attempt is another's: of another lineage, or it still runs.
    """
    wanted = End(
        reservation_id=reservation_id,
        provider_response_id=provider_response_id,
        error_code=error_code,
        **_members_of_end(end, usage, cost_basis),
    )
    work, locked = lock_bound(entry, binding, late=True)
    need_identity(locked, binding)
    need_lineage(work, locked, binding.attempt)
    reservation = Reservation.objects.filter(
        reservation_id=reservation_id, external_request_id=binding.external_request_id
    ).first()
    if reservation is None:
        raise NotFound("There is no reservation of that id for this attempt.")
    mine, still_open = _token_is_of_attempt(locked, binding), reservation.state in Reservation.OPEN
    late = mine and (work.worker.fenced or not _runs(locked, binding))
    if not mine or (still_open and not late):
        check_token(work, locked, binding.attempt, binding.fencing_token)
        need_active(locked)
    if late and still_open and not _spends(wanted):
        return _keep_word(work, locked, wanted, reservation)
    try:
        resolved = ledger.resolve(end=wanted, actor=work.worker.actor)
    except ModelReservationStateInvalid as refusal:
        if still_open or not book_unreserved(
            work,
            locked,
            binding,
            usage=usage,
            actor=work.worker.actor,
            reservation_id=reservation_id,
        ):
            raise
        work.save()
        return refusal
    if resolved.outcome == "recorded":
        note_money(work, locked, resolved, actor=work.worker.actor)
        work.save()
    state, recorded = resolved.resolution.ended_as, resolved.outcome == "recorded"
    return ResolveOutcome(resolved.outcome, state, resolved.resolution, late and recorded)


def _members_of_end(end: str, usage: Any, cost_basis: str) -> dict[str, Any]:
    """Return the members of an end; usage is believed before what contradicts it.

    What is an estimate by its own word stays one, and costs what it says.
    """
    used = read_usage(usage)
    members = {"ended_as": end, "usage": used, "cost_basis": cost_basis or None}
    if used is None or (end != "released" and cost_basis != "none"):
        return members
    if isinstance(used, Usage) and not any(used.counts.values()):
        return members | {"usage": None}
    # An estimate contradicts no usage: it says that this is what was seen.
    basis = None if cost_basis == "none" else cost_basis or None
    return members | {"ended_as": "failed" if end == "released" else end, "cost_basis": basis}


def _runs(locked: LockedJob, binding: Binding) -> bool:
    """Return whether the attempt of the binding is the one that is at work."""
    job = locked.job
    running = (job.attempt, job.fencing_token) == (binding.attempt, binding.fencing_token)
    return running and job.state == State.ACTIVE


def _spends(end: End) -> bool:
    """Return whether an end says that its call was made, or what it used."""
    return end.ended_as == "settled" or end.usage is not None


def _keep_word(work: Work, locked: LockedJob, end: End, reservation: Reservation) -> ResolveOutcome:
    """Keep, on the job's chain, what a holder says that decides no more."""
    work.note(
        locked,
        action="reservation.evidence_kept",
        actor=work.worker.actor,
        details={
            "reservation_id": str(end.reservation_id),
            "end": end.ended_as,
            "error_code": end.error_code,
            "cost_basis": end.cost_basis,
        },
    )
    work.save()
    return ResolveOutcome("recorded", reservation.state, None, as_evidence=True)


def _token_is_of_attempt(locked: LockedJob, binding: Binding) -> bool:
    attempt = locked.attempts.get(binding.attempt)
    return attempt is not None and attempt.fencing_token == binding.fencing_token
