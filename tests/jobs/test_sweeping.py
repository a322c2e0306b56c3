"""The sweeper: ends what has run out, and nothing else."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from agents.entry import Entry
from agents.models import Session
from agents.principals import Principal
from governance.core import clock
from governance.core.errors import StaleFencingToken
from jobs import transitions
from jobs.models import Approval, Attempt, Escalation, Job, Lease
from jobs.transitions import controls
from jobs.transitions.sweeping import DUE
from tests.evidence import actions, is_refusal, untouched
from tests.work import ANNA, expire_lease, pass_attempt_deadline, pass_time


class TestAnExpiredLease:
    def test_ends_the_attempt_and_queues_the_job(self, running: Any) -> None:
        held = running()
        expire_lease(held.job)

        report = transitions.sweep()

        held.job.refresh_from_db()
        attempt = Attempt.objects.get(job=held.job)
        assert report.ended == {"lease_expired": 1}
        assert (held.job.state, held.job.attempt, held.job.fencing_token) == ("queued", 1, 2)
        assert held.job.available_at > attempt.ended_at
        assert (attempt.outcome, attempt.error_code) == ("lease_expired", "LEASE_EXPIRED")
        assert not Lease.objects.filter(job=held.job).exists()
        assert actions(held.job)[-1] == "job.lease_expired"

    def test_on_the_last_attempt_fails_the_job(self, running: Any) -> None:
        held = running(max_attempts=1)
        expire_lease(held.job)

        transitions.sweep()

        held.job.refresh_from_db()
        assert held.job.state == "failed"

    def test_with_an_unknown_execution_leaves_the_job_in_doubt(self, running: Any) -> None:
        held = running()
        Job.objects.filter(pk=held.job.pk).update(unresolved_executions=1)
        expire_lease(held.job)

        transitions.sweep()

        held.job.refresh_from_db()
        assert held.job.state == "in_doubt"

    def test_voids_the_token(self, running: Any, worker: Entry) -> None:
        held = running()
        expire_lease(held.job)
        transitions.sweep()

        with untouched(held.job):
            [late] = transitions.complete(entry=worker, completions=[held.binding])

        assert is_refusal(late, StaleFencingToken)

    def test_keeps_the_progress_for_the_next_attempt(self, running: Any, worker: Entry) -> None:
        held = running()
        transitions.heartbeat(entry=worker, beats=[held.binding | {"progress": {"page": 5}}])
        expire_lease(held.job)

        transitions.sweep()

        assert Attempt.objects.get(job=held.job).progress == {"page": 5}


class TestASupersededSession:
    def test_loses_its_leases_before_they_run_out(
        self, make_job: Any, claim: Any, hermes: Principal, session_of: Any
    ) -> None:
        session = session_of(hermes)
        held = claim(make_job(), Entry(hermes, session_id=session.session_id))
        Session.objects.filter(pk=session.pk).update(state="superseded", superseded_at=clock.now())

        report = transitions.sweep()

        held.job.refresh_from_db()
        assert report.ended == {"superseded": 1}
        assert (held.job.state, held.job.fencing_token) == ("queued", 2)
        assert Attempt.objects.get(job=held.job).outcome == "superseded"


class TestDeadlines:
    def test_of_the_attempt_ends_it_and_the_job_goes_on(self, make_job: Any, claim: Any) -> None:
        held = claim(make_job(attempt_timeout_seconds=60))
        pass_attempt_deadline(held.job)

        report = transitions.sweep()

        held.job.refresh_from_db()
        assert report.ended == {"timed_out": 1}
        assert held.job.state == "queued"
        assert Attempt.objects.get(job=held.job).outcome == "timed_out"

    @pytest.mark.parametrize("state", ["queued", "held", "active", "review_required", "escalated"])
    def test_of_the_job_fails_it_in_every_open_state(
        self, request: pytest.FixtureRequest, make_job: Any, claim: Any, state: str
    ) -> None:
        deadline = {"deadline_at": clock.now() + timedelta(hours=1)}
        if state in ("review_required", "escalated"):
            made = {"review_required": "delivered", "escalated": "escalated"}[state]
            job = request.getfixturevalue(made)(**deadline)
        else:
            job = make_job(**deadline, execution_approval_required=state == "held")
        if state == "active":
            claim(job)
        token = Job.objects.get(pk=job.pk).fencing_token
        pass_time(job, "deadline_at")

        report = transitions.sweep()

        job.refresh_from_db()
        assert report.ended == {"deadline_exceeded": 1}
        assert (job.state, job.fencing_token) == ("failed", token + (state == "active"))
        assert not Lease.objects.filter(job=job).exists()
        assert not Escalation.objects.filter(job=job, resolved_at=None).exists()
        assert actions(job)[-1] == "job.deadline_exceeded"

    def test_of_the_job_comes_before_those_of_attempt_and_lease(
        self, make_job: Any, claim: Any
    ) -> None:
        held = claim(
            make_job(attempt_timeout_seconds=60, deadline_at=clock.now() + timedelta(hours=1))
        )
        pass_time(held.job, "deadline_at")
        pass_attempt_deadline(held.job)
        expire_lease(held.job)

        assert transitions.sweep().ended == {"deadline_exceeded": 1}

    def test_of_the_attempt_comes_before_the_lease(self, make_job: Any, claim: Any) -> None:
        held = claim(make_job(attempt_timeout_seconds=60))
        pass_attempt_deadline(held.job)
        expire_lease(held.job)

        assert transitions.sweep().ended == {"timed_out": 1}

    def test_of_the_queue_wait_stops_a_job_that_never_started(self, make_job: Any) -> None:
        job = make_job(expires_if_not_started_at=clock.now() + timedelta(hours=1))
        pass_time(job, "expires_if_not_started_at")

        report = transitions.sweep()

        job.refresh_from_db()
        assert (report.ended, job.state) == ({"queue_wait": 1}, "stopped")
        assert actions(job)[-1] == "job.expired"

    @pytest.mark.parametrize("kept", ["held", "on hold", "paused", "held and paused"])
    def test_of_the_queue_wait_stops_a_job_that_was_kept_from_starting(
        self, make_job: Any, kept: str
    ) -> None:
        soon = clock.now() + timedelta(hours=1)
        job = make_job(
            expires_if_not_started_at=soon, execution_approval_required=kept.startswith("held")
        )
        if kept == "on hold":
            controls.hold(task_id=job.task_id, until=soon + timedelta(hours=1), **ANNA)
        if "paused" in kept:
            transitions.pause(task_id=job.task_id, **ANNA)
        with untouched(job):
            assert transitions.sweep().ended == {}
        pass_time(job, "expires_if_not_started_at")

        report = transitions.sweep()

        job.refresh_from_db()
        assert (report.ended, job.state) == ({"queue_wait": 1}, "stopped")
        assert (job.hold_until, job.paused) == (None, False)
        assert actions(job)[-1] == "job.expired"

    def test_of_the_queue_wait_is_found_without_a_scan(self, make_job: Any) -> None:
        make_job()
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")
            cursor.execute("EXPLAIN " + DUE, {"limit": 10, "resting": []})
            plan = "\n".join(line for (line,) in cursor.fetchall())

        assert "job_queue_wait_idx" in plan

    def test_of_the_queue_wait_does_not_concern_a_job_that_was_started(
        self, make_job: Any, claim: Any, fail: Any
    ) -> None:
        job = make_job(expires_if_not_started_at=clock.now() + timedelta(hours=1))
        fail(claim(job))
        pass_time(job, "expires_if_not_started_at")

        with untouched(job):
            assert transitions.sweep().ended == {}


class TestASweep:
    def test_leaves_alone_what_has_not_run_out(
        self, make_job: Any, running: Any, delivered: Any, failed: Any
    ) -> None:
        jobs = [make_job(), running().job, delivered(), failed()]

        with untouched(*jobs):
            report = transitions.sweep()

        assert (report.found, report.total) == (0, 0)

    def test_judges_each_job_again_under_its_lock(self, running: Any, worker: Entry) -> None:
        held = running()
        transitions.complete(entry=worker, completions=[held.binding])

        with untouched(held.job):
            assert transitions.end_if_due(task_id=held.job.task_id) is None

    def test_finds_nothing_the_second_time(self, running: Any) -> None:
        expire_lease(running().job)

        assert (transitions.sweep().total, transitions.sweep().found) == (1, 0)

    def test_is_not_stopped_by_a_row_that_it_cannot_handle(self, running: Any) -> None:
        fine, poisoned, also_fine = running(), running(), running()
        for held in (fine, poisoned, also_fine):
            expire_lease(held.job)
        with connection.cursor() as cursor:
            # A damaged row, past the guards: its next event's number is taken.
            cursor.execute("SET LOCAL session_replication_role = replica")
            cursor.execute("UPDATE jobs_job SET audit_seq = 0 WHERE id = %s", [poisoned.job.pk])
            cursor.execute("SET LOCAL session_replication_role = origin")

        with untouched(poisoned.job):
            report = transitions.sweep()

        assert report.ended == {"lease_expired": 2}
        assert list(report.failed) == [poisoned.job.task_id]

    def test_takes_no_more_than_its_limit_of_each_kind(self, running: Any) -> None:
        for _ in range(3):
            expire_lease(running().job)

        assert [transitions.sweep(limit=2).total for _ in range(3)] == [2, 1, 0]

    def test_ends_a_paused_job_too(self, running: Any) -> None:
        held = running()
        transitions.pause(task_id=held.job.task_id, **ANNA)
        expire_lease(held.job)

        assert transitions.sweep().ended == {"lease_expired": 1}


class TestAnApprovalThatRunsOut:
    @pytest.fixture
    def waits(self, make_job: Any) -> Job:
        job: Job = make_job(execution_approval_required=True)
        transitions.approve(task_id=job.task_id, **ANNA)
        return job

    @pytest.mark.parametrize("paused", [False, True])
    def test_while_the_job_waits_puts_it_back_on_hold(self, waits: Job, paused: bool) -> None:
        pass_time(waits, "approval_valid_until")
        Job.objects.filter(pk=waits.pk).update(paused=paused)

        report = transitions.sweep()

        waits.refresh_from_db()
        expired = Approval.objects.get(job=waits, decision="expired")
        assert report.ended == {"approval": 1}
        assert (waits.state, waits.approval_valid_until, waits.paused) == ("held", None, paused)
        assert (expired.decided_by, expired.reason) == (
            "system:sweeper",
            "The approval expired while the job waited in the queue.",
        )
        assert actions(waits)[-1] == "job.approval_expired"
        assert transitions.sweep().total == 0

    def test_later_leaves_the_job_in_the_queue(self, waits: Job) -> None:
        with untouched(waits):
            assert transitions.sweep().total == 0

    def test_while_the_job_runs_ends_nothing(self, waits: Job, claim: Any) -> None:
        claim(waits)
        pass_time(waits, "approval_valid_until")

        with untouched(waits):
            assert transitions.sweep().total == 0

    def test_is_found_by_an_index(self, world: None) -> None:
        from jobs.transitions.sweeping import DUE

        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")
            cursor.execute("EXPLAIN " + DUE, {"limit": 500, "resting": ["task-0"]})
            plan = "\n".join(row[0] for row in cursor.fetchall())

        assert "job_approval_idx" in plan
