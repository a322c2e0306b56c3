"""A worker that goes the governed way: session, route, permit, start, result."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import pytest

from agents.entry import Entry
from agents.models import Session
from agents.principals import Principal
from agents.transitions import sessions
from governance.core import digests
from governance.money import catalogue
from governance.money.pricing import RateSet
from jobs import executions, transitions
from jobs.executions import Binding
from jobs.models import Execution, Job, JobType, Permit

TEST = {"actor": "user:test", "reason": "for a test"}
MODEL = ("local", "stand-in")
RATES = RateSet(above_input_tokens=0, input=Decimal(1), output=Decimal(2))


def price_a_model(*, cap: Decimal | None = None) -> None:
    """Put one priced model into the catalogue, allowed to all work, under a global cap."""
    catalogue.set_model(provider=MODEL[0], name=MODEL[1], **TEST)
    catalogue.set_price(provider=MODEL[0], name=MODEL[1], rates=[RATES], **TEST)
    catalogue.set_policy(models=[MODEL], **TEST)
    catalogue.set_budget(scope="global", window="none", cap=cap, **TEST)


@dataclass
class Governed:
    """A worker of one agent, in an activated session."""

    principal: Principal
    entry: Entry = field(init=False)
    cell: str = "cell-1"

    def __post_init__(self) -> None:
        self.activate()

    def activate(self) -> None:
        """Activate as a fresh process of the same cell."""
        boot = sessions.Boot(
            cell_id=self.cell,
            boot_id=str(uuid4()),
            protocol_version="1.0",
            runtime="command",
            capabilities={},
        )
        answer = sessions.activate(
            principal=self.principal,
            agent=self.principal.name,
            operation_id=str(uuid4()),
            boot=boot,
        )
        self.entry = Entry(
            self.principal,
            session_id=UUID(str(answer["session_id"])),
            epoch=UUID(str(answer["dispatcher_epoch"])),
        )

    def rebind(self) -> None:
        """Bind the session to the present epoch, as its own process does: a new id."""
        row = Session.objects.get(session_id=self.entry.session_id)
        boot = sessions.Boot(
            cell_id=row.cell_id,
            boot_id=row.boot_id,
            protocol_version=row.protocol_version,
            runtime=row.runtime,
            capabilities={},
            previous_session_id=row.session_id,
        )
        answer = sessions.activate(
            principal=self.principal,
            agent=self.principal.name,
            operation_id=str(uuid4()),
            boot=boot,
        )
        self.entry = replace(
            self.entry,
            session_id=UUID(str(answer["session_id"])),
            epoch=UUID(str(answer["dispatcher_epoch"])),
        )

    def claim(self, job: Job) -> transitions.ClaimOutcome:
        claimed = transitions.claim(entry=self.entry, task_id=job.task_id, owner="")
        assert isinstance(claimed, transitions.ClaimOutcome)
        return claimed

    def binding(self, job: Job) -> Binding:
        """Return the binding of the job's current attempt."""
        job.refresh_from_db()
        attempt = job.attempts.get(number=job.attempt)
        return Binding(
            task_id=job.task_id,
            attempt=job.attempt,
            fencing_token=attempt.fencing_token,
            external_request_id=digests.external_request_id(
                task_id=job.task_id,
                job_id=str(job.job_id),
                execution_digest=job.task.execution_digest,
                runtime=attempt.runtime,
                attempt=job.attempt,
            ),
        )

    def route(self, job: Job, *, call: int = 1, **over: Any) -> Any:
        binding = self.binding(job)
        asked = {"estimated_input_tokens": 1000, "max_output_tokens": 1000} | over
        return executions.route(
            entry=self.entry,
            binding=binding,
            route_request_id=digests.route_request_id(
                external_request_id=binding.external_request_id, call=call
            ),
            **asked,
        )

    def permit(self, job: Job, reservation_id: UUID | None, **over: Any) -> Permit:
        binding = self.binding(job)
        asked = {"mode": "mock", "expected_revision": job.revision} | over
        return executions.permit(
            entry=self.entry, binding=binding, reservation_id=reservation_id, **asked
        ).permit

    def start(
        self, job: Job, permit_id: UUID, *, binding: Binding | None = None, **over: Any
    ) -> Any:
        asked = {
            "execution_digest": job.task.execution_digest,
            "runtime": job.attempts.get(number=job.attempt).runtime,
            "request_sha256": "ab" * 32,
        } | over
        return executions.start(
            entry=self.entry,
            permit_id=permit_id,
            binding=binding or self.binding(job),
            **asked,
        )

    def begin(self, job: Job) -> Execution:
        """Claim, route, permit and start; return the execution, whose outcome is unknown."""
        self.claim(job)
        reservation = self.route(job).reservation.reservation_id
        self.start(job, self.permit(job, reservation).permit_id)
        return Execution.objects.get(job=job, attempt=job.attempt)

    def result(self, execution: Execution, outcome: str = "succeeded", **over: Any) -> Any:
        asked = {"result_sha256": "cd" * 32, "usage": None} | over
        if outcome == "succeeded" and "usage" not in over:
            asked["usage"] = {"input_tokens": 500, "output_tokens": 100}
        return executions.result(
            entry=self.entry,
            external_request_id=execution.external_request_id,
            task_id=execution.job.task_id,
            attempt=execution.attempt,
            fencing_token=execution.fencing_token,
            execution_digest=execution.execution_digest,
            outcome=outcome,
            **asked,
        )


def use_a_model(job_type: str) -> None:
    """Let jobs of a type need a call of a model to be complete."""
    JobType.objects.filter(name=job_type).update(model_use="required")


@pytest.fixture
def governed(hermes: Principal) -> Governed:
    """Hermes' side of executions, with a priced model for a kind of task that uses one."""
    price_a_model()
    use_a_model("content_prep")
    return Governed(hermes)
