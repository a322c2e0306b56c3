"""A pause and a completion that meet: a job that is over is not paused, whoever came first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import IntegrityError

from agents.entry import Entry
from governance.core.errors import InvalidTransition
from jobs import transitions
from jobs.models import Job
from tests.evidence import actions
from tests.work import ANNA, Running

pytestmark = pytest.mark.django_db(transaction=True)


def complete_of(worker: Entry, held: Running) -> Callable[[], Any]:
    return lambda: transitions.complete(
        entry=worker, completions=[held.binding | {"result": {"n": 1}}]
    )


def pause_of(job: Job) -> Callable[[], Any]:
    return lambda: transitions.pause(task_id=job.task_id, **ANNA)


def test_a_completion_that_meets_a_pause_ends_it(race: Any, running: Any, worker: Entry) -> None:
    held = running()

    paused, [done] = race(pause_of(held.job), complete_of(worker, held))

    held.job.refresh_from_db()
    assert (paused.outcome, done.outcome) == ("paused", "recorded")
    assert (held.job.state, held.job.paused) == ("completed", False)
    assert actions(held.job)[-2:] == ["job.paused", "job.completed"]


def test_a_pause_that_meets_a_completion_comes_too_late(
    race: Any, running: Any, worker: Entry
) -> None:
    held = running()

    _, late = race(complete_of(worker, held), pause_of(held.job))

    held.job.refresh_from_db()
    assert type(late) is InvalidTransition
    assert (held.job.state, held.job.paused) == ("completed", False)
    assert actions(held.job)[-1] == "job.completed"


@pytest.mark.usefixtures("no_job_locks")
def test_control_without_the_lock_the_pause_does_not_see_the_end(
    race: Any, running: Any, worker: Entry
) -> None:
    held = running()

    _, late = race(complete_of(worker, held), pause_of(held.job))

    assert isinstance(late, IntegrityError)
