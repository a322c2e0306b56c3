"""A complete price, kept as JSON, and what the price library says that a call costs by it.

The document has the form of the library's own data: prices by price key (`input_mtok`), decimals as
text, tiers, dated and hourly prices, variants.  The arithmetic is the library's, on that document
and never on its installed list, so that an old row is computed again after every upgrade.

Source: genai-prices, `types.ModelInfo.calc_price`; units in `data_units`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import ROUND_CEILING, ROUND_DOWN, Context, Decimal, localcontext
from functools import lru_cache
from typing import Any

from genai_prices import Usage as Counted
from genai_prices.data_units import unit_data
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

Document = dict[str, Any]
Rate = Decimal | TieredPrices
Constraint = StartDateConstraint | TimeOfDateConstraint | None
Contexts = tuple[tuple[str, str], ...]

PLACES = Decimal(1).scaleb(-12)
#: 24 digits in the database, and room for the product of a rate and a count.
EXACT = Context(prec=60)
MILLION = 1_000_000
THOUSAND = 1_000

#: A counter of the wire: the library's name for it, and of its rate.
COUNTERS = {
    "input_tokens": ("input_tokens", "input_mtok"),
    "cached_input_tokens": ("cache_read_tokens", "cache_read_mtok"),
    "cache_write_tokens": ("cache_write_tokens", "cache_write_mtok"),
    "cache_write_1h_tokens": ("cache_write_1h_tokens", "cache_write_1h_mtok"),
    "input_audio_tokens": ("input_audio_tokens", "input_audio_mtok"),
    "cached_audio_tokens": ("cache_audio_read_tokens", "cache_audio_read_mtok"),
    "output_tokens": ("output_tokens", "output_mtok"),
    "reasoning_tokens": ("output_reasoning_tokens", "output_reasoning_mtok"),
    "output_audio_tokens": ("output_audio_tokens", "output_audio_mtok"),
    "searches": ("web_searches", "web_searches_kcount"),
}
#: Where both kinds have rates the library wants one for what is both, which nobody counts.
JOINS = {
    "cache_audio_write": ("cache_write_tokens", "input_audio_tokens"),
    "cache_audio_write_1h": ("cache_write_1h_tokens", "input_audio_tokens"),
    "output_audio_reasoning": ("reasoning_tokens", "output_audio_tokens"),
}
_UNCOUNTED = {f"{name}_tokens": 0 for name in JOINS}
CALL_KEY = "requests_kcount"
SEARCH_KEY = COUNTERS["searches"][1]
#: All tokens of one direction being of one kind: what the dearest of them is looked for among.
INPUT_KINDS = (
    ("input_tokens",),
    ("input_tokens", "cached_input_tokens"),
    ("input_tokens", "cache_write_tokens"),
    ("input_tokens", "cache_write_tokens", "cache_write_1h_tokens"),
    ("input_tokens", "input_audio_tokens"),
    ("input_tokens", "input_audio_tokens", "cached_input_tokens", "cached_audio_tokens"),
)
OUTPUT_KINDS = (
    ("output_tokens",),
    ("output_tokens", "reasoning_tokens"),
    ("output_tokens", "output_audio_tokens"),
)
_UNITS = {unit["price_key"]: unit["dimensions"] for unit in unit_data.values()}
_COUNTED_KEYS = {price_key for _, price_key in COUNTERS.values()} | {CALL_KEY}
#: An account may be set to any tier, so that a call may get one that its request did not name.
CHOSEN_BY_ACCOUNT = "service_tier"
#: Words by which providers name what is priced as the list says first.
STANDARD = frozenset({"default", "standard", "auto", "on_demand"})
HOLDS_KEPT = 4096


class PriceUnusable(Exception):
    """A price from which nothing can be computed: what it means is not known."""


@dataclass(frozen=True)
class Calculated:
    """What a call costs.

    :param split: the cost by the counter whose rate it is, a token that is counted as a part being
        priced there and not in its whole; `calls` for what each call costs.
    :param unpriced: what was counted or named, and has no rate: the true cost is above `total`.
    """

    total: Decimal
    split: dict[str, Decimal]
    unpriced: tuple[str, ...]


@dataclass(frozen=True)
class HoldRates:
    """The dearest rates for calls of more than `above` input tokens.

    Per million tokens, per thousand searches, and per call.
    """

    above: int
    input: Decimal
    output: Decimal
    search: Decimal
    call: Decimal

    def amount(self, *, input_tokens: int, output_tokens: int, searches: int) -> Decimal:
        """Return what so many of the dearest cost, exactly."""
        tokens = input_tokens * self.input + output_tokens * self.output
        return tokens / MILLION + searches * self.search / THOUSAND + self.call

    def covers(self, other: HoldRates) -> bool:
        """Tell whether no call costs more by `other` than by this."""
        return self.above <= other.above and all(
            mine >= theirs
            for mine, theirs in (
                (self.input, other.input),
                (self.output, other.output),
                (self.search, other.search),
                (self.call, other.call),
            )
        )


class StoredPrice:
    """A price as it was loaded from its document.

    :raises PriceUnusable: the document says something that the installed library does not know.
    """

    def __init__(self, document: Document) -> None:
        self._info = ModelInfo(
            id=document["model"],
            match=ClauseEquals(equals=document["model"]),
            prices=_loaded_prices(document["prices"]),
            price_variants=[_loaded_variant(each) for each in document.get("variants", ())],
        )
        # The library applies variants to models of the provider's own list only.
        self._provider = Provider(
            id=document["provider"],
            name=document["provider"],
            api_pattern="",
            models=[self._info],
        )

    def calculate(
        self,
        counts: Mapping[str, int],
        *,
        at: datetime,
        requested: Contexts = (),
        named: Contexts = (),
    ) -> Calculated:
        """Return what a call of these counts costs at an instant.

        :param counts: by counter of the wire.
        :param requested: the contexts that the request named, `named` those of the answer: where
            the two differ, the dearer is taken.
        :raises PriceUnusable: the library computes nothing from these counts.
        """
        ways = [dict(requested) | dict(named), dict(named) | dict(requested)]
        counted = _counted(counts)
        with localcontext(EXACT):
            found = [self._by_library(counted, at, way) for way in ways[: 1 + (ways[0] != ways[1])]]
            total, prices = max(found, key=lambda each: each[0])
            split = self._split(counts, counted, prices, total)
        unpriced = [
            name
            for name in ("output_tokens", "searches")
            if counts.get(name) and prices.get(COUNTERS[name][1]) is None
        ]
        unpriced += [key for key, value in named if not self.knows(key, value, at)]
        return Calculated(rounded(total), split, tuple(unpriced))

    def has(self, price_key: str, at: datetime) -> bool:
        """Tell whether the list has a rate of that name at an instant, in no special context."""
        return vars(self._info.get_prices(at)).get(price_key) is not None

    def base_rates(self, at: datetime) -> dict[str, Decimal]:
        """Return the rates of small calls at an instant by price key, in no special context."""
        return dict(vars(_at_tier(self._info.get_prices(at), 0)))

    def knows(self, key: str, value: str, at: datetime) -> bool:
        """Tell whether it is known what a call in the context `key=value` costs at an instant."""
        if value in STANDARD:
            return True
        return any(
            variant.when == {key: value} and _active(variant.constraint, at)
            for variant in self._info.price_variants or ()
        )

    def hold_rates(self, day: date, requested: Contexts) -> tuple[HoldRates, ...]:
        """Return the dearest rates of a day in UTC, over its hours and the tiers of service.

        :param requested: the contexts that the request named.
        :raises PriceUnusable: the library computes nothing from this price.
        """
        return _hold_rates(self, day, requested)

    @property
    def variants(self) -> tuple[PriceVariant, ...]:
        """Return what the price is in special contexts."""
        return tuple(self._info.price_variants or ())

    @property
    def by_time(self) -> bool:
        """Tell whether what a call costs depends on when it was reserved."""
        constraints = [variant.constraint for variant in self.variants]
        return not isinstance(self._info.prices, ModelPrice) or any(constraints)

    def tier_starts(self, at: datetime) -> list[int]:
        """Return the counts of input above which other rates apply, in no special context."""
        return _tier_starts(self._info.get_prices(at))

    def at_tier(self, counts: Mapping[str, int], at: datetime, above: int) -> Decimal:
        """Return what counts cost at the rates of inputs just above `above`, whatever theirs is.

        :raises PriceUnusable: the library computes nothing from them.
        """
        return _calc(_at_tier(self._info.get_prices(at), above), counts)["total_price"]

    def _price_sets(self, day: date, requested: Contexts) -> list[ModelPrice]:
        contexts = [dict(requested)]
        if CHOSEN_BY_ACCOUNT not in contexts[0]:
            values = {v.when.get(CHOSEN_BY_ACCOUNT) for v in self._info.price_variants or ()}
            contexts += [
                contexts[0] | {CHOSEN_BY_ACCOUNT: value} for value in sorted(filter(None, values))
            ]
        found: list[ModelPrice] = []
        for at in self._instants(day):
            for context in contexts:
                prices = self._info.get_prices(at, context or None)
                if prices not in found:
                    found.append(prices)
        return found

    def _instants(self, day: date) -> list[datetime]:
        """Return the instants of a day at which other prices may begin to apply."""
        prices = self._info.prices
        constraints = [] if isinstance(prices, ModelPrice) else [c.constraint for c in prices]
        constraints += [variant.constraint for variant in self._info.price_variants or ()]
        times = {time(0)}
        for constraint in constraints:
            if isinstance(constraint, TimeOfDateConstraint):
                for edge in (constraint.start_time, constraint.end_time):
                    aware = datetime.combine(day, edge if edge.tzinfo else edge.replace(tzinfo=UTC))
                    times.add(aware.astimezone(UTC).time())
        return [datetime.combine(day, each, UTC) for each in sorted(times)]

    def _by_library(
        self, counted: Counted, at: datetime, context: dict[str, str]
    ) -> tuple[Decimal, dict[str, Rate | None]]:
        try:
            answer = self._info.calc_price(
                counted,
                self._provider,
                genai_request_timestamp=at,
                price_context=context or None,
            )
        except (ValueError, ArithmeticError) as error:
            raise PriceUnusable(str(error)) from error
        return answer.total_price, dict(vars(answer.model_price))

    def _split(
        self,
        counts: Mapping[str, int],
        counted: Counted,
        prices: dict[str, Rate | None],
        total: Decimal,
    ) -> dict[str, Decimal]:
        """Return the parts of a total, by the library with all other rates at 0.

        They are rounded so that they add up to the rounded total.
        """
        names = {"calls": CALL_KEY} | {name: COUNTERS[name][1] for name in counts if counts[name]}
        *first, last = [name for name, key in names.items() if prices.get(key) is not None] or [""]
        nothing = {key: Decimal(0) for key, value in prices.items() if value is not None}
        parts = {
            name: ModelPrice(**nothing | {names[name]: prices[names[name]]}).calc_price(counted)[
                "total_price"
            ]
            for name in first
        }
        # What is left is the last one's.
        parts[last] = total - sum(parts.values())
        split = {name: part.quantize(PLACES, ROUND_DOWN) for name, part in parts.items() if part}
        if split:
            largest = max(split, key=lambda name: split[name])
            split[largest] += rounded(total) - sum(split.values())
        return split


def rounded(amount: Decimal) -> Decimal:
    """Return `amount` rounded up to the places that the database keeps."""
    return amount.quantize(PLACES, rounding=ROUND_CEILING, context=EXACT)


@lru_cache(maxsize=HOLDS_KEPT)
def _hold_rates(price: StoredPrice, day: date, requested: Contexts) -> tuple[HoldRates, ...]:
    with localcontext(EXACT):
        found = [
            _dearest(_at_tier(prices, start), start)
            for prices in price._price_sets(day, requested)
            for start in (0, *_tier_starts(prices))
        ]
    kept: list[HoldRates] = []
    for rates in sorted(found, key=lambda each: (each.above, -each.input, -each.output)):
        if not any(other.covers(rates) for other in kept):
            kept.append(rates)
    return tuple(kept)


def _dearest(prices: ModelPrice, above: int) -> HoldRates:
    """Return the dearest rates of one tier: what a million of each kind costs by the library."""
    known = vars(prices)

    def of(kinds: Iterable[tuple[str, ...]], direction: str) -> Decimal:
        return max(
            _calc(prices, dict.fromkeys(kind, MILLION))[direction]
            for kind in kinds
            if kind[1:] == () or COUNTERS[kind[-1]][1] in known
        )

    call = _calc(prices, {})["total_price"]
    return HoldRates(
        above=above,
        input=of(INPUT_KINDS, "input_price"),
        output=of(OUTPUT_KINDS, "output_price"),
        search=_calc(prices, {"searches": THOUSAND})["total_price"] - call,
        call=call,
    )


def _calc(prices: ModelPrice, counts: Mapping[str, int]) -> dict[str, Decimal]:
    try:
        return dict(prices.calc_price(_counted(counts)))  # type: ignore[arg-type]
    except (ValueError, ArithmeticError) as error:
        raise PriceUnusable(str(error)) from error


def _counted(counts: Mapping[str, int]) -> Counted:
    """Return counts as the library takes them, every one of them stated."""
    named = {key: counts.get(name, 0) for name, (key, _) in COUNTERS.items()}
    return Counted(**named, **_UNCOUNTED)


def _tier_starts(prices: ModelPrice) -> list[int]:
    tiered = [value for value in vars(prices).values() if isinstance(value, TieredPrices)]
    return sorted({tier.start for value in tiered for tier in value.tiers})


def _at_tier(prices: ModelPrice, start: int) -> ModelPrice:
    """Return the rates of calls whose input is just above `start`."""

    def at(value: Rate) -> Decimal:
        if not isinstance(value, TieredPrices):
            return value
        reached = [tier.price for tier in value.tiers if start and tier.start <= start]
        return reached[-1] if reached else value.base

    return ModelPrice(
        **{key: at(value) for key, value in vars(prices).items() if value is not None}
    )


def _active(constraint: Constraint, at: datetime) -> bool:
    return constraint is None or constraint.active(at)


# From the library's objects to the document ------------------------------------------------------


def document_of(provider: Provider, info: ModelInfo) -> Document:
    """Return the document of a model as the library lists it.

    :raises PriceUnusable: calls of it cost what the counters of the wire cannot tell, or the list
        says something that a document cannot.
    """
    prices = info.prices
    standard = [prices] if isinstance(prices, ModelPrice) else [each.prices for each in prices]
    variants = list(info.price_variants or ())
    for each in standard:
        _need_counted(each)
    if not any(info is model for model in provider.models):
        # Listed by another provider: the library applies no variants then.
        variants = []
    stored: Document = {
        "provider": provider.id,
        "model": info.id,
        "prices": _dumped_prices(prices)
        if isinstance(prices, ModelPrice)
        else [_constrained(each) for each in prices],
    }
    if variants:
        stored["variants"] = [_constrained(each) | {"when": dict(each.when)} for each in variants]
    return stored


def _need_counted(prices: ModelPrice) -> None:
    """Refuse prices by which a call may cost more than its counters say.

    :raises PriceUnusable: there is no rate for input tokens, or one by something not counted.
    """
    known = {key: value for key, value in vars(prices).items() if value is not None}
    if "input_mtok" not in known:
        raise PriceUnusable("it has no rate for input tokens")
    for key in known.keys() - _COUNTED_KEYS:
        unit = _UNITS.get(key, {})
        if unit.get("family") == "tool_calls":
            # Of a tool: the request that names it is refused by itself.
            continue
        whole = known.get("input_mtok" if unit.get("direction") == "input" else "output_mtok")
        if unit.get("family") != "tokens" or not _no_dearer(known[key], whole):
            raise PriceUnusable(f"its calls cost {key}, which is not counted")


def _no_dearer(part: Rate, whole: Rate | None) -> bool:
    return whole is not None and max(_rates_of(part)) <= min(_rates_of(whole))


def _rates_of(value: Rate) -> list[Decimal]:
    if isinstance(value, TieredPrices):
        return [value.base, *(tier.price for tier in value.tiers)]
    return [value]


def _constrained(each: ConditionalPrice | PriceVariant) -> Document:
    found: Document = {"prices": _dumped_prices(each.prices)}
    match each.constraint:
        case None:
            pass
        case StartDateConstraint(start_date=start):
            found["constraint"] = {"start_date": start.isoformat()}
        case TimeOfDateConstraint(start_time=start_time, end_time=end_time):
            found["constraint"] = {
                "start_time": start_time.isoformat(),
                "end_time": end_time.isoformat(),
            }
        case _:
            raise PriceUnusable(f"it has a condition that is not known: {each.constraint}")
    return found


def _dumped_prices(prices: ModelPrice) -> Document:
    return {key: dumped(value) for key, value in vars(prices).items() if value is not None}


def dumped(value: Rate) -> Any:
    """Return a rate as it stands in a document."""
    if isinstance(value, TieredPrices):
        tiers = [{"start": tier.start, "price": f"{tier.price:f}"} for tier in value.tiers]
        return {"base": f"{value.base:f}", "tiers": tiers}
    return f"{value:f}"


# And back ----------------------------------------------------------------------------------------


def _loaded_prices(value: Any) -> ModelPrice | list[ConditionalPrice]:
    if isinstance(value, list):
        return [
            ConditionalPrice(_loaded_constraint(each), prices=_loaded_rates(each["prices"]))
            for each in value
        ]
    return _loaded_rates(value)


def _loaded_rates(rates: Mapping[str, Any]) -> ModelPrice:
    if unknown := rates.keys() - _UNITS.keys():
        # The library would leave them out with a warning, and the call would be too cheap.
        raise PriceUnusable(f"the installed list does not know {', '.join(sorted(unknown))}")
    return ModelPrice(**{key: _loaded_rate(value) for key, value in rates.items()})


def _loaded_rate(value: Any) -> Rate:
    if isinstance(value, Mapping):
        tiers = [Tier(tier["start"], Decimal(tier["price"])) for tier in value["tiers"]]
        return TieredPrices(Decimal(value["base"]), tiers)
    return Decimal(value)


def _loaded_variant(each: Mapping[str, Any]) -> PriceVariant:
    return PriceVariant(
        when=dict(each["when"]),
        prices=_loaded_rates(each["prices"]),
        constraint=_loaded_constraint(each),
    )


def _loaded_constraint(each: Mapping[str, Any]) -> Constraint:
    stated = each.get("constraint")
    if stated is None:
        return None
    if "start_date" in stated:
        return StartDateConstraint(date.fromisoformat(stated["start_date"]))
    return TimeOfDateConstraint(
        time.fromisoformat(stated["start_time"]), time.fromisoformat(stated["end_time"])
    )
