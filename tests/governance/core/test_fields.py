"""What verbs ask for: each kind of field reads, judges, keeps and gives back its values."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from governance.core.fields import (
    DAY_SECONDS,
    HOUR_SECONDS,
    Amount,
    Choice,
    Field,
    Flag,
    Instant,
    Json,
    Span,
    Text,
    Whole,
)

NOON = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
SPAN = Span(name="s", given_as="hours", unit="hours", least=1, most=2 * DAY_SECONDS)
#: One of each kind with a text that it takes, and the value that it is.
READ: list[tuple[Field, str, Any]] = [
    (Text(name="t", chars_max=5), "words", "words"),
    (Whole(name="w", least=1, most=9), "7", 7),
    (SPAN, "7200", 7200),
    (Amount(name="a"), "0.000000000001", Decimal("0.000000000001")),
    (Flag(name="f"), "yes", True),
    (Flag(name="f"), "no", False),
    (Choice(name="c", choices=(("on", "On"), ("off", "Off"))), "off", "off"),
    (Choice(name="c", choices=lambda: (("x", "x"),)), "judged later", "judged later"),
    (Instant(name="i"), "2026-12-01T12:00:00Z", NOON),
    (Instant(name="i"), "2026-12-01T12:00", NOON),
    (Instant(name="i"), "2026-12-01T14:30:00.25+02:30", NOON.replace(microsecond=250_000)),
    (Json(name="j"), '{"a": [1, null]}', {"a": [1, None]}),
]


def kinds(field: type[Field] = Field) -> set[type[Field]]:
    """Return the kinds of field that can be made."""
    below = {kind for one in field.__subclasses__() for kind in {one, *kinds(one)}}
    return {kind for kind in below if not kind.__abstractmethods__}


def test_no_kind_is_left_out() -> None:
    assert {type(field) for field, _, _ in READ} == kinds()


@pytest.mark.parametrize(("field", "text", "value"), READ)
def test_a_value_is_read_and_comes_back_from_json_as_it_was(
    field: Field, text: str, value: Any
) -> None:
    read = field.read(text)
    back = field.restore(json.loads(json.dumps(field.keep(read))))

    assert (read, type(read)) == (value, type(value))
    assert (back, type(back)) == (value, type(value))


@pytest.mark.parametrize(
    ("field", "text", "fault"),
    [
        (Text(name="t", chars_max=5), "longer", "1 to 5 characters"),
        (Text(name="t", chars_max=5), "", "1 to 5 characters"),
        (Text(name="t", chars_max=9, slug=True), "a b", "letters, digits"),
        (Text(name="t", chars_max=9, rule=lambda text: "Not so."), "a", "Not so"),
        (Whole(name="w", least=1, most=9), "10", "1 to 9"),
        (Whole(name="w", least=1, most=9), "1.5", "a whole number"),
        (Whole(name="w", least=1, most=9), "٣", "a whole number"),
        (SPAN, "172801", "1 to 172800 seconds"),
        (Amount(name="a"), "-1", "0 or more"),
        (Amount(name="a"), "NaN", "0 or more"),
        (Amount(name="a"), "1e13", "0 or more"),
        (Amount(name="a"), "0.0000000000001", "at most 12 decimals"),
        (Amount(name="a"), "much", "a number"),
        (Flag(name="f"), "perhaps", "yes or no"),
        (Choice(name="c", choices=(("on", "On"),)), "off", "one of on"),
        (Instant(name="i"), "tomorrow", "a date and a time"),
        (Instant(name="i"), "2026-02-30T00:00Z", "a date and a time"),
        (Instant(name="i"), "9999-12-31T23:59:59-05:00", "a date and a time"),
        (Instant(name="i"), "9000-01-01T00:00:00Z", "before 9000"),
        (Instant(name="i"), "1969-12-31T23:59:59Z", "from 1970"),
        (Json(name="j"), "{", "no JSON"),
    ],
)
def test_what_cannot_be_taken_is_told(field: Field, text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        field.read(text)


def test_a_span_is_given_in_its_unit() -> None:
    assert SPAN.of_units("1.5") == 1.5 * HOUR_SECONDS
    for text, fault in (("49", "1 to 172800 seconds"), ("long", "a number of hours")):
        with pytest.raises(ValueError, match=fault):
            SPAN.of_units(text)


def test_an_instant_is_kept_in_utc() -> None:
    there = NOON.astimezone(timezone(timedelta(hours=9)))

    assert Instant(name="i").keep(there) == "2026-12-01T12:00:00+00:00"


def test_a_flag_that_was_kept_as_a_word_is_still_one() -> None:
    assert [Flag(name="f").restore(kept) for kept in ("yes", "no")] == [True, False]
