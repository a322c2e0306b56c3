"""What the database refuses, whoever asks; and that Python and SQL hold the same table of moves."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models import F

from agents.entry import Entry
from governance.core import clock
from jobs import transitions
from jobs.models import Attempt, Job, JobType, Lease, RetryExtension, Review, Task

STATES = sorted(Job.State.values)


@pytest.mark.django_db
@pytest.mark.parametrize("state", STATES)
def test_the_trigger_holds_the_same_moves(state: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT jobs_moves(%s)", [state])
        [moves] = cursor.fetchone()

    assert set(moves) == Job.MOVES[state]


def test_every_state_has_its_moves() -> None:
    assert sorted(Job.MOVES) == STATES
    assert {state for state, moves in Job.MOVES.items() if not moves} == {"completed", "stopped"}


@pytest.mark.parametrize("state", STATES)
def test_every_open_state_can_be_stopped_and_can_miss_its_deadline(state: str) -> None:
    if state not in Job.FINISHED:
        assert {"stopped", "failed"} <= Job.MOVES[state]


def test_a_state_is_only_reached_by_a_move() -> None:
    job = Job(state="queued", revision=3)

    with pytest.raises(ValueError, match="queued -> completed is not a move"):
        job.move_to("completed", at=clock)  # type: ignore[arg-type]

    assert (job.state, job.revision) == ("queued", 3)


def test_an_attempt_is_closed_once() -> None:
    attempt = Attempt(ended_at=object())

    with pytest.raises(ValueError, match="has ended"):
        attempt.close("failed", at=clock)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "task_id", ["a/b", "pay\u202eyap", "a\u200bb", "a\nb", "\ufeffa", "a\u2028b"]
)
def test_a_task_id_that_is_not_seen_as_it_is_cannot_be_stored(make_job: Any, task_id: str) -> None:
    job = make_job()
    with pytest.raises(IntegrityError, match="job_task_id_is_plain"), transaction.atomic():
        make_job(task_id=task_id)

    assert list(Job.objects.all()) == [job]


FORBIDDEN = {
    "a move that does not exist": ({"state": "completed", "finished_at": F("created_at")},
                                   "is not a move"),
    "an attempt without a claim": ({"attempt": 1}, "attempts grow by one"),
    "two attempts at once": (
        {"attempt": 2, "fencing_token": 2, "state": "active"}, "attempts grow by one"),
    "an attempt under the old token": ({"attempt": 1, "state": "active"}, "attempts grow by one"),
    "a revision that falls": ({"revision": 0}, "a counter never falls"),
    "a chain that is cut": ({"audit_seq": 0}, "a counter never falls"),
    "facts that are taken back": ({"fact_sequence": 0}, "a counter never falls"),
    "another agent": ({"agent_id": 9999}, "its identity does not change"),
    "another task": ({"task_id": "another"}, "its identity does not change"),
    "another risk": ({"risk_tier": "medium"}, "its identity does not change"),
    "another submitter": ({"submitted_by": "submitter:rival"}, "its identity does not change"),
    "an unknown state": ({"state": "lost"}, "is not a move"),
    "an end without a date": ({"state": "stopped"}, "job_finished_iff_dated"),
    "a date without an end": ({"finished_at": F("created_at")}, "job_finished_iff_dated"),
    "two deferrals at once": ({"deferrals": 2}, "deferrals grow by one"),
    "a deferral without an attempt": ({"deferrals": 1}, "job_deferrals_are_attempts"),
    "deferrals below none": ({"unconfirmed_deferrals": -1}, "job_deferrals_are_attempts"),
    "attempts that nobody granted": ({"max_attempts": 9}, "only a retry extension"),
    "a claimable job in doubt": ({"unresolved_executions": 1}, "job_unresolved_is_not_claimable"),
}  # fmt: skip


@pytest.mark.parametrize("rule", sorted(FORBIDDEN))
def test_the_database_refuses(make_job: Any, rule: str) -> None:
    job = make_job()
    values, message = FORBIDDEN[rule]

    with pytest.raises(IntegrityError, match=message), transaction.atomic():
        Job.objects.filter(pk=job.pk).update(**values)


def test_the_end_of_a_job_takes_its_pause_whoever_writes_it(make_job: Any) -> None:
    job = make_job()
    over = {"state": "stopped", "finished_at": F("created_at"), "paused": True}

    # As a process of the release before ends it, which does not know of this.
    Job.objects.filter(pk=job.pk).update(**over)

    job.refresh_from_db()
    assert (job.state, job.paused) == ("stopped", False)
    refused = pytest.raises(IntegrityError, match="job_finished_is_not_paused")
    with refused, transaction.atomic():
        Job.objects.filter(pk=job.pk).update(paused=True)


def test_the_database_refuses_one_attempt_more_than_count(running: Any, fail: Any) -> None:
    held = running(max_attempts=1)
    fail(held)
    failed = Job.objects.filter(pk=held.job.pk)
    failed.update(state="needs_rework", finished_at=None)
    failed.update(state="queued")
    again = {"state": "active", "attempt": 2, "fencing_token": 2}

    refused = pytest.raises(IntegrityError, match="job_counted_attempts_are_bounded")
    with refused, transaction.atomic():
        failed.update(**again)
    assert failed.update(**again, deferrals=1) == 1
    with pytest.raises(IntegrityError, match="a counter never falls"), transaction.atomic():
        failed.update(deferrals=0)


def test_the_database_refuses_a_token_that_falls(running: Any) -> None:
    held = running()

    with pytest.raises(IntegrityError, match="a counter never falls"), transaction.atomic():
        Job.objects.filter(pk=held.job.pk).update(fencing_token=0)
    with pytest.raises(IntegrityError, match="attempts grow by one"), transaction.atomic():
        Job.objects.filter(pk=held.job.pk).update(attempt=0)


def test_the_database_refuses_a_second_open_attempt(running: Any) -> None:
    held = running()
    first = Attempt.objects.get(job=held.job)

    with pytest.raises(IntegrityError, match="attempt_one_open_per_job"), transaction.atomic():
        Attempt.objects.create(
            job=held.job, number=2, fencing_token=2, session_id=first.session_id,
            worker_id="w", runtime="command", lease_seconds=60, claimed_at=clock.now(),
        )  # fmt: skip


def test_the_database_refuses_a_second_lease(running: Any) -> None:
    held = running()
    lease = Lease.objects.get(job=held.job)

    with pytest.raises(IntegrityError), transaction.atomic():
        lease.save(force_insert=True)


@pytest.mark.parametrize(
    "values",
    [
        {"number": 2},
        {"fencing_token": 9},
        {"worker_id": "else"},
        {"runtime": "else"},
        {"outcome": "failed"},
        {"result": {"n": 2}},
        {"outcome_sha256": "0" * 64},
        {"ended_at": None, "outcome": None},
    ],
    ids=lambda values: next(iter(values)),
)
def test_the_database_keeps_an_attempt_that_has_ended(
    running: Any, worker: Entry, values: dict[str, Any]
) -> None:
    held = running()
    transitions.complete(entry=worker, completions=[held.binding | {"result": {"n": 1}}])

    with pytest.raises(IntegrityError, match="do not change"), transaction.atomic():
        Attempt.objects.filter(job=held.job).update(**values)


def test_the_database_ends_no_attempt_without_an_outcome(running: Any) -> None:
    held = running()

    with pytest.raises(IntegrityError, match="attempt_outcome_iff_ended"), transaction.atomic():
        Attempt.objects.filter(job=held.job).update(ended_at=clock.now())


def test_the_database_grants_nothing_beyond_the_ceiling(make_job: Any) -> None:
    job = make_job()

    with pytest.raises(IntegrityError, match="within_ceiling"), transaction.atomic():
        RetryExtension.objects.create(
            job=job, from_max=3, to_max=11, ceiling=10, granted_by="user:anna",
            granted_at=clock.now(), reason="More.",
        )  # fmt: skip


@pytest.mark.parametrize("table", ["jobs_job", "jobs_attempt", "jobs_jobtype", "jobs_task",
                                   "jobs_approval", "jobs_review", "jobs_retryextension",
                                   "jobs_reflection"])  # fmt: skip
@pytest.mark.parametrize("act", ["DELETE FROM {}", "TRUNCATE {} CASCADE"])
def test_the_database_forgets_nothing(make_job: Any, table: str, act: str) -> None:
    make_job()

    with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute(act.format(table))


@pytest.mark.parametrize("model", [Task, Review, RetryExtension])
def test_the_database_rewrites_no_history(delivered: Any, model: Any) -> None:
    job = delivered()
    transitions.extend(task_id=job.task_id, actor="user:anna", reason="More.", extra=1)
    transitions.review(task_id=job.task_id, actor="user:anna", reason="Good.", verdict="accepted")
    column = {"Task": "goal", "Review": "reason", "RetryExtension": "reason"}[model.__name__]

    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        model.objects.filter(job=job).update(**{column: "Something else."})


def test_a_job_type_keeps_its_times_and_its_ceiling_in_range(world: None) -> None:
    for values in ({"lease_seconds": 59}, {"lease_seconds": 3601}, {"max_attempts_ceiling": 2},
                   {"backoff_cap_seconds": 9}, {"approval_valid_seconds": 0},
                   {"attempt_timeout_seconds": 0}):  # fmt: skip
        with pytest.raises(IntegrityError), transaction.atomic():
            JobType.objects.filter(name="rewrite").update(**values)
