"""Members of a configuration file: how one is read from the file, and how it is written there.

A member that is a field of a verb takes what the field takes, in the file's own types.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from governance.core.fields import Amount, Field, Flag, Instant, Json, Whole

#: How a file says that there is no limit where there may be one.
NONE = "none"
_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


@dataclass(frozen=True)
class Member:
    """One member of an entry.

    :param read: returns the value that the file gives; raises ValueError with a sentence.
    :param write: returns the value as TOML.
    :param nullable: whether `"none"` may be said, for a value that may be absent.
    """

    name: str
    read: Callable[[Any], Any]
    write: Callable[[Any], str]
    nullable: bool = False

    def value(self, given: Any) -> Any:
        """Return the value that the file gives.

        :raises ValueError: it may not be taken, with a sentence for a person.
        """
        return None if self.nullable and given == NONE else self.read(given)

    def text(self, value: Any) -> str:
        """Return the value as TOML."""
        return quoted(NONE) if value is None else self.write(value)


def of_field(field: Field, *, nullable: bool = False) -> Member:
    """Return the member that takes what a verb's field takes."""

    def read(given: Any) -> Any:
        value = _typed(field, given)
        if fault := field.fault(value):
            raise ValueError(fault)
        return value

    return Member(field.name, read, _writer(field), nullable)


def of_fields(fields: Sequence[Field]) -> tuple[Member, ...]:
    """Return a member for each field of a verb."""
    return tuple(of_field(field) for field in fields)


def of_words(name: str, *, ordered: bool = True) -> Member:
    """Return a member that is a list of texts; where `ordered` is not set, each once, sorted."""

    def read(given: Any) -> list[str]:
        if not isinstance(given, list) or not all(isinstance(word, str) for word in given):
            raise ValueError("It must be a list of texts.")
        return given if ordered else sorted(set(given))

    return Member(name, read, lambda words: f"[{', '.join(map(quoted, words))}]")


def number(value: Decimal) -> str:
    """Return an amount in digits, without an exponent and without zeros at its end."""
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def quoted(text: str) -> str:
    """Return a text as a TOML basic string."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def key(text: str) -> str:
    """Return a name as a TOML key."""
    return text if _BARE.fullmatch(text) else quoted(text)


def _typed(field: Field, given: Any) -> Any:
    """Return the value in the type that the field has.

    :raises ValueError: the file's value is of another type.
    """
    if isinstance(field, Flag):
        return _of(given, bool, "true or false")
    if isinstance(field, Whole):
        return _of(given, int, "a whole number")
    if isinstance(field, Amount):
        return field.parse(given) if isinstance(given, str) else amount(given)
    if isinstance(field, Json):
        return field.parse(given) if isinstance(given, str) else _json(given)
    if isinstance(field, Instant) and isinstance(given, datetime):
        return field.parse(given.isoformat())
    return field.parse(_of(given, str, "a text"))


def amount(given: Any) -> Decimal:
    """Return a number of the file as an amount.

    :raises ValueError: it is none.
    """
    if isinstance(given, bool) or not isinstance(given, int | Decimal):
        raise ValueError("It must be a number.")
    return Decimal(given)


def _of(given: Any, kind: type, words: str) -> Any:
    if type(given) is not kind:
        raise ValueError(f"It must be {words}.")
    return given


def _json(given: Any) -> Any:
    """Return a value of the file as JSON has it, which knows no decimals."""
    if isinstance(given, Mapping):
        return {str(name): _json(member) for name, member in given.items()}
    if isinstance(given, list):
        return [_json(member) for member in given]
    if isinstance(given, Decimal):
        return float(given)
    if given is None or isinstance(given, str | bool | int):
        return given
    raise ValueError("It must be a JSON value.")


def _writer(field: Field) -> Callable[[Any], str]:
    if isinstance(field, Flag):
        return lambda value: "true" if value else "false"
    if isinstance(field, Whole):
        return str
    if isinstance(field, Amount):
        return number
    if isinstance(field, Json):
        return _json_text
    return lambda value: quoted(value.isoformat() if isinstance(value, datetime) else str(value))


def _json_text(value: Any) -> str:
    """Return JSON as a text, since TOML has no null; over several lines where it can be."""
    flat = json.dumps(value, sort_keys=True, ensure_ascii=False)
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, indent=2)
    plain = "'''" not in text and all(c.isprintable() or c == "\n" for c in text)
    return f"'''\n{text}'''" if plain and value else quoted(flat)
