"""Reflections: numbered per job, append-only, by whoever holds the current token."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from agents.entry import Entry
from governance.core.errors import (
    LeaseHeldByAnother,
    NotFound,
    ReflectionConflict,
    StaleFencingToken,
    WrongOwner,
)
from jobs import transitions
from jobs.models import Reflection
from tests.evidence import actions, refused, untouched
from tests.work import Running, expire_lease, make_available

LEARNT = {"what_worked": "Reading the whole letter.", "tool_sequence": ["read", "sort"]}


def reflect(entry: Entry, held: Running, number: int | None = None, **content: Any) -> Any:
    return transitions.reflect(
        entry=entry, **held.binding, sequence_number=number, content=LEARNT | content
    )


def test_numbers_are_given_in_order_from_one(running: Any, worker: Entry) -> None:
    held = running()

    answers = [reflect(worker, held, what_failed=str(n)) for n in range(3)]

    assert [answer.sequence_number for answer in answers] == [1, 2, 3]
    assert {answer.outcome for answer in answers} == {"recorded"}
    assert actions(held.job)[-3:] == ["job.reflected"] * 3
    first = Reflection.objects.get(number=1)
    assert (first.what_worked, first.tool_sequence) == (
        LEARNT["what_worked"],
        LEARNT["tool_sequence"],
    )


def test_the_same_number_with_the_same_content_is_already_recorded(
    running: Any, worker: Entry
) -> None:
    held = running()
    reflect(worker, held, 1)

    with untouched(held.job):
        again = reflect(worker, held, 1)

    assert again.outcome == "already_recorded"


def test_the_same_number_with_other_content_is_refused(running: Any, worker: Entry) -> None:
    held = running()
    reflect(worker, held, 1)

    with refused(ReflectionConflict, held.job) as refusal:
        reflect(worker, held, 1, what_worked="Something else.")

    assert (refusal.value.code, refusal.value.status) == ("ALREADY_EXISTS", 409)


def test_a_number_that_is_not_given_follows_the_highest(running: Any, worker: Entry) -> None:
    held = running()
    reflect(worker, held, 5)

    assert reflect(worker, held, what_failed="x").sequence_number == 6


def test_a_repetition_is_recognised_after_the_job_has_moved_on(
    running: Any, worker: Entry, other_worker: Entry, claim: Any
) -> None:
    held = running()
    reflect(worker, held, 1)
    expire_lease(held.job)
    transitions.end_if_due(task_id=held.job.task_id)
    make_available(held.job)
    claim(held.job, other_worker)

    assert reflect(worker, held, 1).outcome == "already_recorded"
    with refused(StaleFencingToken, held.job):
        reflect(worker, held, 2)


def test_the_current_token_is_enough_after_completion_and_after_expiry(
    running: Any, worker: Entry
) -> None:
    done, expired = running(), running()
    transitions.complete(entry=worker, completions=[done.binding])
    expire_lease(expired.job)

    assert reflect(worker, done).outcome == "recorded"
    assert reflect(worker, expired).outcome == "recorded"


def test_without_a_token_only_the_holder_is_heard(
    running: Any, worker: Entry, other_worker: Entry
) -> None:
    held = running()
    named = {"task_id": held.job.task_id, "content": LEARNT}

    with refused(LeaseHeldByAnother, held.job):
        transitions.reflect(entry=other_worker, **named)
    assert transitions.reflect(entry=worker, **named).outcome == "recorded"


def test_strangers_and_unknown_tasks_are_refused(
    running: Any, worker: Entry, stranger: Entry
) -> None:
    held = running()

    with refused(WrongOwner, held.job):
        reflect(stranger, held)
    with refused(NotFound):
        transitions.reflect(entry=worker, task_id="nothing", content=LEARNT)


@pytest.mark.parametrize("change", ["update", "delete"])
def test_the_database_keeps_them_as_they_are(running: Any, worker: Entry, change: str) -> None:
    reflect(worker, running())

    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        if change == "update":
            Reflection.objects.update(what_worked="Nothing.")
        else:
            Reflection.objects.all().delete()
