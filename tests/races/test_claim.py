"""Claims that meet: each job goes to one worker, and no decision on it is lost."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from agents.entry import Entry
from governance.core import clock
from governance.core.errors import InvalidTransition, LeaseHeldByAnother, StaleFencingToken
from jobs import transitions
from jobs.models import Attempt, Job, Lease
from jobs.transitions import claims
from tests.evidence import actions
from tests.work import ANNA, Running, expire_lease

pytestmark = pytest.mark.django_db(transaction=True)

GATE = 77


def claim_of(entry: Entry, job: Job) -> Callable[[], Any]:
    return lambda: transitions.claim(entry=entry, task_id=job.task_id, owner="hermes")


def stop_of(job: Job) -> Callable[[], Any]:
    return lambda: transitions.stop(task_id=job.task_id, **ANNA)


def test_of_two_claims_one_gets_the_job(
    race: Any, make_job: Any, worker: Entry, other_worker: Entry
) -> None:
    job = make_job()

    won, lost = race(claim_of(worker, job), claim_of(other_worker, job))

    assert won.outcome == "claimed"
    assert type(lost) is LeaseHeldByAnother
    assert Lease.objects.get(job=job).worker_id == "worker-1"
    assert actions(job) == ["job.queued", "job.claimed"]


@pytest.mark.usefixtures("no_job_locks")
def test_control_without_the_lock_both_claims_believe_that_they_have_it(
    race: Any, make_job: Any, worker: Entry, other_worker: Entry
) -> None:
    job = make_job()

    _, lost = race(claim_of(worker, job), claim_of(other_worker, job))

    assert isinstance(lost, IntegrityError)


def complete_of(entry: Entry, held: Running) -> Callable[[], Any]:
    return lambda: transitions.complete(
        entry=entry, completions=[held.binding | {"result": {"n": 1}}]
    )


def test_a_claim_of_an_expired_lease_that_meets_the_completion_finds_it_completed(
    race: Any, running: Any, worker: Entry, other_worker: Entry
) -> None:
    held = running()
    expire_lease(held.job)

    [done], late = race(complete_of(worker, held), claim_of(other_worker, held.job))

    assert (done.outcome, late.outcome) == ("recorded", "already_completed")
    assert Attempt.objects.get(job=held.job).outcome == "completed"


def test_a_completion_that_meets_the_claim_of_its_expired_lease_is_fenced(
    race: Any, running: Any, worker: Entry, other_worker: Entry
) -> None:
    held = running()
    expire_lease(held.job)

    claimed, [late] = race(claim_of(other_worker, held.job), complete_of(worker, held))

    assert claimed.outcome == "claimed"
    assert type(late) is StaleFencingToken
    assert actions(held.job)[-2:] == ["job.lease_expired", "job.claimed"]


@pytest.mark.usefixtures("no_job_locks")
def test_control_without_the_lock_the_late_claim_breaks_a_rule_of_the_database(
    race: Any, running: Any, worker: Entry, other_worker: Entry
) -> None:
    held = running()
    expire_lease(held.job)

    _, late = race(complete_of(worker, held), claim_of(other_worker, held.job))

    assert isinstance(late, IntegrityError)


def renewal_of(job: Job) -> Callable[[], Any]:
    """Do what a heartbeat does that came in time and has not committed yet."""
    later = clock.now() + timedelta(minutes=15)
    return lambda: Lease.objects.filter(job=job).update(expires_at=later)


def test_a_claim_that_meets_a_renewal_sees_it(race: Any, running: Any, other_worker: Entry) -> None:
    held = running()
    expire_lease(held.job)

    _, late = race(renewal_of(held.job), claim_of(other_worker, held.job))

    assert type(late) is LeaseHeldByAnother
    assert Lease.objects.get(job=held.job).attempt == 1


def test_control_without_the_lock_of_the_lease_a_renewed_attempt_is_ended(
    race: Any, running: Any, other_worker: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = running()
    expire_lease(held.job)
    monkeypatch.setattr(claims, "lock_lease", lambda work, locked: None)

    _, late = race(renewal_of(held.job), claim_of(other_worker, held.job))

    assert late.outcome == "claimed"
    assert Lease.objects.get(job=held.job).attempt == 2


def test_two_claims_of_the_next_job_never_wait_for_each_other(
    race: Any, make_job: Any, worker: Entry, other_worker: Entry
) -> None:
    first, second = make_job(), make_job()

    def next_of(entry: Entry) -> Callable[[], Any]:
        return lambda: [
            answer.job.task_id for answer in transitions.claim_next(entry=entry, limit=1)
        ]

    def next_and_one_more(entry: Entry) -> list[list[str]]:
        return [next_of(entry)(), next_of(entry)()]

    mine, theirs = race(next_of(worker), lambda: next_and_one_more(other_worker))

    assert mine == [first.task_id]
    assert theirs == [[second.task_id], []]


def test_control_without_skipping_the_second_waits(
    make_job: Any,
    worker: Entry,
    other_worker: Entry,
    elsewhere: Callable[..., Future[Any]],
    waits: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_job()
    waiting = claims.CLAIMABLE.whole.replace(" SKIP LOCKED", "")
    monkeypatch.setattr(claims, "CLAIMABLE", claims.CLAIMABLE._replace(whole=waiting))

    with transaction.atomic():
        transitions.claim_next(entry=worker, limit=1)
        later = elsewhere(lambda: transitions.claim_next(entry=other_worker, limit=1))
        assert waits(later)

    assert later.result(timeout=5) == []


def test_a_stop_that_meets_a_claim_stops_the_attempt_that_was_made(
    race: Any, make_job: Any, worker: Entry
) -> None:
    job = make_job()

    _, stopped = race(claim_of(worker, job), stop_of(job))

    job.refresh_from_db()
    assert stopped.outcome == "stopped"
    assert (job.state, job.attempt, job.fencing_token) == ("stopped", 1, 2)
    assert Attempt.objects.get(job=job).outcome == "stopped"
    assert not Lease.objects.exists()


@pytest.mark.usefixtures("no_job_locks")
def test_control_without_the_lock_the_stop_does_not_see_the_attempt(
    race: Any, make_job: Any, worker: Entry
) -> None:
    job = make_job()

    _, stopped = race(claim_of(worker, job), stop_of(job))

    assert isinstance(stopped, IntegrityError)


def test_a_claim_that_meets_a_stop_is_refused(race: Any, make_job: Any, worker: Entry) -> None:
    job = make_job()

    _, refused = race(stop_of(job), claim_of(worker, job))

    assert type(refused) is InvalidTransition
    assert refused.current["state"] == "stopped"
    assert not Attempt.objects.exists()


@pytest.mark.usefixtures("no_job_locks")
def test_control_without_the_lock_the_claim_goes_on_with_a_stopped_job(
    race: Any, make_job: Any, worker: Entry
) -> None:
    job = make_job()

    _, refused = race(stop_of(job), claim_of(worker, job))

    assert isinstance(refused, IntegrityError)


class TestADecisionBetweenSnapshotAndLock:
    """A claim statement that began before a decision was committed and locks the job after it."""

    def claim_behind_a_gate(
        self,
        monkeypatch: pytest.MonkeyPatch,
        elsewhere: Callable[..., Future[Any]],
        waits: Any,
        worker: Entry,
        job: Job,
        claimable: str,
    ) -> Any:
        gate = f"WITH gate AS MATERIALIZED (SELECT pg_advisory_xact_lock({GATE})), picked"
        gated = claimable.replace("WITH picked", gate)
        gated = gated.replace("FROM (VALUES", "FROM gate, (VALUES")
        monkeypatch.setattr(claims, "CLAIMABLE", claims.CLAIMABLE._replace(whole=gated))
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT pg_advisory_lock({GATE})")
            later = elsewhere(lambda: transitions.claim_next(entry=worker, limit=1))
            assert waits(later)
            transitions.extend(task_id=job.task_id, extra=1, **ANNA)
            cursor.execute(f"SELECT pg_advisory_unlock({GATE})")
        return later.exception(timeout=5) or later.result()

    def test_is_part_of_what_is_claimed(
        self, monkeypatch: Any, elsewhere: Any, waits: Any, worker: Entry, make_job: Any
    ) -> None:
        job = make_job()

        [answer] = self.claim_behind_a_gate(
            monkeypatch, elsewhere, waits, worker, job, claims.CLAIMABLE.whole
        )

        assert answer.job.max_attempts == 4
        assert actions(job) == ["job.queued", "job.extended", "job.claimed"]

    def test_control_a_job_that_is_read_again_by_its_key_is_the_old_one(
        self, monkeypatch: Any, elsewhere: Any, waits: Any, worker: Entry, make_job: Any
    ) -> None:
        job = make_job()
        read_again = claims.CLAIMABLE.whole.replace(
            "FROM picked j", "FROM picked k JOIN jobs_job j ON j.id = k.id"
        )
        assert read_again != claims.CLAIMABLE.whole

        answer = self.claim_behind_a_gate(monkeypatch, elsewhere, waits, worker, job, read_again)

        assert isinstance(answer, IntegrityError)
