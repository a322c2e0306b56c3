"""How an attempt ends by its worker's word, and what a repeated or late word is worth."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.entry import Entry
from agents.principals import Principal, identify
from governance.core import clock
from governance.core.errors import (
    DomainError,
    FencingTokenRequired,
    InvalidArgument,
    InvalidTransition,
    LeaseHeldByAnother,
    NotFound,
    OutcomeConflict,
    OutcomeUnknown,
    SessionSuperseded,
    StaleFencingToken,
    WrongOwner,
)
from jobs import transitions
from jobs.models import Attempt, Escalation, Job, Lease
from jobs.operations import answers
from tests.evidence import actions, events_of, facts, is_refusal, refused, untouched
from tests.work import (
    ANNA,
    Running,
    expire_lease,
    make_available,
    pass_attempt_deadline,
    pass_time,
    trips,
)

ROUND_TRIPS_MAX = 4


def complete(entry: Entry, held: Running, **said: Any) -> Any:
    [answer] = transitions.complete(entry=entry, completions=[held.binding | said])
    return answer


def write(verb: str, entry: Entry, held: Running) -> Any:
    """Make a write of the attempt's worker, and raise what it is refused with."""
    if verb == "complete":
        answer = complete(entry, held, result=1)
        if isinstance(answer, DomainError):
            raise answer
        return answer
    if verb == "fail":
        return transitions.fail(entry=entry, **held.binding, error_message="It broke.")
    if verb == "escalate":
        return transitions.escalate(entry=entry, **held.binding, reason="Help.")
    return transitions.reflect(entry=entry, **held.binding, content={"what_worked": "nothing"})


class TestComplete:
    def test_ends_the_attempt_and_the_job(self, running: Any, worker: Entry) -> None:
        held = running()

        answer = complete(worker, held, result={"n": 1}, result_pointer="s3://there/1")

        held.job.refresh_from_db()
        attempt = Attempt.objects.get(job=held.job)
        assert answer.outcome == "recorded"
        assert (answer.job.state, answer.record.last_attempt.result) == ("completed", {"n": 1})
        assert answer.record.last_attempt.result_pointer == "s3://there/1"
        assert answers.job(answer.record)["claimed_by"] is None
        assert held.job.finished_at == attempt.ended_at
        assert (attempt.outcome, attempt.result) == ("completed", {"n": 1})
        assert not Lease.objects.filter(job=held.job).exists()
        assert actions(held.job) == ["job.queued", "job.claimed", "job.completed"]
        assert facts(held.job)[-1] == (3, "dev.fencepost.job.completed")

    @pytest.mark.parametrize("by", ["the job", "the worker"])
    def test_waits_for_its_review_where_job_or_worker_asks_for_one(
        self, running: Any, worker: Entry, by: str
    ) -> None:
        held = running(review_required=by == "the job")

        answer = complete(worker, held, needs_review=by == "the worker")

        assert answer.job.state == "review_required"
        assert actions(held.job)[-1] == "job.delivered"

    def test_is_accepted_after_the_lease_has_run_out_while_the_token_is_current(
        self, running: Any, worker: Entry
    ) -> None:
        held = running()
        expire_lease(held.job)

        assert complete(worker, held).outcome == "recorded"

    def test_is_accepted_while_the_job_is_paused(self, running: Any, worker: Entry) -> None:
        held = running()
        transitions.pause(task_id=held.job.task_id, **ANNA)

        assert complete(worker, held).job.state == "completed"

    @pytest.mark.parametrize("output", [True, "spec.md and schema.json"])
    def test_needs_an_output_where_the_task_requires_one(
        self, running: Any, worker: Entry, output: str | bool
    ) -> None:
        held = running(output_required=output)

        with untouched(held.job):
            answer = complete(worker, held)
        assert is_refusal(answer, InvalidArgument)

        assert complete(worker, held, result_pointer="s3://there/1").outcome == "recorded"

    def test_is_refused_while_an_execution_is_unresolved(self, running: Any, worker: Entry) -> None:
        held = running()
        Job.objects.filter(pk=held.job.pk).update(unresolved_executions=1)

        with untouched(held.job):
            answer = complete(worker, held, result=1)

        assert is_refusal(answer, OutcomeUnknown)
        assert (answer.retry, answer.effect) == ("reconcile", "unknown")

    def test_takes_no_more_than_four_round_trips_with_authentication(
        self, running: Any, hermes_token: str
    ) -> None:
        entry = Entry(identify(token=hermes_token), "worker-1")
        complete(entry, running())
        held = running()

        with CaptureQueriesContext(connection) as queries:
            identify(token=hermes_token)
            complete(entry, held, result={"n": 1})

        assert trips(queries) <= ROUND_TRIPS_MAX


