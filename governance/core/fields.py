"""What a verb asks for besides its reason: typed fields, each with its bounds.

A field knows nothing of forms, options or requests: these are made from it.  It tells how its value
is read from a text, kept as JSON and had back, and what is wrong with one.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

MINUTE_SECONDS, HOUR_SECONDS, DAY_SECONDS = 60, 3600, 86_400
UNITS = {"minutes": MINUTE_SECONDS, "hours": HOUR_SECONDS, "days": DAY_SECONDS}
#: Instants that every reader and every time zone can hold; judged in UTC.
INSTANT_MIN = datetime(1970, 1, 1, tzinfo=UTC)
INSTANT_MAX = datetime(9000, 1, 1, tzinfo=UTC)
INSTANT_LAST = INSTANT_MAX - timedelta(microseconds=1)
INSTANT_BOUNDS = f"an instant from {INSTANT_MIN.year} to before {INSTANT_MAX.year}"
YES, NO = "yes", "no"
_WHOLE = re.compile(r"-?\d{1,18}", re.ASCII)
_SLUG = re.compile(r"[A-Za-z0-9_-]+")

Choices = tuple[tuple[str, str], ...]


def bounded(at: datetime) -> bool:
    """Return whether every reader and every time zone can hold the instant."""
    return INSTANT_MIN <= at < INSTANT_MAX


@dataclass(frozen=True, kw_only=True)
class Field(ABC):
    """One thing that a verb asks for.

    :param label: by default the name, as words.
    :param blank: what leaving it open means, where that is not obvious: `as it is`.
    :param initial: what a form suggests.
    :param option: its name on the command line, where that is another one.
    :param rule: what else is wrong with a value, as a sentence; "" for nothing.
    """

    name: str
    label: str = ""
    help: str = ""
    blank: str = ""
    required: bool = True
    initial: Any = None
    option: str = ""
    rule: Callable[[Any], str] | None = None

    @abstractmethod
    def parse(self, text: str) -> Any:
        """Return the value that a text gives.

        :raises ValueError: it gives none, with a sentence for a person.
        """

    @property
    @abstractmethod
    def bounds(self) -> str:
        """Return what is taken, in a few words: `1 to 1000`."""

    @abstractmethod
    def _within(self, value: Any) -> bool:
        """Return whether a value of the right type is within the bounds."""

    def keep(self, value: Any) -> Any:
        """Return the value as JSON keeps it; `restore` gives it back."""
        return value

    def restore(self, kept: Any) -> Any:
        """Return the value that `keep` made JSON of."""
        return kept

    def fault(self, value: Any) -> str:
        """Return what is wrong with a value, as a sentence; "" where nothing is."""
        if not self._within(value):
            return f"It must be {self.bounds}."
        return self.rule(value) if self.rule is not None else ""

    def read(self, text: str) -> Any:
        """Return the value that a text gives, if it may be taken.

        :raises ValueError: it may not, with a sentence for a person.
        """
        value = self.parse(text)
        if fault := self.fault(value):
            raise ValueError(fault)
        return value


@dataclass(frozen=True, kw_only=True)
class Text(Field):
    """Words. `lines` is the height of the box where more than one is expected."""

    chars_max: int
    lines: int = 1
    slug: bool = False

    def parse(self, text: str) -> str:
        return text

    @property
    def bounds(self) -> str:
        plain = " letters, digits, hyphens and underscores" if self.slug else " characters"
        return f"1 to {self.chars_max}{plain}"

    def _within(self, value: str) -> bool:
        fits = 1 <= len(value) <= self.chars_max
        return fits and (not self.slug or _SLUG.fullmatch(value) is not None)


@dataclass(frozen=True, kw_only=True)
class Whole(Field):
    """An integer from `least` to `most`."""

    least: int
    most: int

    def parse(self, text: str) -> int:
        if not _WHOLE.fullmatch(text.strip()):
            raise ValueError("It must be a whole number.")
        return int(text)

    @property
    def bounds(self) -> str:
        return f"{self.least} to {self.most}"

    def _within(self, value: int) -> bool:
        return self.least <= value <= self.most


@dataclass(frozen=True, kw_only=True)
class Span(Whole):
    """A duration in seconds that people give in another unit.

    :param unit: `minutes`, `hours` or `days`.
    :param given_as: the name under which a form and the command line ask for it in that unit.
    """

    unit: str
    given_as: str

    @property
    def unit_seconds(self) -> int:
        """Return how many seconds the unit has."""
        return UNITS[self.unit]

    @property
    def bounds(self) -> str:
        return f"{self.least} to {self.most} seconds"

    def of_units(self, text: str) -> int:
        """Return the seconds that a number of units makes.

        :raises ValueError: it is no number, or out of bounds.
        """
        try:
            seconds = int(float(text) * self.unit_seconds)
        except (ValueError, OverflowError):
            raise ValueError(f"It must be a number of {self.unit}.") from None
        if fault := self.fault(seconds):
            raise ValueError(fault)
        return seconds


@dataclass(frozen=True, kw_only=True)
class Amount(Field):
    """A decimal number as the ledger keeps it, not negative unless it is `signed`."""

    digits: int = 24
    places: int = 12
    signed: bool = False

    def parse(self, text: str) -> Decimal:
        try:
            return Decimal(text.strip())
        except InvalidOperation:
            raise ValueError("It must be a number.") from None

    @property
    def bounds(self) -> str:
        least = "a number" if self.signed else "0 or more"
        return f"{least}, with at most {self.places} decimals"

    def _within(self, value: Decimal) -> bool:
        if not value.is_finite() or (value < 0 and not self.signed):
            return False
        places = -int(value.as_tuple().exponent)
        return places <= self.places and value.adjusted() < self.digits - self.places

    def keep(self, value: Decimal) -> str:
        return str(value)

    def restore(self, kept: str) -> Decimal:
        return Decimal(kept)


@dataclass(frozen=True, kw_only=True)
class Flag(Field):
    """A question of yes or no."""

    def parse(self, text: str) -> bool:
        if text not in (YES, NO):
            raise ValueError(f"It must be {self.bounds}.")
        return text == YES

    @property
    def bounds(self) -> str:
        return f"{YES} or {NO}"

    def _within(self, value: bool) -> bool:
        return isinstance(value, bool)

    def restore(self, kept: Any) -> bool:
        return self.parse(kept) if isinstance(kept, str) else bool(kept)


@dataclass(frozen=True, kw_only=True)
class Choice(Field):
    """One of several words.

    :param choices: the words, each with what it means; or a function that looks them up. Those are
        judged by the transition, which looks again.
    :param meant: whether the meanings are sentences, to be read before one is chosen.
    """

    choices: Choices | Callable[[], Choices]
    meant: bool = False

    @property
    def words(self) -> Choices:
        """Return the words that can be chosen now, each with what it means."""
        return self.choices() if callable(self.choices) else self.choices

    def parse(self, text: str) -> str:
        return text

    @property
    def bounds(self) -> str:
        if callable(self.choices):
            return "one that there is"
        return "one of " + ", ".join(word for word, _ in self.choices)

    def _within(self, value: str) -> bool:
        return callable(self.choices) or value in dict(self.choices)


@dataclass(frozen=True, kw_only=True)
class Instant(Field):
    """A point in time. Where no offset is given, UTC is meant."""

    def parse(self, text: str) -> datetime:
        try:
            at = datetime.fromisoformat(text.strip())
            return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
        except (ValueError, OverflowError):
            raise ValueError(
                "It must be a date and a time, as 2026-01-31T09:30Z; without an offset it is UTC."
            ) from None

    @property
    def bounds(self) -> str:
        return INSTANT_BOUNDS

    def _within(self, value: datetime) -> bool:
        return bounded(value)

    def keep(self, value: datetime) -> str:
        return value.astimezone(UTC).isoformat()

    def restore(self, kept: str) -> datetime:
        return self.parse(kept)


@dataclass(frozen=True, kw_only=True)
class Json(Field):
    """A JSON value; on the command line as a text, or from a file where `from_file` is set."""

    lines: int = 6
    from_file: bool = False

    def parse(self, text: str) -> Any:
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"It is no JSON: {error}.") from None

    @property
    def bounds(self) -> str:
        return "a JSON value"

    def _within(self, value: Any) -> bool:
        return True
