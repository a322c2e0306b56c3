"""The same fact stated many times at once is recorded once, whatever else is said under its id."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import IntegrityError, connection

from agents.entry import Entry
from governance.core.digests import canonical, sha256_hex
from governance.core.errors import FactDigestConflict
from governance.core.models import Fact
from jobs import transitions
from jobs.transitions import facts
from jobs.transitions.facts import Receipt
from tests.work import Running, expire_lease

pytestmark = pytest.mark.django_db(transaction=True)

CALLERS = 8


def at_once(entry: Entry, contents: list[dict[str, Any]]) -> tuple[list[Receipt], list[Any]]:
    """State contents under one id on as many connections; return receipts and refusals."""
    receipts: list[Receipt] = []
    refusals: list[Any] = []
    go = threading.Barrier(len(contents))

    def state(data: dict[str, Any]) -> None:
        digest = sha256_hex(canonical(data))
        stated = facts.Stated(fact_id="one", content_sha256=digest, type="com.example", data=data)
        try:
            go.wait(5)
            receipts.append(facts.state_fact(entry=entry, stated=stated))
        except (FactDigestConflict, IntegrityError) as refusal:
            refusals.append(type(refusal))
        finally:
            connection.close()

    callers = [threading.Thread(target=state, args=(data,)) for data in contents]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(20)
    return receipts, refusals


def test_the_same_fact_at_once_has_one_receipt(worker: Entry) -> None:
    receipts, refusals = at_once(worker, [{"n": 1}] * CALLERS)
    assert (len(receipts), refusals) == (CALLERS, [])
    assert len({receipt.receipt_id for receipt in receipts}) == 1
    assert Fact.objects.count() == 1


def test_of_several_contents_under_one_id_one_is_recorded(worker: Entry) -> None:
    receipts, refusals = at_once(worker, [{"n": n} for n in range(CALLERS)])
    assert len(receipts) == 1
    assert refusals == [FactDigestConflict] * (CALLERS - 1)


def test_without_the_lock_a_repeated_fact_breaks_a_constraint(
    worker: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control of the tests before."""
    monkeypatch.setattr(facts, "LOCK_FACT", "SELECT %s::int, %s::text")
    meet = threading.Barrier(CALLERS, timeout=5)
    known = facts._known

    def known_to_none(*fact: Any, **about: Any) -> Any:
        found = known(*fact, **about)
        meet.wait()
        return found

    monkeypatch.setattr(facts, "_known", known_to_none)
    receipts, refusals = at_once(worker, [{"n": 1}] * CALLERS)
    assert len(receipts) == 1
    assert refusals == [IntegrityError] * (CALLERS - 1)


def statement_of(worker: Entry, held: Running) -> Callable[[], Receipt]:
    data = {"n": 1}
    stated = facts.Stated("one", sha256_hex(canonical(data)), "com.example", data)
    subject = facts.Subject(**held.binding)
    return lambda: facts.state_fact(entry=worker, stated=stated, subject=subject)


def test_a_fact_that_meets_the_end_of_its_attempt_is_evidence(
    race: Any, running: Any, worker: Entry
) -> None:
    held = running()
    expire_lease(held.job)

    swept, receipt = race(
        lambda: transitions.end_if_due(task_id=held.job.task_id), statement_of(worker, held)
    )

    assert (swept, receipt.sequence) == ("lease_expired", None)
    assert not Fact.objects.get(fact_id="one").relayed


@pytest.mark.usefixtures("no_job_locks")
def test_control_without_the_lock_the_fact_takes_a_number_that_is_taken(
    race: Any, running: Any, worker: Entry
) -> None:
    held = running()
    expire_lease(held.job)

    _, late = race(
        lambda: transitions.end_if_due(task_id=held.job.task_id), statement_of(worker, held)
    )

    assert isinstance(late, IntegrityError)