class TestARepeatedWrite:
    def test_with_the_same_content_is_already_recorded(self, running: Any, worker: Entry) -> None:
        held = running()
        complete(worker, held, result={"a": 1, "b": 2})

        with untouched(held.job):
            answer = complete(worker, held, result={"b": 2, "a": 1})

        assert answer.outcome == "already_recorded"

    @pytest.mark.parametrize(
        "change",
        [{"result": {"n": 2}}, {"result_pointer": "s3://else"}, {"needs_review": True}],
    )
    def test_with_other_content_is_refused(
        self, running: Any, worker: Entry, change: dict[str, Any]
    ) -> None:
        held = running()
        complete(worker, held, result={"n": 1})

        with untouched(held.job):
            answer = complete(worker, held, **{"result": {"n": 1}} | change)

        assert is_refusal(answer, OutcomeConflict)
        assert answer.current["outcome"] == "completed"

    def test_of_another_kind_is_refused(self, running: Any, worker: Entry, fail: Any) -> None:
        held = running()
        complete(worker, held)

        with refused(OutcomeConflict, held.job):
            fail(held)
        with refused(OutcomeConflict, held.job):
            transitions.escalate(entry=worker, **held.binding, reason="Help.")

    def test_of_a_failure_is_already_recorded_after_requeue_and_new_claim(
        self, running: Any, worker: Entry, claim: Any, fail: Any
    ) -> None:
        held = running()
        fail(held)
        make_available(held.job)
        claim(held.job)

        with untouched(held.job):
            again = fail(held)

        assert again.outcome == "already_recorded"
        assert again.job.attempt == 2

    def test_of_a_failure_with_other_content_is_refused_after_a_new_claim(
        self, running: Any, claim: Any, fail: Any
    ) -> None:
        held = running()
        fail(held)
        make_available(held.job)
        claim(held.job)

        with refused(OutcomeConflict, held.job):
            fail(held, error_message="It broke otherwise.")

    def test_of_a_delivery_is_already_recorded_after_it_was_sent_back(
        self, running: Any, worker: Entry, claim: Any
    ) -> None:
        held = running(review_required=True)
        complete(worker, held, result=1)
        transitions.review(task_id=held.job.task_id, verdict="needs_rework", **ANNA)
        claim(held.job)

        assert complete(worker, held, result=1).outcome == "already_recorded"

    def test_of_an_escalation_is_already_recorded(self, running: Any, worker: Entry) -> None:
        held = running()
        said = {"reason": "I cannot decide that.", "notify_to": "anna"}
        transitions.escalate(entry=worker, **held.binding, **said)

        with untouched(held.job):
            again = transitions.escalate(entry=worker, **held.binding, **said)

        assert again.outcome == "already_recorded"

    def test_by_a_restarted_process_is_already_recorded(
        self, running: Any, worker: Entry, other_worker: Entry
    ) -> None:
        held = running()
        complete(worker, held, result=1)

        assert complete(other_worker, held, result=1).outcome == "already_recorded"


