"""What a call costs at given rates, and which window an instant lies in: pure functions.

Amounts are Decimal and rounded up to 12 places, so that an estimate is never below the cost of
the same tokens.

Source: OpenTelemetry GenAI semantic conventions (input tokens include the cached ones, output
tokens the reasoning ones).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any

from governance.core.errors import FieldFault, InvalidArgument

PLACES = Decimal(1).scaleb(-12)
MILLION = Decimal(1_000_000)
#: 24 digits in the database, and room for the product of a rate and a token count.
EXACT = Context(prec=60)
#: More tokens than any call has; a count above it is a mistake, and its cost would not fit.
TOKENS_MAX = 10**9


@dataclass(frozen=True)
class Usage:
    """What the provider counted for one call.

    :raises InvalidArgument: a count is negative, or a part is larger than its whole.
    """

    input_tokens: int
    output_tokens: int
    cached_input_tokens: int = 0
    reasoning_tokens: int = 0

    def __post_init__(self) -> None:
        faults = [
            FieldFault(f"/usage/{name}", f"an integer from 0 to {TOKENS_MAX}")
            for name, count in asdict(self).items()
            if type(count) is not int or not 0 <= count <= TOKENS_MAX
        ]
        if not faults and self.cached_input_tokens > self.input_tokens:
            faults.append(FieldFault("/usage/cached_input_tokens", "is inside input_tokens"))
        if not faults and self.reasoning_tokens > self.output_tokens:
            faults.append(FieldFault("/usage/reasoning_tokens", "is inside output_tokens"))
        if faults:
            raise InvalidArgument("The usage is not valid.", errors=faults)

    @classmethod
    def read(cls, reported: Mapping[str, Any] | None) -> Usage | None:
        """Return the usage of a request body; None where the provider reported none.

        :raises InvalidArgument: a count is missing, unknown or not valid.
        """
        if reported is None:
            return None
        known = set(cls.__dataclass_fields__)
        faults = [
            FieldFault(f"/usage/{name}", "is required")
            for name in ("input_tokens", "output_tokens")
            if reported.get(name) is None
        ]
        faults += [FieldFault(f"/usage/{name}", "is not known") for name in reported.keys() - known]
        if faults:
            raise InvalidArgument("The usage is not valid.", errors=faults)
        return cls(**{name: count for name, count in reported.items() if count is not None})


@dataclass(frozen=True)
class RateSet:
    """Rates per million tokens, for calls with more than `above_input_tokens` of input."""

    above_input_tokens: int
    input: Decimal
    output: Decimal
    cached_input: Decimal | None = None
    reasoning: Decimal | None = None

    def cost(self, usage: Usage) -> Decimal:
        """Return the cost of the tokens, without the rate per call, exactly."""
        cached = self.input if self.cached_input is None else self.cached_input
        reasoning = self.output if self.reasoning is None else self.reasoning
        parts = (
            (usage.input_tokens - usage.cached_input_tokens, self.input),
            (usage.cached_input_tokens, cached),
            (usage.output_tokens - usage.reasoning_tokens, self.output),
            (usage.reasoning_tokens, reasoning),
        )
        total = Decimal(0)
        for tokens, rate in parts:
            total = EXACT.add(total, EXACT.multiply(Decimal(tokens), rate))
        return EXACT.divide(total, MILLION)

    def dearest(self, *, input_tokens: int, output_tokens: int) -> Decimal:
        """Return the most that so many tokens can cost, whichever of them are cached."""
        return max(
            self.cost(
                Usage(input_tokens, output_tokens, input_tokens * cached, output_tokens * thought)
            )
            for cached in (0, 1)
            for thought in (0, 1)
        )


@dataclass(frozen=True)
class PriceList:
    """The price of a model: base rates first, then those of larger inputs, ascending.

    Crossing a threshold applies its rates to all tokens of the call.
    """

    price_id: int
    version: str
    call_rate: Decimal
    rates: tuple[RateSet, ...]

    def cost(self, usage: Usage) -> Decimal:
        """Return what a call of this usage costs."""
        applicable = self.rates[0]
        for rates in self.rates[1:]:
            if usage.input_tokens > rates.above_input_tokens:
                applicable = rates
        return rounded(applicable.cost(usage) + self.call_rate)

    def upper_bound(self, *, input_tokens: int, output_tokens: int) -> Decimal:
        """Return the most that a call of at most so many tokens can cost."""
        dearest = max(
            rates.dearest(input_tokens=input_tokens, output_tokens=output_tokens)
            for rates in self.rates
            if rates is self.rates[0] or input_tokens > rates.above_input_tokens
        )
        return rounded(dearest + self.call_rate)


def rounded(amount: Decimal) -> Decimal:
    """Return `amount` rounded up to the places that the database keeps."""
    return amount.quantize(PLACES, rounding=ROUND_CEILING, context=EXACT)


def text_of(amount: Decimal) -> str:
    """Return an amount as it goes over the wire: plain digits, at least two places."""
    whole, _, places = f"{amount:.12f}".partition(".")
    return f"{whole}.{places.rstrip('0').ljust(2, '0')}"


def window_of(kind: str, at: datetime) -> tuple[datetime, datetime | None]:
    """Return the half-open window `[start, end)` in UTC that `at` lies in; `none` has no end.

    :param kind: `day`, `month` or `none`.
    :raises ValueError: another kind.
    """
    day = at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if kind == "day":
        return day, datetime.fromordinal(day.toordinal() + 1).replace(tzinfo=UTC)
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
