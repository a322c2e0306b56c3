"""What the installed list says, kept as documents, is what the library says: by thousands."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal

import pytest
from genai_prices import Usage as Counted
from genai_prices import data_snapshot
from genai_prices.types import (
    ClauseEquals,
    ConditionalPrice,
    ModelInfo,
    ModelPrice,
    PriceVariant,
    Provider,
    StartDateConstraint,
    Tier,
    TieredPrices,
    TimeOfDateConstraint,
)

from governance.money.pricing import PriceList, Terms, Usage, rounded
from governance.money.published import COUNTERS, PriceUnusable, StoredPrice, document_of

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
#: Beside these, every instant at which some model's price changes.
DAYS = (datetime(2025, 1, 1, tzinfo=UTC), NOON, datetime(2027, 6, 1, 1, tzinfo=UTC))
Listed = tuple[Provider, ModelInfo, PriceList]


@pytest.fixture(scope="module")
def listed() -> list[Listed]:
    """Every model of the installed list that can be priced, with its stored price."""
    found = []
    for provider in data_snapshot.get_snapshot().providers:
        for model in provider.models:
            try:
                document = document_of(provider, model)
            except PriceUnusable:
                continue
            found.append((provider, model, PriceList(1, "v", json.dumps(document))))
    return found


def usages(dice: random.Random) -> Iterator[Usage]:
    """Yield a small call, one around a threshold, and one of every counter."""
    yield Usage(dice.randrange(5000), dice.randrange(5000))
    yield Usage(dice.choice((200_000, 200_001, 272_001, 1_000_000)), 10, 5)
    inputs, outputs = dice.randrange(1, 400_000), dice.randrange(1, 50_000)
    written = dice.randrange(inputs // 4 + 1)
    yield Usage(
        inputs,
        outputs,
        cached_input_tokens=dice.randrange(inputs // 4 + 1),
        reasoning_tokens=dice.randrange(outputs // 2 + 1),
        cache_write_tokens=written,
        cache_write_1h_tokens=dice.randrange(written + 1),
        searches=dice.randrange(4),
    )


def contexts(model: ModelInfo) -> list[dict[str, str]]:
    named = [variant.when for variant in model.price_variants or () if len(variant.when) == 1]
    return [{}, *(each for each in named if each.keys() <= {"service_tier", "processing", "speed"})]


def counted(usage: Usage) -> Counted:
    return Counted(**{COUNTERS[name][0]: count for name, count in usage.counts.items()})


def test_a_stored_price_costs_what_the_library_says(listed: list[Listed]) -> None:
    dice, compared = random.Random(20261130), 0
    for provider, model, price in listed:
        for usage in usages(dice):
            context = dice.choice(contexts(model))
            at = dice.choice(DAYS) + timedelta(minutes=dice.randrange(1440))
            named = Usage(**usage.counts, **context)
            said = model.calc_price(
                counted(usage),
                provider,
                genai_request_timestamp=at,
                price_context=context or None,
            )

            found = price.cost(named, at=at)

            subject = (provider.id, model.id, usage, at, context)
            assert found.total == rounded(said.total_price), subject
            assert sum(found.split.values()) == found.total, subject
            compared += 1
    assert compared > 5000


def test_no_call_costs_more_than_what_was_held_for_it(listed: list[Listed]) -> None:
    """At whatever hour of that day, tier of input and tier of service."""
    dice, compared = random.Random(7), 0
    for _, model, price in listed[::3]:
        day = dice.choice(DAYS).replace(hour=0)
        for usage in usages(dice):
            tier = [each for each in contexts(model) if "speed" not in each]
            at = day + timedelta(minutes=dice.randrange(1440))
            held = price.upper_bound(
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                at=day,
                terms=Terms(searches=usage.searches),
            )
            cost = price.cost(Usage(**usage.counts, **dice.choice(tier)), at=at)
            assert cost.total <= held, (model.id, usage, at)
            compared += 1
    assert compared > 2000


def stored(prices: object, variants: list[PriceVariant] | None = None) -> StoredPrice:
    info = ModelInfo(
        id="m",
        match=ClauseEquals(equals="m"),
        prices=prices,  # type: ignore[arg-type]
        price_variants=variants,
    )
    provider = Provider(id="p", name="P", api_pattern="", models=[info])
    return StoredPrice(json.loads(json.dumps(document_of(provider, info))))


def rates(input_rate: str, output_rate: str = "0", **more: str) -> ModelPrice:
    named = {f"{name}_mtok": Decimal(rate) for name, rate in more.items()}
    return ModelPrice(input_mtok=Decimal(input_rate), output_mtok=Decimal(output_rate), **named)


def a_million(price: StoredPrice, at: datetime, **named: str) -> Decimal:
    counts = dict.fromkeys(COUNTERS, 0) | {"input_tokens": 1_000_000}
    return price.calculate(counts, at=at, named=tuple(named.items())).total


def hold(price: StoredPrice, at: datetime, *asked: tuple[str, str]) -> list[Decimal]:
    return [each.input for each in price.hold_rates(at.date(), asked)]


def test_a_price_by_the_hour_costs_that_of_the_hour_and_holds_the_dearest() -> None:
    night = TimeOfDateConstraint(time(16, 30, tzinfo=UTC), time(0, 30, tzinfo=UTC))
    price = stored(
        [ConditionalPrice(prices=rates("2")), ConditionalPrice(night, prices=rates("1"))]
    )

    assert a_million(price, NOON) == 2
    assert a_million(price, NOON.replace(hour=16, minute=30)) == 1
    assert a_million(price, NOON.replace(hour=0, minute=29)) == 1
    assert hold(price, NOON) == hold(price, NOON.replace(hour=23)) == [Decimal(2)]


def test_a_dated_price_begins_on_its_day() -> None:
    later = StartDateConstraint(NOON.date() + timedelta(days=1))
    price = stored(
        [ConditionalPrice(prices=rates("2")), ConditionalPrice(later, prices=rates("5"))]
    )

    assert (a_million(price, NOON), a_million(price, NOON + timedelta(days=1))) == (2, 5)
    assert (hold(price, NOON), hold(price, NOON + timedelta(days=1))) == ([2], [5])


def test_a_tier_of_service_is_held_at_the_dearest_unless_the_request_names_one() -> None:
    price = stored(
        rates("2"),
        [
            PriceVariant({"service_tier": "flex"}, rates("1")),
            PriceVariant({"service_tier": "priority"}, rates("4")),
            PriceVariant({"speed": "fast"}, rates("12")),
        ],
    )

    assert hold(price, NOON) == [4]
    assert hold(price, NOON, ("service_tier", "flex")) == [1]
    assert hold(price, NOON, ("service_tier", "default")) == [2]
    assert hold(price, NOON, ("speed", "fast"), ("service_tier", "default")) == [12]
    assert a_million(price, NOON, service_tier="flex") == 1
    assert a_million(price, NOON, speed="fast") == 12


def test_where_request_and_answer_name_different_tiers_the_dearer_is_taken() -> None:
    price = stored(rates("2"), [PriceVariant({"service_tier": "flex"}, rates("1"))])
    counts = dict.fromkeys(COUNTERS, 0) | {"input_tokens": 1_000_000}

    for asked, named in (("flex", "default"), ("default", "flex")):
        found = price.calculate(
            counts,
            at=NOON,
            requested=(("service_tier", asked),),
            named=(("service_tier", named),),
        )
        assert found.total == 2


def test_a_tier_of_service_that_the_list_does_not_know_has_no_rate() -> None:
    price = stored(rates("2"))
    counts = dict.fromkeys(COUNTERS, 0) | {"input_tokens": 1_000_000}

    found = price.calculate(counts, at=NOON, named=(("service_tier", "priority"),))

    assert (found.total, found.unpriced) == (2, ("service_tier",))


def test_anthropic_names_a_batch_as_a_tier_of_service() -> None:
    price = stored(rates("2"), [PriceVariant({"processing": "batch"}, rates("1"))])
    counts = dict.fromkeys(COUNTERS, 0) | {"input_tokens": 1_000_000}
    usage = Usage(1_000_000, service_tier="batch")

    found = price.calculate(counts, at=NOON, named=usage.named)

    assert (found.total, found.unpriced) == (1, ())


@pytest.mark.parametrize(
    "prices",
    [
        ModelPrice(output_mtok=Decimal(1)),
        ModelPrice(input_mtok=Decimal(1), output_mtok=Decimal(2), output_image_mtok=Decimal(30)),
        ModelPrice(input_mtok=Decimal(1), output_mtok=Decimal(2), audio_hours=Decimal(3)),
        [ConditionalPrice(prices=rates("1")), ConditionalPrice(prices=ModelPrice())],
    ],
)
def test_a_model_whose_calls_cost_what_nobody_counts_is_not_priced(prices: object) -> None:
    with pytest.raises(PriceUnusable):
        stored(prices)


def test_a_rate_that_is_no_dearer_than_its_whole_needs_no_counter() -> None:
    cheaper = rates("3", "8", output_citation="2")

    assert stored(cheaper).hold_rates(NOON.date(), ())[0].output == 8


def test_a_condition_of_a_newer_library_is_not_dropped() -> None:
    class Weekday:
        def active(self, request_timestamp: datetime) -> bool:
            return True

    with pytest.raises(PriceUnusable):
        stored([ConditionalPrice(Weekday(), prices=rates("1"))])  # type: ignore[arg-type]


def test_a_rate_that_the_installed_library_does_not_know_is_not_dropped() -> None:
    with pytest.raises(PriceUnusable):
        StoredPrice({"provider": "p", "model": "m", "prices": {"input_mtok": "1", "thoughts": "9"}})


def test_what_the_library_refuses_is_no_error_of_another_kind() -> None:
    price = stored(rates("1", cache_read="0.1", cache_write="2"))
    counts = dict.fromkeys(COUNTERS, 0) | {"input_tokens": 5, "cached_input_tokens": 6}

    with pytest.raises(PriceUnusable):
        price.calculate(counts, at=NOON)


def test_tiers_survive_the_way_through_json() -> None:
    tiered = TieredPrices(Decimal("1.10"), [Tier(10, Decimal("2.0000001"))])
    price = stored(ModelPrice(input_mtok=tiered, output_mtok=Decimal("1E+1")))
    counts = dict.fromkeys(COUNTERS, 0)

    assert price.calculate(counts | {"input_tokens": 10}, at=NOON).total == Decimal("0.000011")
    assert price.calculate(counts | {"input_tokens": 11}, at=NOON).total == rounded(
        Decimal("0.0000220000011")
    )