class TestAStaleWrite:
    @pytest.fixture
    def overtaken(self, running: Any, claim: Any, other_worker: Entry) -> Running:
        """An attempt whose lease ran out and whose job somebody else works on."""
        held = running()
        expire_lease(held.job)
        transitions.end_if_due(task_id=held.job.task_id)
        make_available(held.job)
        claim(held.job, other_worker)
        return held

    def test_completes_nothing(self, overtaken: Running, worker: Entry) -> None:
        with untouched(overtaken.job):
            answer = complete(worker, overtaken, result=1)

        assert is_refusal(answer, StaleFencingToken)
        assert (answer.code, answer.status) == ("ABORTED", 409)
        # The token went up at the expiry and again at the claim.
        assert (answer.current["fencing_token"], answer.current["attempt"]) == (3, 2)

    def test_fails_nothing(self, overtaken: Running, fail: Any) -> None:
        with refused(StaleFencingToken, overtaken.job):
            fail(overtaken)

    def test_escalates_nothing(self, overtaken: Running, worker: Entry) -> None:
        with refused(StaleFencingToken, overtaken.job):
            transitions.escalate(entry=worker, **overtaken.binding, reason="Help.")

    def test_is_judged_before_the_state(self, running: Any, worker: Entry) -> None:
        held = running()
        transitions.stop(task_id=held.job.task_id, **ANNA)

        with untouched(held.job):
            answer = complete(worker, held)

        assert is_refusal(answer, StaleFencingToken)
        assert answer.current["state"] == "stopped"

    def test_with_a_token_of_the_future_is_refused(self, running: Any, worker: Entry) -> None:
        held = running()

        with untouched(held.job):
            [answer] = transitions.complete(
                entry=worker, completions=[held.binding | {"fencing_token": 2}]
            )

        assert is_refusal(answer, StaleFencingToken)

    def test_with_the_current_token_and_another_attempt_is_refused(
        self, running: Any, worker: Entry
    ) -> None:
        held = running()

        with untouched(held.job):
            [answer] = transitions.complete(
                entry=worker, completions=[held.binding | {"attempt": 2}]
            )

        assert is_refusal(answer, StaleFencingToken)

    def test_before_any_claim_is_refused(self, make_job: Any, worker: Entry) -> None:
        job = make_job()

        with untouched(job):
            [answer] = transitions.complete(
                entry=worker,
                completions=[{"task_id": job.task_id, "attempt": 1, "fencing_token": 1}],
            )
            [unclaimed] = transitions.complete(
                entry=worker,
                completions=[{"task_id": job.task_id, "attempt": 0, "fencing_token": 0}],
            )

        assert is_refusal(answer, StaleFencingToken)
        assert is_refusal(unclaimed, InvalidTransition)

    def test_of_another_agent_is_refused(self, running: Any, stranger: Entry) -> None:
        held = running()

        with untouched(held.job):
            assert is_refusal(complete(stranger, held), WrongOwner)

    def test_of_a_superseded_session_is_refused_whatever_its_token(
        self, make_job: Any, claim: Any, hermes: Principal, session_of: Any
    ) -> None:
        session = session_of(hermes)
        entry = Entry(hermes, session_id=session.session_id)
        held = claim(make_job(), entry)
        type(session).objects.filter(pk=session.pk).update(
            state="superseded", superseded_at=clock.now()
        )

        with refused(SessionSuperseded, held.job):
            complete(entry, held)


