"""The same task from many sides at once: one job."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import IntegrityError, OperationalError, connections, transaction

from agents.principals import Principal
from governance.core import sql
from governance.core.errors import TaskContentMismatch
from governance.core.models import AuditEvent, Fact
from jobs import transitions
from jobs.models import Job
from tests.races.conftest import outcome_of

pytestmark = pytest.mark.django_db(transaction=True)

CALLS = 100
THREADS = 25


def envelope(task_id: str = "task-1", **over: Any) -> dict[str, Any]:
    return {
        "task_id": task_id,
        "source": "manual",
        "title": "Sort the mail",
        "goal": "Every letter has one of the five labels.",
        "task_type": "classification",
        "risk_tier": "low",
        "priority": "normal",
    } | over


def intake_of(principal: Principal, *envelopes: dict[str, Any]) -> Callable[[], list[Any]]:
    return lambda: transitions.intake(principal=principal, envelopes=list(envelopes))


def test_a_hundred_identical_intakes_make_one_job(submitter: Principal) -> None:
    def submit(_: int) -> str:
        try:
            [answer] = intake_of(submitter, envelope())()
            return answer.outcome
        finally:
            connections.close_all()

    with ThreadPoolExecutor(THREADS) as pool:
        answers = Counter(pool.map(submit, range(CALLS), timeout=45))

    job = Job.objects.get()
    assert answers == {"queued": 1, "already_queued": CALLS - 1}
    assert AuditEvent.objects.filter(subject=job.audit_subject).count() == 1
    assert Fact.objects.count() == 1


def test_an_intake_that_meets_its_own_repetition_answers_the_job(
    race: Any, submitter: Principal
) -> None:
    [first], [second] = race(intake_of(submitter, envelope()), intake_of(submitter, envelope()))

    assert (first.outcome, second.outcome) == ("queued", "already_queued")
    assert second.job.job_id == first.job.job_id


def test_an_intake_that_meets_another_envelope_is_refused(race: Any, submitter: Principal) -> None:
    _, [second] = race(
        intake_of(submitter, envelope()),
        intake_of(submitter, envelope(title="Sort the parcels")),
    )

    assert type(second) is TaskContentMismatch
    assert Job.objects.get().task.title == "Sort the mail"


def test_control_an_insert_that_does_not_expect_a_rival_fails(
    race: Any, submitter: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert = sql.insert

    def unaware(rows: Any, *, unless_present: bool = False, **options: Any) -> sql.Statement:
        return insert(rows, **options)

    monkeypatch.setattr(sql, "insert", unaware)

    _, second = race(intake_of(submitter, envelope()), intake_of(submitter, envelope()))

    assert isinstance(second, IntegrityError)


@pytest.fixture
def opposite(elsewhere: Any, waits: Any, submitter: Principal) -> Callable[[], tuple[Any, Any]]:
    """Let two intakes name three tasks in opposite order and meet in the middle one."""

    def meet() -> tuple[Any, Any]:
        first, middle, last = (envelope(name) for name in ("task-a", "task-m", "task-z"))
        with transaction.atomic():
            intake_of(submitter, middle)()
            forth = elsewhere(intake_of(submitter, first, middle, last))
            assert waits(forth)
            back = elsewhere(intake_of(submitter, last, middle, first))
            assert waits(back, waiting=2)
        return outcome_of(forth), outcome_of(back)

    return meet


def test_intakes_that_name_the_same_tasks_in_opposite_order_do_not_wait_for_each_other(
    opposite: Any,
) -> None:
    forth, back = opposite()

    assert [a.outcome for a in forth] == ["queued", "already_queued", "queued"]
    assert [a.outcome for a in back] == ["already_queued"] * 3
    assert [a.job.task_id for a in back] == ["task-z", "task-m", "task-a"]
    assert Job.objects.count() == AuditEvent.objects.filter(action="job.queued").count() == 3


def test_control_in_the_asked_order_one_of_them_is_ended_by_the_database(
    opposite: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The package's `intake` is the move; its module is wanted.
    module = sys.modules["jobs.transitions.intake"]
    monkeypatch.setattr(module, "sorted", list, raising=False)

    [ended] = [outcome for outcome in opposite() if isinstance(outcome, OperationalError)]

    assert ended.__cause__.sqlstate == "40P01"


def test_batches_that_name_the_same_tasks_in_another_order_all_get_their_answer(
    submitter: Principal,
) -> None:
    tasks = [envelope(f"task-{number}") for number in range(40)]

    def submit(turn: int) -> Counter[str]:
        batch = tasks if turn % 2 else tasks[::-1]
        try:
            return Counter(answer.outcome for answer in intake_of(submitter, *batch)())
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        answers = sum(pool.map(submit, range(4), timeout=45), Counter())

    assert answers == {"queued": 40, "already_queued": 3 * 40}
