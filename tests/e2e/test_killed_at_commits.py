"""A SIGKILL before and after every commit: what was done is whole, and the rest is gone on with.

The commits are where a kill can make a difference: what has not been committed has not happened.
`die_at` forks, so that each of the many deaths costs milliseconds and a connection.
"""

from __future__ import annotations

import hashlib
import io
import os
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from uuid_utils.compat import uuid7

from agents.entry import Entry
from agents.management.commands import switch_runtime
from agents.models import Agent, MaintenanceInhibit, RuntimeSwitch
from agents.principals import Principal
from agents.transitions import presence
from governance.console import runs, selections
from governance.console.models import BulkItem, BulkRun
from governance.core import sql
from governance.core.errors import MaintenanceInhibited
from governance.core.models import AuditEvent, Fact
from governance.evidence import trail
from governance.money import ledger
from governance.money.models import Reservation
from jobs import executions, objects, transitions, wakeups
from jobs.models import Execution, Job, JobType, Permit
from jobs.verbs.job import PAUSE
from tests.client import Api
from tests.jobs.governed import Governed, price_a_model
from tests.work import expire_lease
from tests.world import TEST

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(120)]

#: More than any of the acts here has; each test must have come past the last one.
POINTS_MAX = 120


#: Not empty while somebody else acts than who is to be killed.
uncounted: list[str] = []


def die_at(point: int, act: Callable[[], Any]) -> bool:
    """Run `act` in a process that is killed at a point; return whether it came to that.

    :param point: counted from 0: before the first commit, after it, before the second ...
    """
    wakeups.close()
    connections.close_all()
    with warnings.catch_warnings():
        # The child takes up nothing that another thread may have been at.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            count_commits(point)
            act()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert status == 0, "the act failed by itself"
    return False


def count_commits(point: int) -> None:
    """Kill this process at the point. Only called in a child."""
    passed, commit = [0], BaseDatabaseWrapper._commit

    def pass_by() -> None:
        if uncounted:
            return
        if passed[0] == point:
            os.kill(os.getpid(), signal.SIGKILL)
        passed[0] += 1

    def fatal_commit(self: Any) -> None:
        pass_by()
        commit(self)
        pass_by()

    def fatal_commit_with(*statements: sql.Statement) -> None:
        pass_by()
        commit_with(*statements)
        pass_by()

    commit_with = sql.commit_with
    BaseDatabaseWrapper._commit, sql.commit_with = fatal_commit, fatal_commit_with


def deaths(act: Callable[[], Any]) -> Iterator[int]:
    """Let `act` die at each of its points in turn, and yield after each death."""
    for point in range(POINTS_MAX):
        if not die_at(point, act):
            assert point, "nothing was committed"
            return
        yield point
    raise AssertionError("the act has more points than that")


def nothing_is_half() -> None:
    assert list(ledger.verify()) == []
    for job in Job.objects.all():
        numbers = Fact.objects.filter(stream=job.audit_subject).order_by("sequence")
        expected = list(range(1, job.fact_sequence + 1))
        assert list(numbers.values_list("sequence", flat=True)) == expected


@pytest.fixture(autouse=True)
def _the_chains_are_whole_in_the_end(transactional_db: None) -> Iterator[None]:
    yield
    assert list(trail.verify().findings) == []


@pytest.fixture
def keys_of_the_test(settings: Any, tmp_path: Any) -> Iterator[None]:
    settings.DATA_DIR = tmp_path
    objects.store.cache_clear()
    yield
    objects.store.cache_clear()


def test_a_sweeper_killed_in_a_round_has_ended_each_lease_wholly_or_not_at_all(
    hermes: Principal, make_job: Callable[..., Job]
) -> None:
    price_a_model(cap=Decimal(1))
    JobType.objects.update(backoff_base_seconds=0)
    worker = Governed(hermes)

    def begin() -> list[Job]:
        """One in doubt, one with attempts left and a reservation, one with none left."""
        jobs = [make_job(), make_job(), make_job(max_attempts=1)]
        worker.begin(jobs[0])
        for job in jobs[1:]:
            worker.claim(job)
        worker.route(jobs[1])
        for job in jobs:
            expire_lease(job)
        return jobs

    states = ["in_doubt", "queued", "failed"]
    jobs = begin()
    for _ in deaths(transitions.sweep):
        for job, state in zip(jobs, states, strict=True):
            job.refresh_from_db()
            ended = job.attempts.get().ended_at is not None
            assert job.state == (state if ended else "active")
        nothing_is_half()
        assert transitions.sweep().failed == {}
        for job, state in zip(jobs, states, strict=True):
            job.refresh_from_db()
            assert (job.state, job.attempts.get().outcome) == (state, "lease_expired")
            expired = AuditEvent.objects.filter(subject=job.audit_subject)
            assert expired.filter(action="job.lease_expired").count() == 1
        assert Reservation.objects.get(job_id=jobs[1].job_id).state == "released"
        nothing_is_half()
        jobs = begin()


