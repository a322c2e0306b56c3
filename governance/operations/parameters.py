"""Query parameters: how each is read, and what the API's description says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Protocol

from governance.core.errors import FieldFault, InvalidArgument

#: Days that have neighbours, in the calendar of the database as in ours.
YEARS = (1970, 9998)


class Parameter(Protocol):
    """A query parameter that has one value. `explained` is what the description says of it."""

    explained: str

    @property
    def schema(self) -> dict[str, Any]: ...

    def read(self, name: str, query: Mapping[str, str]) -> Any: ...


@dataclass
class Whole:
    """A whole number in bounds."""

    explained: str
    low: int
    high: int
    default: int

    @property
    def schema(self) -> dict[str, Any]:
        """Return its JSON Schema."""
        bounds = {"minimum": self.low, "maximum": self.high, "default": self.default}
        return {"type": "integer"} | bounds

    def read(self, name: str, query: Mapping[str, str]) -> int:
        """Return the number that the query gives.

        :raises InvalidArgument: it is none, or out of bounds.
        """
        text = query.get(name)
        if text is None:
            return self.default
        # More digits than any bound has are no number that is worth making.
        if text.isascii() and text.isdecimal() and len(text) <= len(str(self.high)):
            if self.low <= int(text) <= self.high:
                return int(text)
        raise invalid(name, f"a whole number from {self.low} to {self.high}")


@dataclass
class OneOf:
    """One of some words; the first where the query names none."""

    explained: str
    words: tuple[str, ...]

    @property
    def schema(self) -> dict[str, Any]:
        """Return its JSON Schema."""
        return {"type": "string", "enum": list(self.words), "default": self.words[0]}

    def read(self, name: str, query: Mapping[str, str]) -> str:
        """Return the word that the query gives.

        :raises InvalidArgument: it is another.
        """
        word = query.get(name, self.words[0])
        if word not in self.words:
            raise invalid(name, f"one of {', '.join(self.words)}")
        return word


@dataclass
class Day:
    """A day as `2026-11-30`; None where the query names none."""

    explained: str

    @property
    def schema(self) -> dict[str, Any]:
        """Return its JSON Schema."""
        return {"type": "string", "format": "date"}

    def read(self, name: str, query: Mapping[str, str]) -> date | None:
        """Return the day that the query gives.

        :raises InvalidArgument: it is none, or one that leaves no room for its neighbours.
        """
        text = query.get(name)
        if text is None:
            return None
        try:
            found = date.fromisoformat(text)
        except ValueError:
            found = None
        # The library reads other forms of ISO 8601 as well.
        plain = found is not None and found.isoformat() == text
        if found is None or not plain or not YEARS[0] <= found.year <= YEARS[1]:
            raise invalid(name, f"a day of the years {YEARS[0]} to {YEARS[1]}, as 2026-11-30")
        return found


@dataclass
class Keyed:
    """One of some words, the first by default, or a prefix with a key of the caller's own."""

    explained: str
    words: tuple[str, ...]
    prefix: str
    key_chars_max: int

    @property
    def schema(self) -> dict[str, Any]:
        """Return its JSON Schema."""
        pattern = f"^({'|'.join(self.words)}|{self.prefix}.{{1,{self.key_chars_max}}})$"
        return {"type": "string", "pattern": pattern, "default": self.words[0]}

    def read(self, name: str, query: Mapping[str, str]) -> str:
        """Return the word, or the prefix with its key, that the query gives.

        :raises InvalidArgument: it is neither.
        """
        word = query.get(name, self.words[0])
        key = word.removeprefix(self.prefix) if word.startswith(self.prefix) else ""
        keyed = 1 <= len(key) <= self.key_chars_max and "\0" not in key
        if word not in self.words and not keyed:
            raise invalid(name, f"one of {', '.join(self.words)}, or {self.prefix}KEY")
        return word


def invalid(name: str, wanted: str) -> InvalidArgument:
    """Return the refusal of a query parameter, which names it."""
    return InvalidArgument(
        "A query parameter is not valid.", errors=[FieldFault(f"/{name}", wanted)]
    )
