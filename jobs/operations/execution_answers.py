"""Answers on executions and the money that they are reserved, as JSON objects; section 9."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, TypedDict

from governance.core.clock import instant
from governance.core.wire import AnyObject, InstantText, UuidText, explained
from governance.money import ledger
from governance.money.ledger import Bill, Routed
from governance.money.models import Reservation, Resolution
from governance.money.pricing import text_of
from jobs.executions import (
    IssuedPermit,
    ResolveOutcome,
    ResultOutcome,
    RouteStanding,
    StartOutcome,
)
from jobs.models import Execution, Permit
from jobs.operations.answers import seconds_until
from jobs.queries import ExecutionRecord

#: The words of the contract for where a cost comes from.
BASES = {
    Resolution.Basis.USAGE.value: "actual",
    Resolution.Basis.ESTIMATE.value: "estimate",
    Resolution.Basis.NONE.value: "none",
}


class ReservationOut(TypedDict):
    """Model budget that is held for a call."""

    reservation_id: UuidText
    state: str
    amount: str
    currency: str


class RouteOut(TypedDict):
    """The decision on a call."""

    decision: str
    decision_id: UuidText
    reason: str | None
    provider: str | None
    model: str | None
    price_version: str | None
    position: int | None
    policy_id: int | None
    max_output_tokens: Annotated[
        int, explained("what is held for output: the limit to write into the request")
    ]
    reservation: ReservationOut | None
    begin_within_seconds: Annotated[
        int | None,
        explained(
            "where the attempt's execution has been started: how long the call may take to begin,"
            " reckoned from the start of the request"
        ),
    ]


class ResolveOut(TypedDict):
    """The end of a reservation."""

    outcome: str
    result_code: str
    state: str
    actual: str | None
    cost_basis: str | None
    overrun: bool
    usage_missing: bool
    flags: list[str]


class BillOut(TypedDict):
    """What the calls of an attempt came to: `cost_basis` is null while none has ended."""

    cost: str
    cost_basis: str | None
    flags: list[str]


class PermitOut(TypedDict):
    """A permit; `deadline_seconds` is reckoned from the start of the request."""

    permit_id: UuidText
    state: str
    mode: str
    dispatcher_epoch: UuidText
    session_generation: int
    fencing_token: int
    reservation_id: UuidText | None
    deadline: InstantText
    deadline_seconds: int


class ExecutionOut(TypedDict):
    """An execution: the decision on its start, and its result once there is one."""

    decision: str
    external_request_id: str
    state: str
    result_code: str
    deadline: InstantText
    attempt: int
    mode: str
    runtime: str
    execution_digest: str
    request_sha256: str
    refusal_reason: str | None
    result_sha256: str | None
    result: Any
    result_pointer: str | None
    usage: Any
    error_code: str | None
    decided_at: InstantText
    resulted_at: InstantText | None


class StartOut(ExecutionOut):
    """A start, and whether its effect may begin: on an answer that is `repeated` only for a
    caller that has not marked its own beginning. Without `may_begin` nothing begins."""

    may_begin: bool
    repeated: NotRequired[bool]
    deadline_seconds: int


class ExecutionQueryOut(ExecutionOut, BillOut):
    """An execution with all that is known of it."""

    permit_id: UuidText
    reservations: list[AnyObject]
    evidence: list[AnyObject]
    reconciliations: list[AnyObject]


class ResultOut(BillOut):
    """The receipt of a result: `APPLIED`, or `ACCEPTED` where it is kept as evidence only.

    `cost`, `cost_basis` and `flags` are of all calls of the attempt.
    """

    outcome: str
    result_code: str
    execution: ExecutionOut


def routed(route: Routed) -> AnyObject:
    """Return the facts of a decision that was issued; contract section 9."""
    decision = route.decision
    return {
        "decision": decision.decision,
        "decision_id": str(decision.decision_id),
        "reason": decision.reason or None,
        "provider": route.provider or None,
        "model": route.model or None,
        "price_version": decision.price_version or None,
        "position": decision.position,
        "policy_id": decision.policy_id,
        "max_output_tokens": decision.max_output_tokens,
    }


def moment_of_route(standing: Routed | RouteStanding) -> AnyObject:
    """Return what of a route's answer is true only as it is given: money held, and time left."""
    held = standing.reservation
    return {
        "reservation": _reservation(held) if held else None,
        "begin_within_seconds": standing.begin_within_seconds,
    }


