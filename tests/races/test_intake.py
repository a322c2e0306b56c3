"""The same task from many sides at once: one job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import IntegrityError, connections

from agents.principals import Principal
from governance import idempotency, sql
from governance.errors import TaskContentMismatch
from governance.idempotency import Answer
from governance.models import AuditEvent, Fact
from jobs import transitions
from jobs.models import Job

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
    def submit(_: int) -> tuple[str, int]:
        try:
            [answer] = intake_of(submitter, envelope())()
            return answer.outcome, answer.status
        finally:
            connections.close_all()

    with ThreadPoolExecutor(THREADS) as pool:
        answers = Counter(pool.map(submit, range(CALLS), timeout=45))

    job = Job.objects.get()
    assert answers == {("queued", 201): 1, ("already_queued", 200): CALLS - 1}
    assert AuditEvent.objects.filter(subject=job.audit_subject).count() == 1
    assert Fact.objects.count() == 1


def test_an_intake_that_meets_its_own_repetition_answers_the_job(
    race: Any, submitter: Principal
) -> None:
    [first], [second] = race(intake_of(submitter, envelope()), intake_of(submitter, envelope()))

    assert (first.outcome, second.outcome) == ("queued", "already_queued")
    assert second.job["job_id"] == first.job["job_id"]


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
    monkeypatch.setattr(sql, "insert", lambda rows, **_: insert(rows))

    _, second = race(intake_of(submitter, envelope()), intake_of(submitter, envelope()))

    assert isinstance(second, IntegrityError)


def test_batches_that_name_the_same_tasks_in_another_order_all_get_their_answer(
    submitter: Principal,
) -> None:
    tasks = [envelope(f"task-{number}") for number in range(40)]

    def submit(turn: int) -> Counter[str]:
        batch = tasks if turn % 2 else tasks[::-1]

        def run() -> Answer:
            outcomes = Counter(answer.outcome for answer in intake_of(submitter, *batch)())
            return Answer(200, dict(outcomes))

        try:
            # A deadlock of two batches is dissolved by the server and tried again by `once`.
            return Counter(idempotency.once(run).body)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        answers = sum(pool.map(submit, range(4), timeout=45), Counter())

    assert answers == {"queued": 40, "already_queued": 3 * 40}
