"""Errors of ours in the shapes of the two faces, so that every client says them as its own.

Official SDKs repeat 408, 409, 429 and 5xx by themselves and wait as long as they are told; what is
final says so (`x-should-retry: false`), and names no wait that is longer than a minute.
"""

from __future__ import annotations

import json
from math import ceil
from typing import Any

from fencepost_worker.gateway.faces import Endpoint, Face
from fencepost_worker.gateway.wire import RETRY_AFTER_SECONDS_MAX

#: The kind of an error by its status, as each face words it.
KINDS = {
    Face.OPENAI: {
        400: "invalid_request_error",
        401: "authentication_error",
        403: "permission_error",
        404: "not_found_error",
        409: "conflict_error",
        413: "invalid_request_error",
        422: "invalid_request_error",
        429: "rate_limit_error",
    },
    Face.ANTHROPIC: {
        400: "invalid_request_error",
        401: "authentication_error",
        403: "permission_error",
        404: "not_found_error",
        409: "conflict_error",
        413: "request_too_large",
        422: "invalid_request_error",
        429: "rate_limit_error",
        504: "timeout_error",
        529: "overloaded_error",
    },
}
OTHERWISE = {Face.OPENAI: "server_error", Face.ANTHROPIC: "api_error"}


def error_answer(
    face: Face, *, status: int, reason: str, message: str, retry_after: float | None = None
) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers and body of a refusal.

    :param reason: ours, in capitals; it is the error's `code`, a header, and begins the message.
    :param retry_after: seconds after which it may be asked again; more than a minute is not told,
        since a client would sleep for it under a running lease.
    """
    kind = KINDS[face].get(status, OTHERWISE[face])
    headers = {
        "content-type": "application/json",
        "x-should-retry": "false",
        "x-fencepost-reason": reason,
    }
    if retry_after is not None and 0 <= retry_after <= RETRY_AFTER_SECONDS_MAX:
        headers["retry-after"] = str(ceil(retry_after))
    return status, headers, _encoded(_document(face, kind, reason, message))


def error_event(endpoint: Endpoint, *, reason: str, message: str) -> bytes:
    """Return the event by which a stream says that it is cut, after which it is broken off.

    It may only stand between two events (`Tap.at_boundary`).
    """
    if endpoint is Endpoint.MESSAGES:
        document = _document(Face.ANTHROPIC, "api_error", reason, message)
        return b"event: error\ndata: " + _encoded(document) + b"\n\n"
    error = _document(Face.OPENAI, "server_error", reason, message)["error"]
    if endpoint is Endpoint.RESPONSES:
        event = {"type": "error", "code": reason, "message": error["message"], "param": None}
        return b"event: error\ndata: " + _encoded(event | {"error": error}) + b"\n\n"
    return b"data: " + _encoded({"error": error}) + b"\n\n"


def _document(face: Face, kind: str, reason: str, message: str) -> dict[str, Any]:
    text = f"{reason}: {message}"
    if face is Face.ANTHROPIC:
        error = {"type": kind, "message": text, "details": {"error_code": reason}, "code": reason}
        return {"type": "error", "error": error, "request_id": None}
    return {"error": {"message": text, "type": kind, "param": None, "code": reason}}


def _encoded(document: dict[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=True, separators=(",", ":")).encode()
