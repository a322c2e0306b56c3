"""What tokens cost, and which window an instant lies in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governance.core.errors import InvalidArgument
from governance.money.pricing import PriceList, RateSet, Usage, text_of, window_of

rates = st.decimals(0, 1000, places=6)
counts = st.integers(0, 10**6)
rate_sets = st.builds(
    RateSet, st.just(0), rates, rates, cached_input=st.none() | rates, reasoning=st.none() | rates
)


def price(*sets: RateSet, call_rate: str = "0") -> PriceList:
    return PriceList(1, "v1", Decimal(call_rate), sets)


def rate_set(above: int, *values: str) -> RateSet:
    return RateSet(above, *map(Decimal, values))


def test_cached_tokens_are_inside_input_and_reasoning_inside_output():
    listed = price(rate_set(0, "2", "10", "0.5", "20"), call_rate="0.001")

    cost = listed.cost(Usage(1_000_000, 500_000, 400_000, 100_000))

    assert cost == Decimal("0.6") * 2 + Decimal("0.4") / 2 + 4 + 2 + Decimal("0.001")


def test_without_a_rate_of_their_own_they_cost_what_the_others_cost():
    listed = price(rate_set(0, "2", "10"))

    assert listed.cost(Usage(1000, 100, 900, 50)) == listed.cost(Usage(1000, 100))


def test_crossing_a_threshold_applies_its_rates_to_all_tokens():
    listed = price(rate_set(0, "1", "2"), rate_set(200_000, "3", "4"))

    assert listed.cost(Usage(200_000, 0)) == Decimal("0.2")
    assert listed.cost(Usage(200_001, 0)) == Decimal("0.600003")


@given(rate_sets, counts, counts, st.data())
def test_no_usage_within_the_estimate_costs_more_than_the_upper_bound(base, inputs, outputs, data):
    listed = price(base)
    used_in = data.draw(st.integers(0, inputs))
    used_out = data.draw(st.integers(0, outputs))
    usage = Usage(
        used_in,
        used_out,
        data.draw(st.integers(0, used_in)),
        data.draw(st.integers(0, used_out)),
    )

    assert listed.cost(usage) <= listed.upper_bound(input_tokens=inputs, output_tokens=outputs)


def test_the_upper_bound_takes_the_dearest_tier_that_the_input_reaches():
    listed = price(rate_set(0, "3", "4"), rate_set(1000, "1", "1"))

    assert listed.upper_bound(input_tokens=2000, output_tokens=0) == Decimal("0.006")


def test_amounts_are_rounded_up_to_twelve_places():
    assert price(rate_set(0, "0.0000001", "0")).cost(Usage(1, 0)) == Decimal("1E-12")


@pytest.mark.parametrize(
    "usage",
    [
        {"input_tokens": -1, "output_tokens": 0},
        {"input_tokens": True, "output_tokens": 0},
        {"input_tokens": 1.0, "output_tokens": 0},
        {"input_tokens": 10**10, "output_tokens": 0},
        {"input_tokens": 5, "output_tokens": 0, "cached_input_tokens": 6},
        {"input_tokens": 5, "output_tokens": 1, "reasoning_tokens": 2},
        {"input_tokens": 5},
        {"input_tokens": 5, "output_tokens": 1, "cost": 3},
    ],
)
def test_usage_that_cannot_be_is_refused(usage):
    with pytest.raises(InvalidArgument) as refused:
        Usage.read(usage)

    assert refused.value.errors[0].pointer.startswith("/usage/")


def test_no_usage_is_not_a_usage_of_zero():
    assert Usage.read(None) is None
    assert Usage.read({"input_tokens": 0, "output_tokens": 0, "reasoning_tokens": None}) == Usage(
        0, 0
    )


@pytest.mark.parametrize(
    ("amount", "text"),
    [("0", "0.00"), ("1.5", "1.50"), ("0.000000000001", "0.000000000001"), ("1E+3", "1000.00")],
)
def test_amounts_are_written_in_plain_digits(amount, text):
    assert text_of(Decimal(amount)) == text


@pytest.mark.parametrize(
    ("kind", "at", "start", "end"),
    [
        ("day", (2026, 2, 28, 23, 59, 59), (2026, 2, 28), (2026, 3, 1)),
        ("day", (2026, 3, 1), (2026, 3, 1), (2026, 3, 2)),
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
    with pytest.raises(ValueError, match="week"):
        window_of("week", start)
