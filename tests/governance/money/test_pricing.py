"""What tokens cost, and which window an instant lies in."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal, localcontext
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from governance.core.errors import InvalidArgument
from governance.money.pricing import (
    SEARCHES_HELD,
    OddUsage,
    PriceList,
    RateSet,
    Terms,
    Usage,
    countable,
    document_of_first_rates,
    document_of_rates,
    read_usage,
    rounded,
    text_of,
    window_of,
)

AT = datetime(2026, 11, 30, 12, tzinfo=UTC)
rates = st.decimals(0, 1000, places=6)
counts = st.integers(0, 10**6)
rate_sets = st.builds(
    RateSet,
    st.just(0),
    rates,
    rates,
    cached_input=st.none() | rates,
    reasoning=st.none() | rates,
    cache_write=st.none() | rates,
    input_audio=st.none() | rates,
    output_audio=st.none() | rates,
)


def price(*sets: RateSet, **more: Decimal) -> PriceList:
    document = document_of_rates("local", "model", sets, **more)
    return PriceList(1, "v1", json.dumps(document))


def rate_set(above: int, *values: str, **more: str) -> RateSet:
    return RateSet(above, *map(Decimal, values), **{k: Decimal(v) for k, v in more.items()})


def cost(listed: PriceList, usage: Usage) -> Decimal:
    return listed.cost(usage, at=AT).total


def bound(listed: PriceList, inputs: int, outputs: int) -> Decimal:
    return listed.upper_bound(input_tokens=inputs, output_tokens=outputs, at=AT)


def test_cached_tokens_are_inside_input_and_reasoning_inside_output():
    listed = price(rate_set(0, "2", "10", "0.5", "20"), call_rate=Decimal("0.001"))

    found = cost(listed, Usage(1_000_000, 500_000, 400_000, 100_000))

    assert found == Decimal("0.6") * 2 + Decimal("0.4") / 2 + 4 + 2 + Decimal("0.001")


def test_what_is_written_to_a_cache_is_inside_input_and_the_hour_inside_the_writes():
    listed = price(rate_set(0, "1", "5", "0.1", cache_write="1.25", cache_write_1h="2"))
    usage = Usage(
        1_000_000, cached_input_tokens=100_000, cache_write_tokens=300_000,
        cache_write_1h_tokens=200_000,
    )  # fmt: skip

    found = listed.cost(usage, at=AT)

    assert found.split == {
        "input_tokens": Decimal("0.6"),
        "cached_input_tokens": Decimal("0.01"),
        "cache_write_tokens": Decimal("0.125"),
        "cache_write_1h_tokens": Decimal("0.4"),
    }
    assert found.total == sum(found.split.values())


def test_audio_and_searches_have_rates_of_their_own():
    listed = price(
        rate_set(0, "1", "2", "0.1", input_audio="10", cached_audio="0.5", output_audio="20"),
        search_rate=Decimal(10),
    )
    usage = Usage(
        1000, 500, cached_input_tokens=300, input_audio_tokens=400, cached_audio_tokens=100,
        output_audio_tokens=200, searches=3,
    )  # fmt: skip

    found = listed.cost(usage, at=AT)

    assert {name: part * 1_000_000 for name, part in found.split.items()} == {
        "input_tokens": 400,
        "cached_input_tokens": 20,
        "input_audio_tokens": 3000,
        "cached_audio_tokens": 50,
        "output_tokens": 600,
        "output_audio_tokens": 4000,
        "searches": 30_000,
    }


def test_without_a_rate_of_their_own_they_cost_what_the_others_cost():
    listed = price(rate_set(0, "2", "10"))

    assert cost(listed, Usage(1000, 100, 900, 50, 50, 10, 20)) == cost(listed, Usage(1000, 100))


def test_crossing_a_threshold_applies_its_rates_to_all_tokens():
    listed = price(rate_set(0, "1", "2"), rate_set(200_000, "3", "4"))

    assert cost(listed, Usage(200_000, 0)) == Decimal("0.2")
    assert cost(listed, Usage(200_001, 0)) == Decimal("0.600003")


@settings(max_examples=50)
@given(rate_sets, counts, counts, st.data())
def test_no_usage_within_the_estimate_costs_more_than_the_upper_bound(base, inputs, outputs, data):
    listed = price(base)
    used_in = data.draw(st.integers(0, inputs))
    used_out = data.draw(st.integers(0, outputs))
    cached = data.draw(st.integers(0, used_in))
    reasoning = data.draw(st.integers(0, used_out))
    usage = Usage(
        used_in,
        used_out,
        cached,
        reasoning,
        cache_write_tokens=data.draw(st.integers(0, used_in - cached)),
        output_audio_tokens=data.draw(st.integers(0, used_out - reasoning)),
    )

    assert cost(listed, usage) <= bound(listed, inputs, outputs)


def test_the_upper_bound_takes_the_dearest_tier_that_the_input_reaches():
    listed = price(rate_set(0, "3", "4"), rate_set(1000, "1", "1"))

    assert bound(listed, 2000, 0) == Decimal("0.006")


def test_the_upper_bound_takes_the_dearest_cache_write():
    listed = price(rate_set(0, "1", "5", "0.1", cache_write="1.25", cache_write_1h="2"))

    assert bound(listed, 1_000_000, 0) == 2


def test_amounts_are_rounded_up_to_twelve_places():
    assert cost(price(rate_set(0, "0.0000001", "0")), Usage(1, 0)) == Decimal("1E-12")


def test_the_parts_of_a_rounded_cost_add_up_to_it():
    listed = price(rate_set(0, "0.0000001", "0.0000003"))

    found = listed.cost(Usage(1, 1), at=AT)

    assert found.total == sum(found.split.values()) == Decimal("1E-12")


def test_a_model_without_a_rate_for_output_has_none():
    listed = price(RateSet(0, Decimal(2), None))

    assert bound(listed, 1_000_000, 1_000_000) == 2
    assert listed.cost(Usage(1_000_000, output_stated=False), at=AT).unpriced == ()
    assert listed.cost(Usage(1_000_000, 5), at=AT).unpriced == ("output_tokens",)


def test_output_that_was_not_counted_is_not_known_to_be_none():
    listed = price(rate_set(0, "2", "10"))

    assert listed.cost(Usage(5, output_stated=False), at=AT).unpriced == ("output_tokens",)


def test_searches_without_a_rate_are_not_free():
    assert price(rate_set(0, "2", "10")).cost(Usage(5, 5, searches=1), at=AT).unpriced == (
        "searches",
    )


@pytest.mark.parametrize(
    ("requirements", "unpriced"),
    [
        (["tools", "vision"], False),
        (["tool=web_search"], False),
        (["searches=3"], False),
        (["tool=code_execution"], True),
        (["tool=web_search", "tool=file_search"], True),
        (["service_tier=default"], False),
        (["service_tier=priority"], True),
        (["speed=fast"], True),
    ],
)
def test_a_request_that_names_what_has_no_rate_is_unpriced(requirements, unpriced):
    listed = price(rate_set(0, "2", "10"), search_rate=Decimal(10))

    assert listed.unpriced(Terms.read(requirements), AT) is unpriced


def test_a_tool_without_a_rate_is_unpriced_and_a_search_is_held():
    free, searching = rate_set(0, "0", "0"), Terms.read(["tool=web_search", "searches=3"])

    assert price(free).unpriced(searching, AT)
    assert price(free, search_rate=Decimal(10)).upper_bound(
        input_tokens=1, output_tokens=1, at=AT, terms=searching
    ) == Decimal("0.03")
    assert Terms.read(["tool=web_search"]).searches == SEARCHES_HELD


@pytest.mark.parametrize(
    "requirements",
    [["searches=many"], ["searches=-1"], ["searches=1", "searches=2"], ["speed=a", "speed=b"]],
)
def test_terms_that_say_nothing_or_two_things_are_refused(requirements):
    with pytest.raises(InvalidArgument):
        Terms.read(requirements)


@pytest.mark.parametrize(
    "usage",
    [
        {"input_tokens": -1, "output_tokens": 0},
        {"input_tokens": True, "output_tokens": 0},
        {"input_tokens": 1.0, "output_tokens": 0},
        {"input_tokens": "1", "output_tokens": 0},
        {"input_tokens": None, "output_tokens": 0},
        {"input_tokens": 10**10, "output_tokens": 0},
        {"input_tokens": 5, "output_tokens": 0, "cached_input_tokens": 6},
        {"input_tokens": 5, "output_tokens": 0, "cached_input_tokens": 3, "cache_write_tokens": 3},
        {"input_tokens": 5, "output_tokens": 0, "cache_write_1h_tokens": 1},
        {"input_tokens": 5, "output_tokens": 0, "input_audio_tokens": 6},
        {"input_tokens": 5, "output_tokens": 1, "reasoning_tokens": 2},
        {"input_tokens": 5, "output_tokens": 1, "searches": -1},
        {"input_tokens": 5, "output_tokens": 1, "service_tier": 3},
        {"input_tokens": 5, "output_tokens": 1, "speed": "x" * 61},
        {"input_tokens": 5, "output_tokens": 1, "cost": 3},
        {},
        [],
        "none",
        0,
    ],
)
def test_usage_that_cannot_be_is_odd_and_kept(usage):
    found = read_usage(usage)

    assert isinstance(found, OddUsage)
    assert (found.sent, found.faults[0].pointer[:6]) == (usage, "/usage")


def test_no_usage_is_not_a_usage_of_zero():
    assert read_usage(None) is None
    assert read_usage({"input_tokens": 0, "output_tokens": 0, "reasoning_tokens": None}) == Usage(
        0, 0
    )


def test_a_usage_of_the_first_release_is_identified_as_it_was():
    assert Usage(4, 3, 2, 1).stated == {
        "input_tokens": 4,
        "output_tokens": 3,
        "cached_input_tokens": 2,
        "reasoning_tokens": 1,
    }
    assert Usage(4, 3, searches=1).stated["searches"] == 1


@given(
    rate_sets.map(lambda base: (base,))
    | st.just(
        (
            RateSet(0, Decimal(3), Decimal(4), Decimal(1)),
            RateSet(1000, Decimal(1), Decimal(9), None, Decimal(12)),
        )
    ),
    counts,
    counts,
    st.data(),
)
def test_a_price_of_the_first_release_costs_and_holds_what_it_did(sets, inputs, outputs, data):
    usage = Usage(
        inputs, outputs, data.draw(st.integers(0, inputs)), data.draw(st.integers(0, outputs))
    )
    row = [
        "0.001",
        *([[r.above_input_tokens, *_texts(r)] for r in sets[:1]]),
        [[r.above_input_tokens, *_texts(r)] for r in sets[1:]],
    ]
    listed = PriceList(1, "v1", document_of_first_rates(json.dumps(row)))

    assert cost(listed, usage) == rounded(_first_cost(sets, usage) + Decimal("0.001"))
    reached = [each for each in sets if inputs > each.above_input_tokens or each is sets[0]]
    dearest = max(
        _first_cost([each], Usage(inputs, outputs, inputs * cached, outputs * thought))
        for each in reached
        for cached in (0, 1)
        for thought in (0, 1)
    )
    assert bound(listed, inputs, outputs) == rounded(dearest + Decimal("0.001"))


def _texts(each: RateSet) -> list[str | None]:
    stated = (each.input, each.output, each.cached_input, each.reasoning)
    return [None if rate is None else str(rate) for rate in stated]


def _first_cost(sets: Any, usage: Usage) -> Decimal:
    """The arithmetic of the first release, in its words."""
    applicable = sets[0]
    for each in sets[1:]:
        if usage.input_tokens > each.above_input_tokens:
            applicable = each
    cached = applicable.input if applicable.cached_input is None else applicable.cached_input
    reasoning = applicable.output if applicable.reasoning is None else applicable.reasoning
    with localcontext(prec=60):
        return (
            (usage.input_tokens - usage.cached_input_tokens) * applicable.input
            + usage.cached_input_tokens * cached
            + (usage.output_tokens - usage.reasoning_tokens) * applicable.output
            + usage.reasoning_tokens * reasoning
        ) / 1_000_000


@pytest.mark.parametrize(
    ("amount", "text"),
    [("0", "0.00"), ("1.5", "1.50"), ("0.000000000001", "0.000000000001"), ("1E+3", "1000.00")],
)
def test_amounts_are_written_in_plain_digits(amount, text):
    assert text_of(Decimal(amount)) == text


@pytest.mark.parametrize(
    ("kind", "at", "start", "end"),
    [
        ("hour", (2026, 12, 31, 23, 59, 59), (2026, 12, 31, 23), (2027, 1, 1)),
        ("hour", (2026, 3, 1, 5), (2026, 3, 1, 5), (2026, 3, 1, 6)),
        ("day", (2026, 2, 28, 23, 59, 59), (2026, 2, 28), (2026, 3, 1)),
        ("day", (2026, 3, 1), (2026, 3, 1), (2026, 3, 2)),
        ("week", (2027, 1, 3, 23, 59, 59), (2026, 12, 28), (2027, 1, 4)),
        ("week", (2027, 1, 4), (2027, 1, 4), (2027, 1, 11)),
        ("month", (2026, 12, 31, 23, 59, 59), (2026, 12, 1), (2027, 1, 1)),
        ("month", (2027, 1, 1), (2027, 1, 1), (2027, 2, 1)),
    ],
)
def test_windows_are_half_open_in_utc(kind, at, start, end):
    bounds = window_of(kind, datetime(*at, tzinfo=UTC))

    assert bounds == (datetime(*start, tzinfo=UTC), datetime(*end, tzinfo=UTC))


def test_an_instant_in_another_zone_lies_in_its_utc_day():
    kathmandu = timezone(timedelta(hours=5, minutes=45))

    start, _ = window_of("day", datetime(2026, 1, 2, 3, 0, tzinfo=kathmandu))

    assert start == datetime(2026, 1, 1, tzinfo=UTC)


def test_no_window_has_no_end():
    start, end = window_of("none", datetime(2026, 1, 1, tzinfo=UTC))

    assert (start.year, end) == (1970, None)
    with pytest.raises(ValueError, match="year"):
        window_of("year", start)


@pytest.mark.parametrize(
    ("sent", "counted"),
    [
        ("120000", 120_000),
        (12.0, 12),
        ("9007199254740993", 10**9),
        (10**10, 10**9),
        ("00000000000000012", 12),
    ],
)
def test_a_count_in_another_form_is_counted(sent, counted):
    assert countable({"input_tokens": sent}).input_tokens == counted


@pytest.mark.parametrize("sent", ["many", "", "-5", 1.5, -1, True, None, [7], "\u0663"])
def test_what_is_no_count_is_not_counted(sent):
    assert countable({"input_tokens": sent}) is None
