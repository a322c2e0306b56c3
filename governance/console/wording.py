"""How the console says times, durations and numbers."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString

MINUTE, HOUR, DAY = 60, 3600, 86400
#: What a person should look at of what a call was booked at.
FLAGS = {
    "overrun": "over-run",
    "usage_missing": "usage missing",
    "usage_odd": "usage odd",
    "disputed": "disputed",
    "unreserved": "not reserved",
    "unpriced": "no known price",
}


def duration(seconds: float) -> str:
    """Return a duration in at most two units: `45 s`, `3 min 20 s`, `2 h 5 min`, `4 d 3 h`."""
    left = max(0, round(seconds))
    if left < MINUTE:
        return f"{left} s"
    for size, name, small, small_name in (
        (DAY, "d", HOUR, "h"),
        (HOUR, "h", MINUTE, "min"),
        (MINUTE, "min", 1, "s"),
    ):
        if left >= size:
            rest = left % size // small
            return f"{left // size} {name}" + (f" {rest} {small_name}" if rest else "")
    raise AssertionError("unreachable")


def stamp(at: datetime) -> str:
    """Return an instant in UTC with seconds: `2026-03-01 12:04:31Z`."""
    return at.strftime("%Y-%m-%d %H:%M:%SZ")


def ago(at: datetime | None, now: datetime) -> SafeString | str:
    """Return `<time>` with the distance from `now`, the instant itself in its title."""
    if not at:
        return "-"
    seconds = (now - at).total_seconds()
    text = f"{duration(seconds)} ago" if seconds >= 0 else f"in {duration(-seconds)}"
    return format_html('<time datetime="{}" title="{}">{}</time>', at.isoformat(), stamp(at), text)


def as_words(word: str) -> str:
    """Return a word of the API as words: `over budget`."""
    return word.replace("_", " ")


def mark(state: str) -> SafeString:
    """Return a state as a badge; its colour only repeats the word."""
    return format_html('<span class="mark state-{}">{}</span>', state, as_words(state))


def clause(sentence: str) -> str:
    """Return a sentence as a part of another one: `the job is stopped`."""
    return f"{sentence[:1].lower()}{sentence[1:].removesuffix('.')}"


def number(value: int) -> str:
    """Return an integer with thin groups of thousands: `1 000 000`."""
    return f"{value:,}".replace(",", "\u202f")


def usd(amount: Decimal | None) -> str:
    """Return an amount as it is read: two decimals, more where that would say nothing."""
    if amount is None:
        return "-"
    if amount and abs(amount) < Decimal("0.01"):
        return f"{amount.normalize():f}"
    return f"{amount:,.2f}"


def pretty(value: Any) -> str:
    """Return a JSON value for reading: keys sorted, integers exact, text as it is."""
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, default=str)
