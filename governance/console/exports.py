"""Exports of a list as it is filtered: streamed, in pages by key, in no long transaction."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from typing import Any

from django.db.models import QuerySet
from django.http import StreamingHttpResponse

from governance.core.isolation import in_any_case

BATCH_ROWS = 2000
#: A spreadsheet would run these as formulas.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
MEDIA_TYPES = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}


class Echo:
    """A file that hands back what is written to it."""

    def write(self, value: str) -> str:
        return value


def export(
    queryset: QuerySet[Any],
    *,
    columns: tuple[str, ...],
    form: str,
    name: str,
    ended: Callable[[int, bool], None],
) -> StreamingHttpResponse:
    """Return the rows, newest first, as a download. `form` is a key of `MEDIA_TYPES`.

    :param ended: called with the number of rows that left, and whether these were all.
    """
    rows = _counted(pages(queryset.values("pk", *columns)), ended)
    lines = _csv(rows, columns) if form == "csv" else _jsonl(rows, columns)
    response = StreamingHttpResponse(lines, content_type=MEDIA_TYPES[form])
    response["Content-Disposition"] = f'attachment; filename="{name}.{form}"'
    response["X-Content-Type-Options"] = "nosniff"
    return response


def pages(rows: QuerySet[Any, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the rows in descending key order, a bounded statement at a time."""
    rows = rows.order_by("-pk")
    batch = _read(rows[:BATCH_ROWS])
    while batch:
        yield from batch
        batch = _read(rows.filter(pk__lt=batch[-1]["pk"])[:BATCH_ROWS])


def _read(rows: QuerySet[Any, dict[str, Any]]) -> list[dict[str, Any]]:
    return in_any_case(lambda: list(rows.all()))


def _counted(
    rows: Iterator[dict[str, Any]], ended: Callable[[int, bool], None]
) -> Iterator[dict[str, Any]]:
    """Pass the rows on, and tell how many they were, also when the reader goes away."""
    count, whole = 0, False
    try:
        for row in rows:
            count += 1
            yield row
        whole = True
    finally:
        ended(count, whole)


def _csv(rows: Iterator[dict[str, Any]], columns: tuple[str, ...]) -> Iterator[str]:
    writer = csv.writer(Echo())
    yield writer.writerow(columns)
    for row in rows:
        yield writer.writerow([_cell(row[column]) for column in columns])


def _cell(value: Any) -> str:
    text = _text(value)
    return "'" + text if text.startswith(FORMULA_STARTS) and isinstance(value, str) else text


def _jsonl(rows: Iterator[dict[str, Any]], columns: tuple[str, ...]) -> Iterator[str]:
    for row in rows:
        members = {column: row[column] for column in columns}
        yield json.dumps(members, ensure_ascii=False, default=_text) + "\n"


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes | memoryview):
        return bytes(value).hex()
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)
