"""Prefixes of task ids, while others change them and while tasks come in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import IntegrityError

from agents import prefixes
from agents.models import Submitter, TaskPrefix
from agents.principals import Principal, identify
from agents.transitions.principals import configure_submitter
from governance.core import clock
from governance.core.errors import InvalidArgument, TaskIdReserved
from jobs.models import Job
from tests.races.test_intake import envelope, intake_of
from tests.world import TEST

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def other(issue: Callable[..., str]) -> Principal:
    return identify(token=issue(submitter="other", scopes=["submit"]))


def owning(prefix: str, name: str = "ops") -> Callable[[], Any]:
    return lambda: configure_submitter(name=name, add=[prefix], **TEST)


def test_an_intake_that_meets_a_new_prefix_is_judged_by_it(
    race: Any, submitter: Principal, other: Principal
) -> None:
    _, [second] = race(owning("ops-"), intake_of(other, envelope("ops-1")))

    assert type(second) is TaskIdReserved
    assert not Job.objects.exists()


def test_a_new_prefix_waits_for_the_intakes_that_were_judged_without_it(
    race: Any, submitter: Principal, other: Principal
) -> None:
    seen: list[bool] = []

    def own() -> None:
        owning("ops-")()
        # Whatever came in under the old rule is there by now.
        seen.append(Job.objects.filter(task_id="ops-1").exists())

    [first], _ = race(intake_of(other, envelope("ops-1")), own)

    assert first.outcome == "queued"
    assert seen == [True]


def test_control_without_the_lock_a_task_comes_in_behind_a_prefix_that_is_in_force(
    race: Any, submitter: Principal, other: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefixes, "LOCK_SHARED", "SELECT %s::int")
    seen: list[bool] = []

    def own() -> None:
        owning("ops-")()
        seen.append(Job.objects.filter(task_id="ops-1").exists())

    [first], _ = race(intake_of(other, envelope("ops-1")), own)

    assert first.outcome == "queued"
    assert seen == [False]


def test_of_two_prefixes_that_contain_each_other_one_is_refused(
    race: Any, submitter: Principal, other: Principal
) -> None:
    _, second = race(owning("ops-"), owning("ops-eu-", "other"))

    assert type(second) is InvalidArgument
    assert [row.prefix for row in TaskPrefix.objects.all()] == ["ops-"]


def test_the_database_refuses_one_of_two_rows_that_contain_each_other(
    race: Any, submitter: Principal, other: Principal
) -> None:
    def row(name: str, prefix: str) -> Callable[[], Any]:
        owner = Submitter.objects.get(name=name)
        return lambda: TaskPrefix.objects.create(
            submitter=owner, prefix=prefix, created_at=clock.now()
        )

    _, second = race(row("ops", "ops-"), row("other", "ops-eu-"))

    assert isinstance(second, IntegrityError)
    assert [one.prefix for one in TaskPrefix.objects.all()] == ["ops-"]
