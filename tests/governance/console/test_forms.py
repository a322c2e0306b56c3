"""Forms of verbs: an input for each kind of field, and values with their types."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from governance.console.forms import VerbForm, input_of
from governance.core import permissions
from governance.core.fields import (
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
from governance.core.verbs import Done, OneOf, Target, Together, Verb
from jobs.models import Job
from tests.governance.core.test_fields import kinds

HOURS = Span(name="seconds", given_as="hours", unit="hours", least=1, most=7200)


def form_of(*fields: Field, rules: tuple[Any, ...] = (), **sent: Any) -> VerbForm:
    verb: Verb[Any] = Verb(
        name="toy",
        on=Target(Job, key="task_id"),
        label="Toy",
        permission=next(iter(permissions.declared())),
        effect="Plays.",
        fields=fields,
        rules=rules,
        run=lambda **request: request,
        done=lambda request: Done(str(request)),
    )
    return VerbForm(verb, sent)


@pytest.mark.parametrize("kind", sorted(kinds(), key=lambda kind: kind.__name__))
def test_every_kind_of_field_has_an_input(kind: type[Field]) -> None:
    assert input_of.dispatch(kind) is not input_of.dispatch(Field)


@pytest.mark.parametrize(
    ("field", "sent", "value"),
    [
        (Text(name="n", chars_max=9), "a b", "a b"),
        (Whole(name="n", least=0, most=9), "0", 0),
        (Amount(name="n"), "0", Decimal(0)),
        (Amount(name="n"), "1.50", Decimal("1.50")),
        (Flag(name="n"), "no", False),
        (Flag(name="n", required=False, blank="as it is"), "yes", True),
        (Choice(name="n", choices=(("on", "On"),)), "on", "on"),
        (Instant(name="n"), "2026-12-01T12:00", datetime(2026, 12, 1, 12, tzinfo=UTC)),
        (Json(name="n"), "{}", {}),
        (Json(name="n"), '{"a": 1}', {"a": 1}),
    ],
)
def test_an_input_gives_the_value_with_its_type(field: Field, sent: str, value: Any) -> None:
    form = form_of(field, n=sent)

    assert form.is_valid(), form.errors
    assert form.values == {"n": value}
    assert type(form.values["n"]) is type(value)


def test_a_span_is_asked_for_in_its_unit() -> None:
    form = form_of(HOURS, hours="2")

    assert form.is_valid()
    assert form.values == {"seconds": 7200}
    assert not form_of(HOURS, hours="3").is_valid()


@pytest.mark.parametrize(
    "field",
    [
        Text(name="n", chars_max=9, required=False),
        Flag(name="n", required=False, blank="as it is"),
        Choice(name="n", choices=(("on", "On"),), required=False, blank="any"),
        Instant(name="n", required=False),
        Span(name="n", given_as="n", unit="days", least=1, most=10**6, required=False),
    ],
)
def test_what_is_left_open_is_no_value(field: Field) -> None:
    form = form_of(field, n="")

    assert form.is_valid()
    assert form.values == {}


@pytest.mark.parametrize(
    ("field", "sent", "fault"),
    [
        (Text(name="n", chars_max=9, rule=lambda text: "Not so."), "a", "Not so."),
        (Text(name="n", chars_max=9, slug=True), "a b", "letters, digits"),
        (Whole(name="n", least=1, most=9), "10", "less than or equal to 9"),
        (Amount(name="n"), "-1", "greater than or equal to 0"),
        (Choice(name="n", choices=(("on", "On"),)), "off", "valid choice"),
        (Instant(name="n"), "9500-01-01T00:00", "before 9000"),
        (Instant(name="n"), "", "required"),
        (Json(name="n"), "{", "valid JSON"),
    ],
)
def test_an_input_tells_what_is_wrong(field: Field, sent: str, fault: str) -> None:
    form = form_of(field, n=sent)

    assert not form.is_valid()
    assert fault in str(form.errors["n"])


def test_fields_of_a_form_obey_the_rules_between_them() -> None:
    whole = [Whole(name=name, least=1, most=9, required=False) for name in "ab"]
    either = (OneOf(("a", "b"), required=True),)

    assert form_of(*whole, rules=either, a="1", b="2").values == {}
    both = form_of(*whole, rules=either, a="1", b="2")
    assert both.is_valid()
    assert both.values == {"b": 2}
    assert not form_of(*whole, rules=either).is_valid()
    assert not form_of(*whole, rules=(Together(("a", "b")),), a="1").is_valid()
