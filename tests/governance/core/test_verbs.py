"""Verbs are declared once: what is registered is complete, and all faces can use it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.core.management import get_commands

from governance.core import permissions, verbs
from governance.core.errors import InvalidArgument, NotFound
from governance.core.fields import Span, Whole
from governance.core.permissions import Permission
from governance.core.verbs import Done, OneOf, Target, Together, Verb
from jobs.models import Execution, Job

#: What a verb is called with beside its fields.
OURS = {"key", "actor", "reason", "expected_revision"}
EVERY = [pytest.param(verb, id=verb.address) for verb in verbs.every()]


def toy(**over: Any) -> Verb[Any]:
    declared: dict[str, Any] = {
        "name": "toy",
        "on": Target(Job, key="task_id"),
        "label": "Toy",
        "permission": next(iter(permissions.declared())),
        "effect": "Plays.",
        "fields": (Whole(name="n", least=0, most=9),),
        "run": lambda **request: request,
        "done": lambda request: Done(str(request)),
    }
    return Verb(**declared | over)


@pytest.mark.parametrize("verb", EVERY)
def test_a_verb_is_declared_in_full(verb: Verb[Any]) -> None:
    fields = [field.name for field in verb.fields]

    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", verb.name)
    assert verb.effect.endswith(".")
    assert verb.permission in permissions.declared()
    assert len(set(fields)) == len(fields)
    assert not set(fields) & OURS
    assert {name for rule in verb.rules for name in rule.names} <= set(fields)
    assert not (verb.makes and verb.as_seen)
    assert not verb.command or verb.command in get_commands()


def test_verbs_and_permissions_are_many() -> None:
    assert len(verbs.every()) > 40
    assert len({verb.address for verb in verbs.every()}) == len(verbs.every())
    assert len(permissions.declared()) > 15


def test_a_verb_is_declared_once() -> None:
    with pytest.raises(ValueError, match=r"job\.stop is declared twice"):
        verbs.register(toy(name="stop"))


def test_a_permission_is_declared_once_and_for_groups_that_there_are() -> None:
    with pytest.raises(ValueError, match="declared twice"):
        permissions.register(Permission("stop_job", "Can stop everything"))
    with pytest.raises(ValueError, match="no group strangers"):
        permissions.register(Permission("play", "Can play", ("strangers",)))


def test_governors_hold_every_permission_and_viewers_none() -> None:
    every = {permission.codename for permission in permissions.declared()}

    assert permissions.held_by("governor") == every
    assert permissions.held_by("viewer") == frozenset()
    assert "stop_job" in permissions.held_by("operator")
    assert "stop_job" not in permissions.held_by("approver")


def test_a_verb_calls_with_the_key_the_actor_the_reason_and_its_fields() -> None:
    called = toy().perform(key="t-1", actor="user:anna", reason="so", values={"n": 3})
    made = toy(makes=True).perform(key="", actor="user:anna", reason="so", values={})
    seen = toy(as_seen=True).perform(
        key="t-1", actor="user:anna", reason="so", values={}, seen_revision=4
    )

    assert called == {"key": "t-1", "actor": "user:anna", "reason": "so", "n": 3}
    assert made == {"actor": "user:anna", "reason": "so"}
    assert seen["expected_revision"] == 4


def test_a_key_is_of_the_type_of_its_field() -> None:
    assert Target(Job).parse("7") == 7
    assert Target(Execution, key="external_request_id").parse("xr_1") == "xr_1"
    with pytest.raises(NotFound, match="There is no job seven"):
        Target(Job).parse("seven")


def test_values_are_kept_and_given_back_by_their_fields() -> None:
    verb = toy()

    assert verb.restore(verb.keep({"n": 3})) == {"n": 3}
    assert verb.keep({}) == {}
    with pytest.raises(InvalidArgument, match=r"^Toy has no field gone, old \(any more\)\.$"):
        verb.restore({"old": 2, "n": 3, "gone": 1})


def test_one_of_several_fields_is_given() -> None:
    some, exactly = OneOf(("extra", "to_max")), OneOf(("extra", "to_max"), required=True)

    assert some.fault({}) == ""
    assert exactly.fault({}) == "Give extra or to max."
    assert some.fault({"extra": 1, "to_max": 2}) == "Give one of extra or to max, not both."
    assert some.settle({"extra": 1, "to_max": 2, "n": 3}) == {"to_max": 2, "n": 3}


def test_fields_that_go_together_are_all_given_or_none() -> None:
    both = Together(("input_tokens", "output_tokens"))

    assert both.fault({}) == both.fault({"input_tokens": 1, "output_tokens": 2}) == ""
    assert "or none" in both.fault({"input_tokens": 1})


def test_a_span_is_longer_than_its_unit_at_most() -> None:
    """A form asks in units: one of them must be within the bounds."""
    spans = [field for verb in verbs.every() for field in verb.fields if isinstance(field, Span)]

    assert spans
    assert all(span.most >= span.unit_seconds for span in spans)
