"""Types of the members of answers, as JSON carries them.

An answer is declared once, as a `TypedDict` of these: mypy checks what builds it, and the API
description is made of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any


@dataclass(frozen=True, eq=False)
class Form:
    """What JSON Schema says of a member beside its type."""

    schema: dict[str, Any] = field(default_factory=dict)


def one_of(values: Iterable[str]) -> Form:
    """Return the form of a text that is one of these."""
    return Form({"enum": list(values)})


def explained(text: str) -> Form:
    """Return the form of a member that its name does not explain."""
    return Form({"description": text})


#: Bytes of an answer about several things, as far as they can be left for a further call: claims,
#: and pages of lists. Source: contract section 1.
ANSWER_BYTES_MAX = 8 * 1024 * 1024


def fitting(sizes: Iterable[int], *, room: int = ANSWER_BYTES_MAX) -> int:
    """Return how many of the first things fit into one answer by their bytes; one in any case."""
    count = 0
    for size in sizes:
        room -= size
        if room < 0 and count:
            break
        count += 1
    return count


#: RFC 3339, UTC, with microseconds: see `clock.instant`.
InstantText = Annotated[str, Form({"format": "date-time"})]
UuidText = Annotated[str, Form({"format": "uuid"})]
UriText = Annotated[str, Form({"format": "uri"})]
TextOrFlag = str | bool
#: A JSON object of any members.
AnyObject = dict[str, Any]
