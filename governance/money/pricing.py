"""What was used, what a call costs by a stored price, and which window an instant lies in.

Amounts are Decimal and rounded up to 12 places, so that an estimate is never below the cost of
the same tokens.

Source: OpenTelemetry GenAI semantic conventions (input tokens include the cached ones, output
tokens the reasoning ones); the counters are those of genai-prices.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

from genai_prices.types import Tier, TieredPrices

from governance.core.errors import FieldFault, InvalidArgument
from governance.money.contents import NOTHING_MORE, Contents, is_content
from governance.money.published import (
    CALL_KEY,
    COUNTERS,
    JOINS,
    SEARCH_KEY,
    THOUSAND,
    Calculated,
    Contexts,
    Document,
    PriceUnusable,
    StoredPrice,
    dumped,
    rounded,
)

__all__ = [
    "NAMED",
    "OUTPUT_TOKENS_HELD",
    "RATE_OF",
    "SEARCHES_HELD",
    "TOKENS_MAX",
    "Calculated",
    "OddUsage",
    "PriceList",
    "PriceUnusable",
    "RateSet",
    "Terms",
    "Usage",
    "countable",
    "document_of_first_rates",
    "document_of_rates",
    "estimate_of",
    "is_amount",
    "is_term",
    "read_usage",
    "rounded",
    "stored_price",
    "text_of",
    "window_of",
]

#: More tokens than any call has; a count above it is a mistake, and its cost would not fit.
TOKENS_MAX = 10**9
#: What an answer may name beside its counts, which may change what they cost.
NAMED = ("service_tier", "processing", "speed")
NAME_CHARS_MAX = 60
#: What a request may name that changes what its call costs.
REQUESTED = (*NAMED, "search_type", "route")
#: The one tool of a provider's own whose uses are counted.
SEARCH_TOOL = "web_search"
#: What is held for a request that names the tool and not how often it may be used.
SEARCHES_HELD = 10
#: What is held for output where the request states no limit and its model has no lower one.
OUTPUT_TOKENS_HELD = 16_384
#: Parsed documents that a process keeps.
PRICES_KEPT = 1024
#: Each part and its whole.
WHOLES = (
    ("cached_input_tokens", "input_tokens"),
    ("cache_write_tokens", "input_tokens"),
    ("cache_write_1h_tokens", "cache_write_tokens"),
    ("input_audio_tokens", "input_tokens"),
    ("cached_audio_tokens", "input_audio_tokens"),
    ("cached_audio_tokens", "cached_input_tokens"),
    ("reasoning_tokens", "output_tokens"),
    ("output_audio_tokens", "output_tokens"),
)


@dataclass(frozen=True)
class Usage:
    """What the provider counted for one call, and how it says that it served it.

    `input_tokens` is the whole, with what was cached, written to a cache or audio inside it;
    `cache_write_tokens` is all that was written, `cache_write_1h_tokens` a part of it.

    :param output_stated: the provider counted output; embeddings have none.
    :raises InvalidArgument: a count is negative, or a part is larger than its whole.
    """

    input_tokens: int
    output_tokens: int = 0
    cached_input_tokens: int = 0
    reasoning_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_1h_tokens: int = 0
    input_audio_tokens: int = 0
    cached_audio_tokens: int = 0
    output_audio_tokens: int = 0
    searches: int = 0
    service_tier: str = ""
    processing: str = ""
    speed: str = ""
    output_stated: bool = True

    def __post_init__(self) -> None:
        if faults := [*self._miscounted(), *self._misnamed()] or [*self._unwhole()]:
            raise InvalidArgument("The usage is not valid.", errors=faults)

    def _miscounted(self) -> Iterable[FieldFault]:
        for name, count in self.counts.items():
            if type(count) is not int or not 0 <= count <= TOKENS_MAX:
                yield FieldFault(f"/usage/{name}", f"an integer from 0 to {TOKENS_MAX}")

    def _misnamed(self) -> Iterable[FieldFault]:
        for name in NAMED:
            value = getattr(self, name)
            if type(value) is not str or len(value) > NAME_CHARS_MAX:
                yield FieldFault(f"/usage/{name}", f"a text of up to {NAME_CHARS_MAX} characters")

    def _unwhole(self) -> Iterable[FieldFault]:
        for part, whole in WHOLES:
            if getattr(self, part) > getattr(self, whole):
                yield FieldFault(f"/usage/{part}", f"is inside {whole}")
        if self.cached_input_tokens + self.cache_write_tokens > self.input_tokens:
            yield FieldFault("/usage/cache_write_tokens", "is inside input_tokens, beside cached")

    @property
    def counts(self) -> dict[str, int]:
        """Return every counter of the wire with its count."""
        return {name: getattr(self, name) for name in COUNTERS}

    @property
    def texts(self) -> dict[str, str]:
        """Return what the answer named, by its names on the wire."""
        return {name: getattr(self, name) for name in NAMED}

    @property
    def named(self) -> Contexts:
        """Return the contexts that the answer named, as the price list calls them."""
        named = {name: getattr(self, name) for name in NAMED if getattr(self, name)}
        if named.get("service_tier") == "batch":
            # Anthropic names it so.
            named["processing"] = named.pop("service_tier")
        return tuple(named.items())

    @property
    def stated(self) -> dict[str, Any]:
        """Return what identifies this usage: the counters of the first release, and what is more.

        So an end that was recorded before there were more counters is still the same end.
        """
        always = ("input_tokens", "output_tokens", "cached_input_tokens", "reasoning_tokens")
        more = {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if each.name not in always and getattr(self, each.name) != each.default
        }
        return {name: getattr(self, name) for name in always} | more


@dataclass(frozen=True)
class OddUsage:
    """What was sent as usage and cannot be one. It is kept; the call is settled as unknown.

    :param sent: any JSON value.
    """

    sent: Any
    faults: tuple[FieldFault, ...]

    @property
    def stated(self) -> dict[str, Any]:
        return {"sent": self.sent}


def read_usage(sent: Any) -> Usage | OddUsage | None:
    """Return the usage that was sent, whatever it is; None where the provider reported none.

    Never raises: a result is not lost because its usage is odd (money, rule 2). A counter that is
    null was not counted.
    """
    if sent is None:
        return None
    if not isinstance(sent, Mapping):
        return OddUsage(sent, (FieldFault("/usage", "an object"),))
    counted = {name: value for name, value in sent.items() if value is not None}
    faults = [
        FieldFault(f"/usage/{name}", "is not known")
        for name in counted.keys() - {*COUNTERS, *NAMED}
    ]
    if "input_tokens" not in counted:
        faults.append(FieldFault("/usage/input_tokens", "is required"))
    if not faults:
        try:
            return Usage(**counted, output_stated="output_tokens" in counted)
        except InvalidArgument as fault:
            faults = list(fault.errors)
    return OddUsage(dict(sent), tuple(faults))


def countable(sent: Any) -> Usage | None:
    """Return what can be counted of usage that is odd; None where nothing can.

    A count that none can be is left out, one that is too large is the largest, and a whole is no
    less than its parts.
    """
    if not isinstance(sent, Mapping):
        return None
    counts: dict[str, Any] = dict.fromkeys(COUNTERS, 0) | {
        name: count for name in COUNTERS if (count := _counted(sent.get(name))) is not None
    }
    for part, whole in reversed(WHOLES):
        counts[whole] = max(counts[whole], counts[part])
    cached = counts["cached_input_tokens"] + counts["cache_write_tokens"]
    counts["input_tokens"] = min(TOKENS_MAX, max(counts["input_tokens"], cached))
    if not any(counts.values()):
        return None
    try:
        return Usage(**counts)
    except InvalidArgument:
        return None


def _counted(value: Any) -> int | None:
    """Return what a number means that was sent, as text or with a fraction of nothing as well."""
    if type(value) is str and value.isascii() and value.isdigit():
        # Of more digits than the largest has it is the largest.
        value = int(value.lstrip("0")[: len(str(TOKENS_MAX)) + 1] or 0)
    if type(value) is float and value.is_integer():
        value = int(value)
    return min(value, TOKENS_MAX) if type(value) is int and value >= 0 else None


@dataclass(frozen=True)
class Terms:
    """What a request says that changes what its call may cost.

    It says it among its requirements: `service_tier=flex`, `processing=batch`, `speed=fast`,
    `search_type=fast`, `route=NAME`; `tool=web_search` with `searches=5`, the most that it may use;
    and what it contains (`Contents`). All other requirements are capabilities.
    """

    contexts: Contexts = ()
    tools: tuple[str, ...] = ()
    searches: int = 0
    contents: Contents = NOTHING_MORE

    @classmethod
    def read(cls, requirements: Iterable[str]) -> Terms:
        """Return the terms among requirements.

        :raises InvalidArgument: one is stated twice, or a count is no number.
        """
        contents = Contents.read(requirements)
        stated = [each.partition("=") for each in sorted(set(requirements)) if is_term(each)]
        contexts = [(name, value) for name, _, value in stated if name in REQUESTED]
        tools = tuple(value for name, _, value in stated if name == "tool")
        counts = [value for name, _, value in stated if name == "searches"]
        if len(dict(contexts)) != len(contexts) or len(counts) > 1:
            raise InvalidArgument(errors=[FieldFault("/requirements", "each term once")])
        if not all(value.isascii() and value.isdigit() and len(value) <= 4 for value in counts):
            raise InvalidArgument(errors=[FieldFault("/requirements", "searches=0 to 9999")])
        searches = int(counts[0]) if counts else SEARCHES_HELD * (SEARCH_TOOL in tools)
        return cls(tuple(contexts), tools, searches, contents)


def is_term(requirement: str) -> bool:
    """Tell whether a requirement is one of the price, and not a capability of the model."""
    name, equals, _ = requirement.partition("=")
    priced = bool(equals) and (name in REQUESTED or name in ("tool", "searches"))
    return priced or is_content(requirement)


@dataclass(frozen=True)
class RateSet:
    """Rates per million tokens, for calls with more than `above_input_tokens` of input.

    A rate that is None is that of its larger kind. Without a rate for output a model has none.
    """

    above_input_tokens: int
    input: Decimal
    output: Decimal | None
    cached_input: Decimal | None = None
    reasoning: Decimal | None = None
    cache_write: Decimal | None = None
    cache_write_1h: Decimal | None = None
    input_audio: Decimal | None = None
    cached_audio: Decimal | None = None
    output_audio: Decimal | None = None

    @property
    def rates(self) -> dict[str, Decimal | None]:
        """Return the rates by counter of the wire."""
        return {name: getattr(self, RATE_OF[name]) for name in COUNTERS if name in RATE_OF}


#: The counters of tokens, each with the member of `RateSet` that has its rate.
RATE_OF = {name: name.removesuffix("_tokens") for name in COUNTERS if name.endswith("_tokens")}
#: Where a threshold states no rate of a kind that has one elsewhere, it is that of this kind.
_FALLBACK = {
    "cached_input_tokens": "input_tokens",
    "cache_write_tokens": "input_tokens",
    "cache_write_1h_tokens": "cache_write_tokens",
    "input_audio_tokens": "input_tokens",
    "cached_audio_tokens": "cached_input_tokens",
    "reasoning_tokens": "output_tokens",
    "output_audio_tokens": "output_tokens",
}


def document_of_rates(
    provider: str,
    model: str,
    rates: Sequence[RateSet],
    *,
    call_rate: Decimal = Decimal(0),
    search_rate: Decimal | None = None,
) -> Document:
    """Return the document of a price that a person states.

    :param rates: base rates first, then those above thresholds, ascending.
    :param search_rate: per thousand searches.
    """
    prices = {
        COUNTERS[name][1]: dumped(_rate(rates, name))
        for name in RATE_OF
        if any(each.rates[name] is not None for each in rates)
    }
    if {
        COUNTERS[name][1] for name in ("cached_input_tokens", "input_audio_tokens")
    } <= prices.keys():
        prices[COUNTERS["cached_audio_tokens"][1]] = dumped(_rate(rates, "cached_audio_tokens"))
    for join, (one, other) in JOINS.items():
        if COUNTERS[one][1] in prices and COUNTERS[other][1] in prices:
            prices[f"{join}_mtok"] = dumped(_rate(rates, other))
    if call_rate:
        prices[CALL_KEY] = dumped(call_rate * THOUSAND)
    if search_rate is not None:
        prices[SEARCH_KEY] = dumped(search_rate)
    return {"provider": provider, "model": model, "prices": prices}


@lru_cache(maxsize=PRICES_KEPT)
def document_of_first_rates(row: str) -> str:
    """Return the document, as JSON, of a price of the first release, which has none.

    :param row: JSON of the rate per call and of base rates and tiers, each `[above, input, output,
        cached, reasoning]`.
    """
    call_rate, base, above = json.loads(row)
    rates = [
        RateSet(start, *(None if rate is None else Decimal(rate) for rate in stated))  # type: ignore[arg-type]
        for start, *stated in [base, *above]
    ]
    return json.dumps(document_of_rates("", "", rates, call_rate=Decimal(call_rate)))


def _rate(rates: Sequence[RateSet], name: str) -> Decimal | TieredPrices:
    base, *above = [_filled(each, name) for each in rates]
    if not above:
        return base
    tiers = [
        Tier(each.above_input_tokens, rate) for each, rate in zip(rates[1:], above, strict=True)
    ]
    return TieredPrices(base, tiers)


def _filled(rates: RateSet, name: str) -> Decimal:
    found = rates.rates[name]
    while found is None and name in _FALLBACK:
        name = _FALLBACK[name]
        found = rates.rates[name]
    return Decimal(0) if found is None else found


@lru_cache(maxsize=PRICES_KEPT)
def stored_price(document: str) -> StoredPrice:
    """Return the price of a document, parsed once in a process.

    :raises PriceUnusable: the document says something that the installed library does not know.
    """
    return StoredPrice(json.loads(document))


@dataclass(frozen=True)
class PriceList:
    """The price of a model, by its document as JSON."""

    price_id: int
    version: str
    document: str

    @property
    def stored(self) -> StoredPrice:
        return stored_price(self.document)

    def cost(self, usage: Usage, *, at: datetime, terms: Terms = Terms()) -> Calculated:
        """Return what a call of this usage costs that was reserved at an instant.

        :raises PriceUnusable: nothing can be computed from the usage or from the price.
        """
        found = self.stored.calculate(
            usage.counts, at=at, requested=terms.contexts, named=usage.named
        )
        if usage.output_stated or not self.stored.has("output_mtok", at):
            return found
        return Calculated(found.total, found.split, (*found.unpriced, "output_tokens"))

    def upper_bound(
        self, *, input_tokens: int, output_tokens: int, at: datetime, terms: Terms = Terms()
    ) -> Decimal:
        """Return the most that a call of at most so many tokens can cost that day.

        Whichever of them are cached, written to a cache, audio or reasoning, at any hour, at the
        tiers of input that they reach and at any tier of service that the request leaves open.

        :raises PriceUnusable: nothing can be computed from the price.
        """
        rates = self.stored.hold_rates(at.astimezone(UTC).date(), terms.contexts)
        return max(
            rounded(
                each.amount(
                    input_tokens=input_tokens,
                    output_tokens=output_tokens,
                    searches=terms.searches,
                )
            )
            for each in rates
            if each.above == 0 or input_tokens > each.above
        )

    def has_output(self, at: datetime) -> bool:
        """Tell whether the price has a rate for output; without one its model has none."""
        return self.stored.has("output_mtok", at)

    def unpriced(self, terms: Terms, at: datetime) -> bool:
        """Tell whether the request names something that this price has no rate for."""
        if any(tool != SEARCH_TOOL for tool in terms.tools):
            return True
        if terms.searches and not self.stored.has(SEARCH_KEY, at):
            return True
        return not all(self.stored.knows(key, value, at) for key, value in terms.contexts)


def estimate_of(
    price: PriceList,
    *,
    held: Decimal,
    request_bytes: int | None,
    input_tokens: int,
    output_tokens: int,
    at: datetime,
    terms: Terms,
) -> Decimal:
    """Return what a call is booked at that nobody has counted: its input by what it contains.

    :param held: the most that it can cost, which is what it costs where they are not.
    :param input_tokens: that were held; there are no more by bytes.
    """
    if request_bytes is None:
        return held
    try:
        return price.upper_bound(
            input_tokens=min(terms.contents.input_of(request_bytes), input_tokens),
            output_tokens=output_tokens,
            at=at,
            terms=terms,
        )
    except PriceUnusable:
        return held


def text_of(amount: Decimal) -> str:
    """Return an amount as it goes over the wire: plain digits, at least two places."""
    whole, _, places = f"{amount:.12f}".partition(".")
    return f"{whole}.{places.rstrip('0').ljust(2, '0')}"


def window_of(kind: str, at: datetime) -> tuple[datetime, datetime | None]:
    """Return the half-open window `[start, end)` in UTC that `at` lies in; `none` has no end.

    A week begins on Monday, as in ISO 8601.

    :param kind: `hour`, `day`, `week`, `month` or `none`.
    :raises ValueError: another kind.
    """
    hour = at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    day = hour.replace(hour=0)
    lengths = {"hour": (hour, 1), "day": (day, 24), "week": (day - timedelta(day.weekday()), 168)}
    if kind in lengths:
        start, hours = lengths[kind]
        return start, start + timedelta(hours=hours)
    if kind == "month":
        first = day.replace(day=1)
        year, month = divmod(first.year * 12 + first.month, 12)
        return first, first.replace(year=year, month=month + 1)
    if kind == "none":
        return datetime(1970, 1, 1, tzinfo=UTC), None
    raise ValueError(f"no such window: {kind}")


def is_amount(value: Decimal | None) -> bool:
    """Tell whether `value` is None, or finite, not negative and within what the database keeps."""
    if value is None:
        return True
    return value.is_finite() and 0 <= value < 10**12 and value == rounded(value)
