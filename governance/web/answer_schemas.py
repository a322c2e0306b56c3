"""JSON Schemas of answers: made of the `TypedDict`s that declare them."""

from __future__ import annotations

import types
from collections.abc import Callable
from inspect import cleandoc
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from governance.core.wire import Form

Schema = dict[str, Any]
#: Returns the schema by which an object that is a component is referred to.
Referring = Callable[[type], Schema]

_PLAIN: dict[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number", "format": "double"},
    bool: {"type": "boolean"},
}


def object_schema(answer: type, refer: Referring) -> Schema:
    """Return the schema of a `TypedDict`.

    :param refer: what other `TypedDict`s in it are replaced by.
    """
    hints = get_type_hints(answer, include_extras=True)
    required = [name for name, hint in hints.items() if get_origin(hint) is not NotRequired]
    return {
        "type": "object",
        "description": cleandoc(answer.__doc__ or ""),
        "properties": {name: schema_of(hint, refer) for name, hint in hints.items()},
        "required": sorted(required),
    }


def schema_of(hint: Any, refer: Referring) -> Schema:
    """Return the schema of a member's type.

    :raises TypeError: JSON has no such type.
    """
    if hint is Any:
        return {}
    if hint in _PLAIN:
        return dict(_PLAIN[hint])
    if is_typeddict(hint):
        return refer(hint)
    origin, inner = get_origin(hint), get_args(hint)
    if origin is NotRequired:
        return schema_of(inner[0], refer)
    if origin is Annotated:
        forms = [form.schema for form in inner[1:] if isinstance(form, Form)]
        schema = schema_of(inner[0], refer)
        for form in forms:
            schema = schema | form
        return schema
    if origin is Literal:
        return {"type": "string", "enum": list(inner)}
    if origin in (Union, types.UnionType) and all(each in _PLAIN for each in inner):
        return {"type": [_PLAIN[each]["type"] for each in inner]}
    if origin in (Union, types.UnionType) and all(is_typeddict(each) for each in inner):
        return {"anyOf": [refer(each) for each in inner]}
    if origin in (Union, types.UnionType) and len(inner) == 2 and inner[1] is type(None):
        return _nullable(schema_of(inner[0], refer))
    if origin is list:
        return {"type": "array", "items": schema_of(inner[0], refer)}
    if origin is dict and inner[0] is str:
        return {"type": "object", "additionalProperties": schema_of(inner[1], refer)}
    raise TypeError(f"{hint} is no type of a member of an answer")


def _nullable(schema: Schema) -> Schema:
    if "$ref" in schema:
        return {"oneOf": [schema, {"type": "null"}]}
    return schema | {"type": [schema["type"], "null"]}
