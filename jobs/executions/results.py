"""Results: what the attempt's worker says became of the execution that it started."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from agents.entry import Entry
from governance.core import sql
from governance.core.errors import (
    BindingMismatch,
    DomainError,
    InvalidTransition,
    ModelReservationStateInvalid,
    NotFound,
    ResultDigestConflict,
)
from governance.money import ledger
from governance.money.ledger import Bill, End
from governance.money.models import Reservation
from governance.money.pricing import OddUsage, Usage, read_usage
from jobs.executions.binding import (
    Binding,
    book_unreserved,
    lock_bound,
    lock_execution,
    need_lineage,
    note_money,
)
from jobs.models import Execution, ExecutionEvidence
from jobs.transitions.preconditions import check_token, of_lineage
from jobs.transitions.work import LockedJob, State, Work, digest

#: What a worker may report of an execution; among the states that this has.
RESULTS = frozenset({"succeeded", "failed", "not_started"})


@dataclass(frozen=True)
class ResultOutcome:
    """A result that is `recorded` or was `already_recorded`, with its execution at an instant.

    `as_evidence`: the attempt had ended, or its session was fenced: no state has changed.
    """

    outcome: str
    execution: Execution
    at: datetime
    as_evidence: bool = False

    @property
    def bill(self) -> Bill:
        """Return what the calls of the attempt came to."""
        return ledger.read_bill(external_request_id=self.execution.external_request_id)


@dataclass(frozen=True)
class Report:
    """A worker's report on an execution."""

    outcome: str
    result_sha256: str
    result: Any
    result_pointer: str
    usage: Any
    error_code: str

    @property
    def content_sha256(self) -> str:
        """Return the digest of all that must be equal when the report is repeated."""
        return digest(**vars(self))

    def end_of(self, reservation_id: UUID, usage: Usage | OddUsage | None) -> End:
        """Return how the reservation of the call that is reported on ends."""
        # The worker vouches that nothing was sent, so nothing was billed; unless it was.
        nothing = self.outcome == "not_started" and usage is None
        return End(
            reservation_id=reservation_id,
            ended_as="settled" if self.outcome == "succeeded" else "failed",
            usage=usage,
            cost_basis="none" if nothing else None,
            error_code=self.error_code,
        )


@sql.move
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
    usage: Any = None,
    error_code: str = "",
) -> ResultOutcome | DomainError:
    """Bind the result to a started execution.

    From the attempt that still runs: recorded, and its first reservation ended with it.  From
    one that has ended, or whose session may act no more: kept as evidence, states unchanged; usage
    ends its reservation if one is still open.  Source: contract, sections 1 and 9.
    Usage is of all calls of the attempt together: what those that have ended were not booked at
    ends the open one, or is booked as unreserved where there is none.  Source: money, rule 2.
    Usage of whatever form is kept as it came; one that is odd loses no result, and its call is
    settled as an unknown one.
    Of another result than the recorded one, and of one of what was refused or never started, the
    usage is booked as well, once, and the report kept; the refusal is then a value, to be answered
    once that is committed.

    :param outcome: `succeeded`, `failed` or `not_started`.
    :raises NotFound: there is no such execution of the job.
    :raises BindingMismatch: attempt, token, request id or digest are not those of the execution.
    :raises ResultDigestConflict: another result is recorded.
    :raises InvalidTransition: the execution was refused.
    :raises LeaseHeldByAnother: the attempt is another's: of another lineage, or it still runs.
    :raises ModelReservationStateInvalid: a later call of the attempt has not ended; nothing
        would end its reservation any more.
    """
    report = Report(outcome, result_sha256, result, result_pointer, usage, error_code)
    binding = Binding(task_id, attempt, fencing_token, external_request_id)
    work, locked = lock_bound(entry, binding, late=True)
    execution = lock_execution(locked, binding)
    if execution is None:
        return _refuse_unstarted(work, locked, binding, usage)
    bound = (execution.attempt, execution.fencing_token, execution.execution_digest)
    if bound != (attempt, fencing_token, execution_digest):
        raise BindingMismatch("attempt, fencing_token or execution_digest are not the execution's.")
    need_lineage(work, locked, attempt)
    if execution.outcome_sha256 == report.content_sha256:
        return ResultOutcome("already_recorded", execution, work.now)
    if (refusal := _refusal_of_result(execution)) is not None:
        if usage is None:
            raise refusal
        _keep_evidence(work, locked, execution, report)
        return refusal
    current = (locked.job.attempt, locked.job.fencing_token) == (attempt, fencing_token)
    if work.worker.fenced or not current or locked.job.state != State.ACTIVE:
        return _keep_evidence(work, locked, execution, report)
    check_token(work, locked, attempt, fencing_token)
    call = _only_open_call(execution)
    _bind(work, locked, execution, report)
    _book(work, locked, execution, report, call=call)
    work.save()
    return ResultOutcome("recorded", execution, work.now)


