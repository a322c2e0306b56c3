"""Failures at one job that meet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import IntegrityError

from jobs import transitions
from jobs.models import Job, SetAside
from jobs.transitions import aside

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def note(make_job: Callable[..., Job]) -> Callable[[], Any]:
    job = make_job()
    return lambda: transitions.note_failure(
        task_id=job.task_id, kind="sweep", error=ValueError("bad")
    )


def test_failures_that_meet_are_both_counted(race: Any, note: Callable[[], Any]) -> None:
    race(note, note)

    assert SetAside.objects.get().count == 2


def test_control_without_the_lock_one_of_them_is_lost(
    race: Any, note: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aside, "LOCK", "SELECT 1")

    _, second = race(note, note)

    assert isinstance(second, IntegrityError)
    assert SetAside.objects.get().count == 1
