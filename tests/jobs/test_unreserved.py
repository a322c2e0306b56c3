"""What is reported is booked: without a reservation, after its end, beyond what was booked."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.urls import reverse

from governance.core import errors
from governance.core.models import AuditEvent, Fact
from governance.money import catalogue, ledger
from governance.money.models import (
    BudgetWindow,
    LanguageModel,
    Reservation,
)
from governance.money.pricing import RateSet
from governance.money.uses import UnreservedPosting, UnreservedUse
from jobs import executions
from jobs.models import Execution, Job, Lease
from jobs.transitions.sweeping import end_if_due
from tests.client import Api
from tests.jobs.governed import MODEL, TEST, Governed

MakeJob = Callable[..., Job]
#: At 1 USD and 2 USD per million.
USAGE, COST = {"input_tokens": 1_000_000, "output_tokens": 500_000}, Decimal(2)


def resolve(governed: Governed, job: Job, **end: Any) -> Any:
    asked = {"reservation_id": Reservation.objects.get(job_id=job.job_id).reservation_id} | end
    return executions.resolve_reservation(
        entry=governed.entry, binding=governed.binding(job), **asked
    )


def begin_without(governed: Governed, job: Job) -> Execution:
    """Start an execution before any route."""
    governed.claim(job)
    governed.start(job, governed.permit(job, None).permit_id)
    return Execution.objects.get(job=job)


def lose(job: Job) -> None:
    Lease.objects.filter(job=job).update(expires_at=job.created_at)
    end_if_due(task_id=job.task_id)


def spent() -> Decimal:
    """What every budget has counted, which is what the rows say."""
    assert list(ledger.verify()) == []
    return sum((window.spent for window in BudgetWindow.objects.all()), Decimal(0))


def test_a_result_whose_reservation_had_failed_at_no_cost_is_booked(
    governed: Governed, make_job: MakeJob
) -> None:
    execution = governed.begin(make_job())
    resolve(governed, execution.job, end="failed", cost_basis="none")
    assert governed.result(execution, usage=USAGE).outcome == "recorded"
    use = UnreservedUse.objects.get()
    assert (use.cost, use.cost_basis, use.flags) == (COST, "usage", ["unreserved"])
    assert spent() == COST


def test_a_result_of_an_execution_without_a_reservation_is_booked_and_told(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job()
    execution = begin_without(governed, job)
    governed.result(execution, usage=USAGE)
    assert spent() == COST
    use = UnreservedUse.objects.get()
    assert (use.task_id, use.attempt, use.agent) == (job.task_id, 1, "hermes")
    fact = Fact.objects.get(type="dev.fencepost.ledger.unreserved")
    assert fact.data["cost"] == "2.00" and fact.data["counts"] == USAGE
    assert AuditEvent.objects.filter(subject=job.audit_subject, action="ledger.unreserved").exists()


def test_only_the_excess_is_booked(governed: Governed, make_job: MakeJob) -> None:
    execution = governed.begin(make_job())
    resolve(
        governed,
        execution.job,
        end="settled",
        usage={"input_tokens": 400_000, "output_tokens": 500_000},
    )
    governed.result(execution, usage=USAGE)
    use = UnreservedUse.objects.get()
    assert (use.input_tokens, use.output_tokens) == (600_000, 0)
    assert spent() == COST


def test_usage_that_is_what_its_calls_were_booked_at_is_not_booked_again(
    governed: Governed, make_job: MakeJob
) -> None:
    execution = governed.begin(make_job())
    resolve(governed, execution.job, end="settled", usage=USAGE)
    governed.result(execution, usage=USAGE)
    assert not UnreservedUse.objects.exists()
    assert spent() == COST


def test_a_call_that_was_booked_at_its_estimate_is_not_booked_again_below_it(
    governed: Governed, make_job: MakeJob
) -> None:
    execution = governed.begin(make_job())
    resolve(governed, execution.job, end="settled")
    governed.result(execution, usage={"input_tokens": 1000, "output_tokens": 1001})
    use = UnreservedUse.objects.get()
    assert (use.input_tokens, use.output_tokens) == (0, 1)


def test_another_end_of_a_call_is_refused_and_what_it_used_is_booked_once(
    governed: Governed, make_job: MakeJob
) -> None:
    execution = governed.begin(make_job())
    resolve(governed, execution.job, end="failed", cost_basis="none")
    for _ in range(2):
        answer: Any = None
        try:
            answer = resolve(governed, execution.job, end="settled", usage=USAGE)
        except errors.ModelReservationStateInvalid as refusal:
            answer = refusal
        assert isinstance(answer, errors.ModelReservationStateInvalid)
    use = UnreservedUse.objects.get()
    assert use.reservation == Reservation.objects.get()
    governed.result(execution, usage=USAGE)
    assert spent() == COST


def test_a_call_that_never_started_and_used_something_costs_it(
    governed: Governed, make_job: MakeJob
) -> None:
    execution = governed.begin(make_job())
    governed.result(execution, outcome="not_started", usage=USAGE)
    assert Reservation.objects.get().resolution.cost == COST
    assert spent() == COST


def test_late_evidence_books_once(governed: Governed, make_job: MakeJob) -> None:
    job = make_job()
    execution = begin_without(governed, job)
    lose(job)
    for _ in range(2):
        assert governed.result(execution, usage=USAGE).as_evidence
    governed.result(execution, "failed", usage=USAGE)
    assert spent() == COST


def test_a_finding_about_a_call_without_a_reservation_is_booked(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job()
    execution = begin_without(governed, job)
    lose(job)
    executions.reconcile(
        external_request_id=execution.external_request_id,
        verdict="not_happened",
        usage=USAGE,
        **TEST,
    )
    assert spent() == COST


@pytest.mark.parametrize(
    ("odd", "cost"),
    [
        ({"input_tokens": 10, "cached_input_tokens": 1_000_000, "output_tokens": 0}, Decimal(1)),
        ({"input_tokens": -5, "output_tokens": 1_000_000}, Decimal(2)),
        ({"input_tokens": "many"}, None),
        ("a lot", None),
        ([1, 2], None),
    ],
)
def test_odd_usage_loses_no_result_and_is_never_free_unflagged(
    governed: Governed, make_job: MakeJob, odd: Any, cost: Decimal | None
) -> None:
    execution = begin_without(governed, make_job())
    assert governed.result(execution, usage=odd).outcome == "recorded"
    use = UnreservedUse.objects.get()
    assert (use.cost, use.cost_basis, use.usage_sent) == (cost, "estimate", odd)
    assert "usage_odd" in use.flags
    assert ("unpriced" in use.flags) == (cost is None)
    assert spent() == (cost or 0)


def test_usage_that_names_no_model_costs_what_the_dearest_of_the_policy_does(
    governed: Governed, make_job: MakeJob
) -> None:
    catalogue.set_model(provider="local", name="dear", **TEST)
    rates = [RateSet(above_input_tokens=0, input=Decimal(10), output=Decimal(20))]
    catalogue.set_price(provider="local", name="dear", rates=rates, **TEST)
    catalogue.set_policy(models=[MODEL, ("local", "dear")], **TEST)
    governed.result(begin_without(governed, make_job()), usage=USAGE)
    use = UnreservedUse.objects.get()
    assert (use.cost, use.model) == (COST * 10, LanguageModel.objects.get(name="dear"))
    assert list(ledger.verify()) == []


def test_usage_that_nobody_can_price_says_so(governed: Governed, make_job: MakeJob) -> None:
    execution = begin_without(governed, make_job())
    catalogue.set_policy(models=[], **TEST)
    governed.result(execution, usage=USAGE)
    use = UnreservedUse.objects.get()
    assert (use.cost, use.input_tokens, use.flags) == (
        None,
        USAGE["input_tokens"],
        ["unreserved", "unpriced"],
    )
    assert spent() == 0


def test_what_was_booked_is_never_refused_and_takes_the_room_of_the_next_call(
    governed: Governed, make_job: MakeJob
) -> None:
    catalogue.set_budget(scope="global", window="none", cap=Decimal(1), **TEST)
    governed.result(begin_without(governed, make_job()), usage=USAGE)
    other = make_job()
    governed.claim(other)
    assert governed.route(other).refusal.reason == "BUDGET_EXHAUSTED"
    assert AuditEvent.objects.filter(action="budget.overrun").exists()


def test_a_use_is_written_once_and_its_cost_is_checked(
    governed: Governed, make_job: MakeJob
) -> None:
    governed.result(begin_without(governed, make_job()), usage=USAGE)
    for change in (
        lambda: UnreservedUse.objects.update(cost=0),
        lambda: UnreservedPosting.objects.all().delete(),
    ):
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            change()
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        UnreservedUse.objects.update(cost=0)
        cursor.execute("SET session_replication_role = origin")
    assert {one.check for one in ledger.verify()} == {
        "unreserved_use.cost", "unreserved_use.cost_split", "budget_window.spent",
    }  # fmt: skip


def test_the_answers_tell_cost_basis_and_flags(
    governed: Governed, hermes_token: str, make_job: MakeJob
) -> None:
    execution = begin_without(governed, make_job())
    session, epoch = str(governed.entry.session_id), str(governed.entry.epoch)
    api = Api(hermes_token, **{"Fencepost-Session": session, "Fencepost-Epoch": epoch})
    bill = {"cost": "2.00", "cost_basis": "actual", "flags": ["unreserved"]}
    path = f"/v1/executions/{execution.external_request_id}"
    report = {
        "task_id": execution.job.task_id,
        "attempt": 1,
        "fencing_token": execution.fencing_token,
        "execution_digest": execution.execution_digest,
        "outcome": "succeeded",
        "result_sha256": "cd" * 32,
        "usage": USAGE,
    }
    before = {"cost": "0.00", "cost_basis": "none", "flags": []}
    assert api.get(path).json().items() >= before.items()
    answer = api.post(f"{path}/result", report)
    assert answer.status_code == 200
    assert answer.json().items() >= bill.items()
    assert api.get(path).json().items() >= bill.items()


def test_the_console_shows_what_was_not_reserved(
    governed: Governed, make_job: MakeJob, as_: Any
) -> None:
    governed.result(begin_without(governed, make_job()), usage=USAGE)
    client = as_("governor")
    use = UnreservedUse.objects.get()
    page = client.get(
        reverse("admin:governance_unreserveduse_change", args=(use.pk,))
    ).content.decode()
    assert "not reserved" in page
    assert (
        use.task_id
        in client.get(reverse("admin:governance_unreserveduse_changelist")).content.decode()
    )
    assert "Used and not reserved" in client.get(reverse("admin:console_inbox")).content.decode()


def test_another_result_is_refused_and_what_it_used_is_booked_once(
    governed: Governed, make_job: MakeJob
) -> None:
    execution = governed.begin(make_job())
    governed.result(execution, usage={"input_tokens": 400_000, "output_tokens": 0})
    before = Execution.objects.values().get()

    for _ in range(2):
        other = governed.result(execution, result_sha256="00" * 32, usage=USAGE)
        assert isinstance(other, errors.ResultDigestConflict)

    assert Execution.objects.values().get() == before
    assert UnreservedUse.objects.get().input_tokens == 600_000
    assert execution.evidence.get().content["usage"] == USAGE
    assert spent() == COST


@pytest.mark.parametrize("usage", [USAGE, "a lot", {}])
def test_a_result_of_what_was_refused_is_refused_and_what_it_used_is_booked_once(
    governed: Governed, make_job: MakeJob, usage: Any
) -> None:
    job = make_job()
    governed.claim(job)
    permit = governed.permit(job, governed.route(job).reservation.reservation_id)
    catalogue.set_policy(models=[], **TEST)
    assert isinstance(governed.start(job, permit.permit_id), errors.NoModelInForce)
    execution = Execution.objects.get(state="refused")

    for _ in range(2):
        assert isinstance(governed.result(execution, usage=usage), errors.InvalidTransition)
    with pytest.raises(errors.InvalidTransition):
        governed.result(execution, usage=None)

    execution.refresh_from_db()
    assert (execution.state, execution.outcome_sha256) == ("refused", "")
    held = Reservation.objects.get()
    assert held.state == "settled" and not UnreservedUse.objects.exists()
    assert spent() == (COST if usage == USAGE else held.amount)


def test_usage_of_an_attempt_that_started_nothing_is_booked_once(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job()
    governed.claim(job)
    binding = governed.binding(job)

    def report(**over: Any) -> Any:
        asked = vars(binding) | {
            "execution_digest": job.task.execution_digest, "outcome": "failed",
            "result_sha256": "cd" * 32, "usage": USAGE,
        }  # fmt: skip
        return executions.result(entry=governed.entry, **asked | over)

    for wrong in ({"usage": None}, {"attempt": 2}, {"external_request_id": "xr_" + "0" * 64}):
        with pytest.raises(errors.NotFound):
            report(**wrong)
    with pytest.raises(errors.NotFound):
        report(fencing_token=binding.fencing_token + 1)
    assert spent() == 0
    assert isinstance(report(), errors.NotFound)
    with pytest.raises(errors.NotFound):
        report()

    assert UnreservedUse.objects.get().external_request_id == binding.external_request_id
    assert spent() == COST


@pytest.mark.parametrize(
    ("end", "state", "cost"),
    [
        ({"end": "released", "usage": USAGE}, "failed", COST),
        ({"end": "released", "usage": USAGE, "cost_basis": "none"}, "failed", COST),
        ({"end": "failed", "usage": USAGE, "cost_basis": "none"}, "failed", COST),
        ({"end": "released", "usage": USAGE, "cost_basis": "estimate"}, "failed", COST),
        ({"end": "released", "usage": "odd"}, "failed", Decimal("0.003")),
        ({"end": "released", "usage": {"input_tokens": 0, "output_tokens": 0}}, "released", 0),
        ({"end": "failed", "cost_basis": "none", "usage": {"input_tokens": 0}}, "failed", 0),
    ],
)
def test_usage_is_believed_before_what_contradicts_it(
    governed: Governed, make_job: MakeJob, end: dict[str, Any], state: str, cost: Decimal
) -> None:
    job = make_job()
    governed.claim(job)
    governed.route(job)

    for outcome in ("recorded", "already_recorded"):
        resolved = resolve(governed, job, **end)
        assert (resolved.outcome, resolved.state) == (outcome, state)

    assert Reservation.objects.get().state == state
    assert spent() == cost


@pytest.mark.parametrize("usage", [USAGE, {"input_tokens": 0, "output_tokens": 0}])
def test_usage_that_nobody_counted_contradicts_nothing_and_stays_an_estimate(
    governed: Governed, make_job: MakeJob, usage: Any
) -> None:
    job = make_job()
    governed.claim(job)
    governed.route(job)

    resolved = resolve(governed, job, end="settled", usage=usage, cost_basis="estimate")

    cost = COST if usage is USAGE else 0
    assert (resolved.resolution.cost_basis, resolved.resolution.cost) == ("estimate", cost)
    assert spent() == cost


def test_what_was_used_is_not_said_with_a_verdict_that_books_nothing(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job()
    execution = begin_without(governed, job)
    lose(job)
    with pytest.raises(errors.InvalidArgument):
        executions.reconcile(
            external_request_id=execution.external_request_id,
            verdict="undetermined",
            usage=USAGE,
            **TEST,
        )
    assert not execution.reconciliations.exists()


@pytest.mark.parametrize("path", ["complete", "fail", "defer"])
def test_usage_in_a_call_that_takes_none_is_refused_and_never_left_out(
    governed: Governed, hermes_token: str, make_job: MakeJob, path: str
) -> None:
    job = make_job()
    governed.claim(job)
    body = {"usage": USAGE, "attempt": 1, "fencing_token": governed.binding(job).fencing_token}
    session, epoch = str(governed.entry.session_id), str(governed.entry.epoch)
    api = Api(hermes_token, **{"Fencepost-Session": session, "Fencepost-Epoch": epoch})

    answer = api.post(f"/v1/jobs/{job.task_id}/{path}", body)

    assert answer.status_code == 400
    assert "/usage" in [fault["pointer"] for fault in answer.json()["errors"]]


@pytest.mark.parametrize("key", ["*", "hermes"])
def test_a_new_budget_counts_what_was_not_reserved(
    governed: Governed, make_job: MakeJob, key: str
) -> None:
    governed.result(begin_without(governed, make_job()), usage=USAGE)
    catalogue.set_budget(scope="agent", key=key, window="day", cap=Decimal(9), **TEST)
    assert BudgetWindow.objects.get(budget__scope="agent").spent == COST
    assert list(ledger.verify()) == []
