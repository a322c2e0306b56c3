"""Forms of verbs: what a confirmation page asks, made of the fields that the verb declares."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from governance.core.fields import (
    NO,
    YES,
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
from governance.core.reasons import REASON_CHARS_MAX
from governance.core.verbs import Verb

REASON_CHARS_MIN = 3
#: What an input holds that was left open. An empty JSON object is a value.
EMPTY = (None, "")


class ReasonForm(forms.Form):
    """What every verb asks for. The transition asks again."""

    reason = forms.CharField(
        min_length=REASON_CHARS_MIN,
        max_length=REASON_CHARS_MAX,
        widget=forms.Textarea(attrs={"rows": 3, "cols": 80}),
        help_text="Kept in the audit trail with your name.",
    )


class VerbForm(forms.Form):
    """The fields of one verb; `values` are what was given, by the fields' names."""

    def __init__(self, verb: Verb[Any], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.verb = verb
        self.values: dict[str, Any] = {}
        for field in verb.fields:
            self.fields[asked_as(field)] = input_of(field)
            # The form tells itself what it showed, whatever the row has come to since.
            self.fields[asked_as(field)].show_hidden_initial = verb.edits

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        for field in self.verb.fields:
            value = cleaned.get(asked_as(field))
            as_shown = self.verb.edits and asked_as(field) not in self.changed_data
            if value not in EMPTY and not as_shown:
                self.values[field.name] = value
        for rule in self.verb.rules:
            self.values = rule.settle(self.values)
            if (fault := rule.fault(self.values)) and not self.errors:
                self.add_error(rule.names[-1], fault)
        return cleaned


class SpanInput(forms.IntegerField):
    """A duration in its field's unit; its value is in seconds."""

    def __init__(self, span: Span, **common: Any) -> None:
        self.unit_seconds = span.unit_seconds
        least, most = -(-span.least // self.unit_seconds), span.most // self.unit_seconds
        super().__init__(min_value=least, max_value=most, **common)

    def clean(self, value: Any) -> int | None:
        units = super().clean(value)
        return None if units is None else units * self.unit_seconds


class JsonInput(forms.JSONField):
    """A JSON value; an empty object is one."""

    empty_values = list(EMPTY)


def asked_as(field: Field) -> str:
    """Return the name of the field's input."""
    return field.given_as if isinstance(field, Span) else field.name


@singledispatch
def input_of(field: Field) -> forms.Field:
    """Return the form field that asks for a field, by its kind."""
    raise NotImplementedError(f"no input for {type(field).__name__}")


@input_of.register
def _(field: Text) -> forms.Field:
    box = forms.Textarea(attrs={"rows": field.lines, "cols": 80}) if field.lines > 1 else None
    return forms.CharField(max_length=field.chars_max, widget=box, **_common(field))


@input_of.register
def _(field: Whole) -> forms.Field:
    return forms.IntegerField(min_value=field.least, max_value=field.most, **_common(field))


@input_of.register
def _(field: Span) -> forms.Field:
    return SpanInput(field, **_common(field, judged=False))


@input_of.register
def _(field: Amount) -> forms.Field:
    return forms.DecimalField(
        min_value=None if field.signed else 0,
        max_digits=field.digits,
        decimal_places=field.places,
        **_common(field),
    )


@input_of.register
def _(field: Flag) -> forms.Field:
    words = [(word, word) for word in (YES, NO)]
    return forms.TypedChoiceField(
        choices=words if field.required else [("", field.blank), *words],
        coerce=field.parse,
        empty_value=None,
        **_common(field, judged=False),
    )


@input_of.register
def _(field: Choice) -> forms.Field:
    blank = [] if field.required else [("", field.blank)]
    return forms.ChoiceField(
        choices=lambda: [*blank, *field.words],
        widget=forms.RadioSelect if field.meant else forms.Select,
        **_common(field),
    )


@input_of.register
def _(field: Instant) -> forms.Field:
    # The console's times are UTC, and so are those that it is given.
    clock = forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M")
    return forms.DateTimeField(widget=clock, **_common(field))


@input_of.register
def _(field: Json) -> forms.Field:
    box = forms.Textarea(attrs={"rows": field.lines, "cols": 80, "spellcheck": "false"})
    return JsonInput(widget=box, **_common(field))


def _common(field: Field, *, judged: bool = True) -> dict[str, Any]:
    """Return the options of every input. `judged`: its value is the field's own."""
    return {
        "required": field.required,
        "label": field.label or None,
        "help_text": field.help,
        "initial": field.initial,
        "validators": [_validator(field)] if judged else [],
    }


def _validator(field: Field) -> Callable[[Any], None]:
    def judge(value: Any) -> None:
        if fault := field.fault(value):
            raise ValidationError(fault)

    return judge
