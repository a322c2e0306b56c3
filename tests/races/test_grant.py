"""Decisions of two people that meet: each is taken on what the other has left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import IntegrityError

from governance.core.errors import InvalidArgument, InvalidTransition, RetryCeilingReached
from jobs import transitions
from jobs.models import Approval, Job, RetryExtension, Review
from tests.evidence import actions

pytestmark = pytest.mark.django_db(transaction=True)


def extend_of(job: Job, who: str, **asked: int) -> Callable[[], Any]:
    return lambda: transitions.extend(
        task_id=job.task_id, actor=f"user:{who}", reason="More.", **asked
    )


def approve_of(job: Job, who: str) -> Callable[[], Any]:
    return lambda: transitions.approve(task_id=job.task_id, actor=f"user:{who}", reason="Good.")


def review_of(job: Job, verdict: str) -> Callable[[], Any]:
    return lambda: transitions.review(
        task_id=job.task_id, actor="user:anna", verdict=verdict, reason="Seen."
    )


def test_two_extensions_by_one_add_up(race: Any, make_job: Any) -> None:
    job = make_job()

    race(extend_of(job, "anna", extra=1), extend_of(job, "bert", extra=1))

    job.refresh_from_db()
    assert job.max_attempts == 5
    steps = RetryExtension.objects.order_by("pk").values_list("from_max", "to_max")
    assert list(steps) == [(3, 4), (4, 5)]


@pytest.mark.usefixtures("no_job_locks")
def test_control_without_the_lock_two_extensions_start_from_one_limit(
    race: Any, make_job: Any
) -> None:
    job = make_job()

    _, second = race(extend_of(job, "anna", extra=1), extend_of(job, "bert", extra=1))

    assert isinstance(second, IntegrityError)


def test_two_extensions_to_the_same_limit_are_one(race: Any, make_job: Any) -> None:
    job = make_job()

    _, second = race(extend_of(job, "anna", to_max=5), extend_of(job, "bert", to_max=5))

    assert type(second) is InvalidArgument
    assert RetryExtension.objects.count() == 1


def test_two_extensions_do_not_pass_the_ceiling_together(
    race: Any, make_job: Any, job_type: Any
) -> None:
    job_type(max_attempts_ceiling=4)
    job = make_job()

    _, second = race(extend_of(job, "anna", extra=1), extend_of(job, "bert", extra=1))

    job.refresh_from_db()
    assert type(second) is RetryCeilingReached
    assert job.max_attempts == 4


def test_of_two_approvals_one_releases_the_hold(race: Any, make_job: Any) -> None:
    job = make_job(execution_approval_required=True)

    _, second = race(approve_of(job, "anna"), approve_of(job, "bert"))

    assert type(second) is InvalidTransition
    assert list(Approval.objects.values_list("decided_by", flat=True)) == ["user:anna"]
    assert actions(job) == ["job.held", "job.approved"]


@pytest.mark.usefixtures("no_job_locks")
def test_control_without_the_lock_both_approvals_are_given(race: Any, make_job: Any) -> None:
    job = make_job(execution_approval_required=True)

    _, second = race(approve_of(job, "anna"), approve_of(job, "bert"))

    assert isinstance(second, IntegrityError)


def test_of_two_verdicts_the_first_counts(race: Any, delivered: Any) -> None:
    job = delivered()

    _, second = race(review_of(job, "accepted"), review_of(job, "rejected"))

    job.refresh_from_db()
    assert type(second) is InvalidTransition
    assert (job.state, Review.objects.count()) == ("completed", 1)


@pytest.mark.usefixtures("no_job_locks")
def test_control_without_the_lock_both_verdicts_are_given(race: Any, delivered: Any) -> None:
    job = delivered()

    _, second = race(review_of(job, "accepted"), review_of(job, "rejected"))

    assert isinstance(second, IntegrityError)
