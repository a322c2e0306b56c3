"""What a person stated as a price, had back from what is stored of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from governance.money.models import Price
from governance.money.pricing import RATE_OF, RateSet, document_of_first_rates
from governance.money.published import CALL_KEY, COUNTERS, SEARCH_KEY, THOUSAND, Document

#: The rates of a price of the first release, in the order of `document_of_first_rates`.
FIRST_RATES = ("input_rate", "output_rate", "cached_input_rate", "reasoning_rate")


@dataclass(frozen=True)
class StatedRates:
    """What a person stated as a price, as `document_of_rates` takes it."""

    rates: list[RateSet]
    call_rate: Decimal
    search_rate: Decimal | None


def rates_of_document(document: Document) -> StatedRates:
    """Return what gives the document of a stated price: the inverse of `document_of_rates`.

    A rate that followed from another one is stated.
    """
    prices = document["prices"]
    keys = {name: COUNTERS[name][1] for name in RATE_OF if COUNTERS[name][1] in prices}
    starts = {0} | {
        tier["start"]
        for key in keys.values()
        if isinstance(prices[key], dict)
        for tier in prices[key]["tiers"]
    }
    rates = []
    for start in sorted(starts):
        stated = {RATE_OF[name]: _at(prices[key], start) for name, key in keys.items()}
        rates.append(RateSet(start, **({"output": None} | stated)))  # type: ignore[arg-type]
    search_rate = prices.get(SEARCH_KEY)
    return StatedRates(
        rates,
        Decimal(prices.get(CALL_KEY, 0)) / THOUSAND,
        None if search_rate is None else Decimal(search_rate),
    )


def _at(rate: Any, start: int) -> Decimal:
    """Return the rate, as it stands in a document, of calls above a threshold."""
    if not isinstance(rate, dict):
        return Decimal(rate)
    at = {0: rate["base"]} | {tier["start"]: tier["price"] for tier in rate["tiers"]}
    return Decimal(at[max(each for each in at if each <= start)])


def rates_of(price: Price) -> StatedRates:
    """Return what was stated of an override."""
    if price.document is not None:
        return rates_of_document(price.document)
    base, *above = [
        [
            getattr(row, "above_input_tokens", 0),
            *(_text(getattr(row, name)) for name in FIRST_RATES),
        ]
        for row in [price, *price.tiers.order_by("above_input_tokens")]
    ]
    first = json.dumps([str(price.call_rate), base, above])
    return rates_of_document(json.loads(document_of_first_rates(first)))


def _text(rate: Decimal | None) -> str | None:
    return None if rate is None else str(rate)
