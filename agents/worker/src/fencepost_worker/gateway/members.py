"""Where the members of a JSON object stand, so that one can be changed and the rest kept as it is.

Nothing is parsed but what is asked for: a scan over strings and brackets, linear in the bytes,
without recursion, and without a copy of what it passes over.

Source: RFC 8259.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

#: Deeper than any request is meant to be; providers refuse long before.
MAX_DEPTH = 10_000
#: A mark of byte order is no JSON, but Python and JavaScript write it, and providers skip it.
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_COLON = rb"[ \t\r\n]*:[ \t\r\n]*"
#: All up to the next bracket, or a quote that nothing closes; texts are passed over in one step.
_BRACKET = re.compile(rb"(?:[^\"\[\]{}]++|" + _STRING + rb")*+([\[\]{}\"])", re.DOTALL)
_BLANK = re.compile(rb"[ \t\r\n]*")
_KEY = re.compile(rb"(" + _STRING + rb")" + _COLON, re.DOTALL)
_TEXT = re.compile(_STRING, re.DOTALL)
_SCALAR = re.compile(rb"[^\s,{}\[\]\":]+")


class NotAnObject(ValueError):
    """The bytes are not one JSON object. The message has one line for a person."""


@dataclass(frozen=True)
class Member:
    """A member of an object: its name, and the bytes of its key and of its value."""

    name: str
    key_start: int
    key_end: int
    start: int
    end: int


class Text(NamedTuple):
    """A text of interest: its member, and the one in whose value that stands.

    The elements of an array are of the array's member.
    """

    parent: str
    name: str
    start: int
    end: int


@dataclass(frozen=True)
class Layout:
    """Where the members of the object `body[open_at:close_at + 1]` stand, in their order."""

    body: bytes
    open_at: int
    close_at: int
    members: tuple[Member, ...]

    def named(self, name: str) -> list[Member]:
        """Return the members of that name; more than one where a key is repeated."""
        return [member for member in self.members if member.name == name]

    def value(self, name: str) -> Any:
        """Return the value of the last member of that name, None where there is none.

        The last counts where a key is repeated, as it does for the parsers of providers.

        :raises NotAnObject: it is no JSON.
        """
        found = self.named(name)
        if not found:
            return None
        raw = self.body[found[-1].start : found[-1].end]
        try:
            return json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise NotAnObject(f"The value of {name!r} is no JSON.") from error


def layout_of(body: bytes, *, start: int = 0, whole: bool = True) -> Layout:
    """Return where the members of the object that begins at `start` stand.

    :param whole: nothing but white space may stand before it (after a mark of byte order) and
        behind it.
    :raises NotAnObject: there is no object, or it is not closed, or nested too deeply.
    """
    if whole and body.startswith(BYTE_ORDER_MARK, start):
        start += len(BYTE_ORDER_MARK)
    at = _after_blank(body, start)
    if body[at : at + 1] != b"{":
        raise NotAnObject("The body is not a JSON object.")
    open_at, members = at, list[Member]()
    at = _after_blank(body, at + 1)
    while body[at : at + 1] != b"}":
        if members:
            if body[at : at + 1] != b",":
                raise NotAnObject(f"The body is not JSON at byte {at}.")
            at = _after_blank(body, at + 1)
        key = _KEY.match(body, at)
        if key is None:
            raise NotAnObject(f"The body is not JSON at byte {at}.")
        end = _end_of_value(body, key.end())
        members.append(Member(_text(key[1], at), at, key.end(1), key.end(), end))
        at = _after_blank(body, end)
    if whole and _after_blank(body, at + 1) != len(body):
        raise NotAnObject(f"The body goes on behind its object, at byte {at + 1}.")
    return Layout(body, open_at, at, tuple(members))


def texts_in(layout: Layout, names: tuple[str, ...]) -> Iterator[Text]:
    """Yield the texts that are values of members of these names, at any depth."""
    parents: list[str] = []
    for step in _steps_to(names).finditer(layout.body, layout.open_at, layout.close_at + 1):
        key, opened, bracket, found = step[1], step[2], step[3], step[4]
        if found is not None:
            yield Text(parents[-1], found.decode(), step.start(5), step.end(5))
        elif opened is not None:
            parents.append(_text(key, step.start(1)))
        elif bracket in (b"{", b"["):
            parents.append(parents[-1] if parents else "")
        elif bracket is not None:
            parents.pop()


@cache
def _steps_to(names: tuple[str, ...]) -> re.Pattern[bytes]:
    """Return what matches all up to the next bracket or text of interest."""
    wanted = rb"\"(" + "|".join(names).encode() + rb")\"" + _COLON
    passed = rb"(?!" + wanted.replace(b"(", b"(?:") + rb"\")" + _STRING
    passed += rb"(?!" + _COLON + rb"[\[{])"
    return re.compile(
        rb"(?:[^\"\[\]{}]++|" + passed + rb")*+"
        rb"(?:(" + _STRING + rb")" + _COLON + rb"([\[{])|([\[\]{}])"
        rb"|" + wanted + rb"(" + _STRING + rb"))",
        re.DOTALL,
    )


def edited(body: bytes, changes: list[tuple[int, int, bytes]]) -> bytes:
    """Return the bytes with each range `(start, end)` replaced; ranges do not overlap."""
    parts, at = [], 0
    for start, end, new in sorted(changes, key=lambda change: change[:2]):
        parts += [body[at:start], new]
        at = end
    return b"".join([*parts, body[at:]])


def with_member(layout: Layout, name: str, value: Any) -> list[tuple[int, int, bytes]]:
    """Return the changes after which the object has the member, once for each time it had it.

    A member that it does not have is added as its last.
    """
    new = json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()
    found = layout.named(name)
    return [(each.start, each.end, new) for each in found] or [added(layout, name, new)]


def added(layout: Layout, name: str, new: bytes) -> tuple[int, int, bytes]:
    """Return the change that adds a member behind the last one."""
    at = layout.members[-1].end if layout.members else layout.open_at + 1
    comma = b"," if layout.members else b""
    return at, at, comma + json.dumps(name).encode() + b":" + new


def without(layout: Layout, unwanted: Callable[[Member], bool]) -> list[tuple[int, int, bytes]]:
    """Return the changes that take members out, each with the comma that divides it from others."""
    changes, kept = [], False
    members = layout.members
    for index, member in enumerate(members):
        if not unwanted(member):
            kept = True
        elif kept:
            changes.append((members[index - 1].end, member.end, b""))
        else:
            last = index + 1 == len(members)
            end = member.end if last else members[index + 1].key_start
            changes.append((member.key_start, end, b""))
    return changes


def _after_blank(body: bytes, at: int) -> int:
    blank = _BLANK.match(body, at)
    assert blank is not None
    return blank.end()


def _end_of_value(body: bytes, at: int) -> int:
    first = body[at : at + 1]
    if first == b'"':
        text = _TEXT.match(body, at)
        if text is None:
            raise NotAnObject(f"A text is not closed, from byte {at} on.")
        return text.end()
    if first in (b"{", b"["):
        return _end_of_brackets(body, at)
    scalar = _SCALAR.match(body, at)
    if scalar is None:
        raise NotAnObject(f"The body is not JSON at byte {at}.")
    return scalar.end()


def _end_of_brackets(body: bytes, at: int) -> int:
    open_brackets = bytearray()
    for step in _BRACKET.finditer(body, at):
        bracket = step[1]
        if bracket in (b"{", b"["):
            open_brackets += bracket
            if len(open_brackets) > MAX_DEPTH:
                raise NotAnObject(f"The body is nested more than {MAX_DEPTH} deep.")
        elif bracket == b'"':
            raise NotAnObject(f"A text is not closed, from byte {step.start(1)} on.")
        elif open_brackets.pop() != (0x7B if bracket == b"}" else 0x5B):
            raise NotAnObject(f"Brackets do not match at byte {step.start(1)}.")
        if not open_brackets:
            return step.end()
    raise NotAnObject("The body ends within its object.")


def _text(raw: bytes, at: int) -> str:
    if b"\\" not in raw:
        try:
            return raw[1:-1].decode()
        except UnicodeDecodeError as error:
            raise NotAnObject(f"The body is not UTF-8 at byte {at}.") from error
    try:
        return str(json.loads(raw))
    except ValueError as error:
        raise NotAnObject(f"A text is no JSON at byte {at}.") from error
