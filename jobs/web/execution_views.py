"""The governed calls: decide a route, get a permit, start, report, ask."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from django.http import HttpResponse
from rest_framework.request import Request

from governance.core.errors import DomainError
from governance.core.idempotency import Answer
from governance.web.api import Call, WorkerView, respond
from jobs import executions, queries
from jobs.executions import Binding
from jobs.operations import answers
from jobs.operations import execution_shapes as shapes
from jobs.web.views import AgentView, refused


def binding_of(body: dict[str, Any]) -> Binding:
    """Take the binding out of a body and return it."""
    return Binding(
        task_id=body.pop("task_id"),
        attempt=body.pop("attempt"),
        fencing_token=body.pop("fencing_token"),
        external_request_id=body.pop("external_request_id"),
    )


def given(body: dict[str, Any]) -> dict[str, Any]:
    """Return the members that are there and not null: the rest has its default."""
    return {name: value for name, value in body.items() if value is not None}


class Routes(AgentView):
    """Which model a call may use."""

    calls: ClassVar = {
        "post": Call(
            "decide_route",
            scopes=("work",),
            reads=shapes.RouteIn,
            answers={200: shapes.RouteOut},
            key="honoured",
            sessions=True,
        )
    }

    def post(self, request: Request) -> HttpResponse:
        """Decide the model of a call and reserve its budget."""
        body = self.read(shapes.RouteIn)
        entry, binding = self.entry(), binding_of(body)

        def run() -> Answer:
            routed = executions.route(entry=entry, binding=binding, **given(body))
            if routed.refusal is not None:
                return refused(routed.refusal)
            return Answer(200, answers.routed(routed))

        return self.once(run, gate=self.gate(entry))


class ResolveReservation(AgentView):
    """The end of a reservation."""

    calls: ClassVar = {
        "post": Call(
            "resolve_reservation",
            scopes=("work",),
            reads=shapes.ResolveIn,
            answers={200: shapes.ResolveOut},
            key="honoured",
            sessions=True,
        )
    }

    def post(self, request: Request, reservation_id: UUID) -> HttpResponse:
        """Settle, release or fail a reservation, once."""
        body = self.read(shapes.ResolveIn)
        entry, binding = self.entry(), binding_of(body)

        def run() -> Answer:
            ended = executions.resolve_reservation(
                entry=entry, binding=binding, reservation_id=reservation_id, **given(body)
            )
            return Answer(200, answers.resolved(ended))

        return self.once(run, gate=self.gate(entry))


class Permits(AgentView):
    """The right to start."""

    calls: ClassVar = {
        "post": Call(
            "issue_permit",
            scopes=("work",),
            reads=shapes.PermitIn,
            answers={201: shapes.PermitOut},
            key="required",
            sessions=True,
        )
    }

    def post(self, request: Request) -> HttpResponse:
        """Issue the single-use right to start the attempt's execution."""
        body = self.read(shapes.PermitIn)
        entry, binding = self.entry(), binding_of(body)

        def run() -> Answer:
            issued = executions.permit(entry=entry, binding=binding, **body)
            return Answer(201, answers.permit(issued))

        return self.once(run, gate=self.gate(entry))


class Executions(AgentView):
    """The start of an execution."""

    calls: ClassVar = {
        "post": Call(
            "start_execution",
            scopes=("work",),
            reads=shapes.StartIn,
            answers={201: shapes.ExecutionOut, 200: shapes.ExecutionOut},
            key="required",
            sessions=True,
        )
    }

    def post(self, request: Request) -> HttpResponse:
        """Spend the permit; the effect may begin only after this has answered `issued`."""
        body = self.read(shapes.StartIn)
        entry, binding = self.entry(), binding_of(body)

        def run() -> Answer:
            started = executions.start(entry=entry, binding=binding, **body)
            if isinstance(started, DomainError):
                return refused(started)
            status = 201 if started.outcome == "started" else 200
            return Answer(status, answers.started(started))

        return self.once(run, gate=self.gate(entry))


class ExecutionDetail(WorkerView):
    """What is known of an execution."""

    calls: ClassVar = {
        "get": Call(
            "get_execution", scopes=("work", "read"), answers={200: shapes.ExecutionQueryOut}
        )
    }

    def get(self, request: Request, external_request_id: str) -> HttpResponse:
        """Read an execution: the only recovery from a lost answer."""
        found = queries.read_execution(
            principal=self.principal, external_request_id=external_request_id
        )
        return respond(Answer(200, answers.execution(found)))


class ExecutionResult(AgentView):
    """The result of an execution."""

    calls: ClassVar = {
        "post": Call(
            "report_result",
            scopes=("work",),
            reads=shapes.ResultIn,
            answers={200: shapes.ResultOut, 202: shapes.ResultOut},
            key="honoured",
            sessions=True,
        )
    }

    def post(self, request: Request, external_request_id: str) -> HttpResponse:
        """Bind the result; from an attempt that has ended it is kept as evidence (202)."""
        body = self.read(shapes.ResultIn)
        entry = self.entry()

        def run() -> Answer:
            outcome = executions.result(
                entry=entry, external_request_id=external_request_id, **given(body)
            )
            return Answer(202 if outcome.as_evidence else 200, answers.result(outcome))

        return self.once(run, gate=self.gate(entry))
