"""Deferrals: what ends without a verdict, what of it counts, and how often there may be one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db.models import F

from agents.entry import Entry
from agents.models import Agent
from governance.core.errors import (
    AttemptsExhausted,
    BudgetExhausted,
    EffectsClosed,
    FencingTokenRequired,
    InvalidTransition,
    LeaseHeldByAnother,
    ModelReservationStateInvalid,
    NoModelInForce,
    OutcomeConflict,
    OutcomeUnknown,
    StaleFencingToken,
)
from governance.money import catalogue
from governance.money.models import Budget, LanguageModel, RoutePolicy
from jobs import executions, transitions
from jobs.models import Attempt, Execution, Job, Lease, Permit
from tests.evidence import actions, events_of, facts, refused
from tests.jobs.governed import TEST, Governed
from tests.work import ANNA, Running, expire_lease, make_available

pytestmark = pytest.mark.django_db

WHY = "The provider has no quota left."
SAID = {"reason": WHY, "retry_after_seconds": 600}


@pytest.fixture
def defer(worker: Entry) -> Callable[..., Any]:
    """Defer an attempt of the first worker: `defer(held, reason="...")`."""

    def make(held: Running, entry: Entry | None = None, **over: Any) -> Any:
        answer = transitions.defer(entry=entry or worker, **held.binding | SAID | over)
        held.job.refresh_from_db()
        return answer

    return make


@pytest.fixture
def defer_often(defer: Callable[..., Any], claim: Callable[..., Running]) -> Callable[..., Any]:
    """Claim and defer a job so many times, and return the last answer."""

    def make(job: Job, times: int, **over: Any) -> Any:
        for _ in range(times):
            answer = defer(claim(job), **over)
            make_available(job)
        job.refresh_from_db()
        return answer

    return make


def defer_governed(governed: Governed, job: Job) -> Any:
    binding = governed.binding(job)
    answer = transitions.defer(
        entry=governed.entry,
        task_id=binding.task_id,
        attempt=binding.attempt,
        fencing_token=binding.fencing_token,
        **SAID,
    )
    job.refresh_from_db()
    return answer


def set_admission(state: str) -> None:
    generation = F("admission_generation") + 1
    Agent.objects.filter(name="hermes").update(admission=state, admission_generation=generation)


def resolve(governed: Governed, job: Job, routed: Any, end: str, **said: Any) -> None:
    executions.resolve_reservation(
        entry=governed.entry,
        binding=governed.binding(job),
        reservation_id=routed.reservation.reservation_id,
        end=end,
        **said,
    )


class TestADeferral:
    def test_queues_the_job_for_exactly_then_and_counts_nothing(
        self, running: Any, defer: Any
    ) -> None:
        held = running(max_attempts=1)

        answer = defer(held)

        attempt = Attempt.objects.get(job=held.job)
        assert (answer.outcome, answer.cause) == ("recorded", "unconfirmed")
        assert (held.job.state, held.job.attempt, held.job.deferrals) == ("queued", 1, 1)
        assert held.job.attempts_left == 1
        assert held.job.available_at == attempt.ended_at + timedelta(seconds=600)
        assert (attempt.outcome, attempt.error_code, attempt.error_message) == (
            "deferred",
            "DEFERRED",
            WHY,
        )
        assert not Lease.objects.filter(job=held.job).exists()

    def test_is_an_event_and_a_fact(self, running: Any, defer: Any) -> None:
        held = running()

        defer(held)

        assert actions(held.job)[-1] == "job.deferred"
        told = events_of(held.job)[-1]
        assert (told["cause"], told["counted"]) == ("unconfirmed", False)
        assert (told["retry_after_seconds"], told["worker_id"]) == (600, "worker-1")
        assert facts(held.job)[-1] == (3, "dev.fencepost.job.deferred")

    def test_lets_the_next_attempt_have_a_number_and_a_token_of_its_own(
        self, running: Any, defer: Any, claim: Any
    ) -> None:
        held = running(max_attempts=1)
        defer(held)
        make_available(held.job)

        second = claim(held.job)

        assert (second.attempt, second.fencing_token) == (2, 2)
        assert held.job.attempts_left == 0

    def test_leaves_a_paused_job_paused(self, running: Any, defer: Any) -> None:
        held = running()
        transitions.pause(task_id=held.job.task_id, **ANNA)

        defer(held)

        assert (held.job.state, held.job.paused) == ("queued", True)

    def test_keeps_the_last_progress(self, running: Any, defer: Any, worker: Entry) -> None:
        held = running()
        transitions.heartbeat(entry=worker, beats=[held.binding | {"progress": {"page": 5}}])

        defer(held)

        assert Attempt.objects.get(job=held.job).progress == {"page": 5}

    def test_is_taken_after_the_lease_has_expired_while_nobody_has_swept(
        self, running: Any, defer: Any
    ) -> None:
        held = running()
        expire_lease(held.job)

        assert defer(held).outcome == "recorded"

    def test_makes_the_back_off_of_a_later_failure_no_longer(
        self, make_job: Any, claim: Any, fail: Any, defer_often: Any, job_type: Any
    ) -> None:
        job_type(backoff_base_seconds=100, backoff_cap_seconds=100_000)
        job = make_job()
        defer_often(job, 5)

        fail(claim(job))

        job.refresh_from_db()
        ended = Attempt.objects.get(job=job, number=6).ended_at
        assert job.available_at - ended <= timedelta(seconds=100)


class TestARepetition:
    def test_is_recorded_once_also_after_the_job_was_claimed_again(
        self, running: Any, defer: Any, claim: Any
    ) -> None:
        held = running()
        defer(held)
        again = defer(held)
        make_available(held.job)
        claim(held.job)
        late = defer(held)

        assert [again.outcome, late.outcome] == ["already_recorded"] * 2
        assert (again.cause, late.cause) == (None, None)
        assert actions(held.job).count("job.deferred") == 1
        assert held.job.deferrals == 1

    @pytest.mark.parametrize("other", [{"reason": "Another."}, {"retry_after_seconds": 601}])
    def test_with_other_words_is_a_conflict(
        self, running: Any, defer: Any, other: dict[str, Any]
    ) -> None:
        held = running()
        defer(held)

        with refused(OutcomeConflict, held.job):
            defer(held, **other)

    def test_is_no_failure_nor_a_completion(
        self, running: Any, defer: Any, fail: Any, worker: Entry
    ) -> None:
        held = running()
        defer(held)

        with refused(OutcomeConflict, held.job):
            fail(held)
        [done] = transitions.complete(entry=worker, completions=[held.binding | {"result": 1}])
        assert isinstance(done, OutcomeConflict)


class TestWhoDefers:
    def test_is_the_holder_by_its_name_alone(self, running: Any, worker: Entry) -> None:
        held = running()

        answer = transitions.defer(
            entry=worker, task_id=held.job.task_id, attempt=None, fencing_token=None, **SAID
        )

        assert (answer.outcome, answer.job.state) == ("recorded", "queued")

    def test_must_send_its_token_where_an_earlier_attempt_has_said_the_same(
        self, running: Any, defer: Any, claim: Any, worker: Entry
    ) -> None:
        held = running()
        defer(held)
        make_available(held.job)
        claim(held.job)
        unnamed = {"task_id": held.job.task_id, "attempt": None, "fencing_token": None}

        with refused(FencingTokenRequired, held.job):
            transitions.defer(entry=worker, **unnamed, **SAID)
        other = SAID | {"reason": "Another."}
        assert transitions.defer(entry=worker, **unnamed, **other).outcome == "recorded"

    def test_is_nobody_else(self, running: Any, defer: Any, other_worker: Entry) -> None:
        held = running()

        with refused(LeaseHeldByAnother, held.job):
            defer(held, entry=other_worker)

    def test_has_the_current_token(self, running: Any, defer: Any) -> None:
        held = running()

        with refused(StaleFencingToken, held.job):
            defer(held, fencing_token=held.fencing_token + 1)

    def test_does_so_while_the_job_is_active(self, running: Any, defer: Any) -> None:
        held = running()
        transitions.stop(task_id=held.job.task_id, **ANNA)

        with refused(StaleFencingToken, held.job):
            defer(held)

    @pytest.mark.parametrize("admission", ["closed", "draining"])
    def test_may_do_so_while_nothing_new_begins(
        self, running: Any, defer: Any, admission: str
    ) -> None:
        held = running()
        set_admission(admission)

        answer = defer(held)

        assert (answer.outcome, answer.cause) == ("recorded", "confirmed")
        assert (held.job.deferrals, held.job.unconfirmed_deferrals) == (1, 0)


class TestOfAGovernedAttempt:
    def test_waits_for_the_result_of_what_was_started(
        self, governed: Governed, make_job: Any
    ) -> None:
        job = make_job()
        governed.begin(job)

        with refused(OutcomeUnknown, job):
            defer_governed(governed, job)

    def test_is_too_late_after_a_success(self, governed: Governed, make_job: Any) -> None:
        job = make_job()
        governed.result(governed.begin(job))

        with refused(InvalidTransition, job):
            defer_governed(governed, job)

    def test_waits_for_the_end_of_every_reservation(
        self, governed: Governed, make_job: Any
    ) -> None:
        job = make_job()
        governed.claim(job)
        routed = governed.route(job)

        with refused(ModelReservationStateInvalid, job):
            defer_governed(governed, job)
        resolve(governed, job, routed, "released")
        assert defer_governed(governed, job).outcome == "recorded"

    def test_revokes_the_permit_that_was_not_spent(self, governed: Governed, make_job: Any) -> None:
        job = make_job()
        governed.claim(job)
        routed = governed.route(job)
        governed.permit(job, routed.reservation.reservation_id)
        resolve(governed, job, routed, "released")

        defer_governed(governed, job)

        assert Permit.objects.get().state == "revoked"
        assert not Execution.objects.exists()

    @pytest.mark.parametrize(
        ("said", "cost", "deferrals"),
        [
            ({"outcome": "failed", "usage": {"input_tokens": 500, "output_tokens": 1}}, True, 0),
            ({"outcome": "failed"}, True, 0),  # nobody knows, so the estimate
            ({"outcome": "not_started"}, False, 1),
        ],
    )
    def test_counts_where_a_call_cost_something(
        self, governed: Governed, make_job: Any, said: dict[str, Any], cost: bool, deferrals: int
    ) -> None:
        job = make_job()
        governed.result(governed.begin(job), **said)

        answer = defer_governed(governed, job)

        assert (answer.cause, job.deferrals) == ("unconfirmed", deferrals)
        assert events_of(job)[-1]["counted"] is cost
        assert job.attempts_left == job.max_attempts - (1 if cost else 0)

    def test_that_counts_fails_the_job_where_no_attempt_is_left(
        self, governed: Governed, make_job: Any
    ) -> None:
        job = make_job(max_attempts=1)
        governed.result(governed.begin(job), "failed")

        defer_governed(governed, job)

        attempt = Attempt.objects.get()
        assert (job.state, job.attempts_left) == ("failed", 0)
        assert (attempt.outcome, attempt.error_code) == ("deferred", "ATTEMPTS_EXHAUSTED")
        assert actions(job)[-1] == "job.deferred"

    def test_costs_nothing_where_the_service_itself_had_no_room(
        self, governed: Governed, make_job: Any
    ) -> None:
        job = make_job(max_attempts=1)
        governed.claim(job)
        first = governed.route(job)
        resolve(governed, job, first, "settled", usage={"input_tokens": 9, "output_tokens": 9})
        catalogue.set_budget(scope="global", window="none", cap=Decimal(0), **TEST)
        refusal = governed.route(job, call=2).refusal
        assert isinstance(refusal, BudgetExhausted)

        answer = defer_governed(governed, job)

        assert (refusal.retry, answer.cause) == ("defer", "confirmed")
        assert (job.state, job.deferrals, job.unconfirmed_deferrals) == ("queued", 1, 0)


class TestACauseThatTheServiceConfirms:
    def test_is_an_empty_budget(self, governed: Governed, make_job: Any) -> None:
        Budget.objects.update(cap=0)
        self.refuse_route(governed, make_job(), BudgetExhausted)

    @pytest.mark.parametrize("empty", ["no policy", "its models are disabled"])
    def test_is_a_policy_without_models(
        self, governed: Governed, make_job: Any, empty: str
    ) -> None:
        if empty == "no policy":
            RoutePolicy.objects.update(retired_at=F("created_at"))
        else:
            LanguageModel.objects.update(enabled=False)
        self.refuse_route(governed, make_job(), NoModelInForce)

    def refuse_route(self, governed: Governed, job: Job, kind: type[Exception]) -> None:
        governed.claim(job)
        refusal = governed.route(job).refusal
        assert type(refusal) is kind
        assert (refusal.retry, refusal.after_seconds, refusal.stored) == ("defer", 300, False)

        assert defer_governed(governed, job).cause == "confirmed"

    def test_is_none_of_what_the_request_asks_for(self, governed: Governed, make_job: Any) -> None:
        job = make_job()
        governed.claim(job)
        refusal = governed.route(job, requirements=["vision"]).refusal
        assert refusal is not None and refusal.retry == "stop"

        assert defer_governed(governed, job).cause == "unconfirmed"

    def test_is_none_of_an_earlier_attempt(self, governed: Governed, make_job: Any) -> None:
        job = make_job()
        governed.claim(job)
        Budget.objects.update(cap=0)
        governed.route(job)
        defer_governed(governed, job)
        make_available(job)
        Budget.objects.update(cap=None)
        governed.claim(job)
        resolve(governed, job, governed.route(job), "released")

        assert defer_governed(governed, job).cause == "unconfirmed"

    @pytest.mark.parametrize("step", ["route", "permit", "start"])
    def test_is_a_closed_agent_and_each_step_says_so(
        self, governed: Governed, make_job: Any, step: str
    ) -> None:
        job = make_job()
        governed.claim(job)
        reservation = governed.route(job).reservation.reservation_id
        permit = governed.permit(job, reservation)
        set_admission("closed")

        with refused(EffectsClosed, job) as refusal:
            if step == "route":
                governed.route(job, call=2)
            elif step == "permit":
                governed.permit(job, reservation)
            else:
                governed.start(job, permit.permit_id)

        told = refusal.value
        assert (told.reason, told.retry, told.after_seconds) == ("ADMISSION_CLOSED", "defer", 300)
        assert told.stored is False

    def test_is_bounded_by_nothing_but_the_deadlines_of_the_job(
        self, make_job: Any, defer: Any, claim: Any, job_type: Any
    ) -> None:
        job_type(max_deferrals=0)
        job = make_job(max_attempts=1)
        for number in range(1, 31):
            set_admission("open")
            held = claim(job)
            set_admission("closed")
            assert defer(held).cause == "confirmed"
            assert (held.job.state, held.job.deferrals) == ("queued", number)
            make_available(job)


class TestTheBound:
    def test_is_twenty_and_the_next_one_fails_the_job_and_counts(
        self, make_job: Any, claim: Any, defer: Any, defer_often: Any
    ) -> None:
        job = make_job(max_attempts=2)
        assert defer_often(job, 20).job.state == "queued"
        held = claim(job)

        answer = defer(held)

        attempt = Attempt.objects.get(job=job, number=21)
        assert (answer.outcome, answer.cause) == ("recorded", "exhausted")
        assert (held.job.state, held.job.deferrals, held.job.attempts_left) == ("failed", 20, 1)
        assert (attempt.outcome, attempt.error_code) == ("failed", "DEFERRALS_EXHAUSTED")
        assert attempt.error_message == WHY
        assert actions(job)[-1] == "job.attempt_failed"
        assert defer(held).outcome == "already_recorded"

    def test_is_the_job_type_s(self, make_job: Any, defer_often: Any, job_type: Any) -> None:
        job_type(max_deferrals=0)

        assert defer_often(make_job(), 1).job.state == "failed"

    def test_begins_anew_when_a_person_sends_the_job_back(
        self, make_job: Any, defer_often: Any, job_type: Any
    ) -> None:
        job_type(max_deferrals=2)
        job = make_job(max_attempts=3)
        assert defer_often(job, 3).job.state == "failed"

        transitions.rework(task_id=job.task_id, **ANNA)

        assert defer_often(job, 2).job.state == "queued"
        assert defer_often(job, 1).job.state == "failed"

    def test_begins_anew_when_a_person_grants_attempts(
        self, make_job: Any, defer_often: Any, job_type: Any
    ) -> None:
        job_type(max_deferrals=2)
        job = make_job()
        defer_often(job, 2)

        transitions.extend(task_id=job.task_id, extra=1, **ANNA)

        assert defer_often(job, 1).job.state == "queued"

    def test_begins_anew_when_a_person_has_found_what_became_of_an_execution(
        self, governed: Governed, make_job: Any
    ) -> None:
        job = make_job()
        governed.claim(job)
        defer_governed(governed, job)
        make_available(job)
        execution = governed.begin(job)
        expire_lease(job)
        transitions.end_if_due(task_id=job.task_id)
        named = {"external_request_id": execution.external_request_id}

        executions.reconcile(**named, verdict="undetermined", **TEST)
        job.refresh_from_db()
        assert job.unconfirmed_deferrals == 1
        executions.reconcile(**named, verdict="not_happened", **TEST)

        job.refresh_from_db()
        assert (job.state, job.unconfirmed_deferrals, job.deferrals) == ("queued", 0, 1)

    def test_is_none_of_control(self, make_job: Any, defer_often: Any) -> None:
        job = make_job()
        defer_often(job, 1)

        transitions.pause(task_id=job.task_id, **ANNA)
        transitions.resume(task_id=job.task_id, **ANNA)

        job.refresh_from_db()
        assert job.unconfirmed_deferrals == 1


class TestTheAttemptsThatAreLeft:
    def test_are_as_many_failures_as_without_deferrals(
        self, make_job: Any, claim: Any, fail: Any, defer_often: Any
    ) -> None:
        job = make_job(max_attempts=2)
        states = []
        for _ in range(2):
            defer_often(job, 2)
            states.append(fail(claim(job)).job.state)
            make_available(job)

        assert states == ["queued", "failed"]

    def test_are_those_that_the_sweeper_goes_by(
        self, make_job: Any, claim: Any, defer_often: Any
    ) -> None:
        job = make_job(max_attempts=2)
        states = []
        for _ in range(2):
            defer_often(job, 1)
            claim(job)
            expire_lease(job)
            transitions.sweep()
            make_available(job)
            job.refresh_from_db()
            states.append(job.state)

        assert states == ["queued", "failed"]

    def test_are_those_that_a_claim_over_an_expired_lease_goes_by(
        self, make_job: Any, claim: Any, defer_often: Any, other_worker: Entry
    ) -> None:
        job = make_job(max_attempts=1)
        defer_often(job, 1)
        claim(job)
        expire_lease(job)

        answer = transitions.claim(entry=other_worker, task_id=job.task_id, owner="hermes")

        assert isinstance(answer, AttemptsExhausted)

    def test_are_those_that_rework_and_extensions_go_by(
        self, make_job: Any, claim: Any, fail: Any, defer_often: Any
    ) -> None:
        job = make_job(max_attempts=1)
        defer_often(job, 3)
        fail(claim(job))
        assert transitions.rework(task_id=job.task_id, **ANNA).job.state == "needs_rework"

        assert transitions.extend(task_id=job.task_id, extra=1, **ANNA).job.state == "queued"
        assert fail(claim(job)).job.state == "failed"
