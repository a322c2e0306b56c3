"""The agents API: sessions, presence, admission."""

from __future__ import annotations

from dataclasses import asdict
from typing import ClassVar, cast

from django.http import HttpResponse
from rest_framework.request import Request

from agents import queries
from agents.entry import Entry
from agents.operations import shapes
from agents.principals import Principal
from agents.transitions import presence, sessions
from agents.transitions.admission import set_admission
from governance.core.clock import instant
from governance.core.idempotency import Answer
from governance.evidence.envelopes import public_keys
from governance.web.api import Call, WorkerView, check_protocol, respond, supported_protocols


class AgentsView(WorkerView):
    """A call about an agent."""

    @property
    def principal(self) -> Principal:
        """Who calls; every call of this app needs a scope, so somebody does."""
        return cast(Principal, self.request.user)


class Activate(AgentsView):
    """POST /v1/agents/{agent}/activate: become the current session of a cell."""

    calls: ClassVar = {
        "post": Call(
            "activate",
            scopes=("work",),
            reads=shapes.ActivateIn,
            answers={200: shapes.SessionStateOut, 202: shapes.SessionStateOut},
            key="required",
            tag="agents",
        )
    }

    def post(self, request: Request, agent: str) -> HttpResponse:
        """Activate a session; 202 while an operator has not approved the cell."""
        body = self.read(shapes.ActivateIn)
        check_protocol(body["protocol_version"])
        operation_id = body.pop("activation_operation_id")
        boot = sessions.Boot(**body)
        principal = self.principal

        def run() -> Answer:
            told = sessions.activate(
                principal=principal, agent=agent, operation_id=operation_id, boot=boot
            )
            # What waits for an operator is no final answer: the same key learns of the approval.
            waits = told["state"] == "pending"
            return Answer(202 if waits else 200, told, recorded=not waits)

        def gate() -> None:
            sessions.check_replay(principal=principal, agent=agent, operation_id=operation_id)

        return self.once(run, gate=gate)


class Heartbeat(AgentsView):
    """POST /v1/agents/{agent}/heartbeat: say that a process lives, and learn how things stand."""

    calls: ClassVar = {
        "post": Call(
            "agent_heartbeat",
            scopes=("work",),
            reads=shapes.HeartbeatIn,
            answers={200: shapes.StandingOut},
            sessions=True,
            tag="agents",
        )
    }

    def post(self, request: Request, agent: str) -> HttpResponse:
        """Say that a session lives, or workers of the older contract do."""
        body = self.read(shapes.HeartbeatIn)
        session_id, epoch = self.session_headers()
        workers = body.get("worker_ids", [])
        if session_id is None and not workers:
            workers = [agent]
        entry = Entry(self.principal, "", session_id, epoch)
        standing = presence.beat(
            entry=entry, agent=agent, runtime=body.get("runtime", ""), worker_ids=workers
        )
        told = asdict(standing) | {"dispatcher_epoch": str(standing.dispatcher_epoch)}
        if standing.inhibit is not None:
            told["inhibit"]["ends_at"] = instant(standing.inhibit["ends_at"])
        return respond(Answer(200, told))


class Admission(AgentsView):
    """POST /v1/agents/{agent}/admission: open, drain or close an agent behind a barrier."""

    calls: ClassVar = {
        "post": Call(
            "set_admission",
            scopes=("admit",),
            reads=shapes.AdmissionIn,
            answers={200: shapes.AdmissionOut},
            key="required",
            tag="agents",
        )
    }

    def post(self, request: Request, agent: str) -> HttpResponse:
        """Change the admission; answers when no older claim can commit any more."""
        body = self.read(shapes.AdmissionIn)
        principal = self.principal

        def run() -> Answer:
            done = set_admission(agent=agent, actor=principal.text, principal=principal, **body)
            return Answer(200, asdict(done))

        return self.once(run)


class Status(AgentsView):
    """GET /v1/agents/{agent}/status: how an agent stands."""

    calls: ClassVar = {
        "get": Call(
            "agent_status",
            scopes=("read", "admit"),
            answers={200: shapes.StatusOut},
            tag="agents",
        )
    }

    def get(self, request: Request, agent: str) -> HttpResponse:
        """Look at an agent: itself, or any with the scope `admit`."""
        row = queries.visible_agent(principal=self.principal, agent=agent)
        return respond(Answer(200, queries.status(agent=row)))


class Bootstrap(AgentsView):
    """GET /v1/agents/{agent}/bootstrap: what an agent may do."""

    calls: ClassVar = {
        "get": Call(
            "agent_bootstrap",
            scopes=("read", "work"),
            answers={200: shapes.BootstrapOut},
            tag="agents",
        )
    }

    def get(self, request: Request, agent: str) -> HttpResponse:
        """Learn what the agent may do, before it activates."""
        row = queries.visible_agent(principal=self.principal, agent=agent)
        told = queries.bootstrap(agent=row)
        told |= {"protocol": supported_protocols(), "keys": public_keys()}
        return respond(Answer(200, told))
