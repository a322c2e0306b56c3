"""Pages of a list: by key, in one direction or the other, without a count."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from governance.core.wire import fitting
from governance.operations.parameters import invalid

PAGE_SIZE = 50
PAGE_SIZE_MAX = 200
#: The query parameters of every list.
PAGING = frozenset({"cursor", "page_size"})

#: What a cursor says: from which key on, and whether towards the beginning.
_CURSOR = re.compile(r"(r=1&)?p=(\d{1,18})", re.ASCII)


@dataclass(frozen=True)
class Page:
    """Rows of a list, and the cursors of the pages beside it; None where there is none."""

    rows: list[Any]
    next: str | None
    previous: str | None


def page_of(
    queryset: QuerySet[Any],
    query: Mapping[str, str],
    *,
    key: str,
    weigh: Callable[[list[Any]], list[int]] | None = None,
) -> Page:
    """Return the page of the queryset that the query names; without a cursor, the first.

    :param key: a unique integer column by which the list is ordered, descending with a `-`.
    :param query: `cursor`, from a page, and `page_size`: 50 by default, above 200 it is 200.
    :param weigh: returns the bytes that each row takes in the answer; a page ends where an answer
        is full, and the next one begins there.
    :raises InvalidArgument: one of them is not valid.
    """
    size = _size(query.get("page_size"))
    backwards, position = _read(query.get("cursor"))
    column, falling = key.removeprefix("-"), key.startswith("-") != backwards
    if position is not None:
        queryset = queryset.filter(**{f"{column}__{'lt' if falling else 'gt'}": position})
    rows = list(queryset.order_by(f"-{column}" if falling else column)[: size + 1])
    more, rows = len(rows) > size, rows[:size]
    if weigh is not None and (fit := fitting(weigh(rows))) < len(rows):
        more, rows = True, rows[:fit]
    if backwards:
        rows.reverse()
    if not rows:
        return Page([], None, None)
    before = more if backwards else position is not None
    after = backwards or more
    return Page(
        rows,
        next=_cursor(f"p={getattr(rows[-1], column)}") if after else None,
        previous=_cursor(f"r=1&p={getattr(rows[0], column)}") if before else None,
    )


def _size(text: str | None) -> int:
    if text is None:
        return PAGE_SIZE
    if not (text.isascii() and text.isdecimal() and int(text[:9])):
        raise invalid("page_size", f"a whole number from 1 to {PAGE_SIZE_MAX}")
    return min(int(text[:9]), PAGE_SIZE_MAX)


def _read(cursor: str | None) -> tuple[bool, int | None]:
    """Return whether the cursor leads back, and from which key on."""
    if cursor is None:
        return False, None
    try:
        found = _CURSOR.fullmatch(base64.b64decode(cursor, validate=True).decode())
    except ValueError:
        found = None
    if found is None:
        raise invalid("cursor", "not one that this list has given")
    return found[1] is not None, int(found[2])


def _cursor(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
