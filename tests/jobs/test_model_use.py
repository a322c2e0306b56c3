"""What a job type says of models: whether they are called, and whether anything else is touched."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from governance.core import errors
from governance.core.models import AuditEvent
from governance.money import ledger
from governance.money.models import Reservation, RouteDecision
from jobs import executions, transitions
from jobs.models import Execution, ExecutionEvidence, Job, JobType, Lease
from jobs.transitions.sweeping import end_if_due
from tests.jobs.governed import TEST, Governed
from tests.work import pass_attempt_deadline

MakeJob = Callable[..., Job]


def of_type(**settings: str) -> None:
    JobType.objects.filter(name="content_prep").update(**settings)


def complete(governed: Governed, job: Job, **over: Any) -> Any:
    binding = governed.binding(job)
    done = {
        "task_id": job.task_id,
        "attempt": binding.attempt,
        "fencing_token": binding.fencing_token,
        "result": {"ok": True},
    }
    [outcome] = transitions.complete(entry=governed.entry, completions=[done | over])
    return outcome


def resolve(governed: Governed, job: Job, reservation_id: Any, **end: Any) -> Any:
    return executions.resolve_reservation(
        entry=governed.entry,
        binding=governed.binding(job),
        reservation_id=reservation_id,
        **end,
    )


# --- Whether models are called ----------------------------------------------------------------


def test_work_that_calls_no_model_gets_no_route(governed: Governed, make_job: MakeJob) -> None:
    of_type(model_use="none")
    job = make_job()
    governed.claim(job)
    with pytest.raises(errors.ModelNotAllowed, match="content_prep call no model"):
        governed.route(job)
    assert not RouteDecision.objects.exists()


def test_work_that_must_call_a_model_is_not_complete_without(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job()
    governed.claim(job)
    refusal = complete(governed, job)
    assert isinstance(refusal, errors.ModelCallRequired)
    job.refresh_from_db()
    assert job.state == "active"


@pytest.mark.parametrize(
    "end",
    [
        pytest.param({"end": "released"}, id="released"),
        pytest.param({"end": "failed", "cost_basis": "none"}, id="refused by the provider"),
        pytest.param({"end": "settled", "usage": {"input_tokens": 0, "output_tokens": 0}}, id="0"),
    ],
)
def test_a_call_that_used_nothing_is_none(
    governed: Governed, make_job: MakeJob, end: dict[str, Any]
) -> None:
    job = make_job()
    governed.claim(job)
    resolve(governed, job, governed.route(job).reservation.reservation_id, **end)
    assert isinstance(complete(governed, job), errors.ModelCallRequired)


@pytest.mark.parametrize("usage", [{"input_tokens": 9, "output_tokens": 1}, None])
def test_a_call_that_ended_at_a_cost_is_enough(
    governed: Governed, make_job: MakeJob, usage: Any
) -> None:
    job = make_job()
    governed.claim(job)
    reservation = governed.route(job).reservation.reservation_id
    resolve(governed, job, reservation, end="settled", usage=usage)
    assert complete(governed, job).job.state == "completed"


def test_a_call_of_an_attempt_before_is_not_enough(governed: Governed, make_job: MakeJob) -> None:
    job = make_job()
    governed.claim(job)
    resolve(
        governed,
        job,
        governed.route(job).reservation.reservation_id,
        end="settled",
        usage={"input_tokens": 9, "output_tokens": 1},
    )
    fail(governed, job)
    Job.objects.filter(pk=job.pk).update(available_at=job.created_at)
    governed.claim(job)
    assert isinstance(complete(governed, job), errors.ModelCallRequired)


def test_who_had_nothing_to_do_says_so_and_is_reviewed(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job()
    governed.claim(job)
    said = {"no_model_reason": "The text was there already."}
    assert complete(governed, job, **said).job.state == "review_required"
    event = AuditEvent.objects.get(subject=job.audit_subject, action="job.delivered")
    assert b"The text was there already." in bytes(event.body)
    assert complete(governed, job, **said).outcome == "already_recorded"
    assert isinstance(complete(governed, job), errors.OutcomeConflict)


def test_work_that_may_call_a_model_need_not(governed: Governed, make_job: MakeJob) -> None:
    of_type(model_use="allowed")
    job = make_job()
    governed.claim(job)
    assert complete(governed, job).job.state == "completed"


# --- What is touched --------------------------------------------------------------------------


def test_what_acts_outside_starts_before_any_route(governed: Governed, make_job: MakeJob) -> None:
    job = make_job()
    governed.claim(job)
    governed.start(job, governed.permit(job, None).permit_id)
    assert governed.route(job).reservation.state == "in_doubt"


def test_what_touches_only_models_starts_with_a_reservation(
    governed: Governed, make_job: MakeJob
) -> None:
    of_type(effects="model_only")
    job = make_job()
    governed.claim(job)
    with pytest.raises(errors.InvalidArgument, match="touches only models"):
        governed.permit(job, None)


def fail(governed: Governed, job: Job) -> Any:
    binding = governed.binding(job)
    return transitions.fail(
        entry=governed.entry,
        task_id=job.task_id,
        attempt=binding.attempt,
        fencing_token=binding.fencing_token,
        error_message="It broke.",
    )


def escalate(governed: Governed, job: Job) -> Any:
    binding = governed.binding(job)
    return transitions.escalate(
        entry=governed.entry,
        task_id=job.task_id,
        attempt=binding.attempt,
        fencing_token=binding.fencing_token,
        reason="A person is needed.",
    )


def expire(_: Governed, job: Job) -> Any:
    lease = Lease.objects.get(job=job)
    Lease.objects.filter(job=job).update(expires_at=lease.granted_at - timedelta(seconds=1))
    end_if_due(task_id=job.task_id)


def supersede(governed: Governed, job: Job) -> Any:
    governed.activate()
    end_if_due(task_id=job.task_id)


def time_out(_: Governed, job: Job) -> Any:
    pass_attempt_deadline(job)
    end_if_due(task_id=job.task_id)


def miss_deadline(_: Governed, job: Job) -> Any:
    Job.objects.filter(pk=job.pk).update(deadline_at=job.created_at)
    end_if_due(task_id=job.task_id)


def stop(_: Governed, job: Job) -> Any:
    transitions.stop(task_id=job.task_id, **TEST)


ENDS = [
    pytest.param(fail, "queued", id="fail"),
    pytest.param(escalate, "escalated", id="escalate"),
    pytest.param(expire, "queued", id="expiry"),
    pytest.param(supersede, "queued", id="supersession"),
    pytest.param(time_out, "queued", id="attempt deadline"),
    pytest.param(miss_deadline, "failed", id="job deadline"),
    pytest.param(stop, "stopped", id="stop"),
]


@pytest.mark.parametrize(("end", "state"), ENDS)
def test_an_attempt_that_touched_only_models_leaves_nothing_in_doubt(
    governed: Governed, make_job: MakeJob, end: Callable[..., Any], state: str
) -> None:
    of_type(effects="model_only")
    job = make_job()
    execution = governed.begin(job)
    end(governed, job)
    job.refresh_from_db()
    execution.refresh_from_db()
    assert (job.state, job.unresolved_executions) == (state, 0)
    assert (execution.state, execution.error_code) == ("failed", "ATTEMPT_ENDED")
    call = Reservation.objects.get(job_id=job.job_id)
    assert (call.state, call.resolution.cost) == ("failed", call.amount)
    assert "usage_missing" in call.resolution.flags
    assert list(ledger.verify()) == []


@pytest.mark.parametrize(("end", "state"), ENDS)
def test_what_acts_outside_stays_in_doubt(
    governed: Governed, make_job: MakeJob, end: Callable[..., Any], state: str
) -> None:
    job = make_job()
    execution = governed.begin(job)
    end(governed, job)
    job.refresh_from_db()
    execution.refresh_from_db()
    assert job.state == ("in_doubt" if state == "queued" else state)
    assert (job.unresolved_executions, execution.state) == (1, "unknown")
    assert Reservation.objects.get(job_id=job.job_id).state == "in_doubt"


def test_the_next_attempt_of_what_touches_only_models_calls_anew(
    governed: Governed, make_job: MakeJob
) -> None:
    of_type(effects="model_only")
    job = make_job()
    governed.begin(job)
    expire(governed, job)
    governed.activate()
    Job.objects.filter(pk=job.pk).update(available_at=job.created_at)
    governed.result(governed.begin(job))
    assert complete(governed, job).job.state == "completed"
    assert list(ledger.verify()) == []


def test_a_result_that_comes_after_the_end_is_kept_as_evidence(
    governed: Governed, make_job: MakeJob
) -> None:
    of_type(effects="model_only")
    job = make_job()
    execution = governed.begin(job)
    expire(governed, job)
    assert governed.result(execution).as_evidence
    assert ExecutionEvidence.objects.get().outcome == "succeeded"
    assert Execution.objects.get().state == "failed"


def test_what_an_execution_touches_is_as_its_type_said_at_its_start(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job()
    governed.begin(job)
    of_type(effects="model_only")
    fail(governed, job)
    job.refresh_from_db()
    assert job.state == "in_doubt"
