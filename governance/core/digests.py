"""Canonical bytes, digests and the identities made of them: pure functions.

A client in another language checks its own implementation against
`docs/reference/identity-vectors.json`.

Sources: RFC 8785 (JSON Canonicalization Scheme), RFC 7493 (I-JSON).
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from typing import Any
from uuid import UUID

import rfc8785

#: The largest integer that every JSON reader keeps exactly.
INTEGER_MAX = 2**53 - 1
DEPTH_MAX = 32
MEMBERS_MAX = 10_000
BODY_BYTES_MAX = 16 * 1024 * 1024
#: Python reads no integer of more than some thousands of digits; so many of them are beyond all.
READABLE_DIGITS = 1000

_SHA256_HEX = re.compile(r"[0-9a-f]{64}")
_EXTERNAL_REQUEST_ID = re.compile(r"xr_[0-9a-f]{64}")
_LATER_CALL = re.compile(r"[1-9][0-9]{0,8}")
_REFUSED_TEXT = re.compile("[\x00\ud800-\udfff]")


class NotStrictJson(ValueError):
    """The bytes are not the I-JSON that this service reads.

    `pointer` is the RFC 6901 pointer of the fault, empty for the body as a whole.
    """

    def __init__(self, detail: str, pointer: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.pointer = pointer


class NotStrictItem(dict[str, Any]):
    """Stands in a batch for an item that is JSON, but not the I-JSON that this service reads.

    Its members say what is wrong, and where in the item: `detail`, and `pointer`.
    """


def canonical(value: Any) -> bytes:
    """Return the RFC 8785 bytes of a JSON value.

    :raises ValueError: the value has no canonical form: NaN, infinities, lone surrogates,
        integers beyond 2^53-1, keys that are not text, types that JSON does not have, or nesting
        without end.
    """
    try:
        if _is_plain(value):
            # The C encoder gives the same bytes here, twice as fast; a property test compares.
            text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            return text.encode()
        return rfc8785.dumps(value)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 of `data` in lower-case hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def execution_digest(payload: bytes) -> str:
    """Return the digest of an envelope's payload, over the very bytes that were signed."""
    return sha256_hex(payload)


def external_request_id(
    *, task_id: str, job_id: UUID | str, execution_digest: str, runtime: str, attempt: int
) -> str:
    """Return the identity under which one attempt of a job touches the outside.

    :param job_id: a UUID, or its lower-case text with hyphens.
    :param execution_digest: 64 lower-case hexadecimal digits.
    :param attempt: the official attempt, counted from 1; neither a boolean nor text.
    :raises ValueError: a part is missing or malformed.
    """
    job = str(job_id)
    if not _is_text(task_id) or not _is_text(runtime):
        raise ValueError("task_id and runtime are text and not empty")
    if not _is_uuid(job):
        raise ValueError("job_id is a lower-case UUID with hyphens")
    if not isinstance(execution_digest, str) or not _SHA256_HEX.fullmatch(execution_digest):
        raise ValueError("execution_digest is 64 lower-case hexadecimal digits")
    identity = {
        "task_id": task_id,
        "job_id": job,
        "execution_digest": execution_digest,
        "runtime": runtime,
        "attempt": _counted(attempt, "attempt"),
    }
    return "xr_" + sha256_hex(canonical(identity))


def route_request_id(*, external_request_id: str, call: int = 1) -> str:
    """Return the identity of the `call`-th model call of an attempt, counted from 1.

    :raises ValueError: `external_request_id` is not one, or `call` is below 1.
    """
    if not _EXTERNAL_REQUEST_ID.fullmatch(external_request_id):
        raise ValueError("external_request_id is xr_ and 64 lower-case hexadecimal digits")
    number = _counted(call, "call")
    return f"{external_request_id}:model" + (f":{number}" if number > 1 else "")


def call_number(*, external_request_id: str, route_request_id: str) -> int:
    """Return which model call of the attempt `route_request_id` names, counted from 1.

    :raises ValueError: it is not an identity of this attempt.
    """
    first = f"{external_request_id}:model"
    if route_request_id == first:
        return 1
    number = route_request_id.removeprefix(first + ":")
    if number == route_request_id or not _LATER_CALL.fullmatch(number) or number == "1":
        raise ValueError("route_request_id does not belong to this external_request_id")
    return int(number)


def parse_strict(
    body: bytes,
    *,
    depth_max: int = DEPTH_MAX,
    members_max: int = MEMBERS_MAX,
    batch: bool = False,
    kept: str = "",
) -> Any:
    """Return the value of an I-JSON text.

    Numbers with a fraction or exponent become floats.  Whole numbers beyond 2^53-1 are refused in
    every spelling, because the database gives `1e20` back as an integer.

    :param depth_max: how deep objects and arrays may nest.
    :param members_max: how many members one object or array may have.
    :param batch: an item of the outermost array, or of an array in the outermost object, that is
        faulty spoils no other: a `NotStrictItem` takes its place.
    :param kept: a member of the outermost object that spoils nothing: what of it is JSON and no
        I-JSON is kept as its JSON text.
    :raises NotStrictJson: not UTF-8, not JSON, a duplicate key, NaN or an infinity, a lone
        surrogate, NUL, an integer beyond 2^53-1, or a limit passed.
    """
    if len(body) > BODY_BYTES_MAX:
        raise NotStrictJson(f"more than {BODY_BYTES_MAX} bytes")
    try:
        value = _read(body.decode("utf-8"))
    except NotStrictJson:
        raise
    except UnicodeDecodeError as error:
        raise NotStrictJson(f"not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise NotStrictJson(
            f"not JSON: {error.msg} at line {error.lineno} column {error.colno}"
        ) from error
    except RecursionError as error:
        raise NotStrictJson(f"nested deeper than {depth_max}") from error
    if kept and type(value) is dict and kept in value:
        value[kept] = _as_strict(value[kept], depth_max - 1, members_max)
    fault = _fault(value, "", depth_max, members_max)
    if fault is not None and batch:
        _set_items_apart(value, depth_max, members_max)
        fault = _fault(value, "", depth_max, members_max)
    if fault is not None:
        raise fault
    return value


