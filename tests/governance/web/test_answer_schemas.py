"""What the API description says of an answer is what its `TypedDict` declares."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest

from governance.core.wire import InstantText, UuidText, explained, one_of
from governance.web.answer_schemas import object_schema, schema_of


class Inner(TypedDict):
    """Something inside."""

    count: int


class Outer(TypedDict):
    """An answer.

    And more of it.
    """

    id: UuidText
    at: InstantText | None
    inner: Inner
    rest: list[Inner]
    perhaps: NotRequired[Inner | None]
    word: Annotated[str, one_of(("a", "b")), explained("one of two")]


class Further(Outer):
    """One that adds to another."""

    share: float


def refer(answer: type) -> dict[str, Any]:
    return {"$ref": answer.__name__}


def test_an_object_has_its_members_and_says_which_are_always_there() -> None:
    assert object_schema(Further, refer) == {
        "type": "object",
        "description": "One that adds to another.",
        "properties": {
            "id": {"type": "string", "format": "uuid"},
            "at": {"type": ["string", "null"], "format": "date-time"},
            "inner": {"$ref": "Inner"},
            "rest": {"type": "array", "items": {"$ref": "Inner"}},
            "perhaps": {"oneOf": [{"$ref": "Inner"}, {"type": "null"}]},
            "word": {"type": "string", "enum": ["a", "b"], "description": "one of two"},
            "share": {"type": "number", "format": "double"},
        },
        "required": ["at", "id", "inner", "rest", "share", "word"],
    }
    assert object_schema(Outer, refer)["description"] == "An answer.\n\nAnd more of it."


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (Any, {}),
        (bool, {"type": "boolean"}),
        (Literal["x", "y"], {"type": "string", "enum": ["x", "y"]}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (dict[str, Any], {"type": "object", "additionalProperties": {}}),
        (list[str] | None, {"type": ["array", "null"], "items": {"type": "string"}}),
    ],
)
def test_a_member_has_the_schema_of_its_type(hint: Any, schema: dict[str, Any]) -> None:
    assert schema_of(hint, refer) == schema


@pytest.mark.parametrize("hint", [bytes, int | bytes, dict[int, str], tuple[int, int], object])
def test_what_json_cannot_carry_is_no_member(hint: Any) -> None:
    with pytest.raises(TypeError):
        schema_of(hint, refer)
