"""Stop, pause and resume, whoever works on the job."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agents.entry import Entry
from governance.core.errors import InvalidTransition, StaleFencingToken
from governance.core.models import AuditEvent
from jobs import transitions
from jobs.models import Attempt, Escalation, Job, Lease
from tests.evidence import actions, is_refusal, refused, untouched
from tests.work import ANNA, expire_lease, make_available


class TestStop:
    def test_of_a_queued_job_is_the_end_of_it(self, make_job: Any) -> None:
        job = make_job()

        answer = transitions.stop(task_id=job.task_id, **ANNA)

        job.refresh_from_db()
        assert (answer.outcome, job.state) == ("stopped", "stopped")
        assert job.finished_at is not None
        assert actions(job)[-1] == "job.stopped"

    def test_fences_the_running_attempt_at_once(self, running: Any, worker: Entry) -> None:
        held = running()

        transitions.stop(task_id=held.job.task_id, **ANNA)

        held.job.refresh_from_db()
        assert held.job.fencing_token == held.fencing_token + 1
        assert Attempt.objects.get(job=held.job).outcome == "stopped"
        assert not Lease.objects.filter(job=held.job).exists()
        with untouched(held.job):
            [late] = transitions.complete(entry=worker, completions=[held.binding])
        assert is_refusal(late, StaleFencingToken)

    def test_is_told_at_the_next_heartbeat(self, running: Any, worker: Entry) -> None:
        held = running()
        transitions.stop(task_id=held.job.task_id, **ANNA)

        [beat] = transitions.heartbeat(entry=worker, beats=[held.binding])

        assert (beat.control, beat.ttl_seconds) == ("stop", 0)

    def test_closes_the_escalation_of_the_job(self, escalated: Any) -> None:
        job = escalated()

        transitions.stop(task_id=job.task_id, **ANNA)

        assert Escalation.objects.get(job=job).resolution == "ended"

    def test_with_an_unknown_execution_leaves_it_to_be_reconciled(self, running: Any) -> None:
        held = running()
        Job.objects.filter(pk=held.job.pk).update(unresolved_executions=1)

        transitions.stop(task_id=held.job.task_id, **ANNA)

        held.job.refresh_from_db()
        assert (held.job.state, held.job.unresolved_executions) == ("stopped", 1)

    def test_happens_once(self, make_job: Any) -> None:
        job = make_job()
        transitions.stop(task_id=job.task_id, **ANNA)

        with refused(InvalidTransition, job) as refusal:
            transitions.stop(task_id=job.task_id, **ANNA)

        assert refusal.value.current == {"state": "stopped"}


class TestPause:
    def test_leaves_the_lease_and_tells_the_worker(self, running: Any, worker: Entry) -> None:
        held = running()

        answer = transitions.pause(task_id=held.job.task_id, **ANNA)

        [beat] = transitions.heartbeat(entry=worker, beats=[held.binding])
        held.job.refresh_from_db()
        assert (answer.outcome, held.job.state, held.job.paused) == ("paused", "active", True)
        assert (beat.control, beat.ttl_seconds) == ("pause", 900)
        assert actions(held.job)[-1] == "job.paused"

    def test_keeps_an_expired_job_from_being_claimed(self, running: Any, worker: Entry) -> None:
        held = running()
        transitions.pause(task_id=held.job.task_id, **ANNA)
        expire_lease(held.job)
        transitions.end_if_due(task_id=held.job.task_id)
        make_available(held.job)

        held.job.refresh_from_db()
        assert (held.job.state, held.job.paused) == ("queued", True)
        assert transitions.claim_next(entry=worker, limit=1) == []

    def test_is_taken_back_by_resume(self, make_job: Any, worker: Entry) -> None:
        job = make_job()
        transitions.pause(task_id=job.task_id, **ANNA)

        answer = transitions.resume(task_id=job.task_id, **ANNA)

        assert (answer.outcome, answer.job.revision) == ("resumed", 3)
        assert actions(job) == ["job.queued", "job.paused", "job.resumed"]
        assert len(transitions.claim_next(entry=worker, limit=1)) == 1

    def test_is_not_set_twice(self, make_job: Any) -> None:
        job = make_job()
        transitions.pause(task_id=job.task_id, **ANNA)

        with refused(InvalidTransition, job):
            transitions.pause(task_id=job.task_id, **ANNA)

    def test_that_was_not_set_is_not_taken_back(self, make_job: Any) -> None:
        job = make_job()

        with refused(InvalidTransition, job):
            transitions.resume(task_id=job.task_id, **ANNA)

    @pytest.mark.parametrize("retryable", [False, True])
    def test_ends_with_the_job_and_not_before(
        self, running: Any, fail: Any, retryable: bool
    ) -> None:
        held = running()
        transitions.pause(task_id=held.job.task_id, **ANNA)

        fail(held, retryable=retryable)

        held.job.refresh_from_db()
        state = (held.job.state, held.job.paused)
        assert state == (("queued", True) if retryable else ("failed", False))
        last = AuditEvent.objects.filter(subject=held.job.audit_subject).order_by("seq").last()
        assert last is not None
        assert json.loads(bytes(last.body))["after"] == dict(
            zip(("state", "paused"), state, strict=True)
        )

    def test_is_taken_by_a_stop(self, make_job: Any) -> None:
        job = make_job()
        transitions.pause(task_id=job.task_id, **ANNA)

        answer = transitions.stop(task_id=job.task_id, **ANNA)

        job.refresh_from_db()
        assert (answer.job.paused, job.state, job.paused) == (False, "stopped", False)

    def test_of_a_finished_job_is_refused(self, failed: Any) -> None:
        job = failed()

        with refused(InvalidTransition, job):
            transitions.pause(task_id=job.task_id, **ANNA)
