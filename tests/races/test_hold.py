"""Holds and claims that meet: a job is either on hold or claimed, and whoever is late is told."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError

from agents.entry import Entry
from governance.core import clock
from governance.core.errors import InvalidTransition
from jobs import transitions
from jobs.models import Job, Lease
from jobs.transitions import controls
from tests.evidence import actions
from tests.work import ANNA

pytestmark = pytest.mark.django_db(transaction=True)


def claim_of(entry: Entry, job: Job) -> Callable[[], Any]:
    return lambda: transitions.claim(entry=entry, task_id=job.task_id, owner="hermes")


def hold_of(job: Job) -> Callable[[], Any]:
    until = clock.now() + timedelta(hours=1)
    return lambda: controls.hold(task_id=job.task_id, until=until, **ANNA)


def test_a_hold_that_meets_a_claim_comes_too_late(race: Any, make_job: Any, worker: Entry) -> None:
    job = make_job()

    _, late = race(claim_of(worker, job), hold_of(job))

    job.refresh_from_db()
    assert type(late) is InvalidTransition
    assert (job.state, job.hold_until) == ("active", None)
    assert actions(job) == ["job.queued", "job.claimed"]


@pytest.mark.usefixtures("no_job_locks")
def test_control_without_the_lock_the_hold_does_not_see_the_claim(
    race: Any, make_job: Any, worker: Entry
) -> None:
    job = make_job()

    _, late = race(claim_of(worker, job), hold_of(job))

    assert isinstance(late, IntegrityError)


def test_a_claim_that_meets_a_hold_is_refused(race: Any, make_job: Any, worker: Entry) -> None:
    job = make_job()

    _, late = race(hold_of(job), claim_of(worker, job))

    job.refresh_from_db()
    assert type(late) is InvalidTransition
    assert late.current["hold_until"] == f"{job.hold_until:%Y-%m-%dT%H:%M:%S.%fZ}"
    assert actions(job) == ["job.queued", "job.put_on_hold"]
    assert not Lease.objects.exists()


@pytest.mark.usefixtures("no_job_locks")
def test_control_without_the_lock_the_claim_does_not_see_the_hold(
    race: Any, make_job: Any, worker: Entry
) -> None:
    job = make_job()

    _, late = race(hold_of(job), claim_of(worker, job))

    assert isinstance(late, IntegrityError)


def test_a_claim_of_the_next_that_meets_a_hold_takes_another(
    race: Any, make_job: Any, worker: Entry
) -> None:
    held, free = make_job(), make_job()

    _, claimed = race(hold_of(held), lambda: transitions.claim_next(entry=worker, limit=2))

    assert [outcome.job.task_id for outcome in claimed] == [free.task_id]
    assert actions(held) == ["job.queued", "job.put_on_hold"]
