"""Claims: who gets to work on what, and in which order."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from uuid_utils.compat import uuid7

from agents.entry import Entry
from agents.models import Agent, MaintenanceInhibit, Session
from agents.principals import Principal, identify
from governance.core import clock
from governance.core.errors import (
    AdmissionClosed,
    AdmissionDraining,
    ApprovalRequired,
    AttemptsExhausted,
    DispatcherEpochStale,
    InvalidArgument,
    InvalidTransition,
    LeaseHeldByAnother,
    MaintenanceInhibited,
    NotFound,
    OutcomeUnknown,
    PermissionDenied,
    SessionNotApproved,
    SessionRequired,
    SessionSuperseded,
    WrongOwner,
)
from jobs import transitions
from jobs.models import Approval, Attempt, Job, JobType, Lease
from jobs.operations import answers
from jobs.transitions.claims import CLAIMABLE
from jobs.transitions.story import Rework
from tests import plans
from tests.evidence import actions, events_of, facts, refused, untouched
from tests.work import (
    ANNA,
    Running,
    close,
    expire_lease,
    make_available,
    pass_time,
    trips,
)

ROUND_TRIPS_MAX = 4


class TestAClaim:
    def test_makes_an_attempt_a_lease_a_token_an_event_and_a_fact(
        self, make_job: Any, worker: Entry
    ) -> None:
        job = make_job()

        answer = transitions.claim(entry=worker, task_id=job.task_id, owner="hermes")

        job.refresh_from_db()
        attempt, lease = Attempt.objects.get(job=job), Lease.objects.get(job=job)
        assert (job.state, job.attempt, job.fencing_token, job.revision) == ("active", 1, 1, 2)
        assert (attempt.number, attempt.fencing_token, attempt.worker_id) == (1, 1, "worker-1")
        assert (lease.attempt, lease.fencing_token) == (1, 1)
        assert lease.expires_at - lease.granted_at == timedelta(seconds=900)
        assert actions(job) == ["job.queued", "job.claimed"]
        assert facts(job)[-1] == (2, "dev.fencepost.job.claimed")
        assert answer.outcome == "claimed"
        assert answer.grant.attempt.fencing_token == 1
        told = answers.claimed(answer)
        assert told["execution_digest"] == job.task.execution_digest
        assert told["envelope"] == job.task.envelope
        assert told["lease"]["ttl_seconds"] == 900
        assert told["lease"]["heartbeat_interval_seconds"] == 60
        assert told["job"]["claimed_by"] == "worker-1"

    def test_starts_the_attempts_own_deadline(self, make_job: Any, claim: Any) -> None:
        held = claim(make_job(attempt_timeout_seconds=120))

        attempt = Attempt.objects.get(job=held.job)
        assert attempt.deadline_at == attempt.claimed_at + timedelta(seconds=120)

    def test_pins_the_runtime_from_claim_else_session_else_type(
        self, make_job: Any, hermes: Principal, session_of: Any, job_type: Any
    ) -> None:
        job_type(runtime="typed")
        named, typed, sessions = make_job(), make_job(), make_job()
        session = session_of(hermes, runtime="of-the-session")
        implicit = Entry(hermes, "worker-1")
        activated = Entry(hermes, session_id=session.session_id)

        transitions.claim(
            entry=activated, task_id=named.task_id, owner="hermes", runtime="asked-for"
        )
        transitions.claim(entry=activated, task_id=sessions.task_id, owner="hermes")
        transitions.claim(entry=implicit, task_id=typed.task_id, owner="hermes")

        runtimes = dict(Attempt.objects.values_list("job__task_id", "runtime"))
        assert runtimes[named.task_id] == "asked-for"
        assert runtimes[sessions.task_id] == "of-the-session"
        assert runtimes[typed.task_id] == "typed"

    def test_takes_no_more_than_four_round_trips_with_authentication(
        self, make_job: Any, hermes_token: str
    ) -> None:
        identify(token=hermes_token)  # the first use in a minute also notes that it was used
        entry = Entry(identify(token=hermes_token), "worker-1")
        transitions.claim(entry=entry, task_id=make_job().task_id, owner="hermes")
        job = make_job()

        with CaptureQueriesContext(connection) as queries:
            identify(token=hermes_token)
            transitions.claim(entry=entry, task_id=job.task_id, owner="hermes")

        assert trips(queries) <= ROUND_TRIPS_MAX

    def test_hands_on_the_progress_of_the_attempt_before(
        self, running: Any, worker: Entry, fail: Any
    ) -> None:
        held = running()
        transitions.heartbeat(entry=worker, beats=[held.binding | {"progress": {"page": 7}}])
        fail(held)
        make_available(held.job)

        answer = transitions.claim(entry=worker, task_id=held.job.task_id, owner="hermes")

        assert (answer.grant.attempt.number, answer.grant.attempt.fencing_token) == (2, 2)
        assert answer.grant.past.progress == {"page": 7}

    def test_says_what_a_reviewer_wants_changed(self, delivered: Any, worker: Entry) -> None:
        job = delivered()
        transitions.review(
            task_id=job.task_id, actor="user:anna", verdict="needs_rework", reason="Shorter."
        )

        answer = transitions.claim(entry=worker, task_id=job.task_id, owner="hermes")

        assert answer.grant.past.rework == Rework("Shorter.", 1)


class TestAClaimOfARunningJob:
    def test_by_the_same_activated_session_returns_the_same_lease(
        self, make_job: Any, hermes: Principal, session_of: Any
    ) -> None:
        job = make_job()
        entry = Entry(hermes, session_id=session_of(hermes).session_id)
        first = transitions.claim(entry=entry, task_id=job.task_id, owner="hermes")

        second = transitions.claim(entry=entry, task_id=job.task_id, owner="hermes")

        assert second.outcome == "already_running"
        assert second.grant.attempt.fencing_token == first.grant.attempt.fencing_token
        assert second.grant.lease.expires_at == first.grant.lease.expires_at

    def test_by_the_same_worker_id_is_given_attempt_and_token_again_and_renews_nothing(
        self, running: Any, worker: Entry
    ) -> None:
        held = running()
        revision, lease = held.job.revision, Lease.objects.get(job=held.job)

        for _ in range(2):
            answer = transitions.claim(entry=worker, task_id=held.job.task_id, owner="hermes")

        assert answer.outcome == "already_running"
        assert answer.grant.attempt.number == held.attempt
        assert answer.grant.attempt.fencing_token == held.fencing_token
        held.job.refresh_from_db()
        assert held.job.revision == revision
        assert Lease.objects.get(job=held.job).expires_at == lease.expires_at

    def test_by_the_same_holder_is_counted_and_audited(self, running: Any, worker: Entry) -> None:
        held = running()

        for _ in range(2):
            transitions.claim(entry=worker, task_id=held.job.task_id, owner="hermes")

        assert Attempt.objects.get(job=held.job).claim_answers == 3
        assert actions(held.job)[2:] == ["job.claim_repeated"] * 2
        repeated = events_of(held.job)[-1]
        assert (repeated["claim_answers"], repeated["worker_id"]) == (3, "worker-1")

    def test_by_another_worker_is_refused(self, running: Any, other_worker: Entry) -> None:
        held = running()

        with refused(LeaseHeldByAnother, held.job) as refusal:
            transitions.claim(entry=other_worker, task_id=held.job.task_id, owner="hermes")

        assert refusal.value.current["state"] == "active"
        assert "fencing_token" not in refusal.value.current

    def test_by_another_runtime_is_refused(
        self, make_job: Any, hermes: Principal, session_of: Any
    ) -> None:
        job = make_job()
        entry = Entry(hermes, session_id=session_of(hermes).session_id)
        transitions.claim(entry=entry, task_id=job.task_id, owner="hermes", runtime="command")

        with refused(LeaseHeldByAnother, job):
            transitions.claim(entry=entry, task_id=job.task_id, owner="hermes", runtime="http")


class TestAClaimOfAJobWhoseLeaseHasExpired:
    def test_ends_the_attempt_and_makes_the_next_at_once(
        self, running: Any, other_worker: Entry
    ) -> None:
        held = running()
        expire_lease(held.job)

        answer = transitions.claim(entry=other_worker, task_id=held.job.task_id, owner="hermes")

        held.job.refresh_from_db()
        assert (answer.outcome, answer.grant.attempt.number) == ("claimed", 2)
        assert (held.job.state, held.job.attempt) == ("active", 2)
        assert answer.grant.attempt.fencing_token == held.job.fencing_token == 3
        first, second = held.job.attempts.order_by("number")
        assert (first.outcome, second.outcome) == ("lease_expired", None)
        assert Lease.objects.get(job=held.job).attempt == 2
        assert actions(held.job)[-2:] == ["job.lease_expired", "job.claimed"]

    def test_is_the_next_attempt_for_its_holder_too(self, running: Any, worker: Entry) -> None:
        held = running()
        expire_lease(held.job)

        answer = transitions.claim(entry=worker, task_id=held.job.task_id, owner="hermes")

        assert (answer.outcome, answer.grant.attempt.number) == ("claimed", 2)

    def test_that_is_refused_for_want_of_attempts_ends_it_nevertheless(
        self, running: Any, other_worker: Entry
    ) -> None:
        held = running(max_attempts=1)
        expire_lease(held.job)

        answer = transitions.claim(entry=other_worker, task_id=held.job.task_id, owner="hermes")

        held.job.refresh_from_db()
        assert type(answer) is AttemptsExhausted
        assert (held.job.state, held.job.attempts.get().outcome) == ("failed", "lease_expired")
        assert actions(held.job)[-1] == "job.lease_expired"

    def test_with_an_unknown_execution_leaves_it_in_doubt(
        self, running: Any, other_worker: Entry
    ) -> None:
        held = running()
        Job.objects.filter(pk=held.job.pk).update(unresolved_executions=1)
        expire_lease(held.job)

        answer = transitions.claim(entry=other_worker, task_id=held.job.task_id, owner="hermes")

        held.job.refresh_from_db()
        assert type(answer) is OutcomeUnknown
        assert (held.job.state, held.job.attempt) == ("in_doubt", 1)

    def test_that_is_paused_waits_in_the_queue(self, running: Any, other_worker: Entry) -> None:
        held = running()
        transitions.pause(task_id=held.job.task_id, **ANNA)
        expire_lease(held.job)

        answer = transitions.claim(entry=other_worker, task_id=held.job.task_id, owner="hermes")

        held.job.refresh_from_db()
        assert type(answer) is InvalidTransition
        assert (held.job.state, held.job.paused) == ("queued", True)

    def test_by_an_agent_that_is_closed_changes_nothing(
        self, running: Any, other_worker: Entry
    ) -> None:
        held = running()
        expire_lease(held.job)
        Agent.objects.filter(name="hermes").update(
            admission="closed", admission_generation=F("admission_generation") + 1
        )

        with refused(AdmissionClosed, held.job):
            transitions.claim(entry=other_worker, task_id=held.job.task_id, owner="hermes")

    def test_is_refused_while_the_lease_lives_with_what_it_has_left(
        self, running: Any, other_worker: Entry
    ) -> None:
        held = running()

        with refused(LeaseHeldByAnother, held.job) as refusal:
            transitions.claim(entry=other_worker, task_id=held.job.task_id, owner="hermes")

        assert 890 < (refusal.value.after_seconds or 0) <= 900


class TestAClaimIsRefused:
    def test_for_another_agents_job(self, make_job: Any, stranger: Entry) -> None:
        job = make_job()

        with refused(WrongOwner, job):
            transitions.claim(entry=stranger, task_id=job.task_id, owner="openclaw")

    def test_in_another_agents_name(self, make_job: Any, worker: Entry) -> None:
        job = make_job()

        with refused(WrongOwner, job):
            transitions.claim(entry=worker, task_id=job.task_id, owner="openclaw")

    def test_for_a_task_that_is_not_there(self, world: None, worker: Entry) -> None:
        with refused(NotFound):
            transitions.claim(entry=worker, task_id="nothing", owner="hermes")

    def test_of_a_submitter(self, make_job: Any, submitter: Principal) -> None:
        job = make_job()

        with refused(PermissionDenied, job):
            transitions.claim(entry=Entry(submitter, "w"), task_id=job.task_id, owner="ops")

    def test_of_a_disabled_agent(self, make_job: Any, worker: Entry) -> None:
        job = make_job()
        Agent.objects.filter(name="hermes").update(enabled=False)

        with refused(PermissionDenied, job):
            transitions.claim(entry=worker, task_id=job.task_id, owner="hermes")

    def test_of_a_held_job(self, make_job: Any, worker: Entry) -> None:
        job = make_job(execution_approval_required=True)

        with refused(InvalidTransition, job) as refusal:
            transitions.claim(entry=worker, task_id=job.task_id, owner="hermes")

        assert refusal.value.current["state"] == "held"

    def test_of_a_paused_job(self, make_job: Any, worker: Entry) -> None:
        job = make_job()
        transitions.pause(task_id=job.task_id, **ANNA)

        with refused(InvalidTransition, job) as refusal:
            transitions.claim(entry=worker, task_id=job.task_id, owner="hermes")

        assert refusal.value.current["paused"] is True

    def test_before_the_job_is_available(self, make_job: Any, worker: Entry) -> None:
        job = make_job(available_at=clock.now() + timedelta(seconds=100))

        with refused(InvalidTransition, job) as refusal:
            transitions.claim(entry=worker, task_id=job.task_id, owner="hermes")

        assert 90 < refusal.value.after_seconds <= 101

    @pytest.mark.parametrize("state", ["failed", "stopped", "review_required", "escalated"])
    def test_in_a_state_that_is_not_queued(
        self, request: pytest.FixtureRequest, make_job: Any, worker: Entry, state: str
    ) -> None:
        made = {"failed": "failed", "review_required": "delivered", "escalated": "escalated"}
        if state == "stopped":
            job = make_job()
            transitions.stop(task_id=job.task_id, **ANNA)
        else:
            job = request.getfixturevalue(made[state])()

        with refused(InvalidTransition, job) as refusal:
            transitions.claim(entry=worker, task_id=job.task_id, owner="hermes")

        assert refusal.value.current["state"] == state

    def test_in_doubt(self, running: Any, worker: Entry, fail: Any) -> None:
        held = running()
        Job.objects.filter(pk=held.job.pk).update(unresolved_executions=1)
        fail(held)

        with refused(OutcomeUnknown, held.job) as refusal:
            transitions.claim(entry=worker, task_id=held.job.task_id, owner="hermes")

        assert refusal.value.current["state"] == "in_doubt"

    def test_a_completed_job_answers_its_result_instead(self, running: Any, worker: Entry) -> None:
        held = running()
        transitions.complete(entry=worker, completions=[held.binding | {"result": {"n": 1}}])

        with untouched(held.job):
            answer = transitions.claim(entry=worker, task_id=held.job.task_id, owner="hermes")

        assert answer.outcome == "already_completed"
        assert answer.record.last_attempt.result == {"n": 1}


class TestAdmission:
    @pytest.fixture(params=["claim", "claim_next"])
    def attempt_to_claim(
        self, request: pytest.FixtureRequest, make_job: Any, worker: Entry
    ) -> tuple[Job, Callable[[], Any]]:
        job = make_job()
        if request.param == "claim":
            return job, lambda: transitions.claim(entry=worker, task_id=job.task_id, owner="hermes")
        return job, lambda: transitions.claim_next(entry=worker, limit=1)

    @pytest.mark.parametrize(
        ("admission", "refusal"),
        [("draining", AdmissionDraining), ("closed", AdmissionClosed)],
    )
    def test_a_draining_or_closed_agent_gets_no_claim(
        self, attempt_to_claim: Any, admission: str, refusal: Any
    ) -> None:
        job, attempt = attempt_to_claim
        Agent.objects.filter(name="hermes").update(admission=admission, admission_generation=4)

        with refused(refusal, job) as caught:
            attempt()

        assert caught.value.current == {"admission": admission, "generation": 4}

    @pytest.mark.parametrize("scope", ["agent", "fleet"])
    def test_an_inhibit_grants_no_claim_and_names_its_end(
        self, attempt_to_claim: Any, scope: str
    ) -> None:
        job, attempt = attempt_to_claim
        now = clock.now()
        MaintenanceInhibit.objects.create(
            agent=Agent.objects.get(name="hermes") if scope == "agent" else None,
            owner="user:anna",
            reason="New disks.",
            starts_at=now - timedelta(seconds=1),
            ends_at=now + timedelta(seconds=300),
        )

        with refused(MaintenanceInhibited, job) as caught:
            attempt()

        assert (caught.value.status, caught.value.effect) == (503, "none")
        assert 290 < caught.value.after_seconds <= 301

    def test_an_inhibit_comes_before_admission(self, attempt_to_claim: Any) -> None:
        job, attempt = attempt_to_claim
        close("hermes")
        MaintenanceInhibit.objects.create(
            owner="user:anna", reason="New disks.", starts_at=clock.now()
        )

        with refused(MaintenanceInhibited, job):
            attempt()

    @pytest.mark.parametrize("over", ["lifted", "ended", "not begun", "of another agent"])
    def test_an_inhibit_that_is_not_in_force_stops_nothing(
        self, attempt_to_claim: Any, over: str
    ) -> None:
        job, attempt = attempt_to_claim
        now, hour = clock.now(), timedelta(hours=1)
        values: dict[str, Any] = {
            "lifted": {"starts_at": now - hour, "lifted_at": now, "lifted_by": "user:anna"},
            "ended": {"starts_at": now - 2 * hour, "ends_at": now - hour},
            "not begun": {"starts_at": now + hour},
            "of another agent": {
                "starts_at": now - hour,
                "agent": Agent.objects.get(name="openclaw"),
            },
        }[over]
        MaintenanceInhibit.objects.create(owner="user:anna", reason="New disks.", **values)

        attempt()

        job.refresh_from_db()
        assert job.state == "active"

    def test_running_work_goes_on_while_the_agent_drains(self, running: Any, worker: Entry) -> None:
        held = running()
        close("hermes")

        [beat] = transitions.heartbeat(entry=worker, beats=[held.binding])
        [done] = transitions.complete(entry=worker, completions=[held.binding])

        assert beat.control == "drain"
        assert done.outcome == "recorded"


class TestASession:
    def test_that_was_superseded_may_not_claim(
        self, make_job: Any, hermes: Principal, session_of: Any
    ) -> None:
        job = make_job()
        session = session_of(hermes, state="superseded", superseded_at=clock.now())

        with refused(SessionSuperseded, job):
            transitions.claim(
                entry=Entry(hermes, session_id=session.session_id),
                task_id=job.task_id,
                owner="hermes",
            )

    def test_that_waits_for_its_approval_may_not_claim(
        self, make_job: Any, hermes: Principal, session_of: Any
    ) -> None:
        job = make_job()
        session = session_of(hermes, state="pending")

        with refused(SessionNotApproved, job):
            transitions.claim_next(entry=Entry(hermes, session_id=session.session_id), limit=1)

    def test_of_another_agent_is_not_known(
        self, make_job: Any, hermes: Principal, openclaw: Principal, session_of: Any
    ) -> None:
        job = make_job()
        session = session_of(openclaw)

        with refused(SessionRequired, job):
            transitions.claim_next(entry=Entry(hermes, session_id=session.session_id), limit=1)

    def test_of_an_older_epoch_may_not_claim(
        self, make_job: Any, hermes: Principal, session_of: Any
    ) -> None:
        job = make_job()
        session = session_of(hermes, dispatcher_epoch=uuid7())

        with refused(DispatcherEpochStale, job) as refusal:
            transitions.claim_next(entry=Entry(hermes, session_id=session.session_id), limit=1)

        assert "dispatcher_epoch" in refusal.value.current

    def test_that_names_an_older_epoch_may_not_claim(
        self, make_job: Any, hermes: Principal, session_of: Any
    ) -> None:
        job = make_job()
        session = session_of(hermes)
        stale = Entry(hermes, session_id=session.session_id, epoch=uuid7())

        with refused(DispatcherEpochStale, job):
            transitions.claim_next(entry=stale, limit=1)

    def test_comes_before_everything_that_concerns_the_job(
        self, make_job: Any, openclaw: Principal, session_of: Any
    ) -> None:
        """Precedence: session, then whose job it is, then its state, then admission."""
        job = make_job()
        transitions.stop(task_id=job.task_id, **ANNA)
        close("openclaw")
        session = session_of(openclaw, state="superseded", superseded_at=clock.now())

        with refused(SessionSuperseded, job):
            superseded = Entry(openclaw, session_id=session.session_id)
            transitions.claim(entry=superseded, task_id=job.task_id, owner="openclaw")
        with refused(WrongOwner, job):
            unnamed = Entry(openclaw, "claw-1")
            transitions.claim(entry=unnamed, task_id=job.task_id, owner="openclaw")

    def test_is_made_once_for_a_worker_id(self, make_job: Any, claim: Any) -> None:
        claim(make_job())
        claim(make_job())

        assert Session.objects.filter(kind="implicit", worker_id="worker-1").count() == 1


class TestClaimNext:
    def test_takes_the_highest_priority_first_and_the_oldest_of_them(
        self, make_job: Any, worker: Entry
    ) -> None:
        for task_id, priority in [
            ("low", "low"),
            ("normal-1", "normal"),
            ("urgent", "urgent"),
            ("normal-2", "normal"),
            ("high", "high"),
        ]:
            make_job(task_id=task_id, priority=priority)

        taken = [a.job.task_id for a in transitions.claim_next(entry=worker, limit=4)]

        assert taken == ["urgent", "high", "normal-1", "normal-2"]
        assert Lease.objects.count() == 4

    def test_gives_each_job_its_own_attempt_and_token(self, make_job: Any, worker: Entry) -> None:
        make_job(), make_job()

        outcomes = transitions.claim_next(entry=worker, limit=10)

        assert [a.grant.attempt.fencing_token for a in outcomes] == [1, 1]
        assert [a.record.task.envelope["payload"] for a in outcomes] == [
            Job.objects.get(task_id=a.job.task_id).task.envelope["payload"] for a in outcomes
        ]

    def test_is_empty_when_there_is_nothing_to_do(self, world: None, worker: Entry) -> None:
        assert transitions.claim_next(entry=worker, limit=5) == []

    def test_passes_over_what_cannot_be_claimed(self, make_job: Any, worker: Entry) -> None:
        paused, held = make_job(), make_job(execution_approval_required=True)
        later = make_job(available_at=clock.now() + timedelta(hours=1))
        foreign = make_job(task_type="rewrite")
        transitions.pause(task_id=paused.task_id, **ANNA)

        with untouched(paused, held, later, foreign):
            assert transitions.claim_next(entry=worker, limit=5) == []

    def test_takes_only_the_asked_types(self, make_job: Any, worker: Entry) -> None:
        make_job(task_type="content_prep")
        wanted = make_job(task_type="healthcheck")

        outcomes = transitions.claim_next(entry=worker, limit=5, task_types=["healthcheck"])

        assert [a.job.task_id for a in outcomes] == [wanted.task_id]

    def test_names_the_types_that_do_not_exist(self, make_job: Any, worker: Entry) -> None:
        job = make_job(task_type="content_prep")

        with untouched(job), pytest.raises(InvalidArgument) as refusal:
            transitions.claim_next(
                entry=worker, limit=5, task_types=["content_prep", "contentprep", "rewrite", ""]
            )

        places = [fault.pointer for fault in refusal.value.errors]
        assert places == ["/task_types/1", "/task_types/3"]

    def test_takes_what_is_left_of_a_type_that_was_turned_off(
        self, make_job: Any, worker: Entry
    ) -> None:
        job = make_job(task_type="content_prep")
        JobType.objects.filter(name="content_prep").update(enabled=False)

        [granted] = transitions.claim_next(entry=worker, task_types=["content_prep"])

        assert granted.job.task_id == job.task_id

    def test_puts_a_job_whose_approval_has_expired_back_on_hold(
        self, make_job: Any, worker: Entry
    ) -> None:
        expired, fine = make_job(execution_approval_required=True), make_job()
        transitions.approve(task_id=expired.task_id, **ANNA)
        pass_time(expired, "approval_valid_until")

        outcomes = transitions.claim_next(entry=worker, limit=5)

        expired.refresh_from_db()
        assert [a.job.task_id for a in outcomes] == [fine.task_id]
        assert (expired.state, expired.attempt) == ("held", 0)
        assert actions(expired)[-1] == "job.approval_expired"

    def test_spends_its_limit_on_jobs_that_it_may_grant(self, make_job: Any, worker: Entry) -> None:
        expired = [make_job(execution_approval_required=True) for _ in range(2)]
        fine = [make_job(), make_job(), make_job()]
        for job in expired:
            transitions.approve(task_id=job.task_id, **ANNA)
            pass_time(job, "approval_valid_until")
            Job.objects.filter(pk=job.pk).update(available_at=job.created_at)

        outcomes = transitions.claim_next(entry=worker, limit=2)

        assert [a.job.task_id for a in outcomes] == [job.task_id for job in fine[:2]]
        states = Job.objects.filter(pk__in=[job.pk for job in expired]).values_list("state")
        assert list(states) == [("held",), ("held",)]

    def test_hands_on_progress_and_rework_too(self, running: Any, worker: Entry, fail: Any) -> None:
        held = running()
        fail(held, progress={"page": 3}, retryable=False)
        transitions.rework(task_id=held.job.task_id, actor="user:anna", reason="Again.")

        [answer] = transitions.claim_next(entry=worker, limit=1)

        assert answer.grant.past.progress == {"page": 3}
        assert answer.grant.past.rework == Rework("Again.", 1)

    def test_takes_no_more_than_four_round_trips_with_authentication(
        self, make_job: Any, hermes_token: str
    ) -> None:
        entry = Entry(identify(token=hermes_token), "worker-1")
        make_job(), make_job(), make_job()
        transitions.claim_next(entry=entry, limit=1)

        with CaptureQueriesContext(connection) as queries:
            identify(token=hermes_token)
            transitions.claim_next(entry=entry, limit=2)

        assert trips(queries) <= ROUND_TRIPS_MAX

    def test_walks_the_claim_index_and_sorts_nothing_but_what_it_picked(
        self, make_job: Any, hermes: Principal
    ) -> None:
        for number in range(20):
            make_job(task_id=f"t-{number}", priority=("low", "normal", "high")[number % 3])
        params = {"agent_id": hermes.id, "types": None, "limit": 10, "with_inputs": True}
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")
            cursor.execute("SET LOCAL enable_bitmapscan = off")
            # Of twenty rows the planner thinks what the last autovacuum saw; with a million it
            # has no choice. What is shown here is that the index gives the order.
            cursor.execute("SET LOCAL enable_sort = off")
            cursor.execute(f"EXPLAIN (FORMAT JSON) {CLAIMABLE.whole}", params)
            [plan] = cursor.fetchone()[0]

        picked = plans.subplan(plan["Plan"], "CTE picked")
        walked = {node.get("Index Name") for node in plans.nodes(picked)}
        assert "job_claim_idx" in walked
        assert not [node for node in plans.nodes(picked) if "Sort" in node["Node Type"]]


class TestAnApproval:
    def test_that_has_expired_puts_the_claimed_job_back_on_hold(
        self, make_job: Any, worker: Entry
    ) -> None:
        job = make_job(execution_approval_required=True)
        transitions.approve(task_id=job.task_id, **ANNA)
        pass_time(job, "approval_valid_until")

        answer = transitions.claim(entry=worker, task_id=job.task_id, owner="hermes")

        job.refresh_from_db()
        assert type(answer) is ApprovalRequired
        assert (job.state, job.attempt, job.approval_valid_until) == ("held", 0, None)
        assert not Attempt.objects.filter(job=job).exists()
        approved, expired = Approval.objects.filter(job=job).order_by("id")
        assert (expired.decision, expired.decided_by) == ("expired", "agent:hermes")
        assert expired.execution_digest == approved.execution_digest
        assert expired.valid_until <= expired.decided_at < approved.valid_until
        assert actions(job)[-1] == "job.approval_expired"

    def test_that_has_expired_costs_no_further_round_trip(
        self, make_job: Any, hermes_token: str
    ) -> None:
        entry = Entry(identify(token=hermes_token), "worker-1")
        job = make_job(execution_approval_required=True)
        transitions.claim(entry=entry, task_id=make_job().task_id, owner="hermes")
        transitions.approve(task_id=job.task_id, **ANNA)
        pass_time(job, "approval_valid_until")

        with CaptureQueriesContext(connection) as queries:
            identify(token=hermes_token)
            transitions.claim(entry=entry, task_id=job.task_id, owner="hermes")

        assert trips(queries) <= ROUND_TRIPS_MAX

    def test_covers_the_automatic_retries_until_it_ends(
        self, make_job: Any, claim: Any, fail: Any
    ) -> None:
        job = make_job(execution_approval_required=True)
        transitions.approve(task_id=job.task_id, **ANNA)
        fail(claim(job))
        make_available(job)

        second: Running = claim(job)

        assert second.attempt == 2
