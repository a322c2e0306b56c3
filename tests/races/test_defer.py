"""Deferrals that meet another end of the same attempt: sweep, completion, stop, repetition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import IntegrityError

from agents.entry import Entry
from governance.core.errors import OutcomeConflict, StaleFencingToken
from jobs import transitions
from jobs.models import Attempt
from tests.evidence import actions
from tests.races.test_outcomes import complete_of, sweep_of
from tests.work import ANNA, Running, expire_lease

pytestmark = pytest.mark.django_db(transaction=True)


def defer_of(entry: Entry, held: Running) -> Callable[[], Any]:
    said = {"reason": "No quota.", "retry_after_seconds": 60}
    return lambda: transitions.defer(entry=entry, **held.binding, **said)


def stop_of(held: Running) -> Callable[[], Any]:
    return lambda: transitions.stop(task_id=held.job.task_id, **ANNA)


def outcome_of(held: Running) -> tuple[str, str, int]:
    """Return what became of the job and its one attempt, and how many are not counted."""
    held.job.refresh_from_db()
    return held.job.state, Attempt.objects.get(job=held.job).outcome, held.job.deferrals


def test_a_deferral_that_meets_the_sweep_of_its_lease_is_the_end(
    race: Any, running: Any, worker: Entry
) -> None:
    held = running()
    expire_lease(held.job)

    deferred, swept = race(defer_of(worker, held), sweep_of(held))

    assert (deferred.outcome, swept) == ("recorded", None)
    assert outcome_of(held) == ("queued", "deferred", 1)
    assert actions(held.job)[-1] == "job.deferred"


def test_a_deferral_that_comes_after_the_sweep_is_stale_and_the_attempt_counts(
    race: Any, running: Any, worker: Entry
) -> None:
    held = running()
    expire_lease(held.job)

    swept, late = race(sweep_of(held), defer_of(worker, held))

    assert (swept, type(late)) == ("lease_expired", StaleFencingToken)
    assert outcome_of(held) == ("queued", "lease_expired", 0)
    assert actions(held.job)[-1] == "job.lease_expired"


def test_a_deferral_that_meets_a_completion_leaves_what_was_delivered(
    race: Any, running: Any, worker: Entry
) -> None:
    held = running()

    done, late = race(complete_of(worker, held), defer_of(worker, held))

    assert (done.outcome, type(late)) == ("recorded", OutcomeConflict)
    assert outcome_of(held) == ("completed", "completed", 0)


def test_a_completion_that_meets_a_deferral_delivers_nothing(
    race: Any, running: Any, worker: Entry
) -> None:
    held = running()

    deferred, late = race(defer_of(worker, held), complete_of(worker, held))

    assert (deferred.outcome, type(late)) == ("recorded", OutcomeConflict)
    assert outcome_of(held) == ("queued", "deferred", 1)


def test_a_deferral_that_meets_a_stop_gives_nothing_back(
    race: Any, running: Any, worker: Entry
) -> None:
    held = running()

    stopped, late = race(stop_of(held), defer_of(worker, held))

    assert (stopped.outcome, type(late)) == ("stopped", StaleFencingToken)
    assert outcome_of(held) == ("stopped", "stopped", 0)


def test_a_stop_that_meets_a_deferral_stops_the_queued_job(
    race: Any, running: Any, worker: Entry
) -> None:
    held = running()

    deferred, stopped = race(defer_of(worker, held), stop_of(held))

    assert (deferred.outcome, stopped.outcome) == ("recorded", "stopped")
    assert outcome_of(held) == ("stopped", "deferred", 1)
    assert actions(held.job)[-2:] == ["job.deferred", "job.stopped"]


def test_a_deferral_that_meets_its_own_repetition_is_recorded_once(
    race: Any, running: Any, worker: Entry
) -> None:
    held = running()

    first, second = race(defer_of(worker, held), defer_of(worker, held))

    assert (first.outcome, second.outcome) == ("recorded", "already_recorded")
    assert outcome_of(held) == ("queued", "deferred", 1)


@pytest.mark.usefixtures("no_job_locks")
@pytest.mark.parametrize("rival", ["sweep", "complete", "stop", "itself"])
def test_control_without_the_lock_the_deferral_ends_an_attempt_that_has_ended(
    race: Any, running: Any, worker: Entry, rival: str
) -> None:
    held = running()
    expire_lease(held.job)
    first = {
        "sweep": sweep_of(held),
        "complete": complete_of(worker, held),
        "stop": stop_of(held),
        "itself": defer_of(worker, held),
    }[rival]

    _, late = race(first, defer_of(worker, held))

    assert isinstance(late, IntegrityError)


@pytest.mark.usefixtures("no_job_locks")
@pytest.mark.parametrize("rival", [sweep_of, stop_of])
def test_control_without_the_lock_the_rival_ends_a_deferred_attempt(
    race: Any, running: Any, worker: Entry, rival: Callable[[Running], Any]
) -> None:
    held = running()
    expire_lease(held.job)

    _, late = race(defer_of(worker, held), rival(held))

    assert isinstance(late, IntegrityError)