class TestAWriteByAnotherHolder:
    """A current token moves nothing for another than who claimed the attempt."""

    @pytest.fixture
    def session(self, hermes: Principal, session_of: Any) -> Entry:
        return Entry(hermes, session_id=session_of(hermes).session_id)

    @pytest.mark.parametrize("verb", ["complete", "fail", "escalate", "reflect"])
    @pytest.mark.parametrize("by", ["another worker", "a session"])
    def test_is_refused(
        self, running: Any, other_worker: Entry, session: Entry, verb: str, by: str
    ) -> None:
        held = running()
        intruder = other_worker if by == "another worker" else session

        with refused(LeaseHeldByAnother, held.job) as refusal:
            write(verb, intruder, held)

        assert (refusal.value.code, refusal.value.status) == ("FAILED_PRECONDITION", 409)
        assert refusal.value.current == {"state": "active", "attempt": 1}
        assert 899 <= (refusal.value.after_seconds or 0) <= 901

    @pytest.mark.parametrize("verb", ["complete", "fail", "escalate", "reflect"])
    @pytest.mark.parametrize("by", ["its label", "nobody", "another session"])
    def test_of_a_sessions_attempt_is_refused(
        self,
        make_job: Any,
        claim: Any,
        hermes: Principal,
        session_of: Any,
        session: Entry,
        verb: str,
        by: str,
    ) -> None:
        held = claim(make_job(), replace(session, worker_id="w1"))
        intruder = {
            "its label": Entry(hermes, "w1"),
            "nobody": Entry(hermes),
            "another session": Entry(
                hermes, "w1", session_id=session_of(hermes, "cell-2").session_id
            ),
        }[by]

        with refused(LeaseHeldByAnother, held.job):
            write(verb, intruder, held)

        assert write(verb, session, held).outcome == "recorded"

    def test_in_a_batch_spoils_no_other(self, running: Any, hermes: Principal) -> None:
        mine, theirs = running(), running()

        with untouched(theirs.job):
            done, refusal = transitions.complete(
                entry=Entry(hermes),
                completions=[
                    mine.binding | {"worker_id": "worker-1"},
                    theirs.binding | {"worker_id": "worker-2"},
                ],
            )

        assert done.outcome == "recorded"
        assert is_refusal(refusal, LeaseHeldByAnother)

    def test_comes_after_the_recorded_outcome(
        self, running: Any, worker: Entry, other_worker: Entry
    ) -> None:
        held = running()
        complete(worker, held, result=1)

        with untouched(held.job):
            assert complete(other_worker, held, result=1).outcome == "already_recorded"
            assert is_refusal(complete(other_worker, held, result=2), OutcomeConflict)


class TestTheEventOfAWorkersAct:
    def test_names_the_worker_and_the_credential(self, running: Any, worker: Entry) -> None:
        held = running()
        complete(worker, held)

        named = {"worker_id": "worker-1", "credential": worker.principal.credential_prefix}
        assert len(named["credential"]) == 12
        claimed, completed = events_of(held.job)[1:]
        assert named.items() <= claimed.items()
        assert named.items() <= completed.items()

    def test_names_the_worker_of_its_item(self, running: Any, hermes: Principal) -> None:
        held = running()
        transitions.complete(
            entry=Entry(hermes), completions=[held.binding | {"worker_id": "worker-1"}]
        )

        assert events_of(held.job)[-1]["worker_id"] == "worker-1"

    def test_names_the_session(
        self, make_job: Any, claim: Any, hermes: Principal, session_of: Any
    ) -> None:
        session_id = session_of(hermes).session_id
        entry = Entry(hermes, "a label", session_id=session_id)
        held = claim(make_job(), entry)
        complete(entry, held)

        done = events_of(held.job)[-1]
        assert done["session_id"] == str(session_id)
        assert done["credential"] == hermes.credential_prefix
        assert "worker_id" not in done


