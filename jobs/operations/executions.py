"""The governed operations: decide a route, get a permit, start, report, ask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from agents.operations.callers import entry_of, principal_of
from governance.core.errors import DomainError
from governance.core.idempotency import Answer
from governance.operations.operation import DONE, Call, operation
from jobs import executions, queries
from jobs.executions import Binding
from jobs.operations import execution_answers as answers
from jobs.operations import execution_shapes as shapes

BINDING = ("task_id", "attempt", "fencing_token", "external_request_id")


@operation(
    scopes=("work",),
    reads=shapes.RouteIn,
    answers=answers.RouteOut,
    key="honoured",
    moment=("reservation", "begin_within_seconds"),
    sessions=True,
)
def decide_route(call: Call) -> Answer:
    """Decide the model of a call and reserve its budget."""
    entry, (binding, content) = entry_of(call), _bound(call.body)

    def move() -> Answer:
        routed = executions.route(entry=entry, binding=binding, **_given(content))
        # A refusal is a decision that was recorded, so that its transaction commits.
        if routed.refusal is not None:
            return Answer.of_refusal(routed.refusal)
        return Answer(DONE, answers.routed(routed), moment=answers.moment_of_route(routed))

    def renew(stored: Mapping[str, Any]) -> Mapping[str, Any]:
        # The decision is a fact; what it holds, and whether its call may begin, is as of now.
        standing = executions.routed_before(
            entry=replace(entry, key=None),
            binding=binding,
            decision_id=UUID(stored["decision_id"]),
        )
        return answers.moment_of_route(standing)

    return call.once(move, renew=renew)


@operation(
    scopes=("work",),
    identity={"reservation_id": UUID},
    reads=shapes.ResolveIn,
    answers=answers.ResolveOut,
    outcomes=("recorded", "already_recorded", "kept"),
    key="honoured",
    moment=(),
    sessions=True,
    keeps="usage",
)
def resolve_reservation(call: Call) -> Answer:
    """Settle, release or fail a reservation, once; from a fenced holder it is evidence."""
    entry, (binding, content) = entry_of(call), _bound(call.body)

    def move() -> Answer:
        resolved = executions.resolve_reservation(
            entry=entry, binding=binding, **call.identity, **_given(content)
        )
        # What was booked beside it commits.
        if isinstance(resolved, DomainError):
            return Answer.of_refusal(resolved)
        word = "kept" if resolved.as_evidence else resolved.outcome
        return Answer(word, answers.resolved(resolved))

    return call.once(move)


@operation(
    scopes=("work",),
    reads=shapes.PermitIn,
    answers=answers.PermitOut,
    outcomes=("issued",),
    key="required",
    moment=("state", "deadline_seconds"),
    sessions=True,
)
def issue_permit(call: Call) -> Answer:
    """Issue the single-use right to start the attempt's execution."""
    entry, (binding, content) = entry_of(call), _bound(call.body)

    def move() -> Answer:
        permit = executions.permit(entry=entry, binding=binding, **content)
        moment = answers.moment_of_permit(permit)
        return Answer("issued", answers.permit(permit), moment=moment)

    def renew(stored: Mapping[str, Any]) -> Mapping[str, Any]:
        permit = executions.issued_before(permit_id=UUID(stored["permit_id"]))
        return answers.moment_of_permit(permit)

    return call.once(move, renew=renew)


@operation(
    scopes=("work",),
    reads=shapes.StartIn,
    answers=answers.StartOut,
    outcomes=("started", "already_started"),
    key="required",
    moment=("may_begin", "repeated", "deadline_seconds"),
    sessions=True,
)
def start_execution(call: Call) -> Answer:
    """Spend the permit; the effect may begin only after this has answered `may_begin`."""
    entry, (binding, content) = entry_of(call), _bound(call.body)

    def move() -> Answer:
        outcome = executions.start(entry=entry, binding=binding, **content)
        if isinstance(outcome, DomainError):
            return Answer.of_refusal(outcome)
        moment = answers.moment_of_start(outcome)
        return Answer(outcome.outcome, answers.started(outcome), moment=moment)

    def renew(_: Mapping[str, Any]) -> Mapping[str, Any]:
        # The decision is recorded, so that the same start again only judges its authority.
        outcome = executions.start(entry=replace(entry, key=None), binding=binding, **content)
        if isinstance(outcome, DomainError):
            raise outcome
        return answers.moment_of_start(outcome)

    return call.once(move, renew=renew)


@operation(
    scopes=("work", "read"),
    identity={"external_request_id": str},
    answers=answers.ExecutionQueryOut,
)
def get_execution(call: Call) -> Answer:
    """Read an execution: the only recovery from a lost answer."""
    found = queries.read_execution(principal=principal_of(call), **call.identity)
    return Answer(DONE, answers.execution(found))


@operation(
    scopes=("work",),
    identity={"external_request_id": str},
    reads=shapes.ResultIn,
    answers=answers.ResultOut,
    outcomes=("recorded", "already_recorded", "kept"),
    key="honoured",
    moment=(),
    sessions=True,
    keeps="usage",
)
def report_result(call: Call) -> Answer:
    """Bind the result; from an ended attempt or a fenced session it is kept as evidence."""
    entry = entry_of(call)

    def move() -> Answer:
        outcome = executions.result(entry=entry, **call.identity, **_given(call.body))
        # What was booked beside it commits.
        if isinstance(outcome, DomainError):
            return Answer.of_refusal(outcome)
        word = "kept" if outcome.as_evidence else outcome.outcome
        return Answer(word, answers.result(outcome))

    return call.once(move)


def _bound(body: dict[str, Any]) -> tuple[Binding, dict[str, Any]]:
    """Return the binding of a body, and its other members."""
    binding = Binding(**{name: body[name] for name in BINDING})
    return binding, {name: value for name, value in body.items() if name not in BINDING}


def _given(content: dict[str, Any]) -> dict[str, Any]:
    """Return the members that are there and not null: the rest has its default."""
    return {name: value for name, value in content.items() if value is not None}
