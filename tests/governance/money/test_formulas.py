"""The sums that the database adds up are the library's own, to the last place."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from genai_prices.data_snapshot import get_snapshot

from governance.core import sql
from governance.money import books, formulas, ledger
from governance.money.contents import NOTHING_MORE
from governance.money.formulas import COST, HELD, SCALE, UNKNOWN, joins_of
from governance.money.models import Resolution
from governance.money.pricing import PriceList, RateSet, Usage, document_of_rates
from governance.money.published import COUNTERS, PriceUnusable, document_of
from tests.money import cap, catalogue_of_two, reserved, resolve

pytestmark = pytest.mark.django_db
AT = datetime(2026, 11, 30, 12, tzinfo=UTC)
SAMPLES, DAY = 20, "2026-01-02"
E = ", ".join(f"{name} bigint" for name in COUNTERS)
#: Each sample by the three expressions.
SUMS = (
    f"SELECT e.n, {COST} AS cost, {HELD} AS held, {UNKNOWN} AS unknown"
    f" FROM jsonb_to_recordset(%s::jsonb) AS e(n int, price_id bigint, request_bytes bigint, {E})"
    " CROSS JOIN LATERAL (SELECT e.price_id, e.input_tokens AS estimated_input_tokens,"
    "  e.output_tokens AS max_output_tokens, e.request_bytes) d"
)


def listed() -> list[PriceList]:
    """Every price that the installed list has and a document can say, and two that people state."""
    found = [
        document_of_rates("a", "tiers", [
            RateSet(0, Decimal("1.25"), Decimal(10), cached_input=Decimal("0.31")),
            RateSet(200_000, Decimal("2.5"), Decimal(15), cached_input=Decimal("0.625")),
        ], call_rate=Decimal("0.0001"), search_rate=Decimal(10)),
        document_of_rates("a", "cheaper", [
            RateSet(0, Decimal(3), Decimal(1)), RateSet(1000, Decimal(2), Decimal(4)),
        ]),
    ]  # fmt: skip
    for provider in get_snapshot().providers:
        for model in provider.models:
            try:
                found.append(document_of(provider, model))
            except PriceUnusable:
                continue
    return [PriceList(n, "v", json.dumps(document)) for n, document in enumerate(found)]


def usage_of(chance: random.Random) -> Usage:
    """A usage of the sizes that calls have, at the edges of tiers too."""
    edges = [0, 1, 1000, 1001, 128_000, 128_001, 200_000, 200_001, 256_000, 272_000, 272_001]
    tokens = chance.choice([chance.choice(edges), chance.randrange(10 ** chance.randrange(1, 9))])
    cached = chance.randrange(tokens + 1)
    written = chance.randrange(tokens - cached + 1)
    both = chance.randrange(cached + 1) if chance.random() < 0.3 else 0
    audio = both + chance.randrange(tokens - cached - written + 1)
    output = chance.randrange(10 ** chance.randrange(1, 7))
    reasoning = chance.randrange(output + 1)
    return Usage(
        input_tokens=tokens,
        cached_input_tokens=cached,
        cache_write_tokens=written,
        cache_write_1h_tokens=chance.randrange(written + 1),
        input_audio_tokens=audio,
        cached_audio_tokens=both,
        output_tokens=output,
        reasoning_tokens=reasoning,
        output_audio_tokens=chance.randrange(output - reasoning + 1),
        searches=chance.randrange(4),
        service_tier=chance.choice(["", "default"]),
    )


def test_the_sums_are_the_library_s_over_thousands_of_samples() -> None:
    chance = random.Random(20261130)
    prices = {price.price_id: price for price in listed()}
    by_price = {
        key: found
        for key, price in prices.items()
        if (found := formulas.formulas_of(price.stored)) is not None
    }
    # Nearly all of the list: the others go by the hour, or have a tier that is cheaper.
    assert len(by_price) > 0.8 * len(prices)
    assert any(len(each.costs) > 1 for each in by_price.values())
    samples = [(key, usage_of(chance), chance.randrange(10**6)) for key in by_price]
    for _ in range(SAMPLES):
        samples += [
            (key, usage_of(chance), chance.randrange(10**6))
            for key in chance.sample(sorted(by_price), min(200, len(by_price)))
        ]
    sent = [
        {"n": n, "price_id": key, "request_bytes": request_bytes, **usage.counts}
        for n, (key, usage, request_bytes) in enumerate(samples)
    ]
    with connection.cursor() as cursor:
        cursor.execute(SUMS + joins_of(by_price) + " ORDER BY e.n", [json.dumps(sent)])
        found = cursor.fetchall()

    assert len(found) == len(samples) > 4000
    for (n, *units), (key, usage, request_bytes) in zip(found, samples, strict=True):
        price, most = prices[key], usage.input_tokens
        expected = [
            price.cost(usage, at=AT).total,
            bound(price, most, usage.output_tokens),
            bound(price, min(NOTHING_MORE.input_of(request_bytes), most), usage.output_tokens),
        ]
        assert units == [amount * SCALE for amount in expected], (n, prices[key], usage)


def bound(price: PriceList, input_tokens: int, output_tokens: int) -> Decimal:
    return price.upper_bound(input_tokens=input_tokens, output_tokens=output_tokens, at=AT)


@pytest.mark.parametrize(
    "document",
    [
        # By the hour.
        {"prices": [
            {"prices": {"input_mtok": "1"}},
            {"prices": {"input_mtok": "2"}, "constraint": {"start_date": DAY}},
        ]},
        # In the context that every call is in.
        {"prices": {"input_mtok": "1"},
         "variants": [{"when": {"service_tier": "default"}, "prices": {"input_mtok": "2"}}]},
        # Above the threshold output is dearer, and input cheaper.
        {"prices": {"input_mtok": {"base": "2", "tiers": [{"start": 10, "price": "1"}]},
                    "output_mtok": {"base": "1", "tiers": [{"start": 10, "price": "2"}]}}},
    ],
)  # fmt: skip
def test_a_price_that_is_no_sum_has_no_formula(document: dict[str, Any]) -> None:
    price = PriceList(1, "v", json.dumps({"provider": "a", "model": "m"} | document))

    assert formulas.formulas_of(price.stored) is None


@pytest.fixture
def calls() -> None:
    """Calls of every end, all of them by a price that has a formula."""
    catalogue_of_two()
    cap(None)
    actor = "agent:hermes"
    ends: list[dict[str, Any]] = [
        {"ended_as": "settled", "usage": Usage(1000, 1000, cached_input_tokens=300)},
        {"ended_as": "settled", "usage": Usage(7, 3, service_tier="default")},
        {"ended_as": "settled"},
        {"ended_as": "settled", "usage": Usage(1000, 9), "cost_basis": "estimate"},
        {"ended_as": "settled", "usage": Usage(10, 10, searches=3)},
        {"ended_as": "failed", "cost_basis": "none"},
        {"ended_as": "failed"},
        {"ended_as": "released"},
    ]
    for end in ends:
        for more in ({}, {"request_bytes": 1000}):
            of = reserved(**more).reservation
            assert of is not None
            resolve(reservation_id=of.reservation_id, actor=actor, **end)
    reserved()


def slow() -> list[sql.Row]:
    with books.unbounded():
        return list(books.read_rows(books._amounts()))


def test_the_library_computes_only_what_the_database_cannot(calls: None) -> None:
    assert slow() == []
    assert list(ledger.verify()) == []
    reserved(requirements=("service_tier=default",))

    assert [row["requirements"] for row in slow()] == ['["service_tier=default"]']
    assert list(ledger.verify()) == []


SETTLED = "WHERE cost_basis = 'usage'"
UNKNOWN_ENDS = "WHERE cost_basis = 'estimate'"


@pytest.mark.parametrize(
    "statement",
    [
        f"UPDATE governance_resolution SET cost = cost + 1e-12, cost_split = NULL {SETTLED}",
        f"UPDATE governance_resolution SET input_tokens = input_tokens + 1 {SETTLED}",
        f"UPDATE governance_resolution SET cost = cost - 1e-12 {UNKNOWN_ENDS}",
        f"""UPDATE governance_resolution SET cost_split = '{{"input_tokens": "1"}}' {SETTLED}""",
        f"""UPDATE governance_resolution SET cost_split = '{{"input_tokens": "x"}}' {SETTLED}""",
        f"UPDATE governance_resolution SET cost_split = '[]' {SETTLED}",
        # What was seen of a call costs that, and not what was held.
        'UPDATE governance_resolution SET cost = 0.03, cost_split = \'{"input_tokens": "0.03"}\''
        " WHERE cost_basis = 'estimate' AND input_tokens = 1000",
        "UPDATE governance_reservation SET amount = amount + 1e-12 WHERE state = 'held'",
        "UPDATE governance_routedecision SET max_output_tokens = 1",
        f"UPDATE governance_resolution SET cached_input_tokens = 5000, cost = 0 {SETTLED}",
    ],
)
def test_what_is_wrong_by_one_unit_is_not_proven(calls: None, statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(statement)
        cursor.execute("SET session_replication_role = origin")

    found = [one for one in ledger.verify() if not one.check.startswith("budget_window")]

    assert found
    assert Resolution.objects.count() == 16