class TestAWriteWithoutAToken:
    """The older worker contract: `worker_id` alone, where only one attempt can be meant."""

    @staticmethod
    def finish(entry: Entry, job: Job, **content: Any) -> Any:
        named = {"task_id": job.task_id, "worker_id": entry.worker_id}
        [answer] = transitions.complete(entry=entry, completions=[named | content])
        return answer

    def test_is_accepted_from_the_holder_of_the_first_attempt(
        self, running: Any, worker: Entry
    ) -> None:
        held = running()

        assert self.finish(worker, held.job, result=1).outcome == "recorded"
        assert self.finish(worker, held.job, result=1).outcome == "already_recorded"

    def test_of_another_worker_is_refused(
        self, running: Any, worker: Entry, other_worker: Entry
    ) -> None:
        held = running()

        with untouched(held.job):
            answer = self.finish(other_worker, held.job)

        assert is_refusal(answer, LeaseHeldByAnother)
        assert (answer.code, answer.status) == ("FAILED_PRECONDITION", 409)

    def test_is_accepted_whatever_the_number_of_the_attempt(
        self, running: Any, claim: Any, fail: Any, worker: Entry
    ) -> None:
        held = running()
        fail(held)
        make_available(held.job)
        claim(held.job)

        assert self.finish(worker, held.job).outcome == "recorded"

    def test_is_accepted_after_a_rework(self, running: Any, claim: Any, worker: Entry) -> None:
        held = running(review_required=True)
        self.finish(worker, held.job, result=1)
        transitions.review(task_id=held.job.task_id, verdict="needs_rework", **ANNA)
        claim(held.job)

        with untouched(held.job):
            same = self.finish(worker, held.job, result=1)

        # It may be the first attempt's late word.
        assert is_refusal(same, FencingTokenRequired)
        assert same.current == {"attempt": 2, "state": "active"}
        assert "attempt 1" in same.detail
        assert self.finish(worker, held.job, result=2).outcome == "recorded"

    def test_is_accepted_however_often_the_claim_was_answered(
        self, running: Any, worker: Entry
    ) -> None:
        held = running()
        for _ in range(2):
            transitions.claim(entry=worker, task_id=held.job.task_id, owner="hermes")

        assert self.finish(worker, held.job).outcome == "recorded"

    @pytest.mark.parametrize("taken", ["lease_expired", "timed_out"])
    def test_is_ambiguous_once_an_attempt_was_taken_from_the_holder(
        self, running: Any, claim: Any, worker: Entry, taken: str
    ) -> None:
        held = running(attempt_timeout_seconds=3600)
        if taken == "timed_out":
            pass_attempt_deadline(held.job)
        else:
            expire_lease(held.job)
        transitions.end_if_due(task_id=held.job.task_id)
        make_available(held.job)
        again = claim(held.job)
        assert Attempt.objects.get(job=held.job, number=1).outcome == taken

        with untouched(held.job):
            answer = self.finish(worker, held.job)

        assert is_refusal(answer, FencingTokenRequired)
        assert answer.current["attempt"] == 2
        assert complete(worker, again).outcome == "recorded"

    def test_is_not_ambiguous_where_the_attempt_was_taken_from_another(
        self, running: Any, claim: Any, other_worker: Entry
    ) -> None:
        held = running()
        expire_lease(held.job)
        transitions.end_if_due(task_id=held.job.task_id)
        make_available(held.job)
        claim(held.job, other_worker)

        assert self.finish(other_worker, held.job).outcome == "recorded"

    def test_is_already_recorded_of_who_has_said_it_and_holds_nothing_now(
        self, running: Any, claim: Any, worker: Entry, other_worker: Entry
    ) -> None:
        held = running()
        named = {"task_id": held.job.task_id, "attempt": None, "fencing_token": None}
        transitions.fail(entry=worker, **named, error_message="No.")
        make_available(held.job)
        claim(held.job, other_worker)

        with untouched(held.job):
            again = transitions.fail(entry=worker, **named, error_message="No.")
        with refused(LeaseHeldByAnother, held.job):
            transitions.fail(entry=worker, **named, error_message="Otherwise.")

        assert again.outcome == "already_recorded"

    def test_is_accepted_from_the_session_that_holds_the_attempt(
        self, make_job: Any, claim: Any, hermes: Principal, session_of: Any
    ) -> None:
        entry = Entry(hermes, "worker-1", session_id=session_of(hermes).session_id)
        held = claim(make_job(), entry)

        assert self.finish(entry, held.job).outcome == "recorded"

    def test_is_refused_before_any_claim(self, make_job: Any, worker: Entry) -> None:
        job = make_job()

        with untouched(job):
            assert is_refusal(self.finish(worker, job), FencingTokenRequired)

    def test_that_names_nobody_is_refused(self, running: Any, hermes: Principal) -> None:
        held = running()

        with untouched(held.job):
            assert is_refusal(self.finish(Entry(hermes), held.job), FencingTokenRequired)

    def test_after_the_lease_was_swept_is_refused(self, running: Any, worker: Entry) -> None:
        held = running()
        expire_lease(held.job)
        transitions.end_if_due(task_id=held.job.task_id)

        with untouched(held.job):
            assert is_refusal(self.finish(worker, held.job), StaleFencingToken)

    def test_is_judged_by_the_worker_that_each_item_names(
        self, running: Any, worker: Entry
    ) -> None:
        held = running()

        with untouched(held.job):
            [answer] = transitions.complete(
                entry=worker,
                completions=[{"task_id": held.job.task_id, "worker_id": "worker-2"}],
            )

        assert is_refusal(answer, LeaseHeldByAnother)

    def test_fails_and_escalates_under_the_same_rule(
        self, running: Any, worker: Entry, other_worker: Entry
    ) -> None:
        held, also = running(), running()
        nothing = {"attempt": None, "fencing_token": None}

        with refused(LeaseHeldByAnother, held.job):
            transitions.fail(
                entry=other_worker, task_id=held.job.task_id, **nothing, error_message="No."
            )
        failed = transitions.fail(
            entry=worker, task_id=held.job.task_id, **nothing, error_message="No."
        )
        raised = transitions.escalate(
            entry=worker, task_id=also.job.task_id, **nothing, reason="Help."
        )

        assert (failed.outcome, raised.outcome) == ("recorded", "recorded")


