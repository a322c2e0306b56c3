"""External effects: decided, reserved, permitted, started, reported, reconciled."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest
from django.db import DatabaseError, transaction

from agents.transitions import admission, epochs
from agents.transitions.admission import Admission
from governance.core import clock, errors
from governance.core.models import AuditEvent
from governance.money import ledger
from governance.money.models import BudgetWindow, Reservation, Resolution
from jobs import executions, transitions
from jobs.models import (
    Execution,
    ExecutionEvidence,
    Job,
    Lease,
    LiveAuthorization,
    Permit,
    Reconciliation,
)
from jobs.transitions.sweeping import end_if_due
from tests.evidence import refused
from tests.jobs.governed import TEST, Governed
from tests.work import pass_attempt_deadline, pass_time

MakeJob = Callable[..., Job]


def expire(job: Job) -> None:
    """Let the lease of the job run out and the sweeper find it."""
    lease = Lease.objects.get(job=job)
    Lease.objects.filter(job=job).update(expires_at=lease.granted_at - timedelta(seconds=1))
    end_if_due(task_id=job.task_id)
    job.refresh_from_db()


def events(job: Job) -> list[str]:
    found = AuditEvent.objects.filter(subject=job.audit_subject).order_by("seq")
    return list(found.values_list("action", flat=True))


# --- The governed path ------------------------------------------------------------------------


def test_an_execution_is_decided_reserved_started_and_settled(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job()
    execution = governed.begin(job)
    assert execution.state == "unknown"
    assert Permit.objects.get().state == "spent"
    assert Reservation.objects.get().state == "in_doubt"

    outcome = governed.result(execution)

    assert (outcome.outcome, outcome.as_evidence) == ("recorded", False)
    execution.refresh_from_db()
    assert execution.state == "succeeded"
    assert Reservation.objects.get().state == "settled"
    assert Resolution.objects.get().cost == Decimal("0.0007")
    window = BudgetWindow.objects.get()
    assert (window.held, window.spent) == (0, Decimal("0.0007"))
    job.refresh_from_db()
    assert job.unresolved_executions == 0
    assert events(job)[-5:] == [
        "route.issued",
        "permit.issued",
        "execution.started",
        "execution.succeeded",
        "reservation.settled",
    ]


def test_a_completion_waits_for_the_report_of_the_started_execution(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job()
    execution = governed.begin(job)
    binding = governed.binding(job)
    done = {
        "task_id": job.task_id,
        "attempt": binding.attempt,
        "fencing_token": binding.fencing_token,
        "result": {"ok": True},
    }
    [refused] = transitions.complete(entry=governed.entry, completions=[done])
    assert isinstance(refused, errors.OutcomeUnknown)
    governed.result(execution)
    [recorded] = transitions.complete(entry=governed.entry, completions=[done])
    assert isinstance(recorded, transitions.Outcome)
    assert recorded.job.state == "completed"


@pytest.mark.parametrize("step", ["route", "permit", "start"])
def test_an_attempt_whose_lease_has_run_out_takes_no_further_step(
    governed: Governed, make_job: MakeJob, step: str
) -> None:
    job = make_job()
    governed.claim(job)
    if step != "route":
        reservation = governed.route(job).reservation.reservation_id
    if step == "start":
        permit = governed.permit(job, reservation)
    # Nobody has swept yet: the attempt is the job's and its token the current one.
    granted_at = Lease.objects.get(job=job).granted_at
    Lease.objects.filter(job=job).update(expires_at=granted_at + timedelta(microseconds=1))
    before, held = events(job), Reservation.objects.count()

    with pytest.raises(errors.LeaseExpired):
        if step == "route":
            governed.route(job)
        elif step == "permit":
            governed.permit(job, reservation)
        else:
            governed.start(job, permit.permit_id)

    assert events(job) == before
    assert Reservation.objects.count() == held
    assert list(Permit.objects.values_list("state", flat=True)) == ["issued"] * (step == "start")
    assert not Execution.objects.exists()


def test_the_same_start_again_gets_the_stored_receipt(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job()
    governed.claim(job)
    permit = governed.permit(job, governed.route(job).reservation.reservation_id)
    first = governed.start(job, permit.permit_id)
    before = events(job)
    again = governed.start(job, permit.permit_id)
    assert (first.outcome, again.outcome) == ("started", "already_started")
    assert again.execution.pk == Execution.objects.get(job=job).pk
    assert again.execution.decided_at == first.execution.decided_at
    assert events(job) == before


def test_another_request_for_the_same_execution_is_a_conflict(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job()
    governed.claim(job)
    permit = governed.permit(job, governed.route(job).reservation.reservation_id)
    governed.start(job, permit.permit_id)
    with pytest.raises(errors.ExecutionConflict):
        governed.start(job, permit.permit_id, request_sha256="ef" * 32)
    assert Execution.objects.count() == 1


def test_after_the_start_there_is_no_second_permit_for_the_attempt(
    governed: Governed, make_job: MakeJob
) -> None:
    # Of a type without a model: no reservation stands in the way of a second permit.
    job = make_job(task_type="healthcheck")
    governed.claim(job)
    governed.start(job, governed.permit(job, None).permit_id)
    before = events(job)

    with pytest.raises(errors.PermitSpent):
        governed.permit(job, None)

    assert Permit.objects.get().state == "spent"
    assert events(job) == before


def test_a_permit_from_before_the_session_was_bound_anew_starts_nothing(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job()
    governed.claim(job)
    reservation = governed.route(job).reservation.reservation_id
    older = governed.permit(job, reservation)
    epochs.rotate(**TEST)
    governed.rebind()

    with pytest.raises(errors.PermitRevoked):
        governed.start(job, older.permit_id)

    assert Permit.objects.get().state == "revoked"
    assert not Execution.objects.exists()
    newer = governed.permit(job, reservation)
    assert newer.session_generation == older.session_generation + 1
    governed.start(job, newer.permit_id)
    assert Permit.objects.get(permit_id=older.permit_id).state == "revoked"
    assert Execution.objects.get().permit.permit_id == newer.permit_id


def test_a_start_of_another_envelope_is_refused(governed: Governed, make_job: MakeJob) -> None:
    job = make_job()
    governed.claim(job)
    permit = governed.permit(job, governed.route(job).reservation.reservation_id)
    before = events(job)

    with pytest.raises(errors.BindingMismatch):
        governed.start(job, permit.permit_id, execution_digest="ef" * 32)

    assert events(job) == before
    assert Permit.objects.get().state == "issued"
    assert not Execution.objects.exists()


def test_a_permit_whose_deadline_has_passed_cannot_start(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job()
    governed.claim(job)
    issued = governed.permit(job, governed.route(job).reservation.reservation_id)
    permit = Permit.objects.get(permit_id=issued.permit_id)
    # The deadline is bound for good, so the test takes a permit that was made with a past one.
    Permit.objects.filter(pk=permit.pk).update(state="revoked", ended_at=permit.issued_at)
    permit.pk, permit.permit_id = None, uuid4()
    permit.deadline_at = permit.issued_at
    permit.save(force_insert=True)
    with pytest.raises(errors.PermitExpired):
        governed.start(job, permit.permit_id)
    assert not Execution.objects.exists()


def test_a_paused_job_starts_nothing(governed: Governed, make_job: MakeJob) -> None:
    job = make_job()
    governed.claim(job)
    permit = governed.permit(job, governed.route(job).reservation.reservation_id)
    transitions.pause(task_id=job.task_id, **TEST)
    with pytest.raises(errors.ExecutionPaused):
        governed.start(job, permit.permit_id)
    assert not Execution.objects.exists()


def set_admission(state: str) -> Admission:
    return admission.set_admission(agent="hermes", state=state, barrier_id=state, **TEST)


@pytest.mark.parametrize("step", ["route", "permit", "start"])
def test_a_closed_agent_begins_nothing_of_what_it_has_claimed(
    governed: Governed, make_job: MakeJob, step: str
) -> None:
    job = make_job()
    governed.claim(job)
    if step != "route":
        reservation = governed.route(job).reservation.reservation_id
    if step == "start":
        permit = governed.permit(job, reservation)

    def take() -> Any:
        if step == "route":
            return governed.route(job)
        if step == "permit":
            return governed.permit(job, reservation)
        return governed.start(job, permit.permit_id)

    set_admission("closed")
    with refused(errors.EffectsClosed, job) as refusal:
        take()
    assert refusal.value.current == {"admission": "closed", "generation": 2}
    assert not Execution.objects.exists()

    set_admission("open")
    assert take()


def test_a_draining_agent_goes_on_with_what_it_has_claimed(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job()
    governed.claim(job)
    set_admission("draining")

    reservation = governed.route(job).reservation.reservation_id
    permit = governed.permit(job, reservation)

    assert governed.start(job, permit.permit_id).outcome == "started"


@pytest.mark.parametrize("state", ["draining", "closed"])
def test_what_was_begun_is_reported_whatever_the_admission(
    governed: Governed, make_job: MakeJob, state: str
) -> None:
    job = make_job()
    execution = governed.begin(job)
    set_admission(state)
    held = {"task_id": job.task_id, "attempt": 1, "fencing_token": 1}

    [beat] = transitions.heartbeat(entry=governed.entry, beats=[held])
    assert (beat.outcome, beat.control) == ("renewed", "drain")
    assert governed.result(execution).outcome == "recorded"
    [done] = transitions.complete(entry=governed.entry, completions=[held | {"result": {}}])
    assert (done.outcome, done.job.state) == ("recorded", "completed")


def test_a_close_says_until_when_what_was_begun_may_act(
    governed: Governed, make_job: MakeJob
) -> None:
    assert set_admission("draining").effects_until is None
    set_admission("open")
    executions_begun = [governed.begin(make_job()) for _ in range(2)]
    last = max(execution.deadline_at for execution in executions_begun)

    closed = set_admission("closed")

    assert (closed.active_leases, closed.effects_until) == (2, last)
    for execution in executions_begun:
        governed.result(execution)
    assert set_admission("closed").effects_until is None


def test_an_effect_whose_deadline_has_passed_acts_no_more(
    governed: Governed, make_job: MakeJob
) -> None:
    execution = governed.begin(make_job())
    Execution.objects.filter(pk=execution.pk).update(deadline_at=execution.decided_at)

    assert set_admission("closed").effects_until is None


def test_live_needs_a_recorded_authorization_at_permit_and_at_start(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job()
    claimed = governed.claim(job)
    reservation = governed.route(job).reservation.reservation_id
    with pytest.raises(errors.LiveExecutionNotAuthorized):
        governed.permit(job, reservation, mode="live")
    grant = LiveAuthorization.objects.create(
        agent_id=job.agent_id,
        runtime=claimed.grant.attempt.runtime,
        granted_by="user:gov",
        granted_at=job.created_at,
        reason="trial",
        ends_at=job.created_at + timedelta(days=1),
    )
    permit = governed.permit(job, reservation, mode="live")
    grant.revoked_at = job.created_at
    grant.save()

    refused = governed.start(job, permit.permit_id)

    assert isinstance(refused, errors.LiveExecutionNotAuthorized)
    execution = Execution.objects.get()
    assert (execution.state, execution.refusal_reason) == (
        "refused",
        "LIVE_EXECUTION_NOT_AUTHORIZED",
    )
    job.refresh_from_db()
    assert job.unresolved_executions == 0


def test_ids_that_the_server_does_not_compute_are_refused(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job()
    governed.claim(job)
    good = governed.binding(job)
    bad = executions.Binding(good.task_id, good.attempt, good.fencing_token, "xr_" + "0" * 64)
    with pytest.raises(errors.BindingMismatch):
        executions.route(
            entry=governed.entry,
            binding=bad,
            route_request_id=bad.external_request_id + ":model",
            estimated_input_tokens=1,
            max_output_tokens=1,
        )
    assert not Reservation.objects.exists()


# --- Every end of an attempt with an unknown execution ----------------------------------------


def test_expiry_with_an_unknown_execution_leaves_the_job_in_doubt(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job()
    governed.begin(job)
    expire(job)
    assert (job.state, job.unresolved_executions) == ("in_doubt", 1)
    assert Reservation.objects.get().state == "in_doubt"
    with pytest.raises(errors.OutcomeUnknown):
        governed.claim(job)


def test_failing_with_an_unknown_execution_leaves_the_job_in_doubt(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job()
    governed.begin(job)
    binding = governed.binding(job)
    transitions.fail(
        entry=governed.entry,
        task_id=job.task_id,
        attempt=binding.attempt,
        fencing_token=binding.fencing_token,
        error_message="lost the answer",
    )
    job.refresh_from_db()
    assert job.state == "in_doubt"


def test_supersession_with_an_unknown_execution_leaves_the_job_in_doubt(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job()
    governed.begin(job)
    governed.activate()
    assert end_if_due(task_id=job.task_id) == "superseded"
    job.refresh_from_db()
    assert job.state == "in_doubt"


def test_escalating_with_an_unknown_execution_keeps_it_unresolved(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job()
    governed.begin(job)
    binding = governed.binding(job)
    transitions.escalate(
        entry=governed.entry,
        task_id=job.task_id,
        attempt=binding.attempt,
        fencing_token=binding.fencing_token,
        reason="help",
    )
    with pytest.raises(errors.OutcomeUnknown):
        transitions.resolve(task_id=job.task_id, resolution="requeue", **TEST)
    job.refresh_from_db()
    assert (job.state, job.unresolved_executions) == ("escalated", 1)


def test_stopping_with_an_unknown_execution_keeps_it_in_the_inbox(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job()
    execution = governed.begin(job)
    transitions.stop(task_id=job.task_id, **TEST)
    job.refresh_from_db()
    assert (job.state, job.unresolved_executions) == ("stopped", 1)
    assert Reservation.objects.get().state == "in_doubt"

    executions.reconcile(
        external_request_id=execution.external_request_id, verdict="not_happened", **TEST
    )

    job.refresh_from_db()
    assert (job.state, job.unresolved_executions) == ("stopped", 0)
    assert Reservation.objects.get().state == "failed"


def test_an_attempt_deadline_with_an_unknown_execution_leaves_the_job_in_doubt(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job(attempt_timeout_seconds=60)
    governed.begin(job)
    pass_attempt_deadline(job)

    assert end_if_due(task_id=job.task_id) == "timed_out"

    job.refresh_from_db()
    assert (job.state, job.unresolved_executions) == ("in_doubt", 1)
    assert Reservation.objects.get().state == "in_doubt"


def test_a_job_deadline_with_an_unknown_execution_keeps_it_in_the_inbox(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job(deadline_at=clock.now() + timedelta(hours=1))
    execution = governed.begin(job)
    pass_time(job, "deadline_at")

    assert end_if_due(task_id=job.task_id) == "deadline_exceeded"

    job.refresh_from_db()
    assert (job.state, job.unresolved_executions) == ("failed", 1)
    assert Reservation.objects.get().state == "in_doubt"
    before = events(job)
    for again in (
        lambda: transitions.rework(task_id=job.task_id, extra=1, **TEST),
        lambda: transitions.extend(task_id=job.task_id, extra=1, **TEST),
    ):
        with pytest.raises(errors.OutcomeUnknown):
            again()
    job.refresh_from_db()
    assert (job.state, events(job)) == ("failed", before)

    executions.reconcile(
        external_request_id=execution.external_request_id, verdict="not_happened", **TEST
    )
    job.refresh_from_db()
    assert (job.state, job.unresolved_executions) == ("failed", 0)
    assert Reservation.objects.get().state == "failed"


def test_an_attempt_that_ends_with_nothing_started_gives_up_its_authority(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job()
    governed.claim(job)
    governed.permit(job, governed.route(job).reservation.reservation_id)
    expire(job)
    assert job.state == "queued"
    assert Permit.objects.get().state == "revoked"
    assert Reservation.objects.get().state == "released"
    assert BudgetWindow.objects.get().held == 0


# --- Results and reconciliation ---------------------------------------------------------------


def test_a_late_result_is_evidence_and_never_state(governed: Governed, make_job: MakeJob) -> None:
    job = make_job()
    execution = governed.begin(job)
    expire(job)

    outcome = governed.result(execution)

    assert (outcome.outcome, outcome.as_evidence) == ("recorded", True)
    assert governed.result(execution).outcome == "already_recorded"
    execution.refresh_from_db()
    job.refresh_from_db()
    assert (execution.state, job.state) == ("unknown", "in_doubt")
    assert ExecutionEvidence.objects.count() == 1
    # What was used is booked all the same: a person's finding on the effect changes no money.
    assert Reservation.objects.get().state == "settled"


@pytest.mark.parametrize(
    "wrong", [{"execution_digest": "ef" * 32}, {"fencing_token": 7}], ids=["digest", "token"]
)
def test_a_result_that_is_bound_to_something_else_is_refused(
    governed: Governed, make_job: MakeJob, wrong: dict[str, Any]
) -> None:
    job = make_job()
    execution = governed.begin(job)
    before = events(job)
    bound: dict[str, Any] = {
        "external_request_id": execution.external_request_id,
        "task_id": job.task_id,
        "attempt": execution.attempt,
        "fencing_token": execution.fencing_token,
        "execution_digest": execution.execution_digest,
    }

    with pytest.raises(errors.BindingMismatch):
        executions.result(
            entry=governed.entry,
            **(bound | wrong),
            outcome="succeeded",
            result_sha256="cd" * 32,
        )

    execution.refresh_from_db()
    assert execution.state == "unknown"
    assert events(job) == before
    assert not ExecutionEvidence.objects.exists()


def test_a_late_result_changes_nothing_of_the_attempt_that_runs_now(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job()
    first = governed.begin(job)
    expire(job)
    executions.reconcile(
        external_request_id=first.external_request_id, verdict="not_happened", **TEST
    )
    second = governed.begin(job)

    outcome = governed.result(first)

    assert (outcome.outcome, outcome.as_evidence) == ("recorded", True)
    states = dict(Execution.objects.values_list("attempt", "state"))
    assert states == {1: "unknown", 2: "unknown"}
    money = Reservation.objects.order_by("attempt").values_list("state", flat=True)
    assert list(money) == ["failed", "in_doubt"]
    job.refresh_from_db()
    assert (job.state, job.unresolved_executions) == ("active", 1)
    assert governed.result(second).outcome == "recorded"


def test_another_result_is_refused_and_the_same_is_answered(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job()
    execution = governed.begin(job)
    governed.result(execution)
    assert governed.result(execution).outcome == "already_recorded"
    with pytest.raises(errors.ResultDigestConflict):
        governed.result(execution, result_sha256="00" * 32, usage=None)


@pytest.mark.parametrize(
    ("verdict", "attempts", "state", "money"),
    [
        ("happened", 3, "completed", "settled"),
        ("not_happened", 3, "queued", "failed"),
        ("not_happened", 1, "failed", "failed"),
        ("undetermined", 3, "in_doubt", "in_doubt"),
    ],
)
def test_a_reconciliation_moves_job_and_money_together(
    governed: Governed, make_job: MakeJob, verdict: str, attempts: int, state: str, money: str
) -> None:
    job = make_job(max_attempts=attempts)
    execution = governed.begin(job)
    expire(job)
    executions.reconcile(
        external_request_id=execution.external_request_id,
        verdict=verdict,
        result={"said": "by the provider"} if verdict == "happened" else None,
        **TEST,
    )
    job.refresh_from_db()
    assert (job.state, Reservation.objects.get().state) == (state, money)
    if verdict == "happened":
        assert job.attempts.get().result == {"said": "by the provider"}


def test_nobody_says_what_became_of_an_execution_whose_attempt_still_runs(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job()
    execution = governed.begin(job)
    before = events(job)

    with pytest.raises(errors.InvalidTransition):
        executions.reconcile(
            external_request_id=execution.external_request_id, verdict="not_happened", **TEST
        )

    assert events(job) == before
    assert not Reconciliation.objects.exists()
    assert Reservation.objects.get().state == "in_doubt"


def test_an_execution_is_reconciled_once(governed: Governed, make_job: MakeJob) -> None:
    job = make_job()
    execution = governed.begin(job)
    expire(job)
    named: dict[str, Any] = {"external_request_id": execution.external_request_id}
    executions.reconcile(**named, verdict="undetermined", **TEST)
    executions.reconcile(**named, verdict="happened", **TEST)
    with pytest.raises(errors.InvalidTransition):
        executions.reconcile(**named, verdict="not_happened", **TEST)
    assert Reconciliation.objects.count() == 2


@pytest.mark.parametrize("wrong", [{"reason": " "}, {"verdict": "perhaps"}])
def test_a_reconciliation_needs_a_reason_and_a_verdict_that_is_known(
    governed: Governed, make_job: MakeJob, wrong: dict[str, str]
) -> None:
    job = make_job()
    execution = governed.begin(job)
    expire(job)
    before = events(job)

    with pytest.raises(errors.InvalidArgument):
        executions.reconcile(
            external_request_id=execution.external_request_id,
            **{"verdict": "happened"} | TEST | wrong,
        )

    assert (events(job), Reservation.objects.get().state) == (before, "in_doubt")


def test_an_execution_that_nobody_started_is_not_reconciled(world: None) -> None:
    with pytest.raises(errors.NotFound):
        executions.reconcile(external_request_id="xr_nobody", verdict="happened", **TEST)


def test_an_end_that_contradicts_itself_ends_no_reservation(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job()
    governed.claim(job)
    routed = governed.route(job)
    before = events(job)

    with pytest.raises(errors.InvalidArgument):
        executions.resolve_reservation(
            entry=governed.entry,
            binding=governed.binding(job),
            reservation_id=routed.reservation.reservation_id,
            end="settled",
            cost_basis="none",
        )

    assert (events(job), Reservation.objects.get().state) == (before, "held")


# --- The story: attempt 6 of 6 failed, one more is granted ------------------------------------


@pytest.fixture
def six_failed(governed: Governed, make_job: MakeJob) -> Job:
    """A job whose six attempts failed, the last with a failed reservation."""
    job = make_job(max_attempts=6)
    for _ in range(6):
        Job.objects.filter(pk=job.pk).update(available_at=job.created_at)
        execution = governed.begin(job)
        governed.result(execution, "failed", error_code="PROVIDER_REFUSED")
        binding = governed.binding(job)
        transitions.fail(
            entry=governed.entry,
            task_id=job.task_id,
            attempt=binding.attempt,
            fencing_token=binding.fencing_token,
            error_message="the provider refused",
        )
    job.refresh_from_db()
    return job


def test_story_1_six_failed_attempts_end_the_job(six_failed: Job) -> None:
    assert (six_failed.state, six_failed.attempt, six_failed.max_attempts) == ("failed", 6, 6)
    assert Reservation.objects.filter(state="failed").count() == 6


def test_story_2_needs_rework_waits_for_the_extension(six_failed: Job) -> None:
    transitions.rework(task_id=six_failed.task_id, **TEST)
    six_failed.refresh_from_db()
    assert six_failed.state == "needs_rework"


def test_story_3_the_extension_is_bounded_and_queues_the_job(six_failed: Job) -> None:
    transitions.rework(task_id=six_failed.task_id, **TEST)
    with pytest.raises(errors.RetryCeilingReached):
        transitions.extend(task_id=six_failed.task_id, to_max=11, **TEST)
    transitions.extend(task_id=six_failed.task_id, to_max=7, **TEST)
    six_failed.refresh_from_db()
    assert (six_failed.state, six_failed.max_attempts) == ("queued", 7)
    grant = six_failed.extensions.get()
    assert (grant.from_max, grant.to_max, grant.granted_by) == (6, 7, "user:test")


def test_story_4_attempt_seven_has_a_new_identity_and_a_new_reservation(
    governed: Governed, six_failed: Job
) -> None:
    transitions.rework(task_id=six_failed.task_id, extra=1, **TEST)
    old = set(Execution.objects.values_list("external_request_id", flat=True))
    execution = governed.begin(six_failed)
    assert execution.attempt == 7
    assert execution.external_request_id not in old
    fresh = Reservation.objects.get(external_request_id=execution.external_request_id)
    assert fresh.state == "in_doubt"
    assert fresh.route_request_id == f"{execution.external_request_id}:model"


def test_story_5_attempt_seven_executes_and_settles(governed: Governed, six_failed: Job) -> None:
    transitions.rework(task_id=six_failed.task_id, extra=1, **TEST)
    execution = governed.begin(six_failed)
    governed.result(execution)
    binding = governed.binding(six_failed)
    done = {
        "task_id": binding.task_id,
        "attempt": binding.attempt,
        "fencing_token": binding.fencing_token,
        "result": {"ok": True},
    }
    [outcome] = transitions.complete(entry=governed.entry, completions=[done])
    assert isinstance(outcome, transitions.Outcome)
    assert outcome.job.state == "completed"
    settled = Reservation.objects.get(external_request_id=execution.external_request_id)
    assert settled.state == "settled"
    assert not list(ledger.verify())


def test_story_6_the_old_reservation_stays_failed_and_nobody_can_change_it(
    governed: Governed, six_failed: Job
) -> None:
    old = Reservation.objects.filter(attempt=6).get()
    transitions.rework(task_id=six_failed.task_id, extra=1, **TEST)
    governed.result(governed.begin(six_failed))
    old.refresh_from_db()
    assert old.state == "failed"
    for change in (
        lambda: Reservation.objects.filter(pk=old.pk).update(state="held"),
        lambda: Reservation.objects.filter(pk=old.pk).delete(),
        lambda: Resolution.objects.filter(reservation=old).update(ended_as="settled"),
    ):
        with pytest.raises(DatabaseError), transaction.atomic():
            change()


def test_story_7_the_failed_reservation_does_not_block_the_same_job(
    governed: Governed, six_failed: Job
) -> None:
    transitions.rework(task_id=six_failed.task_id, extra=1, **TEST)
    governed.claim(six_failed)
    first = governed.route(six_failed)
    again = governed.route(six_failed)
    assert first.refusal is None
    assert (again.replayed, again.event()) == (True, first.event())
    assert Job.objects.count() == 1


# --- Live authorization -----------------------------------------------------------------------


def test_a_live_authorization_ends_and_can_be_revoked_once(governed: Governed) -> None:
    grant = transitions.authorize_live(
        agent="hermes", runtime="command", valid_seconds=3600, **TEST
    )
    assert (grant.ends_at - grant.granted_at).total_seconds() == 3600
    transitions.revoke_live(authorization_id=grant.pk, **TEST)
    with pytest.raises(errors.InvalidTransition):
        transitions.revoke_live(authorization_id=grant.pk, **TEST)
    recorded = AuditEvent.objects.filter(subject="agent:hermes", actor="user:test")
    assert list(recorded.order_by("-seq").values_list("action", flat=True)[:2]) == [
        "live_execution.revoked",
        "live_execution.authorized",
    ]
