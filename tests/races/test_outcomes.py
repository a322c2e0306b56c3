"""Ends of attempts that meet: complete, fail, sweep, heartbeat, reflect."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, connections, transaction

from agents.entry import Entry
from governance.core import clock
from governance.core.errors import LeaseExpired, StaleFencingToken
from jobs import transitions
from jobs.models import Attempt, Job, Lease, Reflection
from jobs.transitions import leases
from jobs.transitions.work import lock
from tests.evidence import actions
from tests.work import Running, expire_lease

pytestmark = pytest.mark.django_db(transaction=True)

WRITERS = 16


def complete_of(entry: Entry, held: Running, result: int = 1) -> Callable[[], Any]:
    said = held.binding | {"result": result}
    return lambda: transitions.complete(entry=entry, completions=[said])[0]


def fail_of(entry: Entry, held: Running) -> Callable[[], Any]:
    return lambda: transitions.fail(entry=entry, **held.binding, error_message="It broke.")


def sweep_of(held: Running) -> Callable[[], Any]:
    return lambda: transitions.end_if_due(task_id=held.job.task_id)


def beat_of(entry: Entry, held: Running) -> Callable[[], Any]:
    return lambda: transitions.heartbeat(entry=entry, beats=[held.binding])[0]


def reflect_of(entry: Entry, held: Running, word: str) -> Callable[[], Any]:
    return lambda: transitions.reflect(entry=entry, **held.binding, content={"what_worked": word})


def test_a_sweep_that_meets_a_completion_leaves_the_job_alone(
    race: Any, running: Any, worker: Entry
) -> None:
    held = running()
    expire_lease(held.job)

    done, swept = race(complete_of(worker, held), sweep_of(held))

    held.job.refresh_from_db()
    assert (done.outcome, swept) == ("recorded", None)
    assert held.job.state == "completed"
    assert actions(held.job)[-1] == "job.completed"


@pytest.mark.usefixtures("no_job_locks")
def test_control_without_the_lock_the_sweep_goes_for_a_completed_job(
    race: Any, running: Any, worker: Entry
) -> None:
    held = running()
    expire_lease(held.job)

    _, swept = race(complete_of(worker, held), sweep_of(held))

    assert isinstance(swept, IntegrityError)


def complete_by_name(entry: Entry, held: Running) -> Callable[[], Any]:
    """As the older contract completes: by the worker's name alone."""
    content = {"task_id": held.job.task_id, "worker_id": entry.worker_id, "result": 1}
    return lambda: transitions.complete(entry=entry, completions=[content])[0]


def claim_again(entry: Entry, held: Running) -> Callable[[], Any]:
    return lambda: transitions.claim(entry=entry, task_id=held.job.task_id, owner="hermes")


def test_a_claim_again_that_meets_a_completion_by_name_learns_that_it_is_done(
    race: Any, running: Any, worker: Entry
) -> None:
    held = running()

    done, again = race(complete_by_name(worker, held), claim_again(worker, held))

    assert (done.outcome, again.outcome) == ("recorded", "already_completed")
    assert Attempt.objects.get(job=held.job).claim_answers == 1


def test_a_completion_by_name_that_meets_a_claim_again_is_recorded(
    race: Any, running: Any, worker: Entry
) -> None:
    held = running()

    again, done = race(claim_again(worker, held), complete_by_name(worker, held))

    assert (again.outcome, done.outcome) == ("already_running", "recorded")
    attempt = Attempt.objects.get(job=held.job)
    assert (attempt.outcome, attempt.claim_answers) == ("completed", 2)


@pytest.mark.usefixtures("no_job_locks")
def test_control_without_the_lock_the_claim_again_goes_for_an_ended_attempt(
    race: Any, running: Any, worker: Entry
) -> None:
    held = running()

    _, again = race(complete_by_name(worker, held), claim_again(worker, held))

    assert isinstance(again, IntegrityError)


def test_a_sweep_waits_for_nobody_who_is_at_a_job(
    on_other_connection: Callable[..., Any], running: Any
) -> None:
    held = running()
    expire_lease(held.job)

    def sweep() -> Any:
        # Did it wait for anybody, it would do so for longer than the other connection may take.
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = 0")
        return transitions.sweep()

    with transaction.atomic():
        lock([held.job.task_id])
        swept = on_other_connection(sweep)

    assert (swept.found, swept.ended, swept.failed) == (1, {}, {})
    assert transitions.sweep().ended == {"lease_expired": 1}


def test_a_sweep_that_meets_a_heartbeat_leaves_the_renewed_lease_alone(
    race: Any, running: Any, worker: Entry
) -> None:
    held = running()
    expire_lease(held.job)
    until = clock.now() + timedelta(seconds=900)

    def renewed() -> int:
        # As a heartbeat does that came in time and has not committed yet.
        return Lease.objects.filter(job=held.job).update(expires_at=until)

    _, swept = race(renewed, sweep_of(held))

    held.job.refresh_from_db()
    assert (swept, held.job.state) == (None, "active")
    assert Lease.objects.get(job=held.job).expires_at == until


