"""The same fact stated many times at once is recorded once, whatever else is said under its id."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import IntegrityError, connection

from agents.entry import Entry
from governance.core.digests import canonical, sha256_hex
from governance.core.errors import FactDigestConflict
from governance.core.models import Fact
from jobs.transitions import facts
from jobs.transitions.facts import Receipt

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

    def known_to_none(*asked: Any) -> Any:
        found = known(*asked)
        meet.wait()
        return found

    monkeypatch.setattr(facts, "_known", known_to_none)
    receipts, refusals = at_once(worker, [{"n": 1}] * CALLERS)
    assert len(receipts) == 1
    assert refusals == [IntegrityError] * (CALLERS - 1)
