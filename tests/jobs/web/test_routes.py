"""The answer of a route: its decision is a fact; what it holds, and for how long, is not.

Source: contract, sections 3 and 9.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from uuid_utils.compat import uuid7

from agents.transitions import admission
from governance.core import clock, digests
from governance.core.models import IdempotencyRecord
from governance.money.models import Reservation, RouteDecision
from jobs import executions, transitions
from jobs.executions.routes import BEGIN_WITHIN_SECONDS_MAX
from jobs.models import Attempt, Job, Lease
from tests.client import Api, refused
from tests.jobs.governed import TEST, Governed, governed  # noqa: F401
from tests.work import expire_lease

pytestmark = pytest.mark.django_db


@dataclass
class Routing:
    """A claimed job, whose worker asks for the routes of its calls."""

    worker: Governed
    api: Api
    job: Job

    def ask(self, call: int = 1, key: str = "") -> Any:
        binding = self.worker.binding(self.job)
        body = vars(binding) | {
            "route_request_id": digests.route_request_id(
                external_request_id=binding.external_request_id, call=call
            ),
            "estimated_input_tokens": 10,
            "max_output_tokens": 10,
        }
        headers = {"idempotency_key": key} if key else {}
        return self.api.post("/v1/routes", body, **headers)

    def start(self) -> None:
        """Start the execution on the reservation of call 1, and settle that."""
        reservation = Reservation.objects.get()
        self.worker.start(
            self.job, self.worker.permit(self.job, reservation.reservation_id).permit_id
        )
        executions.resolve_reservation(
            entry=self.worker.entry,
            binding=self.worker.binding(self.job),
            reservation_id=reservation.reservation_id,
            end="settled",
            usage={"input_tokens": 1, "output_tokens": 1},
        )


@pytest.fixture
def routing(
    governed: Governed,  # noqa: F811
    hermes_token: str,
    make_job: Callable[..., Job],
) -> Routing:
    job = make_job()
    governed.claim(job)
    session, epoch = str(governed.entry.session_id), str(governed.entry.epoch)
    api = Api(hermes_token, **{"Fencepost-Session": session, "Fencepost-Epoch": epoch})
    return Routing(governed, api, job)


def test_before_the_start_a_call_has_its_permit_to_wait_for(routing: Routing) -> None:
    assert routing.ask().json()["begin_within_seconds"] is None


def test_a_call_of_a_started_execution_begins_within_a_bound(routing: Routing) -> None:
    routing.ask()
    routing.start()

    answer = routing.ask(2)

    assert answer.json()["begin_within_seconds"] == BEGIN_WITHIN_SECONDS_MAX
    assert not hasattr(RouteDecision.objects.latest("call"), "begin_within_seconds")


@pytest.mark.parametrize("of", ["lease", "attempt"])
def test_and_within_what_the_lease_and_the_attempt_have_left(routing: Routing, of: str) -> None:
    routing.ask()
    routing.start()
    ends = clock.now() + timedelta(seconds=20)
    if of == "lease":
        Lease.objects.update(expires_at=ends)
    else:
        Attempt.objects.update(deadline_at=ends)

    assert 0 < routing.ask(2).json()["begin_within_seconds"] <= 20


def test_no_call_of_a_paused_job_begins_once_its_execution_has_started(routing: Routing) -> None:
    routing.ask()
    routing.start()
    transitions.pause(task_id=routing.job.task_id, **TEST)

    assert refused(routing.ask(2)) == (409, "EXECUTION_PAUSED")
    assert RouteDecision.objects.count() == 1


def test_what_is_kept_of_a_route_is_its_decision(routing: Routing) -> None:
    first = routing.ask(key=str(uuid7())).json()
    record = IdempotencyRecord.objects.get(operation="decide_route")
    kept = json.loads(bytes(record.body or b""))
    assert kept == {
        name: value
        for name, value in first.items()
        if name not in ("reservation", "begin_within_seconds")
    }


@pytest.mark.parametrize("of_before", [False, True], ids=["facts", "whole answer"])
def test_a_route_is_given_again_with_its_reservation_as_it_stands(
    routing: Routing, of_before: bool
) -> None:
    name = str(uuid7())
    first = routing.ask(key=name)
    if of_before:
        IdempotencyRecord.objects.update(body=first.content)
    assert routing.ask(key=name).content == first.content
    routing.start()

    again = routing.ask(key=name)

    assert again["Idempotent-Replayed"] == "true"
    told = again.json()
    assert (first.json()["reservation"]["state"], told["reservation"]["state"]) == (
        "held", "settled",
    )  # fmt: skip
    assert told["begin_within_seconds"] == BEGIN_WITHIN_SECONDS_MAX
    moment = {name: first.json()[name] for name in ("reservation", "begin_within_seconds")}
    assert told | moment == first.json()


def expired(routing: Routing) -> None:
    expire_lease(routing.job)


def paused(routing: Routing) -> None:
    transitions.pause(task_id=routing.job.task_id, **TEST)


def stopped(routing: Routing) -> None:
    transitions.stop(task_id=routing.job.task_id, **TEST)


def closed(routing: Routing) -> None:
    admission.set_admission(agent="hermes", state="closed", barrier_id="b-1", **TEST)


@pytest.mark.parametrize("lose", [expired, paused, stopped, closed])
def test_a_repeated_route_whose_authority_is_gone_lets_no_call_begin(
    routing: Routing, lose: Callable[[Routing], None]
) -> None:
    name = str(uuid7())
    routing.ask()
    routing.start()
    first = routing.ask(2, key=name).json()
    lose(routing)

    again = routing.ask(2, key=name)

    assert (again.status_code, again["Idempotent-Replayed"]) == (200, "true")
    assert again.json()["begin_within_seconds"] == 0
    assert again.json()["decision_id"] == first["decision_id"]
