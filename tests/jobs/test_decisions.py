"""What people decide: approvals, reviews, rework, retry extensions, escalations."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import F

from agents.entry import Entry
from agents.models import Submitter
from agents.principals import Principal
from governance.core import clock
from governance.core.errors import (
    InvalidArgument,
    InvalidTransition,
    NotFound,
    OutcomeUnknown,
    RetryCeilingReached,
    RevisionMismatch,
    SelfApproval,
)
from governance.core.models import AuditEvent
from governance.core.reasons import REASON_CHARS_MAX
from jobs import transitions
from jobs.models import Approval, Escalation, Job, RetryExtension, Review
from tests.evidence import actions, refused
from tests.work import ANNA, make_available, pass_time

BERT = {"actor": "user:bert", "reason": "because the other one asked"}


def every_move(job: Job) -> dict[str, Callable[..., Any]]:
    """Each act of a person, ready to be made on the job with what it needs besides."""
    needs: dict[str, dict[str, Any]] = {
        "approve": {},
        "reject": {},
        "withdraw_approval": {},
        "review": {"verdict": "accepted"},
        "rework": {},
        "extend": {"extra": 1},
        "resolve": {"resolution": "requeue"},
        "stop": {},
        "pause": {},
        "resume": {},
    }

    def ready(name: str) -> Callable[..., Any]:
        move = getattr(transitions, name)
        return lambda **over: move(**{"task_id": job.task_id} | ANNA | needs[name] | over)

    return {name: ready(name) for name in needs}


MOVES = sorted(every_move(Job()))


@pytest.mark.parametrize("move", MOVES)
class TestEveryAct:
    @pytest.mark.parametrize("reason", ["  ", "x" * (REASON_CHARS_MAX + 1)])
    def test_needs_a_reason_that_can_be_read(self, make_job: Any, move: str, reason: str) -> None:
        job = make_job()

        with refused(InvalidArgument, job):
            every_move(job)[move](reason=reason)

    def test_is_refused_when_the_job_has_moved_on(self, make_job: Any, move: str) -> None:
        job = make_job()

        with refused(RevisionMismatch, job) as refusal:
            every_move(job)[move](expected_revision=7)

        assert refusal.value.current == {"revision": 1, "state": "queued"}

    def test_is_refused_where_there_is_no_job(self, world: None, move: str) -> None:
        with refused(NotFound):
            every_move(Job(task_id="nothing"))[move]()


ALLOWED = {
    "held": {"approve", "reject", "extend", "stop", "pause"},
    "queued": {"extend", "stop", "pause"},
    "active": {"extend", "stop", "pause"},
    "review_required": {"review", "rework", "extend", "stop", "pause"},
    "needs_rework": {"extend", "stop", "pause"},
    "in_doubt": {"stop", "pause"},
    "escalated": {"rework", "extend", "resolve", "stop", "pause"},
    "failed": {"rework"},
    "completed": set(),
    "stopped": set(),
}


@pytest.fixture
def job_in(request: pytest.FixtureRequest, make_job: Any, claim: Any, fail: Any, worker: Entry):
    """Bring a job into a state by the moves that lead there."""

    def bring(state: str) -> Job:
        if state in ("failed", "escalated"):
            return request.getfixturevalue(state)()
        if state == "review_required":
            return request.getfixturevalue("delivered")()
        if state == "needs_rework":
            job = request.getfixturevalue("failed")(max_attempts=1)
            transitions.rework(task_id=job.task_id, **ANNA)
            return job
        job = make_job(execution_approval_required=state == "held")
        if state == "stopped":
            transitions.stop(task_id=job.task_id, **ANNA)
        if state in ("active", "in_doubt", "completed"):
            held = claim(job)
            if state == "completed":
                transitions.complete(entry=worker, completions=[held.binding])
            if state == "in_doubt":
                Job.objects.filter(pk=job.pk).update(unresolved_executions=1)
                fail(held)
        return job

    return bring


@pytest.mark.parametrize("state", sorted(ALLOWED))
def test_each_act_is_possible_in_its_states_and_in_no_other(job_in: Any, state: str) -> None:
    job = job_in(state)
    job.refresh_from_db()
    assert job.state == state

    possible = set()
    for name, move in every_move(job).items():
        with transaction.atomic():
            events = AuditEvent.objects.filter(subject=job.audit_subject)
            before = events.count()
            try:
                move()
            except (InvalidTransition, OutcomeUnknown):
                assert events.count() == before
            else:
                possible.add(name)
            transaction.set_rollback(True)

    assert possible == ALLOWED[state]


class TestAnApproval:
    def test_queues_a_held_job_and_covers_it_until_its_end(self, make_job: Any) -> None:
        job = make_job(execution_approval_required=True)

        answer = transitions.approve(task_id=job.task_id, **ANNA, valid_seconds=600)

        job.refresh_from_db()
        approval = Approval.objects.get(job=job)
        assert (answer.outcome, job.state, job.revision) == ("approved", "queued", 2)
        assert job.approval_valid_until == approval.valid_until
        assert approval.valid_until - approval.decided_at == timedelta(seconds=600)
        assert approval.execution_digest == job.task.execution_digest
        assert actions(job) == ["job.held", "job.approved"]

    def test_lasts_as_long_as_the_job_type_says(self, make_job: Any, job_type: Any) -> None:
        job_type(approval_valid_seconds=120)
        job = make_job(execution_approval_required=True)

        transitions.approve(task_id=job.task_id, **ANNA)

        approval = Approval.objects.get(job=job)
        assert approval.valid_until - approval.decided_at == timedelta(seconds=120)

    def test_that_is_rejected_stops_the_job(self, make_job: Any) -> None:
        job = make_job(execution_approval_required=True)

        transitions.reject(task_id=job.task_id, **ANNA)

        job.refresh_from_db()
        assert (job.state, Approval.objects.get(job=job).decision) == ("stopped", "rejected")
        assert actions(job)[-1] == "job.rejected"

    def test_that_is_withdrawn_puts_the_job_back_on_hold(self, make_job: Any) -> None:
        job = make_job(execution_approval_required=True)
        transitions.approve(task_id=job.task_id, **ANNA)

        transitions.withdraw_approval(task_id=job.task_id, **ANNA)

        job.refresh_from_db()
        assert (job.state, job.approval_valid_until) == ("held", None)
        assert actions(job)[-1] == "job.approval_withdrawn"

    def test_that_was_never_needed_is_not_withdrawn(self, make_job: Any) -> None:
        job = make_job()

        with refused(InvalidTransition, job):
            transitions.withdraw_approval(task_id=job.task_id, **ANNA)

    def test_is_consumed_once(self, make_job: Any) -> None:
        job = make_job(execution_approval_required=True)
        transitions.approve(task_id=job.task_id, **ANNA)

        with refused(InvalidTransition, job):
            transitions.approve(task_id=job.task_id, **BERT)

    def test_that_has_run_out_is_closed_when_the_job_is_sent_back(
        self, make_job: Any, claim: Any, fail: Any
    ) -> None:
        job = make_job(execution_approval_required=True)
        transitions.approve(task_id=job.task_id, **BERT)
        fail(claim(job), retryable=False)
        pass_time(job, "approval_valid_until")

        transitions.rework(task_id=job.task_id, **ANNA)

        job.refresh_from_db()
        decisions = list(Approval.objects.filter(job=job).order_by("id"))
        assert (job.state, job.approval_valid_until) == ("held", None)
        assert [row.decision for row in decisions] == ["approved", "expired"]
        assert decisions[1].valid_until < decisions[1].decided_at
        assert actions(job)[-2:] == ["job.sent_back", "job.requeued"]

    def test_that_still_holds_is_not_written_off(self, make_job: Any) -> None:
        job = make_job(execution_approval_required=True)
        now = clock.now()

        with pytest.raises(IntegrityError, match="approval_expires_after_its_end"):
            with transaction.atomic():
                Approval.objects.create(
                    job=job,
                    execution_digest=job.task.execution_digest,
                    decision="expired",
                    decided_by="system:sweeper",
                    decided_at=now,
                    reason="Too early.",
                    valid_until=now + timedelta(hours=1),
                )


class TestTwoPersons:
    @pytest.fixture
    def of_anna(self, submitter: Principal, make_job: Any) -> Callable[..., Job]:
        """Jobs of a submitter for which Anna answers."""
        from jobs.transitions import intake

        owned = Principal("submitter", submitter.id, "ops", 1, frozenset({"submit"}),
                          requested_by="anna")  # fmt: skip

        def make(**over: Any) -> Job:
            template = make_job(**over)
            task = template.task
            envelope = {
                "task_id": f"{template.task_id}-of-anna",
                "source": task.source,
                "title": task.title,
                "goal": task.goal,
                "task_type": template.job_type.name,
                "risk_tier": template.risk_tier,
                "priority": "normal",
                "inputs": {},
                "review_required": True,
                "execution_approval_required": True,
            }
            intake(principal=owned, envelopes=[envelope])
            return Job.objects.get(task_id=envelope["task_id"])

        return make

    @pytest.mark.parametrize("actor", ["submitter:ops", "user:anna", "command:anna", "anna"])
    def test_who_submitted_or_answers_for_it_cannot_approve(self, of_anna: Any, actor: str) -> None:
        job = of_anna()

        with refused(SelfApproval, job):
            transitions.approve(task_id=job.task_id, actor=actor, reason="Mine.")

        assert transitions.approve(task_id=job.task_id, **BERT).job.state == "queued"

    def test_who_asked_for_another_try_cannot_approve_it(
        self, high_risk: Any, agent_zero: Principal
    ) -> None:
        job = high_risk()
        transitions.approve(task_id=job.task_id, **ANNA)
        entry = Entry(agent_zero, "zero-1")
        transitions.claim(entry=entry, task_id=job.task_id, owner="agent_zero")
        transitions.fail(
            entry=entry, task_id=job.task_id, attempt=1, fencing_token=1, error_message="No.",
            retryable=False,
        )  # fmt: skip

        transitions.rework(task_id=job.task_id, **ANNA)

        job.refresh_from_db()
        assert job.state == "held"
        with refused(SelfApproval, job):
            transitions.approve(task_id=job.task_id, **ANNA)
        assert transitions.approve(task_id=job.task_id, **BERT).job.state == "queued"

    @pytest.mark.parametrize("asked", ["user:anna", "command:anna"])
    @pytest.mark.parametrize("approves", ["user:anna", "command:anna"])
    def test_a_person_is_the_same_at_the_console_and_at_a_shell(
        self, high_risk: Any, asked: str, approves: str
    ) -> None:
        job = high_risk()
        Job.objects.filter(pk=job.pk).update(asked_again_by=asked)

        with refused(SelfApproval, job):
            transitions.approve(task_id=job.task_id, actor=approves, reason="Mine.")

    def test_a_system_is_not_the_person_of_the_same_name(self, high_risk: Any) -> None:
        job = high_risk()

        answer = transitions.approve(task_id=job.task_id, actor="user:ops", reason="Not mine.")

        assert (job.submitted_by, answer.job.state) == ("submitter:ops", "queued")

    @pytest.mark.parametrize(
        "actor", ["submitter:ops", "user:anna", "command:anna", "user:bert", "command:bert"]
    )
    def test_the_database_refuses_the_approval_as_well(self, of_anna: Any, actor: str) -> None:
        job = of_anna()
        Job.objects.filter(pk=job.pk).update(asked_again_by="user:bert")
        now = clock.now()

        with pytest.raises(IntegrityError, match="nobody approves"), transaction.atomic():
            Approval.objects.create(
                job=job,
                execution_digest=job.task.execution_digest,
                decision="approved",
                decided_by=actor,
                decided_at=now,
                reason="Mine.",
                valid_until=now + timedelta(hours=1),
            )

        assert not Approval.objects.exists()

    def test_the_database_releases_no_hold_without_an_approval(self, high_risk: Any) -> None:
        job = high_risk()
        until = clock.now() + timedelta(hours=1)

        with pytest.raises(IntegrityError, match="only an approval"), transaction.atomic():
            Job.objects.filter(pk=job.pk).update(state="queued", approval_valid_until=until)

    def test_an_owner_is_the_person_that_the_submitter_names(self, submitter: Principal) -> None:
        user = User.objects.create(username="anna")
        Submitter.objects.filter(pk=submitter.id).update(owner=user)

        assert Submitter.objects.get(pk=submitter.id).owner.username == "anna"


class TestAReview:
    def test_that_accepts_completes_the_job(self, delivered: Any) -> None:
        job = delivered()

        answer = transitions.review(task_id=job.task_id, verdict="accepted", **ANNA)

        review = Review.objects.get(job=job)
        assert (answer.job.state, answer.record.last_attempt.result) == ("completed", {"n": 1})
        assert (review.attempt, review.verdict, review.decided_by) == (1, "accepted", "user:anna")
        assert actions(job)[-1] == "job.accepted"

    def test_that_rejects_fails_the_job(self, delivered: Any) -> None:
        job = delivered()

        answer = transitions.review(task_id=job.task_id, verdict="rejected", **ANNA)

        assert answer.job.state == "failed"
        assert actions(job)[-1] == "job.review_rejected"

    def test_that_sends_back_queues_at_once_with_two_events(self, delivered: Any) -> None:
        job = delivered()

        answer = transitions.review(task_id=job.task_id, verdict="needs_rework", **ANNA)

        assert answer.job.state == "queued"
        assert actions(job)[-2:] == ["job.sent_back", "job.requeued"]

    def test_that_sends_back_the_last_attempt_waits_for_an_extension(self, delivered: Any) -> None:
        job = delivered(max_attempts=1)

        answer = transitions.review(task_id=job.task_id, verdict="needs_rework", **ANNA)

        assert answer.job.state == "needs_rework"
        extended = transitions.extend(task_id=job.task_id, extra=1, **ANNA)
        assert (extended.job.state, extended.job.max_attempts) == ("queued", 2)
        assert actions(job)[-3:] == ["job.sent_back", "job.extended", "job.requeued"]

    def test_knows_three_verdicts(self, delivered: Any) -> None:
        job = delivered()

        with refused(InvalidArgument, job):
            transitions.review(task_id=job.task_id, verdict="maybe", **ANNA)


class TestRework:
    def test_of_a_failed_job_queues_it(self, failed: Any) -> None:
        job = failed()

        answer = transitions.rework(task_id=job.task_id, **ANNA)

        job.refresh_from_db()
        assert (answer.job.state, job.finished_at) == ("queued", None)
        assert job.asked_again_by == "user:anna"

    def test_with_an_extension_does_both_in_one(self, failed: Any) -> None:
        job = failed(max_attempts=1)

        answer = transitions.rework(task_id=job.task_id, **ANNA, to_max=2)

        assert (answer.job.state, answer.job.max_attempts) == ("queued", 2)
        assert actions(job)[-3:] == ["job.extended", "job.sent_back", "job.requeued"]
        assert RetryExtension.objects.filter(job=job).count() == 1

    def test_without_attempts_left_waits(self, failed: Any) -> None:
        job = failed(max_attempts=1)

        assert transitions.rework(task_id=job.task_id, **ANNA).job.state == "needs_rework"

    def test_of_an_escalated_job_closes_its_escalation(self, escalated: Any) -> None:
        job = escalated()

        transitions.rework(task_id=job.task_id, **ANNA)

        assert Escalation.objects.get(job=job).resolution == "ended"

    def test_of_a_high_risk_is_held_for_a_new_approval(
        self, high_risk: Any, agent_zero: Principal
    ) -> None:
        job = high_risk()
        transitions.approve(task_id=job.task_id, **ANNA)
        entry = Entry(agent_zero, "zero-1")
        transitions.claim(entry=entry, task_id=job.task_id, owner="agent_zero")
        transitions.complete(
            entry=entry, completions=[{"task_id": job.task_id, "attempt": 1, "fencing_token": 1}]
        )

        answer = transitions.review(task_id=job.task_id, verdict="needs_rework", **BERT)

        job.refresh_from_db()
        assert (answer.job.state, job.approval_valid_until) == ("held", None)

    def test_is_refused_while_an_execution_is_unresolved(self, escalated: Any) -> None:
        job = escalated()
        Job.objects.filter(pk=job.pk).update(unresolved_executions=1)

        with refused(OutcomeUnknown, job):
            transitions.rework(task_id=job.task_id, **ANNA)

    def test_beyond_the_ceiling_changes_nothing(self, failed: Any, job_type: Any) -> None:
        job_type(max_attempts_ceiling=3)
        job = failed()

        with refused(RetryCeilingReached, job):
            transitions.rework(task_id=job.task_id, **ANNA, extra=1)


class TestAnExtension:
    @pytest.mark.parametrize("asked", [{"extra": 2}, {"to_max": 5}])
    def test_raises_the_limit_and_writes_one_grant(
        self, make_job: Any, asked: dict[str, int]
    ) -> None:
        job = make_job()

        answer = transitions.extend(task_id=job.task_id, **ANNA, **asked)

        grant = RetryExtension.objects.get(job=job)
        assert (answer.job.max_attempts, answer.job.state) == (5, "queued")
        assert (grant.from_max, grant.to_max, grant.ceiling) == (3, 5, 10)
        assert (grant.granted_by, grant.reason) == (ANNA["actor"], ANNA["reason"])
        assert actions(job)[-1] == "job.extended"

    def test_reaches_the_ceiling_and_goes_no_further(self, make_job: Any, job_type: Any) -> None:
        job_type(max_attempts_ceiling=5)
        job = make_job()
        transitions.extend(task_id=job.task_id, **ANNA, to_max=5)

        with refused(RetryCeilingReached, job) as refusal:
            transitions.extend(task_id=job.task_id, **BERT, extra=1)

        assert refusal.value.current == {"max_attempts": 5, "ceiling": 5}

    @pytest.mark.parametrize(
        "asked", [{}, {"extra": 1, "to_max": 5}, {"extra": 0}, {"extra": -1}, {"to_max": 3}]
    )
    def test_only_ever_raises_and_says_how_in_one_way(
        self, make_job: Any, asked: dict[str, int]
    ) -> None:
        job = make_job()

        with refused(InvalidArgument, job):
            transitions.extend(task_id=job.task_id, **ANNA, **asked)

    def test_is_refused_while_an_execution_is_unresolved(self, job_in: Any) -> None:
        job = job_in("in_doubt")

        with refused(OutcomeUnknown, job):
            transitions.extend(task_id=job.task_id, **ANNA, extra=1)

    def test_of_a_queued_high_risk_needs_a_new_approval_by_another_person(
        self, high_risk: Any
    ) -> None:
        job = high_risk()
        transitions.approve(task_id=job.task_id, **BERT)

        answer = transitions.extend(task_id=job.task_id, **ANNA, extra=1)

        job.refresh_from_db()
        assert (answer.job.state, job.approval_valid_until) == ("held", None)
        with refused(SelfApproval, job):
            transitions.approve(task_id=job.task_id, **ANNA)

    def test_of_a_running_high_risk_ends_the_approval_for_the_next_attempt(
        self, high_risk: Any, agent_zero: Principal
    ) -> None:
        job = high_risk()
        transitions.approve(task_id=job.task_id, **BERT)
        entry = Entry(agent_zero, "zero-1")
        transitions.claim(entry=entry, task_id=job.task_id, owner="agent_zero")
        transitions.extend(task_id=job.task_id, **ANNA, extra=1)
        transitions.fail(
            entry=entry, task_id=job.task_id, attempt=1, fencing_token=1, error_message="No."
        )
        make_available(job)

        transitions.claim(entry=entry, task_id=job.task_id, owner="agent_zero")

        job.refresh_from_db()
        assert (job.state, job.attempt) == ("held", 1)

    def test_of_a_running_high_risk_moves_no_end_that_has_passed(
        self, high_risk: Any, agent_zero: Principal
    ) -> None:
        job = high_risk()
        transitions.approve(task_id=job.task_id, **BERT)
        entry = Entry(agent_zero, "zero-1")
        transitions.claim(entry=entry, task_id=job.task_id, owner="agent_zero")
        pass_time(job, "approval_valid_until")
        job.refresh_from_db()
        ended_at = job.approval_valid_until

        transitions.extend(task_id=job.task_id, **ANNA, extra=1)

        job.refresh_from_db()
        assert (job.state, job.approval_valid_until) == ("active", ended_at)

    def test_lets_attempt_7_follow_on_6_of_6(self, make_job: Any, claim: Any, fail: Any) -> None:
        job = make_job(max_attempts=6)
        for _ in range(6):
            answer = fail(claim(job))
            pass_time(job, "available_at")
        assert answer.job.state == "failed"

        transitions.rework(task_id=job.task_id, **ANNA)
        transitions.extend(task_id=job.task_id, **ANNA, to_max=7)
        seventh = claim(job)

        assert (seventh.attempt, seventh.fencing_token) == (7, 7)
        assert list(RetryExtension.objects.values_list("from_max", "to_max")) == [(6, 7)]

    def test_the_database_raises_no_limit_without_a_grant(self, make_job: Any) -> None:
        job = make_job()

        with pytest.raises(IntegrityError, match="retry extension"), transaction.atomic():
            Job.objects.filter(pk=job.pk).update(max_attempts=F("max_attempts") + 1)


class TestAResolution:
    @pytest.mark.parametrize(
        ("resolution", "state"),
        [
            ("requeue", "queued"),
            ("complete", "completed"),
            ("fail", "failed"),
            ("stop", "stopped"),
        ],
    )
    def test_moves_the_job_and_closes_the_escalation(
        self, escalated: Any, resolution: str, state: str
    ) -> None:
        job = escalated()

        answer = transitions.resolve(task_id=job.task_id, resolution=resolution, **ANNA)

        escalation = Escalation.objects.get(job=job)
        assert answer.job.state == state
        assert (escalation.resolution, escalation.resolved_by) == (resolution, "user:anna")
        assert actions(job)[-1] == "job.escalation_resolved"

    def test_that_requeues_without_attempts_left_waits_for_an_extension(
        self, escalated: Any
    ) -> None:
        job = escalated(max_attempts=1)

        answer = transitions.resolve(task_id=job.task_id, resolution="requeue", **ANNA)

        assert answer.job.state == "needs_rework"

    @pytest.mark.parametrize("resolution", ["requeue", "complete"])
    def test_goes_nowhere_on_while_an_execution_is_unresolved(
        self, escalated: Any, resolution: str
    ) -> None:
        job = escalated()
        Job.objects.filter(pk=job.pk).update(unresolved_executions=1)

        with refused(OutcomeUnknown, job):
            transitions.resolve(task_id=job.task_id, resolution=resolution, **ANNA)

    @pytest.mark.parametrize(("resolution", "state"), [("fail", "failed"), ("stop", "stopped")])
    def test_ends_the_job_even_while_an_execution_is_unresolved(
        self, escalated: Any, resolution: str, state: str
    ) -> None:
        job = escalated()
        Job.objects.filter(pk=job.pk).update(unresolved_executions=1)

        answer = transitions.resolve(task_id=job.task_id, resolution=resolution, **ANNA)

        assert answer.job.state == state

    def test_knows_four_ways(self, escalated: Any) -> None:
        job = escalated()

        with refused(InvalidArgument, job):
            transitions.resolve(task_id=job.task_id, resolution="forget", **ANNA)