def resolved(end: ResolveOutcome) -> ResolveOut:
    """Return how a reservation ended; contract section 9."""
    row = end.resolution
    return {
        "outcome": end.outcome,
        "result_code": "ACCEPTED" if end.as_evidence else "APPLIED",
        "state": end.state,
        "actual": text_of(row.cost) if row else None,
        "cost_basis": BASES[row.cost_basis] if row else None,
        "overrun": row.overrun if row else False,
        "usage_missing": row.usage_missing if row else False,
        "flags": row.flags if row else [],
    }


def _reservation(row: Reservation) -> ReservationOut:
    return {
        "reservation_id": str(row.reservation_id),
        "state": row.state,
        "amount": text_of(row.amount),
        "currency": row.currency,
    }


def permit(issued: IssuedPermit) -> AnyObject:
    """Return the facts of a permit; contract section 9."""
    row: Permit = issued.permit
    return {
        "permit_id": str(row.permit_id),
        "mode": row.mode,
        "dispatcher_epoch": str(row.dispatcher_epoch),
        "session_generation": row.session_generation,
        "fencing_token": row.fencing_token,
        "reservation_id": str(row.reservation_id) if row.reservation_id else None,
        "deadline": instant(row.deadline_at),
    }


def moment_of_permit(issued: IssuedPermit) -> AnyObject:
    """Return what of a permit's answer is true only as it is given."""
    return {
        "state": issued.permit.state,
        "deadline_seconds": seconds_until(issued.permit.deadline_at, issued.at),
    }


def started(outcome: StartOutcome) -> ExecutionOut:
    """Return the facts that a start is answered with."""
    return _execution(outcome.execution)


def moment_of_start(outcome: StartOutcome) -> AnyObject:
    """Return what of a start's answer is true only as it is given: authority and time left.

    Without authority no time is left either: so a caller that knows durations alone stops as well.
    """
    left = seconds_until(outcome.execution.deadline_at, outcome.at)
    moment: AnyObject = {
        "may_begin": outcome.may_begin,
        "deadline_seconds": left if outcome.may_begin else 0,
    }
    return moment if outcome.outcome == "started" else moment | {"repeated": True}


def result(outcome: ResultOutcome) -> ResultOut:
    """Return what the report of a result is answered with."""
    return {
        "outcome": outcome.outcome,
        "result_code": "ACCEPTED" if outcome.as_evidence else "APPLIED",
        **_bill(outcome.bill),
        "execution": _execution(outcome.execution),
    }


def _bill(bill: Bill) -> BillOut:
    return {
        "cost": text_of(bill.cost),
        "cost_basis": BASES[bill.basis] if bill.basis else None,
        "flags": list(bill.flags),
    }


def execution(record: ExecutionRecord) -> ExecutionQueryOut:
    """Return an execution with its permit, reservations and evidence."""
    return {
        **_execution(record.execution),
        "permit_id": str(record.execution.permit.permit_id),
        "reservations": [
            _reservation(row) | {"route_request_id": row.route_request_id}
            for row in record.reservations
        ],
        "evidence": [
            {
                "given_by": row.given_by,
                "given_at": instant(row.given_at),
                "attempt": row.attempt,
                "outcome": row.outcome,
                "content_sha256": row.content_sha256,
            }
            for row in record.evidence
        ],
        "reconciliations": [
            {
                "verdict": row.verdict,
                "decided_by": row.decided_by,
                "decided_at": instant(row.decided_at),
                "reason": row.reason,
            }
            for row in record.reconciliations
        ],
        **_bill(ledger.read_bill(external_request_id=record.execution.external_request_id)),
    }


def _execution(row: Execution) -> ExecutionOut:
    refused = row.state == Execution.State.REFUSED
    return {
        "decision": "refused" if refused else "issued",
        "external_request_id": row.external_request_id,
        "state": row.state,
        "result_code": "UNKNOWN" if row.state == "unknown" else "APPLIED",
        "attempt": row.attempt,
        "mode": row.mode,
        "runtime": row.runtime,
        "execution_digest": row.execution_digest,
        "request_sha256": row.request_sha256,
        "refusal_reason": row.refusal_reason or None,
        "result_sha256": row.result_sha256 or None,
        "result": row.result,
        "result_pointer": row.result_pointer or None,
        "usage": row.usage,
        "error_code": row.error_code or None,
        "decided_at": instant(row.decided_at),
        "resulted_at": instant(row.resulted_at),
        "deadline": instant(row.deadline_at),
    }