def test_a_completion_that_meets_the_sweep_is_stale(race: Any, running: Any, worker: Entry) -> None:
    held = running()
    expire_lease(held.job)

    swept, late = race(sweep_of(held), complete_of(worker, held))

    held.job.refresh_from_db()
    assert swept == "lease_expired"
    assert type(late) is StaleFencingToken
    assert held.job.state == "queued"
    assert Attempt.objects.get(job=held.job).outcome == "lease_expired"


@pytest.mark.usefixtures("no_job_locks")
def test_control_without_the_lock_the_late_completion_believes_its_token(
    race: Any, running: Any, worker: Entry
) -> None:
    held = running()
    expire_lease(held.job)

    _, late = race(sweep_of(held), complete_of(worker, held))

    assert isinstance(late, IntegrityError)


@pytest.mark.parametrize("write", [complete_of, fail_of])
def test_a_write_that_meets_its_own_repetition_is_recorded_once(
    race: Any, running: Any, worker: Entry, write: Any
) -> None:
    held = running()

    first, second = race(write(worker, held), write(worker, held))

    assert (first.outcome, second.outcome) == ("recorded", "already_recorded")
    assert len(actions(held.job)) == 3


@pytest.mark.usefixtures("no_job_locks")
@pytest.mark.parametrize("write", [complete_of, fail_of])
def test_control_without_the_lock_the_repetition_is_a_second_write(
    race: Any, running: Any, worker: Entry, write: Any
) -> None:
    held = running()

    _, second = race(write(worker, held), write(worker, held))

    assert isinstance(second, IntegrityError)


def test_a_completion_and_a_failure_that_meet_have_one_outcome(
    race: Any, running: Any, worker: Entry
) -> None:
    held = running()

    first, second = race(complete_of(worker, held), fail_of(worker, held))

    assert (first.outcome, second.reason) == ("recorded", "OUTCOME_CONFLICT")
    assert Attempt.objects.get(job=held.job).outcome == "completed"


def test_a_heartbeat_that_meets_sweep_and_new_claim_renews_neither_lease(
    race: Any, running: Any, worker: Entry, other_worker: Entry
) -> None:
    held = running()
    expire_lease(held.job)

    def sweep_and_claim() -> Any:
        sweep_of(held)()
        Job.objects.filter(pk=held.job.pk).update(available_at=clock.now() - timedelta(seconds=1))
        transitions.claim(entry=other_worker, task_id=held.job.task_id, owner="hermes")
        return Lease.objects.get(job=held.job)

    granted, beat = race(sweep_and_claim, beat_of(worker, held))

    lease = Lease.objects.get(job=held.job)
    assert type(beat) in (LeaseExpired, StaleFencingToken)
    assert (lease.fencing_token, lease.expires_at) == (3, granted.expires_at)


def test_a_heartbeat_that_waited_judges_the_lease_as_it_is_after_the_wait(
    race: Any, running: Any, worker: Entry
) -> None:
    held = running()

    _, beat = race(lambda: expire_lease(held.job), beat_of(worker, held))

    assert type(beat) is LeaseExpired
    assert Lease.objects.get(job=held.job).expires_at < clock.now()


def test_control_without_the_lock_the_waiting_heartbeat_revives_the_lease(
    race: Any, running: Any, worker: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = running()
    unlocked = leases.BEAT.replace("ORDER BY l.job_id FOR NO KEY UPDATE", "ORDER BY l.job_id")
    assert unlocked != leases.BEAT
    monkeypatch.setattr(leases, "BEAT", unlocked)

    _, beat = race(lambda: expire_lease(held.job), beat_of(worker, held))

    assert beat.outcome == "renewed"
    assert Lease.objects.get(job=held.job).expires_at > clock.now()


def test_reflections_of_many_writers_are_numbered_without_gap_or_collision(
    running: Any, worker: Entry
) -> None:
    held = running()

    def write(word: int) -> int:
        try:
            answer = reflect_of(worker, held, f"word {word}")()
            return int(answer.sequence_number)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(WRITERS) as pool:
        numbers = list(pool.map(write, range(WRITERS), timeout=30))

    assert sorted(numbers) == list(range(1, WRITERS + 1))
    assert Reflection.objects.filter(job=held.job).count() == WRITERS
    held.job.refresh_from_db()
    assert (held.job.reflection_count, held.job.audit_seq) == (WRITERS, WRITERS + 2)


@pytest.mark.usefixtures("no_job_locks")
def test_control_without_the_lock_two_reflections_take_one_number(
    race: Any, running: Any, worker: Entry
) -> None:
    held = running()

    _, second = race(reflect_of(worker, held, "one"), reflect_of(worker, held, "other"))

    assert isinstance(second, IntegrityError)