def test_a_bulk_run_killed_in_the_middle_is_gone_on_with_and_acts_once_on_each_row(
    admin_user: User, make_job: Callable[..., Job]
) -> None:
    def begin() -> BulkRun:
        keys = [make_job().task_id for _ in range(3)]
        selection = selections.freeze(model="jobs.job", keys=keys, user_id=admin_user.pk)
        return runs.begin(
            verb=PAUSE, selection=selection, user=admin_user, reason="because", values={}
        )

    run = begin()

    def advance() -> None:
        runs.advance(run=run)

    for _ in deaths(advance):
        for item in BulkItem.objects.filter(run=run):
            assert item.outcome in ("pending", "done")
            assert Job.objects.get(task_id=item.key).paused == (item.outcome == "done")
        run.refresh_from_db()
        if run.finished_at is None:
            runs.advance_abandoned(after_seconds=0)
            run.refresh_from_db()
        assert run.finished_at is not None
        for item in BulkItem.objects.filter(run=run):
            job = Job.objects.get(task_id=item.key)
            assert (item.outcome, job.paused) == ("done", True)
            events = AuditEvent.objects.filter(subject=job.audit_subject, action="job.paused")
            assert events.count() == 1
        nothing_is_half()
        run = begin()


def test_a_runtime_switch_killed_in_any_step_is_seen_and_taken_up_again(
    hermes: Principal,
    openclaw: Principal,
    agent_zero: Principal,
    make_job: Callable[..., Job],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waiting, worker = make_job(), Entry(hermes, "worker-1")

    def beat(*_: Any) -> None:
        """Stand in for the workers while the command waits: they live, under what is asked."""
        uncounted.append("the workers")
        for principal in (hermes, openclaw, agent_zero):
            runtime = Agent.objects.get(name=principal.name).runtime
            presence.beat(
                entry=Entry(principal), agent=principal.name, runtime=runtime, worker_ids=["w"]
            )
        uncounted.clear()

    monkeypatch.setattr(switch_runtime.time, "sleep", beat)
    beat()
    runtimes = ["http", "command"]

    def switch() -> None:
        out = io.StringIO()
        arguments = ["hermes", runtimes[0], "--reason", "x", "--timeout-seconds", "20"]
        call_command("switch_runtime", *arguments, stdout=out, stderr=out)

    for _ in deaths(switch):
        begun = RuntimeSwitch.objects.filter(to_runtime=runtimes[0], state="running").first()
        ended = RuntimeSwitch.objects.order_by("pk").last()
        if begun is not None and begun.step != "guard":
            # Nothing is claimed until somebody goes on with it, or lifts the inhibit.
            assert MaintenanceInhibit.objects.get(pk=begun.inhibit_id).lifted_at is None
            with pytest.raises(MaintenanceInhibited):
                transitions.claim(entry=worker, task_id=waiting.task_id, owner="")
        if begun is not None or ended is None or ended.to_runtime != runtimes[0]:
            switch()
        ended = RuntimeSwitch.objects.order_by("pk").last()
        assert (ended.state, ended.to_runtime) == ("verified", runtimes[0])
        agent = Agent.objects.get(name="hermes")
        assert (agent.runtime, agent.admission) == (runtimes[0], "open")
        assert not MaintenanceInhibit.objects.filter(lifted_at=None).exists()
        nothing_is_half()
        runtimes.reverse()


@pytest.fixture
def governed(hermes: Principal) -> Governed:
    price_a_model(cap=Decimal(10))
    return Governed(hermes)


def session_of(worker: Governed) -> dict[str, str]:
    named = {"fencepost-session": worker.entry.session_id, "fencepost-epoch": worker.entry.epoch}
    return {name: str(value) for name, value in named.items()}


def test_a_start_whose_web_process_died_around_its_commit_is_one_start(
    governed: Governed, hermes_token: str, make_job: Callable[..., Job]
) -> None:
    api = Api(hermes_token, **session_of(governed))

    def prepare() -> tuple[Job, dict[str, Any], str]:
        job = make_job()
        governed.claim(job)
        reservation = governed.route(job).reservation.reservation_id
        permit = str(governed.permit(job, reservation).permit_id)
        binding = governed.binding(job)
        body = {
            **vars(binding),
            "permit_id": permit,
            "execution_digest": job.task.execution_digest,
            "runtime": job.attempts.get().runtime,
            "request_sha256": "ab" * 32,
        }
        return job, body, str(uuid7())

    job, body, key = prepare()

    def start() -> Any:
        return api.post("/v1/executions", body, idempotency_key=key)

    for _ in deaths(start):
        begun = Execution.objects.filter(job=job).first()
        spent = Permit.objects.get(job=job).state == "spent"
        in_doubt = Reservation.objects.get(job_id=job.job_id).state == "in_doubt"
        assert {begun is not None, spent, in_doubt} in ({True}, {False})
        if begun is not None:
            assert begun.state == "unknown"
        told = start()
        assert told.status_code in (200, 201)
        assert (told.json()["decision"], told.json()["state"]) == ("issued", "unknown")
        assert ("Idempotent-Replayed" in told) == (begun is not None)
        assert Execution.objects.filter(job=job).count() == 1
        started = AuditEvent.objects.filter(action="execution.started", subject=job.audit_subject)
        assert started.count() == 1
        nothing_is_half()
        job, body, key = prepare()


def test_a_verdict_killed_around_its_commit_moves_job_and_money_together(
    governed: Governed, make_job: Callable[..., Job]
) -> None:
    def doubt() -> Execution:
        job = make_job()
        execution = governed.begin(job)
        transitions.fail(
            entry=governed.entry, task_id=job.task_id, attempt=1,
            fencing_token=execution.fencing_token, error_message="lost",
        )  # fmt: skip
        return execution

    execution = doubt()

    def decide() -> None:
        executions.reconcile(
            external_request_id=execution.external_request_id, verdict="happened", **TEST
        )

    for _ in deaths(decide):
        job = Job.objects.get(pk=execution.job_id)
        money = Reservation.objects.get(job_id=job.job_id).state
        assert (job.state, money) in (("in_doubt", "in_doubt"), ("completed", "settled"))
        if job.state == "in_doubt":
            decide()
        assert Job.objects.get(pk=job.pk).state == "completed"
        assert Reservation.objects.get(job_id=job.job_id).state == "settled"
        nothing_is_half()
        execution = doubt()


def test_an_upload_killed_around_its_commits_is_one_artifact_and_one_fact(
    governed: Governed,
    hermes_token: str,
    make_job: Callable[..., Job],
    keys_of_the_test: None,
) -> None:
    content = b"# A specification\n"
    sha256 = hashlib.sha256(content).hexdigest()
    api = Api(hermes_token, **session_of(governed))

    def prepare() -> tuple[Job, str, dict[str, Any], str]:
        job = make_job()
        attempt = governed.claim(job).grant.attempt
        authority = {
            "task_id": job.task_id,
            "attempt": attempt.number,
            "fencing_token": attempt.fencing_token,
        }
        said = {"sha256": sha256, "size_bytes": len(content)}
        named = {"name": "spec.md", "media_type": "text/markdown"}
        grant = api.post("/v1/uploads", authority | named | said, idempotency_key=str(uuid7()))
        put = urlsplit(grant.json()["url"]).path
        assert api.client.put(put, content, content_type="text/markdown").status_code == 201
        return job, grant.json()["upload_id"], authority | said, str(uuid7())

    job, upload_id, body, key = prepare()

    def complete() -> Any:
        return api.post(f"/v1/uploads/{upload_id}/complete", body, idempotency_key=key)

    for _ in deaths(complete):
        told = complete()
        assert told.status_code == 200, told.content
        facts = Fact.objects.filter(stream=job.audit_subject, type__endswith="artifact.uploaded")
        assert [fact.fact_id for fact in facts] == [told.json()["fact_id"]]
        nothing_is_half()
        job, upload_id, body, key = prepare()
