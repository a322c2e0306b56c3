"""How many model calls of an attempt may be open at a time is the job type's."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import call_command

from governance.core.errors import InvalidArgument, ModelReservationStateInvalid
from governance.money import catalogue
from governance.money.models import Budget, Reservation, RoutePolicy
from jobs import transitions
from jobs.models import JobType
from jobs.transitions import TypeSettings
from tests.jobs.governed import TEST, Governed
from tests.work import ANNA


def test_a_command_bounds_the_open_calls(governed: Governed, make_job: Any) -> None:
    call_command(
        "configure_job_type", "content_prep", open_calls_max=2, actor="user:anna", reason="few"
    )
    job = make_job()
    governed.claim(job)
    governed.route(job)
    governed.route(job, call=2)

    with pytest.raises(ModelReservationStateInvalid) as refused:
        governed.route(job, call=3)

    assert refused.value.current == {"open_calls": 2, "open_calls_max": 2}
    assert Reservation.objects.count() == 2
    assert JobType.objects.get(name="content_prep").open_calls_max == 2


@pytest.mark.parametrize("number", [0, 1001])
def test_a_type_takes_no_other_number(world: None, number: int) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        transitions.configure_job_type(
            name="content_prep", settings=TypeSettings(open_calls_max=number), **ANNA
        )

    assert [fault.pointer for fault in refusal.value.errors] == ["/open_calls_max"]


@pytest.mark.parametrize(
    ("scope", "unknown", "known"),
    [("agent", "herms", "hermes"), ("job_type", "content-prep", "content_prep")],
)
def test_budgets_and_policies_are_for_agents_and_types_that_there_are(
    world: None, scope: str, unknown: str, known: str
) -> None:
    def budget(name: str) -> None:
        catalogue.set_budget(scope=scope, key=name, window="day", cap=None, **TEST)

    def policy(name: str) -> None:
        catalogue.set_policy(models=[], **{scope: name}, **TEST)

    for make in (budget, policy):
        with pytest.raises(InvalidArgument):
            make(unknown)
    assert not Budget.objects.exists()
    assert not RoutePolicy.objects.exists()

    budget(known)
    policy(known)
    assert Budget.objects.get().key == known
