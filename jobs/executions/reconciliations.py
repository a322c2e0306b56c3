"""Reconciliations: a person's findings about executions whose outcome was unknown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction

from governance.core.errors import InvalidArgument, NotFound
from governance.core.reasons import required
from governance.money import ledger
from governance.money.ledger import End
from governance.money.models import Reservation
from governance.money.pricing import OddUsage, Usage, read_usage
from jobs.executions.binding import book_unreserved, note_money
from jobs.executions.results import open_call
from jobs.models import Execution, ExecutionEvidence, Reconciliation
from jobs.transitions.preconditions import reconcilable
from jobs.transitions.work import LockedJob, Outcome, State, Work, digest, lock

Verdict = Reconciliation.Verdict


@dataclass(frozen=True)
class Finding:
    """A person's verdict on an execution, with the result and the usage that were found."""

    verdict: str
    actor: str
    reason: str
    result: Any = None
    result_pointer: str = ""
    #: As the provider billed; None where nobody knows.
    usage: dict[str, int] | None = None

    @property
    def happened(self) -> bool:
        return self.verdict == Verdict.HAPPENED


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

    :raises NotFound: there is no such execution.
    :raises InvalidTransition: the execution is not unknown, is reconciled, or its attempt runs.
    :raises InvalidArgument: the task requires an output, and there is none; or usage comes with
        `undetermined`, which books nothing.
    """
    finding = Finding(verdict, actor, required(reason), result, result_pointer, usage)
    if verdict not in Verdict.values:
        raise InvalidArgument(f"verdict is one of {', '.join(Verdict.values)}.")
    if verdict == Verdict.UNDETERMINED and usage is not None:
        raise InvalidArgument("What was used is said with happened, or not_happened: it is booked.")
    work, locked, execution = _lock(external_request_id)
    reconciled = execution.reconciliations.exclude(verdict=Verdict.UNDETERMINED).exists()
    if fault := reconcilable(execution, job=locked.job, reconciled=reconciled):
        raise fault
    work.add(
        Reconciliation(
            execution=execution,
            verdict=verdict,
            decided_by=actor,
            decided_at=work.now,
            reason=finding.reason,
            evidence=evidence or {},
        )
    )
    if verdict == Verdict.UNDETERMINED:
        details = {"external_request_id": external_request_id}
        _note(work, locked, finding, details, action="execution.undetermined")
    else:
        locked.job.unresolved_executions -= 1
        _move_job(work, locked, execution, finding)
        _end_reservations(work, locked, execution, finding)
    work.save()
    return Outcome(verdict, locked)


def _lock(external_request_id: str) -> tuple[Work, LockedJob, Execution]:
    """Lock the job of the execution, and then the execution.

    :raises NotFound: there is none of that id.
    """
    found = Execution.objects.filter(external_request_id=external_request_id)
    task_id = found.values_list("job__task_id", flat=True).first()
    if task_id is None:
        raise NotFound("There is no execution of that id.")
    work = lock([task_id])
    return work, work.get(task_id), found.select_for_update(no_key=True).get()


def _move_job(work: Work, locked: LockedJob, execution: Execution, finding: Finding) -> None:
    """Lead a job that waited for this finding on; of any other only note it."""
    job = locked.job
    job.unconfirmed_deferrals = 0
    details = {
        "external_request_id": execution.external_request_id,
        "verdict": finding.verdict,
    }
    if job.state != State.IN_DOUBT or job.unresolved_executions:
        job.revision += 1
        _note(work, locked, finding, details, action="execution.reconciled")
        return
    if finding.happened:
        details |= _bind_to_attempt(work, locked, execution, finding)
        target = State.REVIEW_REQUIRED if job.review_required else State.COMPLETED
    elif job.attempts_left > 0:
        job.available_at = work.now
        target = State.QUEUED
    else:
        target = State.FAILED
    work.move(
        locked,
        target,
        action="execution.reconciled",
        actor=finding.actor,
        reason=finding.reason,
        details=details,
    )


def _bind_to_attempt(
    work: Work, locked: LockedJob, execution: Execution, finding: Finding
) -> dict[str, str]:
    """Bind the result to the attempt: what the person gave, else the worker's late evidence.

    Returns where it comes from, for the audit trail.
    """
    origin, result, pointer = "operator", finding.result, finding.result_pointer
    if result is None and not pointer:
        late = _late_success(execution)
        if late is None and locked.task.output_required:
            raise InvalidArgument("This task requires an output: result or result_pointer.")
        if late is None:
            return {"result_from": "none"}
        origin, result, pointer = "evidence", late.content["result"], late.content["result_pointer"]
    attempt = locked.attempts[execution.attempt]
    attempt.result, attempt.result_pointer = result, pointer or ""
    work.touch_attempt(attempt)
    return {"result_from": origin, "result_sha256": digest(result=result)}


def _end_reservations(
    work: Work, locked: LockedJob, execution: Execution, finding: Finding
) -> None:
    """End every reservation of the execution that is still open, by the finding.

    What is known of usage is of all its calls: those that have ended were booked, and the rest
    ends the first open one, or is booked as unreserved where none is open.
    """
    late = _late_success(execution)
    usage = finding.usage or (late.content.get("usage") if late else None)
    still_open = Reservation.objects.filter(
        external_request_id=execution.external_request_id, state__in=Reservation.OPEN
    ).values_list("reservation_id", flat=True)
    first = open_call(execution)
    if first is None:
        book_unreserved(
            work,
            locked,
            execution,
            usage=usage,
            actor=finding.actor,
            reason=finding.reason,
        )
    for reservation_id in still_open.order_by("reservation_id"):
        known = _known(execution, usage) if reservation_id == first else None
        end = _end_of(reservation_id, finding, known)
        resolved = ledger.resolve(end=end, actor=finding.actor)
        note_money(work, locked, resolved, actor=finding.actor, reason=finding.reason)


def _known(execution: Execution, usage: Any) -> Usage | OddUsage | None:
    read = read_usage(usage)
    if isinstance(read, Usage):
        return ledger.excess_of(external_request_id=execution.external_request_id, usage=read)
    return read


def _end_of(reservation_id: UUID, finding: Finding, usage: Usage | OddUsage | None) -> End:
    """Return how a call in doubt ends: made, at its usage or the estimate, or at no cost."""
    if finding.happened:
        return End(
            reservation_id=reservation_id, ended_as="settled", usage=usage, reason=finding.reason
        )
    return End(
        reservation_id=reservation_id,
        ended_as="failed",
        usage=usage,
        cost_basis="none" if usage is None else None,
        reason=finding.reason,
    )


def _late_success(execution: Execution) -> ExecutionEvidence | None:
    return execution.evidence.filter(outcome="succeeded").order_by("-id").first()


def _note(
    work: Work, locked: LockedJob, finding: Finding, details: dict[str, str], *, action: str
) -> None:
    work.note(locked, action=action, actor=finding.actor, reason=finding.reason, details=details)
