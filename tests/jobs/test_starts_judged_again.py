"""What a route was decided by is judged again when its execution starts."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from governance.core.errors import (
    BudgetExhausted,
    DomainError,
    InvalidTransition,
    LiveExecutionNotAuthorized,
    NoModelInForce,
)
from governance.money import catalogue, ledger
from governance.money.models import Budget, LanguageModel, Reservation, RouteDecision
from jobs import executions, transitions
from jobs.models import Execution, Job, LiveAuthorization, Permit
from tests.jobs.governed import MODEL, RATES, TEST, Governed

MakeJob = Callable[..., Job]


def switch_off() -> None:
    model = LanguageModel.objects.get(name=MODEL[1])
    catalogue.switch_model(model_id=model.pk, enabled=False, **TEST)


def empty_the_policy() -> None:
    catalogue.set_policy(models=[], **TEST)


def take_another_model() -> None:
    catalogue.set_model(provider="local", name="other", **TEST)
    catalogue.set_price(provider="local", name="other", rates=[RATES], **TEST)
    catalogue.set_policy(models=[("local", "other")], agent="hermes", **TEST)


def close_the_budget() -> None:
    catalogue.set_caps(budget_id=Budget.objects.get().pk, caps={"cap": Decimal(0)}, **TEST)


def make_a_closed_budget() -> None:
    catalogue.set_budget(scope="agent", key="hermes", window="day", cap=Decimal(0), **TEST)


def held(governed: Governed, job: Job) -> Permit:
    governed.claim(job)
    return governed.permit(job, governed.route(job).reservation.reservation_id)


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (switch_off, NoModelInForce),
        (empty_the_policy, NoModelInForce),
        (take_another_model, NoModelInForce),
        (close_the_budget, BudgetExhausted),
        (make_a_closed_budget, BudgetExhausted),
    ],
)
def test_a_start_is_refused_with_the_reason_of_the_policy(
    governed: Governed, make_job: MakeJob, change: Callable[[], None], kind: type[DomainError]
) -> None:
    job = make_job()
    permit = held(governed, job)
    change()

    refusal = governed.start(job, permit.permit_id)

    assert type(refusal) is kind
    assert refusal.retry == "defer"
    execution = Execution.objects.get()
    assert (execution.state, execution.refusal_reason) == ("refused", kind.reason)
    assert Permit.objects.get().state == "revoked"
    assert Reservation.objects.get().state == "held"
    job.refresh_from_db()
    assert job.unresolved_executions == 0
    again = governed.start(job, permit.permit_id)
    assert (again.reason, again.retry) == (kind.reason, "defer")


def test_such_an_attempt_is_deferred_and_does_not_count(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job(max_attempts=1)
    permit = held(governed, job)
    close_the_budget()
    governed.start(job, permit.permit_id)
    reservation = Reservation.objects.get()
    executions.resolve_reservation(
        entry=governed.entry,
        binding=governed.binding(job),
        reservation_id=reservation.reservation_id,
        end="released",
    )

    answer: Any = transitions.defer(
        entry=governed.entry,
        task_id=job.task_id,
        attempt=job.attempt,
        fencing_token=job.fencing_token,
        reason="no room",
        retry_after_seconds=60,
    )

    assert answer.cause == "confirmed"
    job.refresh_from_db()
    assert (job.state, job.deferrals, job.unconfirmed_deferrals) == ("queued", 1, 0)


@pytest.mark.parametrize("change", [switch_off, close_the_budget])
def test_what_was_started_goes_on(
    governed: Governed, make_job: MakeJob, change: Callable[[], None]
) -> None:
    execution = governed.begin(make_job())
    change()

    assert governed.result(execution).outcome == "recorded"
    assert list(ledger.verify()) == []


def test_a_cap_below_what_is_spent_ends_nothing_that_was_granted(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job()
    permit = held(governed, job)
    catalogue.set_caps(budget_id=Budget.objects.get().pk, caps={"cap": Decimal("0.000001")}, **TEST)

    assert governed.start(job, permit.permit_id).outcome == "started"


# --- a route of a started execution is the start of its call ---------------------------------


def started_live(governed: Governed, job: Job) -> LiveAuthorization:
    """Claim a job and start its execution live, with the call that its permit is for."""
    grant = transitions.authorize_live(agent="hermes", runtime="command", valid_seconds=60, **TEST)
    governed.claim(job)
    reservation = governed.route(job).reservation.reservation_id
    governed.start(job, governed.permit(job, reservation, mode="live").permit_id)
    assert Execution.objects.get().state == "unknown"
    return grant


def test_a_call_of_a_live_execution_is_judged_by_the_word_of_now(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job()
    grant = started_live(governed, job)
    governed.route(job, call=2)
    transitions.revoke_live(authorization_id=grant.pk, **TEST)

    with pytest.raises(LiveExecutionNotAuthorized):
        governed.route(job, call=3)

    assert Reservation.objects.count() == 2


@pytest.mark.parametrize("change", [switch_off, empty_the_policy])
def test_a_call_of_a_started_execution_is_judged_by_the_policy_of_now(
    governed: Governed, make_job: MakeJob, change: Callable[[], None]
) -> None:
    job = make_job()
    governed.begin(job)
    change()

    refusal = governed.route(job, call=2).refusal

    assert type(refusal) is NoModelInForce
    assert Reservation.objects.count() == 1


@pytest.mark.parametrize("outcome", ["succeeded", "failed", "not_started"])
def test_no_call_begins_once_there_is_a_result(
    governed: Governed, make_job: MakeJob, outcome: str
) -> None:
    job = make_job()
    governed.result(governed.begin(job), outcome)

    with pytest.raises(InvalidTransition):
        governed.route(job, call=2)

    assert (Reservation.objects.count(), RouteDecision.objects.count()) == (1, 1)
    assert governed.route(job).replayed
