"""Shapes of requests: strict fields, and serializers that refuse what they do not know.

JSON says what a value is, so nothing is converted: `"5"` is no integer, `true` is no 1, and an
instant carries its offset.  Every fault is listed, each with its RFC 6901 JSON pointer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

from rest_framework import serializers
from rest_framework.settings import api_settings

from governance.core import fields
from governance.core.characters import blank, unseen
from governance.core.errors import FieldFault, InvalidArgument

#: The largest integer that every JSON reader keeps exact (RFC 7493, 2.2).
WHOLE_MAX = 2**53 - 1
UNSEEN_TOLD_MAX = 5
#: RFC 3339, 5.6; an offset is required.
_RFC3339 = re.compile(
    r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)


class Text(serializers.CharField):
    """A JSON string, kept as it is: not trimmed, never made of a number.

    :param plain: refuse characters that are not seen; for names.
    :param seen: refuse text of which nothing is seen; for what people read. Names are such text.
    """

    default_error_messages = {
        "nothing": "Nothing of it is seen: it is all white space or the like.",
        "unseen": "It has characters that are not seen, or that turn text around: {which}.",
    }

    def __init__(self, *, plain: bool = False, seen: bool = False, **options: Any) -> None:
        super().__init__(trim_whitespace=False, **options)
        self._plain = plain
        self._seen = seen or (plain and not self.allow_blank)

    def to_internal_value(self, data: Any) -> str:
        if type(data) is not str:
            self.fail("invalid")
        if self._plain and (which := unseen(data)):
            self.fail("unseen", which=", ".join(which[:UNSEEN_TOLD_MAX]))
        if self._seen and blank(data):
            self.fail("nothing")
        return data


class Whole(serializers.IntegerField):
    """A JSON integer below 2^53; booleans, fractions and strings are refused."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("max_value", WHOLE_MAX)
        super().__init__(**options)

    def to_internal_value(self, data: Any) -> int:
        if type(data) is not int:
            self.fail("invalid")
        return data


class Flag(serializers.BooleanField):
    """`true` or `false`, and nothing that resembles them."""

    def to_internal_value(self, data: Any) -> bool:
        if type(data) is not bool:
            self.fail("invalid", input=data)
        return data


class TextOrFlag(serializers.CharField):
    """A JSON string, or `true` or `false`; each kept as it is."""

    default_error_messages = {"invalid": "A string, true or false."}

    def __init__(self, **options: Any) -> None:
        super().__init__(trim_whitespace=False, allow_blank=True, **options)

    def run_validation(self, data: Any = serializers.empty) -> Any:
        # What CharField says of texts is not asked of the other two.
        return data if type(data) is bool else super().run_validation(data)

    def to_internal_value(self, data: Any) -> str:
        if type(data) is not str:
            self.fail("invalid")
        return data

    def to_representation(self, value: Any) -> Any:
        return value


class Choice(serializers.ChoiceField):
    """One of the listed JSON strings."""

    def to_internal_value(self, data: Any) -> str:
        if type(data) is not str or data not in self.choices:
            self.fail("invalid_choice", input=data)
        return data


class Instant(serializers.DateTimeField):
    """An RFC 3339 date-time with its offset, within the bounds of all instants; read as UTC.

    The database takes no offset of 16 hours or more, which RFC 3339 has up to 23:59.
    """

    default_error_messages = {"bounds": f"It must be {fields.INSTANT_BOUNDS}."}

    def to_internal_value(self, value: Any) -> datetime:
        if type(value) is not str or not _RFC3339.fullmatch(value):
            self.fail("invalid", format="RFC 3339 with an offset, as 2026-01-31T09:30:00Z")
        try:
            at = datetime.fromisoformat(value.upper())
        except ValueError:
            self.fail("invalid", format="a date and time that exist")
        if not fields.bounded(at):
            self.fail("bounds")
        return at.astimezone(UTC)


class Uuid(serializers.UUIDField):
    """A UUID in its canonical text form."""

    def to_internal_value(self, data: Any) -> Any:
        if type(data) is not str or len(data) != 36:
            self.fail("invalid", value=data)
        return super().to_internal_value(data)


class AnyJson(serializers.JSONField):
    """Any JSON value."""


class Object(serializers.DictField):
    """A JSON object with any members."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if type(data) is not dict:
            self.fail("not_a_dict", input_type=type(data).__name__)
        return data


class Shape(serializers.Serializer):
    """The shape of a request body: its fields, and no others."""

    default_error_messages = {"unknown": "This field is not known."}

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        faults: dict[str, Any] = {}
        value: dict[str, Any] = {}
        try:
            value = super().to_internal_value(data)
        except serializers.ValidationError as error:
            faults = dict(error.detail)  # type: ignore[arg-type]
        if isinstance(data, Mapping):
            for name in data.keys() - self.fields.keys():
                faults[name] = [self.error_messages["unknown"]]
        if faults:
            raise serializers.ValidationError(faults)
        return value


def member_of(field: fields.Field) -> serializers.Field:
    """Return the member of a request by which it gives a field of a verb, by the field's kind.

    It may be absent: which verb needs it is judged with the rest of the request.

    :raises NotImplementedError: no request gives fields of that kind.
    """
    common: dict[str, Any] = {
        "required": False,
        "help_text": field.help,
        "validators": [_judge(field)],
    }
    match field:
        case fields.Instant():
            return Instant(**common)
        case fields.Whole():
            return Whole(**common)
        case fields.Text():
            return Text(**common)
        case fields.Flag():
            return Flag(**common)
        case fields.Choice():
            return Choice(choices=[word for word, _ in field.words], **common)
    raise NotImplementedError(f"no member for {type(field).__name__}")


def _judge(field: fields.Field) -> Callable[[Any], None]:
    def judge(value: Any) -> None:
        if fault := field.fault(value):
            raise serializers.ValidationError(fault)

    return judge


def shaped(shape: type[Shape], data: Any) -> dict[str, Any]:
    """Return `data` in the given shape.

    :raises InvalidArgument: with every fault and its JSON pointer.
    """
    try:
        return _reader(shape).run_validation(data)
    except serializers.ValidationError as error:
        raise InvalidArgument(errors=faults_of(error.detail)) from None


@cache
def defaults_of(shape: type[Shape]) -> Mapping[str, Any]:
    """Return the values that members have that are left out, of those that have one."""
    fields = shape().fields.items()
    return {n: f.get_default() for n, f in fields if f.default is not serializers.empty}


@cache
def _reader(shape: type[Shape]) -> Shape:
    # Validation keeps nothing in the serializer; each new one would copy all of its fields.
    return shape()


def faults_of(detail: Any, *, pointer: str = "") -> list[FieldFault]:
    """Return the faults that a serializer found, each with its JSON pointer."""
    return list(_walk(detail, pointer))


def _walk(detail: Any, pointer: str) -> Iterator[FieldFault]:
    if isinstance(detail, Mapping):
        for name, inner in detail.items():
            whole = name == api_settings.NON_FIELD_ERRORS_KEY
            yield from _walk(inner, pointer if whole else f"{pointer}/{escaped(str(name))}")
    elif isinstance(detail, list):
        for place, inner in enumerate(detail):
            nested = isinstance(inner, (Mapping, list))
            yield from _walk(inner, f"{pointer}/{place}" if nested else pointer)
    else:
        yield FieldFault(pointer, str(detail))


def escaped(name: str) -> str:
    """Return a member name as a reference token of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")
