"""Failures over HTTP, Django's own too: each a problem (RFC 9457) of `governance.core.errors`."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied as DjangoPermissionDenied
from django.core.exceptions import (
    RequestDataTooBig,
    SuspiciousOperation,
    TooManyFieldsSent,
)
from django.http import Http404, HttpResponse, UnreadablePostError
from rest_framework import exceptions as drf

from governance.core import audit
from governance.core.errors import (
    DomainError,
    Internal,
    InvalidArgument,
    MethodNotAllowed,
    NotAcceptable,
    NotFound,
    PayloadTooLarge,
    PermissionDenied,
    RateLimited,
    Unauthenticated,
    Unavailable,
    UnsupportedMediaType,
)
from governance.core.idempotency import REFUSED, Answer
from governance.operations import failures
from governance.operations.failures import RETRY_AFTER_SECONDS

PROBLEM_TYPE = "application/problem+json"
AUTHENTICATE = 'Bearer realm="fencepost"'
#: Where all failures are problems; `/objects/` is for machines as well.
API_PATHS = ("/v1/", "/.well-known/fencepost/", "/objects/")

#: RFC 9110, 9.2.1: they change nothing, so that nothing can be in doubt of them.
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")

#: What frameworks raise, and what it is called here. The first match counts.
_FOREIGN: tuple[tuple[type[Exception], type[DomainError]], ...] = (
    (drf.NotAuthenticated, Unauthenticated),
    (drf.AuthenticationFailed, Unauthenticated),
    (drf.PermissionDenied, PermissionDenied),
    (drf.NotFound, NotFound),
    (drf.MethodNotAllowed, MethodNotAllowed),
    (drf.NotAcceptable, NotAcceptable),
    (drf.UnsupportedMediaType, UnsupportedMediaType),
    (drf.Throttled, RateLimited),
    (drf.ParseError, InvalidArgument),
    (drf.ValidationError, InvalidArgument),
    (Http404, NotFound),
    (DjangoPermissionDenied, PermissionDenied),
    (RequestDataTooBig, PayloadTooLarge),
    (TooManyFieldsSent, InvalidArgument),
    (SuspiciousOperation, InvalidArgument),
    (UnreadablePostError, InvalidArgument),
)
#: What a status of Django's own is called here.
_BY_STATUS: dict[int, type[DomainError]] = {
    400: InvalidArgument,
    401: Unauthenticated,
    403: PermissionDenied,
    404: NotFound,
    405: MethodNotAllowed,
    406: NotAcceptable,
    413: PayloadTooLarge,
    415: UnsupportedMediaType,
    429: RateLimited,
    503: Unavailable,
}


def problem(refusal: DomainError, *, method: str | None) -> HttpResponse:
    """Return the refusal as a problem document. :param method: of the request that is refused."""
    if refusal.status == 503 and refusal.after_seconds is None:
        refusal.after_seconds = RETRY_AFTER_SECONDS
    document = refusal.as_problem(instance=audit.request_urn(), of_write=method not in SAFE_METHODS)
    return problem_of(Answer(REFUSED, document, refusal.status))


def problem_of(answer: Answer) -> HttpResponse:
    """Return an answer that is a refusal, kept or replayed ones included."""
    response = HttpResponse(answer.content, content_type=PROBLEM_TYPE, status=answer.status)
    response["Cache-Control"] = "no-store"
    after_seconds = answer.members["retry"]["after_seconds"]
    if after_seconds is not None:
        response["Retry-After"] = str(after_seconds)
    if answer.status == 401:
        response["WWW-Authenticate"] = AUTHENTICATE
    return response


def problem_response(error: Exception, context: dict[str, Any]) -> HttpResponse | None:
    """Return what a view's exception is answered with; None: nobody foresaw it, a 500."""
    refusal = refusal_of(error)
    if refusal is None:
        return None
    response = problem(refusal, method=context["request"].method)
    if isinstance(error, drf.MethodNotAllowed) and (view := context.get("view")) is not None:
        response["Allow"] = ", ".join(sorted(view.bindings))
    return response


def refusal_of(error: Exception) -> DomainError | None:
    """Return the refusal that an exception of ours, the database or a framework means, or None."""
    if (refusal := failures.refusal_of(error)) is not None:
        return refusal
    for foreign, ours in _FOREIGN:
        if isinstance(error, foreign):
            return ours()
    return None


def problem_for_status(status: int, detail: str = "", *, method: str | None) -> HttpResponse:
    """Return the problem for an error answer that did not come from a view of the API."""
    kind = _BY_STATUS.get(status, Internal if status >= 500 else InvalidArgument)
    return problem(kind(detail), method=method)


def is_api_path(path: str) -> bool:
    """Return whether the path belongs to the API, where all failures are problems."""
    return path.startswith(API_PATHS) or path == "/v1"