def _read(text: str) -> Any:
    """Return the value of a JSON text as it is, to be looked through."""
    hooks: dict[str, Any] = {"object_pairs_hook": _object, "parse_constant": _no_constant}
    try:
        return json.loads(text, **hooks)
    except (NotStrictJson, json.JSONDecodeError):
        raise
    except ValueError:  # an integer of more digits than Python reads
        return json.loads(text, parse_int=_bounded_int, **hooks)


def _bounded_int(digits: str) -> int:
    """Return the integer, or one that is too large as well and can be read."""
    return int(digits[:READABLE_DIGITS])


def _as_strict(value: Any, depth_left: int, members_max: int) -> Any:
    """Return the value with each part of it that is no I-JSON as its JSON text."""
    if _fault(value, "", depth_left, members_max) is None:
        return value
    if type(value) not in (list, dict) or depth_left == 0 or len(value) > members_max:
        return json.dumps(value)
    if type(value) is list:
        return [_as_strict(member, depth_left - 1, members_max) for member in value]
    if any(map(_bad, value)):
        return json.dumps(value)
    return {key: _as_strict(member, depth_left - 1, members_max) for key, member in value.items()}


def _set_items_apart(value: Any, depth_max: int, members_max: int) -> None:
    """Put a `NotStrictItem` in the place of each faulty item of the batch."""
    arrays, depth_left = ([value], depth_max - 1) if type(value) is list else ([], 0)
    if isinstance(value, dict):
        arrays = [member for member in value.values() if type(member) is list]
        depth_left = depth_max - 2
    for array in arrays:
        for place, item in enumerate(array[:members_max]):
            if fault := _fault(item, "", depth_left, members_max):
                array[place] = NotStrictItem(detail=fault.detail, pointer=fault.pointer)


class _Duplicated(dict[str, Any]):
    """An object that named a key twice; found again, with its pointer, when the tree is walked."""

    key = ""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    duplicated = _Duplicated(found)
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            duplicated.key = key
        seen.add(key)
    return duplicated


def _no_constant(name: str) -> None:
    raise NotStrictJson(f"{name} is not a JSON number")


def _fault(value: Any, pointer: str, depth_left: int, members_max: int) -> NotStrictJson | None:
    """Return the first fault in a tree that the JSON reader built, if there is one."""
    kind = type(value)
    if kind is str:
        return NotStrictJson("a NUL or a lone surrogate", pointer) if _bad(value) else None
    if value is None or kind is bool:
        return None
    if kind is int or kind is float:
        return _number_fault(value, pointer)
    members = enumerate(value) if kind is list else value.items()
    return _members_fault(value, members, pointer, depth_left, members_max)


def _number_fault(value: int | float, pointer: str) -> NotStrictJson | None:
    if isinstance(value, float) and not math.isfinite(value):
        return NotStrictJson("a number that is not finite", pointer)
    if abs(value) > INTEGER_MAX and value == int(value):
        shown = f"{value:.6g}" if isinstance(value, float) else f"of {len(str(abs(value)))} digits"
        detail = f"an integer beyond {INTEGER_MAX} (2^53-1), {shown}; send it as text"
        return NotStrictJson(detail, pointer)
    return None


def _members_fault(
    container: Any, members: Any, pointer: str, depth_left: int, members_max: int
) -> NotStrictJson | None:
    if depth_left == 0:
        return NotStrictJson("nested too deep", pointer)
    if len(container) > members_max:
        return NotStrictJson(f"more than {members_max} members", pointer)
    if isinstance(container, _Duplicated):
        twice = pointer if _bad(container.key) else _below(pointer, container.key)
        return NotStrictJson("a key is named twice", twice)
    for key, member in members:
        if type(key) is str and _bad(key):
            return NotStrictJson("a key with a NUL or a lone surrogate", pointer)
        if fault := _fault(member, _below(pointer, key), depth_left - 1, members_max):
            return fault
    return None


def _below(pointer: str, key: str | int) -> str:
    return f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}"


def _bad(text: str) -> bool:
    return _REFUSED_TEXT.search(text) is not None


def _is_plain(value: object) -> bool:
    """Tell whether `json.dumps` gives the canonical bytes: no floats, and keys that sort alike.

    Python sorts by code point, RFC 8785 by UTF-16 code unit; they agree on ASCII keys.
    """
    kind = type(value)
    if value is None or kind is str or kind is bool:
        return True
    if isinstance(value, int):
        return -INTEGER_MAX <= value <= INTEGER_MAX
    if isinstance(value, dict):
        for key, member in value.items():
            if type(key) is not str or not key.isascii() or not _is_plain(member):
                return False
        return True
    return isinstance(value, list) and all(map(_is_plain, value))


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def _counted(value: object, name: str) -> int:
    # A boolean is an int in Python, and would give the identity of attempt 1 to `true`.
    if type(value) is not int or not 1 <= value <= INTEGER_MAX:
        raise ValueError(f"{name} is an integer of at least 1")
    return value