class TestFail:
    def test_with_attempts_left_queues_again_after_a_backoff(
        self, running: Any, fail: Any, job_type: Any
    ) -> None:
        job_type(backoff_base_seconds=100, backoff_cap_seconds=1000)
        held = running()

        answer = fail(held, progress={"page": 2})

        held.job.refresh_from_db()
        attempt = Attempt.objects.get(job=held.job)
        wait = held.job.available_at - attempt.ended_at
        assert (answer.job.state, held.job.attempt) == ("queued", 1)
        assert timedelta(seconds=50) <= wait <= timedelta(seconds=100)
        assert (attempt.outcome, attempt.retryable, attempt.progress) == (
            "failed",
            True,
            {"page": 2},
        )
        assert (attempt.error_code, attempt.error_message) == ("BROKE", "It broke.")
        assert actions(held.job)[-1] == "job.attempt_failed"

    def test_that_is_not_retryable_fails_the_job(self, running: Any, fail: Any) -> None:
        held = running()

        answer = fail(held, retryable=False)

        assert (answer.job.state, answer.record.last_attempt.error_code) == ("failed", "BROKE")

    def test_on_the_last_attempt_fails_the_job(self, running: Any, fail: Any) -> None:
        held = running(max_attempts=1)

        assert fail(held).job.state == "failed"

    def test_with_an_unknown_execution_leaves_the_job_in_doubt(
        self, running: Any, fail: Any
    ) -> None:
        held = running()
        Job.objects.filter(pk=held.job.pk).update(unresolved_executions=1)

        assert fail(held, retryable=False).job.state == "in_doubt"

    def test_of_a_paused_job_queues_it_paused(self, running: Any, fail: Any) -> None:
        held = running()
        transitions.pause(task_id=held.job.task_id, **ANNA)

        answer = fail(held)

        assert (answer.job.state, answer.job.paused) == ("queued", True)

    def test_uses_up_exactly_the_attempts_that_there_are(
        self, make_job: Any, claim: Any, fail: Any
    ) -> None:
        job = make_job(max_attempts=3)
        states = []
        for _ in range(3):
            states.append(fail(claim(job)).job.state)
            pass_time(job, "available_at")

        job.refresh_from_db()
        assert states == ["queued", "queued", "failed"]
        assert (job.attempt, job.fencing_token) == (3, 3)
        numbers = Attempt.objects.order_by("number").values_list("number", flat=True)
        assert list(numbers) == [1, 2, 3]

    def test_keeps_the_last_progress_of_the_heartbeats(
        self, running: Any, fail: Any, worker: Entry
    ) -> None:
        held = running()
        transitions.heartbeat(entry=worker, beats=[held.binding | {"progress": {"page": 5}}])

        fail(held)

        assert Attempt.objects.get(job=held.job).progress == {"page": 5}


