"""What is past its retention goes, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command
from django.db import transaction
from uuid_utils.compat import uuid7

from governance.core import clock, outbox
from governance.core.errors import IdempotencyKeyExpired
from governance.core.idempotency import Answer, Key, once
from governance.core.models import Fact, IdempotencyRecord, PrunedFact
from governance.relay import retention

pytestmark = pytest.mark.django_db


def kept(days_ago: float) -> IdempotencyRecord:
    made = clock.now() - timedelta(days=days_ago)
    record = IdempotencyRecord(
        principal="agent:hermes", operation="claim", key=UUID(str(uuid7())), digest=b"d",
        status=200, headers={"etag": "r1"}, body=b"{}", created_at=made,
        expires_at=made + timedelta(days=30),
    )  # fmt: skip
    record.save()
    return record


def told(
    stream: str, *, recorded_days_ago: float, published_days_ago: float | None, **over: str
) -> Fact:
    now = clock.now()
    fact = outbox.fact(
        stream=stream, sequence=1, kind="job.claimed", data={},
        at=now - timedelta(days=recorded_days_ago),
    )  # fmt: skip
    for name, value in over.items():
        setattr(fact, name, value)
    if published_days_ago is not None:
        fact.published_at = now - timedelta(days=published_days_ago)
    fact.save(force_insert=True)
    return fact


def test_answers_become_tombstones_and_tombstones_go() -> None:
    young, week_old, expired = kept(6.9), kept(7.1), kept(31.1)

    pruned = retention.prune()

    assert (pruned.bodies, pruned.tombstones) == (2, 1)
    young.refresh_from_db(), week_old.refresh_from_db()
    assert bytes(young.body or b"") == b"{}"
    assert (week_old.body, week_old.headers) == (None, {})
    assert not IdempotencyRecord.objects.filter(pk=expired.pk).exists()


@pytest.mark.django_db(transaction=True)
def test_a_key_whose_answer_is_gone_is_refused_and_not_executed_again() -> None:
    record = kept(8)
    retention.prune()
    ran = []
    key = Key(record.principal, record.operation, record.key, b"", digest_v1=lambda: b"d")

    with pytest.raises(IdempotencyKeyExpired):
        once(lambda: ran.append(1) or Answer("done", {}), key=key)
    assert ran == []


def test_only_facts_that_were_published_long_ago_go() -> None:
    gone = told("job:a", recorded_days_ago=100, published_days_ago=91)
    late = told("job:b", recorded_days_ago=100, published_days_ago=89)
    waits = told("job:c", recorded_days_ago=100, published_days_ago=None)
    young = told("job:d", recorded_days_ago=1, published_days_ago=1)

    assert retention.prune(limit=1).facts == 1

    left = set(Fact.objects.values_list("pk", flat=True))
    assert left == {late.pk, waits.pk, young.pk}
    assert gone.pk not in left


def test_what_an_agent_stated_leaves_its_receipt_and_no_more() -> None:
    told("job:a", recorded_days_ago=100, published_days_ago=91)
    stated = told(
        "job:b", recorded_days_ago=100, published_days_ago=91,
        principal="agent:hermes", fact_id="report-1",
    )  # fmt: skip

    assert retention.prune().facts == 2

    kept = PrunedFact.objects.get()
    assert (kept.principal, kept.fact_id, kept.content_sha256, kept.receipt_id, kept.sequence) == (
        "agent:hermes", "report-1", stated.content_sha256, stated.receipt_id, 1,
    )  # fmt: skip


@pytest.mark.django_db(transaction=True)
def test_a_row_that_somebody_holds_is_left_to_the_next_round(
    on_other_connection: Callable[..., Any],
) -> None:
    record = kept(8)
    with transaction.atomic():
        IdempotencyRecord.objects.select_for_update().get(pk=record.pk)
        assert on_other_connection(retention.prune).bodies == 0
    assert retention.prune().bodies == 1


def test_the_command_says_what_it_removed(capsys: pytest.CaptureFixture[str]) -> None:
    kept(8)
    call_command("prune")
    assert "Removed 1 answers, 0 tombstones, 0 facts." in capsys.readouterr().out
