"""Heartbeats: they keep a lease alive, and never give one back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from uuid_utils.compat import uuid7

from agents.entry import Entry
from agents.models import Session
from agents.principals import Principal
from governance.core import clock
from governance.core.errors import (
    DispatcherEpochStale,
    LeaseExpired,
    LeaseHeldByAnother,
    NotFound,
    SessionSuperseded,
    StaleFencingToken,
    WrongOwner,
)
from jobs import transitions
from jobs.models import Lease
from tests.evidence import is_refusal, refused, rows, untouched
from tests.work import Running, expire_lease, make_available

BEATS = 400


def beat(entry: Entry, held: Running, **said: Any) -> Any:
    [answer] = transitions.heartbeat(entry=entry, beats=[held.binding | said])
    return answer


def age(held: Running, seconds: int) -> None:
    """Let the lease have been granted or renewed some seconds ago."""
    lease = Lease.objects.get(job=held.job)
    passed = timedelta(seconds=seconds)
    Lease.objects.filter(job=held.job).update(
        expires_at=lease.expires_at - passed, heartbeat_at=lease.heartbeat_at - passed
    )


def test_a_beat_gives_the_lease_its_whole_length_again(running: Any, worker: Entry) -> None:
    held = running()
    age(held, 600)
    aged = Lease.objects.get(job=held.job).expires_at

    answer = beat(worker, held)

    lease = Lease.objects.get(job=held.job)
    assert lease.expires_at > aged + timedelta(seconds=590)
    assert (answer.ttl_seconds, answer.control) == (900, "continue")
    assert answer.lease_seconds == 900


def test_a_beat_raises_no_revision_and_writes_no_event(running: Any, worker: Entry) -> None:
    held = running()
    before = rows(held.job)
    age(held, 600)

    beat(worker, held, progress={"page": 1})

    after = rows(held.job)
    lease_place = 2
    assert after[:lease_place] == before[:lease_place]
    assert after[lease_place + 1 :] == before[lease_place + 1 :]
    assert Lease.objects.get(job=held.job).progress == {"page": 1}


def test_a_beat_never_shortens_a_lease(running: Any, worker: Entry) -> None:
    held = running()
    far = clock.now() + timedelta(hours=5)
    Lease.objects.filter(job=held.job).update(expires_at=far)

    beat(worker, held)

    assert Lease.objects.get(job=held.job).expires_at == far


def test_a_beat_never_revives_an_expired_lease(running: Any, worker: Entry) -> None:
    held = running()
    expire_lease(held.job)

    with untouched(held.job):
        answer = beat(worker, held)

    assert is_refusal(answer, LeaseExpired)


def test_a_beat_without_progress_keeps_the_last_one(running: Any, worker: Entry) -> None:
    held = running()
    beat(worker, held, progress={"page": 1})

    beat(worker, held)

    assert Lease.objects.get(job=held.job).progress == {"page": 1}


def test_a_beat_after_the_sweep_is_stale(running: Any, worker: Entry) -> None:
    held = running()
    expire_lease(held.job)
    transitions.end_if_due(task_id=held.job.task_id)

    with untouched(held.job):
        answer = beat(worker, held)
        [other] = transitions.complete(entry=worker, completions=[held.binding])

    assert is_refusal(answer, StaleFencingToken)
    assert is_refusal(other, StaleFencingToken)
    assert answer.current == other.current


def test_a_beat_of_an_overtaken_worker_does_not_renew_the_new_lease(
    running: Any, worker: Entry, other_worker: Entry, claim: Any
) -> None:
    held = running()
    expire_lease(held.job)
    transitions.end_if_due(task_id=held.job.task_id)
    make_available(held.job)
    claim(held.job, other_worker)

    with untouched(held.job):
        answer = beat(worker, held)

    assert is_refusal(answer, StaleFencingToken)
    assert answer.current["attempt"] == 2


def test_a_beat_after_completion_finds_no_lease(running: Any, worker: Entry) -> None:
    held = running()
    transitions.complete(entry=worker, completions=[held.binding])

    with untouched(held.job):
        answer = beat(worker, held)

    assert is_refusal(answer, LeaseExpired)
    assert answer.current["state"] == "completed"


@pytest.mark.parametrize("change", [{"fencing_token": 2}, {"attempt": 2}])
def test_a_beat_with_another_token_or_attempt_is_refused(
    running: Any, worker: Entry, change: dict[str, int]
) -> None:
    held = running()

    with untouched(held.job):
        answer = beat(worker, held, **change)

    assert is_refusal(answer, StaleFencingToken)


def test_a_beat_of_another_agent_is_refused(running: Any, stranger: Entry) -> None:
    held = running()

    with untouched(held.job):
        assert is_refusal(beat(stranger, held), WrongOwner)


def test_a_beat_for_a_lease_of_a_superseded_session_is_refused(
    make_job: Any, claim: Any, hermes: Principal, session_of: Any
) -> None:
    session = session_of(hermes)
    entry = Entry(hermes, session_id=session.session_id)
    held = claim(make_job(), entry)
    Session.objects.filter(pk=session.pk).update(state="superseded", superseded_at=clock.now())

    with refused(SessionSuperseded, held.job):
        beat(entry, held)


def test_a_beat_of_another_holder_renews_nothing(
    running: Any, other_worker: Entry, hermes: Principal, session_of: Any
) -> None:
    held = running()

    for intruder in (other_worker, Entry(hermes, session_id=session_of(hermes).session_id)):
        with untouched(held.job):
            answer = beat(intruder, held)
        assert is_refusal(answer, LeaseHeldByAnother)
        assert 899 <= answer.after_seconds <= 901


@pytest.mark.parametrize("by", ["its label", "nobody", "another session"])
def test_a_beat_for_a_lease_of_a_session_is_that_sessions(
    make_job: Any, claim: Any, hermes: Principal, session_of: Any, by: str
) -> None:
    entry = Entry(hermes, "w1", session_id=session_of(hermes).session_id)
    held = claim(make_job(), entry)
    other = session_of(hermes, "cell-2").session_id
    intruder = {
        "its label": Entry(hermes, "w1"),
        "nobody": Entry(hermes),
        "another session": Entry(hermes, "w1", session_id=other),
    }[by]

    with untouched(held.job):
        assert is_refusal(beat(intruder, held), LeaseHeldByAnother)
    assert beat(entry, held).outcome == "renewed"


def test_a_beat_that_names_nobody_is_judged_by_the_token_for_workers_without_sessions(
    running: Any, hermes: Principal
) -> None:
    held = running()

    assert beat(Entry(hermes), held).outcome == "renewed"
    with untouched(held.job):
        assert is_refusal(beat(Entry(hermes), held, fencing_token=9), StaleFencingToken)


def test_a_beat_under_an_older_epoch_is_refused(
    make_job: Any, claim: Any, hermes: Principal, session_of: Any
) -> None:
    entry = Entry(hermes, session_id=session_of(hermes).session_id)
    held = claim(make_job(), entry)

    with refused(DispatcherEpochStale, held.job):
        transitions.heartbeat(entry=replace(entry, epoch=uuid7()), beats=[held.binding])


def test_each_beat_of_a_batch_is_answered_by_itself_in_the_asked_order(
    running: Any, worker: Entry
) -> None:
    live, gone, stale = running(), running(), running()
    expire_lease(gone.job)

    answers = transitions.heartbeat(
        entry=worker,
        beats=[
            gone.binding,
            {"task_id": "nothing", "attempt": 1, "fencing_token": 1},
            live.binding,
            stale.binding | {"fencing_token": 9},
            live.binding,
        ],
    )

    assert is_refusal(answers[0], LeaseExpired)
    assert is_refusal(answers[1], NotFound)
    assert answers[2].outcome == "renewed"
    assert is_refusal(answers[3], StaleFencingToken)
    assert answers[4].outcome == "renewed"


def test_a_task_named_twice_with_another_token_is_judged_by_each(
    running: Any, worker: Entry
) -> None:
    held = running()

    stale, live = transitions.heartbeat(
        entry=worker, beats=[held.binding | {"fencing_token": 9}, held.binding]
    )

    assert is_refusal(stale, StaleFencingToken)
    assert live.outcome == "renewed"


def test_a_batch_is_one_statement(
    running: Any, worker: Entry, django_assert_num_queries: Any
) -> None:
    beats = [running().binding for _ in range(20)]

    with django_assert_num_queries(1):
        answers = transitions.heartbeat(entry=worker, beats=beats)

    assert {answer.outcome for answer in answers} == {"renewed"}


def lease_updates() -> dict[str, int]:
    """Count updates of leases: all, those that touched no index, those that left a full page."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute(
            "SELECT n_tup_upd, n_tup_hot_upd, n_tup_newpage_upd FROM pg_stat_user_tables"
            " WHERE relname = 'jobs_lease'"
        )
        return dict(zip(("all", "hot", "to_a_new_page"), cursor.fetchone(), strict=True))