def _refusal_of_result(execution: Execution) -> DomainError | None:
    """Return why an execution takes no result any more; None where it does."""
    if execution.outcome_sha256:
        return ResultDigestConflict(current={"state": execution.state})
    if execution.state == Execution.State.REFUSED:
        return InvalidTransition("The execution was refused; it has no result.")
    return None


def _refuse_unstarted(work: Work, locked: LockedJob, binding: Binding, usage: Any) -> DomainError:
    """Book what an attempt has used of which nothing was started, and return the refusal.

    :raises NotFound: it is none of the caller's attempts, or nothing was used.
    """
    refusal = NotFound("There is no execution of that id.")
    attempt = locked.attempts.get(binding.attempt)
    mine = attempt is not None and (
        (attempt.fencing_token, locked.identity(attempt))
        == (binding.fencing_token, binding.external_request_id)
    )
    if not mine or not of_lineage(work, locked, binding.attempt):
        raise refusal
    if book_unreserved(work, locked, binding, usage=usage, actor=work.worker.actor) is None:
        raise refusal
    work.save()
    return refusal


def _only_open_call(execution: Execution) -> UUID | None:
    """Return the reservation of the permit's call, if it is open: no other may be.

    :raises ModelReservationStateInvalid: a later call has not ended.
    """
    found = _open_calls(execution)
    later = [call for call in found if call.reservation_id != execution.reservation_id]
    if later:
        raise ModelReservationStateInvalid(
            "A later call of this attempt has not ended; resolve its reservation first.",
            current={"reservation_id": str(later[0].reservation_id), "state": later[0].state},
        )
    return found[0].reservation_id if found else None


def _bind(work: Work, locked: LockedJob, execution: Execution, report: Report) -> None:
    execution.state = report.outcome
    execution.resulted_at = work.now
    execution.outcome_sha256 = report.content_sha256
    execution.result_sha256 = report.result_sha256
    execution.result, execution.result_pointer = report.result, report.result_pointer
    execution.usage, execution.error_code = report.usage, report.error_code
    execution.save()
    locked.job.unresolved_executions -= 1
    locked.job.revision += 1
    work.note(
        locked,
        action=f"execution.{report.outcome}",
        actor=work.worker.actor,
        details={
            "external_request_id": execution.external_request_id,
            "result_sha256": report.result_sha256,
        },
    )


def _book(
    work: Work, locked: LockedJob, execution: Execution, report: Report, *, call: UUID | None
) -> None:
    """End the open call that the report is of; where there is none, book what it says of usage."""
    actor = work.worker.actor
    if call is None:
        book_unreserved(work, locked, execution, usage=report.usage, actor=actor)
        return
    usage = read_usage(report.usage)
    if isinstance(usage, Usage) and any(usage.counts.values()):
        usage = ledger.excess_of(external_request_id=execution.external_request_id, usage=usage)
    resolved = ledger.resolve(end=report.end_of(call, usage), actor=actor)
    note_money(work, locked, resolved, actor=actor)


def open_call(execution: Execution) -> UUID | None:
    """Return the open reservation of the first call that has one; that of the permit before all."""
    found = [call.reservation_id for call in _open_calls(execution)]
    if execution.reservation_id in found:
        return execution.reservation_id
    return found[0] if found else None


def _open_calls(execution: Execution) -> list[Reservation]:
    """Return the open reservations of an attempt, in the order of its calls."""
    still_open = Reservation.objects.filter(
        external_request_id=execution.external_request_id, state__in=Reservation.OPEN
    )
    return list(still_open.only("reservation_id", "state").order_by("decision__call"))


def _keep_evidence(
    work: Work, locked: LockedJob, execution: Execution, report: Report
) -> ResultOutcome:
    """Keep what a worker says that decides no more; what it has used is booked."""
    sha256, worker = report.content_sha256, work.worker.actor
    if ExecutionEvidence.objects.filter(execution=execution, content_sha256=sha256).exists():
        return ResultOutcome("already_recorded", execution, work.now, as_evidence=True)
    work.add(
        ExecutionEvidence(
            execution=execution,
            given_by=worker,
            given_at=work.now,
            attempt=execution.attempt,
            fencing_token=execution.fencing_token,
            outcome=report.outcome,
            content_sha256=sha256,
            content=vars(report),
        )
    )
    work.note(
        locked,
        action="execution.evidence_kept",
        actor=worker,
        details={
            "external_request_id": execution.external_request_id,
            "outcome": report.outcome,
            "content_sha256": sha256,
        },
    )
    if report.usage is not None:
        _book(work, locked, execution, report, call=open_call(execution))
    work.save()
    return ResultOutcome("recorded", execution, work.now, as_evidence=True)
