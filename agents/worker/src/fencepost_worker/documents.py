"""Judges the documents that pass between worker and runtime by their published schemas.

The schemas are files of this package; the control plane's reference holds copies of them.

Source: JSON Schema 2020-12.
"""

import json
import re
from collections.abc import Iterator
from importlib import resources
from typing import Any

from jsonschema import Draft202012Validator, ValidationError, validators

MAX_FAULT_CHARS = 300


def published_schema(name: str) -> dict[str, Any]:
    """Return the schema of this name: `execution-request` or `execution-result`."""
    path = resources.files("fencepost_worker") / "schemas" / f"{name}.schema.json"
    schema: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return schema


def result_fault(document: Any) -> str | None:
    """Return where and how the document breaks the schema of results, or None where it keeps it.

    Names the member and the rule, never what the member holds.
    """
    for error in _RESULT.iter_errors(document):
        member = ".".join(map(str, error.absolute_path)) or "the result"
        named = error.validator in ("required", "additionalProperties")
        rule = error.message if named else f"{error.validator} {json.dumps(error.validator_value)}"
        return f"{member}: {rule}"[:MAX_FAULT_CHARS]
    return None


def _matches(
    validator: Any, pattern: str, instance: Any, schema: dict[str, Any]
) -> Iterator[ValidationError]:
    # In ECMA 262 `$` is the end; in Python it is also before a line break at the end.
    if isinstance(instance, str) and not re.search(re.sub(r"\$$", r"\\Z", pattern), instance):
        yield ValidationError("does not match")


RESULT_SCHEMA = published_schema("execution-result")
#: What an optional member is when the document does not name it.
RESULT_DEFAULTS: dict[str, Any] = {
    name: member["default"]
    for name, member in RESULT_SCHEMA["properties"].items()
    if "default" in member
}
MAX_CODE_CHARS: int = RESULT_SCHEMA["properties"]["error_code"]["maxLength"]
MAX_MESSAGE_CHARS: int = RESULT_SCHEMA["properties"]["error_message"]["maxLength"]

#: The library says no types of it.
_extended: Any = validators.extend
_RESULT = _extended(
    Draft202012Validator,
    {"pattern": _matches},
    # The schema language takes 1.0 for an integer; the control plane does not.
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: type(value) is int
    ),
)(RESULT_SCHEMA)
