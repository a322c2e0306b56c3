"""What a request says outside of its operation's shape: its body as strict JSON, its headers."""

from __future__ import annotations

import re
import time
from typing import Any
from uuid import UUID

from django.http import HttpRequest

from governance.core.digests import parse_strict
from governance.core.errors import (
    FieldFault,
    InvalidArgument,
    PayloadTooLarge,
    UnsupportedMediaType,
)
from governance.operations.operation import (
    ANY_REVISION,
    NO_REVISION,
    Context,
    Operation,
    Principal,
)

BODY_BYTES_MAX = 1 << 20
BATCH_BYTES_MAX = 8 << 20
JSON_TYPE = "application/json"
TIMEOUT_SECONDS_MAX = 60

#: A revision, also as older clients send it: without quotes, without the letter.
_REVISION = re.compile(r'"r?(\d{1,16})"|r?(\d{1,16})', re.ASCII)
_SECONDS = re.compile(r"\d{1,2}", re.ASCII)
#: RFC 9110, 8.8.3.
_ENTITY_TAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"')


def arrival() -> float:
    """Return the instant that a request which comes in now is bounded from."""
    return time.monotonic()


def json_of(request: HttpRequest, operation: Operation) -> Any:
    """Return the JSON body; None without one.

    An item of a batch that is no I-JSON is a `NotStrictItem` there, and spoils no other.

    :raises UnsupportedMediaType, PayloadTooLarge, InvalidArgument: it is not one we take.
    """
    raw = _bytes_of(request, BATCH_BYTES_MAX if operation.batch_max else BODY_BYTES_MAX)
    if not raw:
        return None
    if request.content_type != JSON_TYPE:
        raise UnsupportedMediaType()
    try:
        return parse_strict(raw, batch=bool(operation.batch_max), kept=operation.keeps)
    except ValueError as error:
        fault = FieldFault(getattr(error, "pointer", ""), str(error)[:500])
        raise InvalidArgument("The body is not I-JSON.", errors=[fault]) from error


def _bytes_of(request: HttpRequest, limit: int) -> bytes:
    """Return the bytes of the body.

    Read here and not by `request.body`, whose one bound is for forms, and which knows no body
    without a Content-Length.
    """
    try:
        length = int(request.META.get("CONTENT_LENGTH") or 0)
    except ValueError:
        raise InvalidArgument("The Content-Length is not a number.") from None
    chunked = "HTTP_TRANSFER_ENCODING" in request.META and not length
    raw = b""
    if chunked and request.META.get("wsgi.input_terminated"):
        try:
            raw = request.META["wsgi.input"].read(limit + 1)
        except Exception:  # of the server's own kind
            raise InvalidArgument("The body broke off, or its chunks are malformed.") from None
    elif 0 < length <= limit:
        raw = request.read(length)
    if max(length, len(raw)) > limit:
        raise PayloadTooLarge(f"A body of this call has {limit} bytes at most.")
    return raw


def context_of(
    request: HttpRequest, operation: Operation, principal: Principal | None, *, arrived: float
) -> Context:
    """Return who calls and under what terms.

    Headers that the operation does not know are passed over, malformed ones too.

    :param arrived: when the request came in, on the monotonic clock.

    :raises InvalidArgument: one that it knows is malformed.
    """
    headers = request.headers
    return Context(
        principal=principal,
        session_id=_uuid(headers, "Fencepost-Session") if operation.sessions else None,
        epoch=_uuid(headers, "Fencepost-Epoch") if operation.sessions else None,
        key=_unquoted(headers.get("Idempotency-Key")) if operation.key else None,
        operation_id=_stripped(headers.get("Operation-Id")) if operation.key else None,
        if_match=_revision(headers.get("If-Match")) if operation.if_match else None,
        if_none_match=(
            _revisions(headers.get("If-None-Match")) if operation.if_none_match else None
        ),
        deadline=_deadline(headers.get("Request-Timeout-Seconds"), arrived),
    )


def _deadline(text: str | None, arrived: float) -> float | None:
    """Return when the caller ceases to wait; None where it does not say.

    :raises InvalidArgument: the header is not a whole number of seconds in its bounds.
    """
    if text is None:
        return None
    text = text.strip()
    if _SECONDS.fullmatch(text) and 1 <= int(text) <= TIMEOUT_SECONDS_MAX:
        return arrived + int(text)
    raise InvalidArgument(
        f"Request-Timeout-Seconds is a whole number from 1 to {TIMEOUT_SECONDS_MAX}."
    )


def _uuid(headers: Any, name: str) -> UUID | None:
    text = headers.get(name)
    if text is None:
        return None
    try:
        return UUID(text.strip())
    except ValueError:
        raise InvalidArgument(f"The header {name} is not a UUID.") from None


def _stripped(text: str | None) -> str | None:
    return None if text is None else text.strip()


def _unquoted(key: str | None) -> str | None:
    """Return the key without the quotes of a structured field, which most clients do not send.

    Several keys are joined to what is no UUID, and an empty one is a key that somebody meant.
    """
    if key is None:
        return None
    key = key.strip()
    return key[1:-1] if len(key) > 1 and key[0] == key[-1] == '"' else key


def _revision(text: str | None) -> int | None:
    """Return the revision that `If-Match` names; None without the header, or for `*`.

    :raises InvalidArgument: the header is not one entity tag.
    """
    if text is None or text.strip() == "*":
        return None
    text = text.strip()
    if found := _REVISION.fullmatch(text):
        return int(found[1] or found[2])
    if _ENTITY_TAG.fullmatch(text):
        return NO_REVISION
    raise InvalidArgument('If-Match takes one entity tag, such as "r7".')


def _revisions(text: str | None) -> frozenset[int] | None:
    """Return the revisions that `If-None-Match` names; None without the header.

    A tag that is not of ours names none, and whether it is weak makes no difference (RFC 9110,
    13.1.2).

    :raises InvalidArgument: the header is no list of entity tags.
    """
    if text is None:
        return None
    text = text.strip()
    if text == "*":
        return frozenset({ANY_REVISION})
    if _REVISION.fullmatch(text):
        text = f'"{text.strip(chr(34))}"'
    tags = _ENTITY_TAG.findall(text)
    if not tags or _ENTITY_TAG.sub("", text).strip(" \t,"):
        raise InvalidArgument('If-None-Match takes entity tags, such as "r7", or *.')
    ours = (_REVISION.fullmatch(tag.removeprefix("W/")) for tag in tags)
    return frozenset(int(found[1] or found[2]) for found in ours if found)