class TestEscalate:
    def test_ends_the_attempt_and_opens_an_escalation(self, running: Any, worker: Entry) -> None:
        held = running()

        answer = transitions.escalate(
            entry=worker, **held.binding, reason="I cannot decide that.", notify_to="anna"
        )

        escalation = Escalation.objects.get(job=held.job)
        assert answer.job.state == "escalated"
        assert (escalation.raised_by, escalation.notify_to) == ("agent:hermes", "anna")
        assert escalation.resolved_at is None
        assert Attempt.objects.get(job=held.job).outcome == "escalated"
        assert not Lease.objects.filter(job=held.job).exists()
        assert actions(held.job)[-1] == "job.escalated"

    def test_with_an_unknown_execution_is_escalated_all_the_same(
        self, running: Any, worker: Entry
    ) -> None:
        held = running()
        Job.objects.filter(pk=held.job.pk).update(unresolved_executions=1)

        answer = transitions.escalate(entry=worker, **held.binding, reason="Help.")

        assert answer.job.state == "escalated"


class TestABatch:
    def test_answers_in_the_asked_order_and_one_bad_item_spoils_no_other(
        self, running: Any, worker: Entry
    ) -> None:
        first, second, third = running(), running(output_required=True), running()

        answers = transitions.complete(
            entry=worker,
            completions=[
                third.binding,
                {"task_id": "nothing", "attempt": 1, "fencing_token": 1},
                second.binding,
                first.binding,
            ],
        )

        assert answers[0].job.task_id == third.job.task_id
        assert is_refusal(answers[1], NotFound)
        assert is_refusal(answers[2], InvalidArgument)
        assert answers[3].job.task_id == first.job.task_id
        second.job.refresh_from_db()
        assert second.job.state == "active"
        assert Lease.objects.count() == 1

    def test_answers_a_task_named_twice_as_its_repetition(
        self, running: Any, worker: Entry
    ) -> None:
        held = running()
        said = held.binding | {"result": 1}

        first, second, third = transitions.complete(
            entry=worker, completions=[said, said, said | {"result": 2}]
        )

        assert (first.outcome, second.outcome) == ("recorded", "already_recorded")
        assert is_refusal(third, OutcomeConflict)
        assert actions(held.job).count("job.completed") == 1

    def test_names_the_attempts_of_each_item(
        self, running: Any, worker: Entry, fail: Any, claim: Any
    ) -> None:
        held = running(review_required=True)
        complete(worker, held, result=1)
        transitions.review(task_id=held.job.task_id, verdict="needs_rework", **ANNA)
        second = claim(held.job)

        now, before = transitions.complete(
            entry=worker,
            completions=[second.binding | {"result": 2}, held.binding | {"result": 1}],
        )

        assert (now.outcome, before.outcome) == ("recorded", "already_recorded")

    def test_of_50_takes_no_more_round_trips_than_of_one(
        self, make_job: Any, worker: Entry
    ) -> None:
        for _ in range(50):
            make_job()
        claimed = transitions.claim_next(entry=worker, limit=50)
        said = [
            {
                "task_id": answer.job.task_id,
                "attempt": 1,
                "fencing_token": 1,
                "result": {"n": number},
            }
            for number, answer in enumerate(claimed)
        ]

        with CaptureQueriesContext(connection) as queries:
            answers = transitions.complete(entry=worker, completions=said)

        assert {answer.outcome for answer in answers} == {"recorded"}
        assert trips(queries) <= ROUND_TRIPS_MAX - 1
