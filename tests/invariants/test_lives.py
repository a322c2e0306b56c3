"""Random lives of jobs: whatever workers, operators and time do, the claims hold.

After every step the rows are looked at as a whole, and after the last the audit trail too.  A move
that is refused leaves no trace, and no write under a token that is not current is ever recorded.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agents.principals import identify
from agents.transitions import credentials, principals
from governance.core import clock
from governance.core.errors import DomainError
from jobs import executions, transitions
from jobs.models import Attempt, Execution, Job, Lease
from tests import installed
from tests.evidence import rows
from tests.invariants.claims import broken_chains, broken_rows
from tests.jobs.governed import Governed, price_a_model, use_a_model
from tests.world import TEST

ANNA = {"actor": "user:anna", "reason": "because the test says so"}
DATA = st.data()
#: How much likelier a move meets what it is made for than anything else.
FAVOUR = 5
JOBS_MAX = 4
#: More of them for a night: `FENCEPOST_LIVES=500 pytest tests/invariants`.
EXAMPLES = int(os.environ.get("FENCEPOST_LIVES", "6"))


class Lives(RuleBasedStateMachine):
    """Jobs of two agents, one of them for high risk, with and without model calls."""

    @initialize()
    def install(self) -> None:
        # Each example is a savepoint of the test's transaction.
        self.savepoint = transaction.savepoint()
        installed.put()
        price_a_model()
        use_a_model("content_prep")
        principals.register_submitter(name="ops", **TEST)
        token = credentials.create(submitter="ops", scopes=["submit"], **TEST).token
        self.submitter = identify(token=token)
        self.workers = {
            name: Governed(identify(token=credentials.create(agent=name, **TEST).token))
            for name in ("hermes", "agent_zero")
        }
        self.numbers = itertools.count(1)
        self.jobs: list[Job] = []
        #: Attempt and token of every claim that was ever granted, by job.
        self.granted: dict[str, list[tuple[int, int]]] = {}

    def teardown(self) -> None:
        if hasattr(self, "savepoint"):
            # What is chained stays: a fault of any step is there at the end.
            assert broken_chains() == []
            transaction.savepoint_rollback(self.savepoint)

    def any_job(self, data: st.DataObject, *states: str) -> Job:
        """Draw a job, most often one in these states, where the move has something to do."""
        fitting = list(Job.objects.filter(state__in=states).order_by("pk"))
        job: Job = data.draw(st.sampled_from([*fitting * FAVOUR, *self.jobs]))
        job.refresh_from_db()
        return job

    def any_authority(self, data: st.DataObject) -> tuple[Job, int, int]:
        """Draw a job, and attempt and token of a claim on it, most often of the newest."""
        task_id = data.draw(st.sampled_from(sorted(self.granted)))
        known = self.granted[task_id]
        attempt, token = data.draw(st.sampled_from([*known, *known[-1:] * FAVOUR]))
        return Job.objects.get(task_id=task_id), attempt, token

    def worker(self, job: Job) -> Governed:
        return self.workers["agent_zero" if job.risk_tier == "high" else "hermes"]

    def made(self, job: Job, move: Callable[[], Any]) -> Any:
        """Make a move and return its answer, or None where it is refused, without a trace."""
        before = rows(job)
        try:
            answer = move()
        except DomainError:
            assert rows(job) == before, "a refused move has left a trace"
            return None
        return answer

    @precondition(lambda self: len(self.jobs) < JOBS_MAX)
    @rule(
        high=st.booleans(),
        reviewed=st.booleans(),
        most=st.integers(1, 3),
        timed=st.booleans(),
    )
    def take_in(self, high: bool, reviewed: bool, most: int, timed: bool) -> None:
        envelope: dict[str, Any] = {
            "task_id": f"life-{next(self.numbers)}",
            "source": "manual",
            "title": "A task of a test",
            "goal": "Live through whatever comes.",
            "task_type": "implementation" if high else "content_prep",
            "risk_tier": "high" if high else "low",
            "priority": "normal",
            "inputs": {},
            "output_required": False,
            "review_required": high or reviewed,
            "execution_approval_required": high,
            "rollback_required": False,
            "max_attempts": most,
        }
        if timed:
            envelope["deadline_at"] = clock.now() + timedelta(hours=1)
            envelope["expires_if_not_started_at"] = clock.now() + timedelta(minutes=30)
        [outcome] = transitions.intake(principal=self.submitter, envelopes=[envelope])
        assert isinstance(outcome, transitions.Outcome), outcome
        self.jobs.append(Job.objects.get(task_id=envelope["task_id"]))

    # --- Workers --------------------------------------------------------------------------------

    @precondition(lambda self: self.jobs)
    @rule(data=DATA, wait=st.booleans())
    def claim(self, data: st.DataObject, wait: bool) -> None:
        self._claim(self.any_job(data, "queued"), wait)

    def _claim(self, job: Job, wait: bool) -> None:
        if wait:
            # The backoff is over.
            Job.objects.filter(pk=job.pk).update(available_at=clock.now() - timedelta(seconds=1))
        entry = self.worker(job).entry
        answer = self.made(
            job, lambda: transitions.claim(entry=entry, task_id=job.task_id, owner="")
        )
        if isinstance(answer, transitions.Outcome) and answer.outcome == "claimed":
            held = answer.grant.attempt.number, answer.grant.attempt.fencing_token
            known = self.granted.setdefault(job.task_id, [])
            assert held not in known
            known.append(held)

    @precondition(lambda self: self.granted)
    @rule(
        data=DATA,
        how=st.sampled_from(["complete", "review", "fail", "give up", "escalate", "defer"]),
    )
    def end_attempt(self, data: st.DataObject, how: str) -> None:
        job, attempt, token = self.any_authority(data)
        current = (job.attempt, job.fencing_token) == (attempt, token)
        answer = self.made(job, lambda: self._ended(job, attempt, token, how))
        if isinstance(answer, transitions.Outcome) and answer.outcome == "recorded":
            assert current, f"{how} was recorded under a stale token"

    def _ended(self, job: Job, attempt: int, token: int, how: str) -> Any:
        entry = self.worker(job).entry
        named = {"task_id": job.task_id, "attempt": attempt, "fencing_token": token}
        if how in ("complete", "review"):
            done = named | {"result": {"n": 1}, "needs_review": how == "review"}
            [item] = transitions.complete(entry=entry, completions=[done])
            if isinstance(item, DomainError):
                raise item
            return item
        if how == "defer":
            said = {"reason": "There is no room.", "retry_after_seconds": 60}
            return transitions.defer(entry=entry, **named, **said)
        if how == "escalate":
            return transitions.escalate(entry=entry, **named, reason="I cannot decide that.")
        return transitions.fail(
            entry=entry, **named, error_message="It broke.", retryable=how == "fail"
        )

    @precondition(lambda self: self.granted)
    @rule(data=DATA)
    def heartbeat(self, data: st.DataObject) -> None:
        job, attempt, token = self.any_authority(data)
        before = Lease.objects.filter(job=job).values_list("expires_at", flat=True).first()
        worker = self.worker(job)
        beat = {"task_id": job.task_id, "attempt": attempt, "fencing_token": token}
        transitions.heartbeat(entry=worker.entry, beats=[beat])
        after = Lease.objects.filter(job=job).values_list("expires_at", flat=True).first()
        if (attempt, token) != (job.attempt, job.fencing_token):
            assert after == before, "a stale heartbeat has moved the lease"
        elif before is not None and after is not None:
            assert after >= before, "a heartbeat has shortened the lease"

    @precondition(lambda self: self.jobs)
    @rule(data=DATA, steps=st.sampled_from([1, 2, 3, 3, 3]))
    def go_the_governed_way(self, data: st.DataObject, steps: int) -> None:
        """Reserve, ask for the permit, start: as far as `steps` says, as far as it is allowed."""
        job = self.any_job(data, "queued", "active")
        if job.state == "queued":
            self._claim(job, wait=True)
        job.refresh_from_db()
        worker = self.worker(job)
        if job.state != "active":
            return
        routed = self.made(job, lambda: worker.route(job))
        if not isinstance(routed, dict) or not routed["reservation"] or steps == 1:
            return
        of = routed["reservation"]["reservation_id"]
        issued = self.made(job, lambda: worker.permit(job, of))
        if isinstance(issued, dict) and steps == 3:
            self.made(job, lambda: worker.start(job, issued["permit_id"]))

    @precondition(lambda self: Execution.objects.exists())
    @rule(data=DATA, outcome=st.sampled_from(["succeeded", "failed", "not_started"]))
    def result(self, data: st.DataObject, outcome: str) -> None:
        execution = self._any_execution(data)
        before = execution.state
        worker = self.worker(execution.job)
        ended = execution.job.attempts.get(number=execution.attempt).ended_at is not None
        self.made(execution.job, lambda: worker.result(execution, outcome))
        execution.refresh_from_db()
        if ended:
            assert execution.state == before, "a late result is evidence and never state"

    @precondition(lambda self: Execution.objects.exists())
    @rule(data=DATA, verdict=st.sampled_from(["happened", "not_happened", "undetermined"]))
    def reconcile(self, data: st.DataObject, verdict: str) -> None:
        execution = self._any_execution(data)
        self.made(
            execution.job,
            lambda: executions.reconcile(
                external_request_id=execution.external_request_id, verdict=verdict, **ANNA
            ),
        )

    def _any_execution(self, data: st.DataObject) -> Execution:
        found = Execution.objects.select_related("job").order_by("pk")
        execution: Execution = data.draw(st.sampled_from(list(found)))
        return execution

    # --- Operators ------------------------------------------------------------------------------

    @precondition(lambda self: self.jobs)
    @rule(data=DATA, verb=st.sampled_from(["approve"] * 4 + ["reject", "withdraw_approval"]))
    def decide(self, data: st.DataObject, verb: str) -> None:
        job = self.any_job(data, "held")
        self.made(job, lambda: getattr(transitions, verb)(task_id=job.task_id, **ANNA))

    @precondition(lambda self: self.jobs)
    @rule(data=DATA, verdict=st.sampled_from(["accepted", "needs_rework", "rejected"]))
    def review(self, data: st.DataObject, verdict: str) -> None:
        job = self.any_job(data, "review_required")
        self.made(job, lambda: transitions.review(task_id=job.task_id, verdict=verdict, **ANNA))

    @precondition(lambda self: self.jobs)
    @rule(data=DATA, extra=st.sampled_from([None, 1, 2, 50]))
    def rework(self, data: st.DataObject, extra: int | None) -> None:
        job = self.any_job(data, "failed", "review_required")
        self.made(job, lambda: transitions.rework(task_id=job.task_id, extra=extra, **ANNA))

    @precondition(lambda self: self.jobs)
    @rule(data=DATA, extra=st.sampled_from([1, 50]))
    def extend(self, data: st.DataObject, extra: int) -> None:
        job = self.any_job(data, "needs_rework")
        self.made(job, lambda: transitions.extend(task_id=job.task_id, extra=extra, **ANNA))

    @precondition(lambda self: self.jobs)
    @rule(data=DATA, resolution=st.sampled_from(["requeue", "complete", "fail", "stop"]))
    def resolve(self, data: st.DataObject, resolution: str) -> None:
        job = self.any_job(data, "escalated")
        self.made(
            job, lambda: transitions.resolve(task_id=job.task_id, resolution=resolution, **ANNA)
        )

    @precondition(lambda self: self.jobs)
    @rule(data=DATA, verb=st.sampled_from(["pause", "resume", "resume", "resume", "stop"]))
    def control(self, data: st.DataObject, verb: str) -> None:
        job = self.any_job(data)
        self.made(job, lambda: getattr(transitions, verb)(task_id=job.task_id, **ANNA))

    # --- Time -----------------------------------------------------------------------------------

    @precondition(lambda self: self.jobs)
    @rule(
        data=DATA,
        what=st.sampled_from(["lease", "lease", "attempt", "approval", "deadline", "queue wait"]),
        swept=st.booleans(),
    )
    def pass_time(self, data: st.DataObject, what: str, swept: bool) -> None:
        job = self.any_job(data, "active")
        past = clock.now() - timedelta(seconds=1)
        jobs = Job.objects.filter(pk=job.pk)
        if what == "lease":
            Lease.objects.filter(job=job).update(expires_at=past)
        elif what == "attempt":
            Attempt.objects.filter(job=job, ended_at=None).update(deadline_at=past)
        elif what == "approval":
            jobs.exclude(approval_valid_until=None).update(approval_valid_until=past)
        elif what == "deadline":
            jobs.exclude(deadline_at=None).update(deadline_at=past)
        else:
            jobs.exclude(expires_if_not_started_at=None).update(expires_if_not_started_at=past)
        if swept:
            report = transitions.sweep()
            assert report.failed == {}

    @rule(name=st.sampled_from(["hermes", "agent_zero"]))
    def boot_again(self, name: str) -> None:
        """A newer boot takes the session's place; the sweep ends what the older one held."""
        self.workers[name].activate()

    @invariant()
    def the_claims_hold(self) -> None:
        if hasattr(self, "jobs"):
            assert broken_rows() == []


@pytest.mark.slow
@pytest.mark.timeout(300 + EXAMPLES * 10)
class TestLives(TestCase, Lives.TestCase):
    settings = settings(
        max_examples=EXAMPLES,
        stateful_step_count=35,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
