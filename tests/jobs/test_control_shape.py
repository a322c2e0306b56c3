"""The body of a control call is judged by the fields of its verb and by the rules between them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from governance.core.errors import InvalidArgument
from governance.core.fields import Whole
from governance.core.verbs import OneOf, Together
from governance.operations.shapes import Choice, Shape, shaped
from jobs.operations.shapes import ControlIn
from jobs.verbs import CONTROLS
from jobs.verbs.job import PAUSE

COMMON = {"action": "PLAY", "expected_task_revision": 1, "reason": "so"}
FIELDS = tuple(
    Whole(name=name, least=0, most=9, required=False) for name in ("few", "many", "low", "high")
)
RULES = (OneOf(("few", "many"), required=True), Together(("low", "high")))


@pytest.fixture
def playing(monkeypatch: pytest.MonkeyPatch) -> type[Shape]:
    """Return the shape with a verb of several fields among its actions."""
    toy = replace(PAUSE, name="toy", control="PLAY", fields=FIELDS, rules=RULES)
    monkeypatch.setitem(CONTROLS, "PLAY", toy)

    class Playing(ControlIn):
        action = Choice(choices=("PLAY",))

    return Playing


@pytest.mark.parametrize(
    "values", [{"few": 1}, {"many": 2}, {"few": 1, "low": 0, "high": 9}], ids=str
)
def test_what_its_rules_allow_is_taken(playing: type[Shape], values: dict[str, int]) -> None:
    assert shaped(playing, COMMON | values) == COMMON | {"values": values}


@pytest.mark.parametrize(
    ("values", "faults"),
    [
        ({}, {"/many": "Give few or many."}),
        ({"few": 1, "many": 2}, {"/many": "Give one of few or many, not both."}),
        ({"few": 1, "low": 3}, {"/high": "Give all of low and high, or none."}),
        (
            {"high": 3},
            {"/many": "Give few or many.", "/high": "Give all of low and high, or none."},
        ),
    ],
    ids=str,
)
def test_what_a_rule_refuses_is_told_at_its_last_field(
    playing: type[Shape], values: dict[str, int], faults: dict[str, Any]
) -> None:
    with pytest.raises(InvalidArgument) as refused:
        shaped(playing, COMMON | values)

    assert {fault.pointer: fault.detail for fault in refused.value.errors} == faults