def updates_of_leases_by(act: Callable[[], object]) -> dict[str, int]:
    # What tests before this one left in the pages is none of its own.
    with connection.cursor() as cursor:
        cursor.execute("VACUUM FULL jobs_lease")
    before = lease_updates()
    act()
    return {kind: count - before[kind] for kind, count in lease_updates().items()}


@pytest.mark.django_db(transaction=True)
def test_beats_are_heap_only_updates(running: Any, worker: Entry) -> None:
    beats = [running().binding for _ in range(20)]

    def beat() -> None:
        for _ in range(BEATS // len(beats)):
            transitions.heartbeat(entry=worker, beats=beats)

    updates = updates_of_leases_by(beat)

    # A transaction anywhere in the cluster, of another test process as well, keeps former
    # versions from being pruned: their page may fill up, which says nothing about indexes.
    assert updates["all"] >= BEATS
    assert updates["hot"] + updates["to_a_new_page"] == updates["all"]
    assert updates["hot"] > 0


@pytest.mark.django_db(transaction=True)
def test_with_an_index_on_their_expiry_beats_would_not_be(running: Any, worker: Entry) -> None:
    beats = [running().binding]
    with connection.cursor() as cursor:
        cursor.execute("CREATE INDEX lease_expiry ON jobs_lease (expires_at)")
    try:
        updates = updates_of_leases_by(
            lambda: transitions.heartbeat(entry=worker, beats=beats),
        )
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP INDEX lease_expiry")

    assert updates == {"all": 1, "hot": 0, "to_a_new_page": 0}


def test_no_index_covers_a_column_that_a_beat_writes(world: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT a.attname FROM pg_index i JOIN pg_attribute a"
            " ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)"
            " WHERE i.indrelid = 'jobs_lease'::regclass"
        )
        indexed = {name for (name,) in cursor.fetchall()}

    assert indexed == {"job_id"}
