"""The HTTP door of machines: what every call of the API has in common.

A view declares its calls as data (`Call`) and translates: `read` the body, make one move, answer.
The order of judgement is: who calls, may it call this at all, is the request well formed; only
then is anything looked up.  Every failure is a problem (RFC 9457) of `governance.core.errors`.
"""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar
from uuid import UUID

import structlog
from django.core.exceptions import PermissionDenied as DjangoPermissionDenied
from django.core.exceptions import (
    RequestDataTooBig,
    SuspiciousOperation,
    TooManyFieldsSent,
)
from django.db import DatabaseError, DataError, InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, UnreadablePostError
from django_filters import FilterSet
from rest_framework import exceptions as drf
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request
from rest_framework.serializers import BaseSerializer
from rest_framework.views import APIView

from governance.core import audit, idempotency, sql
from governance.core.digests import canonical, parse_strict
from governance.core.errors import (
    Contention,
    DomainError,
    FieldFault,
    IdempotencyKeyInvalid,
    IdempotencyKeyRequired,
    Internal,
    InvalidArgument,
    MethodNotAllowed,
    NotAcceptable,
    NotFound,
    PayloadTooLarge,
    PermissionDenied,
    PreconditionFailed,
    ProtocolUnsupported,
    RateLimited,
    Unauthenticated,
    Unavailable,
    UnsupportedMediaType,
)
from governance.core.idempotency import RETRIED_STATES, Answer, Key
from governance.web.openapi import ProblemSchema
from governance.web.shapes import Shape, faults_of

BODY_BYTES_MAX = 1 << 20
#: Members of a body by which its log line is found; none of them is secret.
LOGGED_MEMBERS = ("task_id", "attempt", "worker_id")
BATCH_BYTES_MAX = 8 << 20
PAGE_SIZE = 50
PAGE_SIZE_MAX = 200

#: Versions of the wire protocol, `MAJOR` or `MAJOR.MINOR`, that this service speaks.
PROTOCOL_MIN = (1, 0)
PROTOCOL_MAX = (1, 0)

PROBLEM_TYPE = "application/problem+json"
JSON_TYPE = "application/json"
#: Where all failures are problems; `/objects/` is for machines as well.
API_PATHS = ("/v1/", "/.well-known/fencepost/", "/objects/")
#: SQLSTATE of `statement_timeout`: the statement, and with it the transaction, did nothing.
QUERY_CANCELED = "57014"
#: 503 without a known end says so.
RETRY_AFTER_SECONDS = 1

#: A revision, also as older clients send it: without quotes, without the letter.
_REVISION = re.compile(r'"r?(\d{1,16})"|r?(\d{1,16})', re.ASCII)
#: RFC 9110, 8.8.3.
_ENTITY_TAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"')
#: What a cursor of ours says: how far from which key, in which direction.
_CURSOR = re.compile(r"(?:o=\d{1,4}&)?(?:r=1&)?p=\d{1,18}", re.ASCII)
#: W3C Trace Context, version 00.
_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}", re.ASCII)
_VERSION = re.compile(r"(\d{1,4})(?:\.(\d{1,4}))?", re.ASCII)


@dataclass(frozen=True)
class Call:
    """One method of a path, as data: who may call it, what it takes and gives.

    :param operation: its name in idempotency records and in the API description.
    :param scopes: one of these is needed; empty: no credential is.
    :param reads: the shape of the body; None without one.
    :param answers: the shape of each status of success.
    :param key: whether an `Idempotency-Key` is "honoured", "required" or, for reads, "".
    :param query: the query parameters that exist beside those of `filters`.
    """

    operation: str
    scopes: tuple[str, ...] = ()
    reads: type[BaseSerializer] | None = None
    answers: Mapping[int, type[BaseSerializer]] = field(default_factory=dict)
    key: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    filters: type[FilterSet] | None = None
    paged: bool = False
    if_match: bool = False
    sessions: bool = False
    batch_max: int = 0
    batch_name: str = "items"
    tag: str = ""

    @property
    def known_query(self) -> frozenset[str]:
        names = set(self.query)
        if self.filters is not None:
            names |= set(self.filters.base_filters)
        if self.paged:
            names |= {"cursor", "page_size"}
        return frozenset(names)


class KeysetPage(CursorPagination):
    """Pages by key, newest first, without a count."""

    page_size = PAGE_SIZE
    page_size_query_param = "page_size"
    max_page_size = PAGE_SIZE_MAX
    ordering = "-id"

    def decode_cursor(self, request: Request) -> Any:
        text = request.query_params.get(self.cursor_query_param)
        if text is not None and not _is_cursor(text):
            raise _bad_parameter("cursor", "not one that this list has given")
        return super().decode_cursor(request)

    def get_page_size(self, request: Request) -> int | None:
        text = request.query_params.get(self.page_size_query_param)
        if text is not None and not (text.isascii() and text.isdecimal() and int(text[:9])):
            raise _bad_parameter("page_size", f"a whole number from 1 to {PAGE_SIZE_MAX}")
        return super().get_page_size(request)


def _is_cursor(text: str) -> bool:
    try:
        return _CURSOR.fullmatch(base64.b64decode(text, validate=True).decode()) is not None
    except ValueError:
        return False


def _bad_parameter(name: str, wanted: str) -> InvalidArgument:
    fault = FieldFault(f"/{name}", wanted)
    return InvalidArgument("A query parameter is not valid.", errors=[fault])


class WorkerView(APIView):
    """A path of the API. Subclasses declare `calls` and define `get` and `post`."""

    calls: ClassVar[Mapping[str, Call]] = {}
    http_method_names = ["get", "head", "post", "put", "delete"]
    permission_classes = ()
    throttle_classes = ()
    parser_classes = ()
    renderer_classes = ()
    schema = ProblemSchema()

    @property
    def call(self) -> Call | None:
        """The call that the request makes, or None where the path does not know the method."""
        method = (self.request.method or "").lower()
        return self.calls.get("get" if method == "head" else method)

    @property
    def principal(self) -> Any:
        """Who calls: the `Principal` that authentication found."""
        return self.request.user

    def get_exception_handler(self) -> Callable[..., HttpResponse | None]:
        # Not left to a setting: whatever the project configures, a view of the API fails as one.
        return problem_response

    def perform_content_negotiation(self, request: Request, force: bool = False) -> tuple[Any, str]:
        """There is one representation. RFC 9110, 12.5.1 allows to disregard `Accept`."""
        return None, JSON_TYPE

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Judge the caller and the outside of the request, before anything is looked up."""
        call = self.call
        if call is None:
            raise drf.MethodNotAllowed(request.method or "")
        if call.scopes:
            self._authorize(call)
        self._name_in_logs(request)
        check_protocol(request.headers.get("Fencepost-Protocol", ""))
        self._check_query(request, call)

    def _authorize(self, call: Call) -> None:
        principal = self.principal
        if not getattr(principal, "scopes", None):
            if getattr(principal, "is_authenticated", False):
                raise PermissionDenied("The credential has no scope.")
            raise Unauthenticated()
        if principal.scopes.isdisjoint(call.scopes):
            wanted = " or ".join(f"`{scope}`" for scope in call.scopes)
            raise PermissionDenied(f"The credential lacks the scope {wanted}.")

    def _name_in_logs(self, request: Request) -> None:
        names = {name: str(value) for name, value in self.kwargs.items()}
        if trace := _TRACEPARENT.fullmatch(request.headers.get("traceparent", "")):
            names |= {"trace_id": trace[1], "parent_span_id": trace[2]}
        if self.call is not None and self.call.scopes:
            names["principal"] = self.principal.text
        structlog.contextvars.bind_contextvars(**names)

    @staticmethod
    def _check_query(request: Request, call: Call) -> None:
        if not request.META.get("QUERY_STRING"):
            return
        asked = request.query_params
        unknown = asked.keys() - call.known_query
        if unknown:
            faults = [
                FieldFault("", f"unknown query parameter: {n[:100]}") for n in sorted(unknown)
            ]
            raise InvalidArgument("There are unknown query parameters.", errors=faults)
        # One of two values would win silently.
        if twice := [name for name, values in asked.lists() if len(values) > 1]:
            faults = [FieldFault(f"/{name}", "given more than once") for name in sorted(twice)]
            raise InvalidArgument("Query parameters are given once.", errors=faults)

    # --- reading ---------------------------------------------------------------------------

    @property
    def body(self) -> Any:
        """The JSON body, parsed once; an absent one is an empty object.

        :raises UnsupportedMediaType, PayloadTooLarge, InvalidArgument: it is not one we take.
        """
        if not hasattr(self, "_body"):
            self._body = self._parse()
        return self._body

    def _parse(self) -> Any:
        request: HttpRequest = self.request._request
        call = self.call
        limit = BATCH_BYTES_MAX if call and call.batch_max else BODY_BYTES_MAX
        raw = _read(request, limit)
        if not raw:
            return {}
        if request.content_type != JSON_TYPE:
            raise UnsupportedMediaType()
        try:
            return parse_strict(raw)
        except ValueError as error:
            fault = FieldFault(getattr(error, "pointer", ""), str(error)[:500])
            raise InvalidArgument("The body is not I-JSON.", errors=[fault]) from error

    def read(self, shape: type[Shape]) -> dict[str, Any]:
        """Return the body in the given shape.

        :raises InvalidArgument: with every fault and its JSON pointer.
        """
        body = shaped(shape, self.body)
        named = {name: body[name] for name in LOGGED_MEMBERS if body.get(name) is not None}
        structlog.contextvars.bind_contextvars(**named)
        return body

    def read_batch(self, shape: type[Shape]) -> list[dict[str, Any] | InvalidArgument]:
        """Return the items of a batch, the malformed ones as what is wrong with them.

        The body is an object whose one member (the call's `batch_name`, or `items`) is the array,
        or that array by itself.

        :raises InvalidArgument: the outer shape is broken, or the batch is too large or empty.
        """
        items, call = self.body, self.call
        assert call is not None
        if isinstance(items, dict) and len(items) == 1:
            [(name, inner)] = items.items()
            items = inner if name in (call.batch_name, "items") else None
        if not isinstance(items, list):
            wanted = f"an object with the one member `{call.batch_name}`, an array"
            raise InvalidArgument("This is no batch.", errors=[FieldFault("", wanted)])
        if not 1 <= len(items) <= call.batch_max:
            raise InvalidArgument(f"A batch has 1 to {call.batch_max} items.")
        return [_item(shape, item) for item in items]

    def session_headers(self) -> tuple[UUID | None, UUID | None]:
        """Return the session and epoch that the caller names in its headers, if it does.

        :raises InvalidArgument: one of them is not a UUID.
        """
        return self._uuid_header("Fencepost-Session"), self._uuid_header("Fencepost-Epoch")

    def _uuid_header(self, name: str) -> UUID | None:
        text = self.request.headers.get(name)
        if text is None:
            return None
        try:
            return UUID(text.strip())
        except ValueError:
            raise InvalidArgument(f"The header {name} is not a UUID.") from None

    def if_match(self) -> int | None:
        """Return the revision of `If-Match`; None without the header, or for `*`.

        :raises InvalidArgument: the header is not one entity tag.
        :raises PreconditionFailed: it is one that no revision of ours has.
        """
        text = self.request.headers.get("If-Match")
        if text is None or text.strip() == "*":
            return None
        text = text.strip()
        if found := _REVISION.fullmatch(text):
            return int(found[1] or found[2])
        if _ENTITY_TAG.fullmatch(text):
            raise PreconditionFailed("The entity tag in If-Match is not one of ours.")
        raise InvalidArgument('If-Match takes one entity tag, such as "r7".')

    def filtered(self, queryset: Any) -> Any:
        """Return the queryset under the call's filters.

        :raises InvalidArgument: a filter has a value that it does not take.
        """
        call = self.call
        assert call is not None and call.filters is not None
        filters = call.filters(self.request.query_params, queryset=queryset, request=self.request)
        if not filters.is_valid():
            raise InvalidArgument("A filter is not valid.", errors=faults_of(filters.errors))
        return filters.qs

    # --- answering -------------------------------------------------------------------------

    @property
    def key(self) -> UUID | None:
        """The request's idempotency key.

        :raises IdempotencyKeyRequired, IdempotencyKeyInvalid: none, or not a UUIDv7.
        :raises IdempotencyKeyExpired: it is older than the records.
        """
        text = self.request.headers.get("Idempotency-Key")
        if text is None:
            if self.call is not None and self.call.key == "required":
                raise IdempotencyKeyRequired()
            return None
        # A structured field string has quotes, and most clients send none. Several keys are joined
        # to what is no UUID, and an empty one is a key that somebody meant to send.
        text = text.strip()
        if len(text) > 1 and text[0] == text[-1] == '"':
            text = text[1:-1]
        try:
            key = UUID(text)
        except ValueError:
            raise IdempotencyKeyInvalid() from None
        if key.version != 7:
            raise IdempotencyKeyInvalid()
        idempotency.check_age(key, now_ms=time.time_ns() // 1_000_000)
        return key

    def once(
        self, run: Callable[[], Answer], *, gate: Callable[[], None] | None = None
    ) -> HttpResponse:
        """Run the one move of this request under its idempotency key, and answer.

        :param gate: evaluated in the transaction before a stored answer is given.
        """
        return respond(self.once_answer(run, gate=gate))

    def once_answer(
        self, run: Callable[[], Answer], *, gate: Callable[[], None] | None = None
    ) -> Answer:
        """Run the one move of this request under its idempotency key, and return its answer."""
        return idempotency.once(run, key=self._identity(), gate=gate)

    def _identity(self) -> Key | None:
        key, call = self.key, self.call
        if key is None:
            return None
        assert call is not None
        digest = idempotency.request_digest(
            method=self.request.method or "",
            operation=call.operation,
            path=self.kwargs,
            canonical=canonical(self.body),
        )
        return Key(self.principal.text, call.operation, key, digest)

    def page(
        self, queryset: Any, render: Callable[[list[Any]], list[Any]], *, ordering: str = "-id"
    ) -> HttpResponse:
        """Answer one page of the queryset, by key and without a count.

        :param ordering: a unique column; the page's key.
        """
        pages = KeysetPage()
        pages.ordering = ordering
        rows: list[Any] | None = pages.paginate_queryset(queryset, self.request, view=self)
        body = {
            "results": render(rows or []),
            "next": pages.get_next_link(),
            "previous": pages.get_previous_link(),
        }
        return respond(Answer(200, body))


def respond(answer: Answer) -> HttpResponse:
    """Return the answer as it goes over the wire."""
    kind = PROBLEM_TYPE if answer.status >= 400 else JSON_TYPE
    response = HttpResponse(answer.content, content_type=kind, status=answer.status)
    for name, value in answer.headers.items():
        response[name] = value
    if answer.replayed:
        response["Idempotent-Replayed"] = "true"
    response["Cache-Control"] = "no-store"
    return response


def shaped(shape: type[Shape], data: Any) -> dict[str, Any]:
    """Return `data` in the given shape.

    :raises InvalidArgument: with every fault and its JSON pointer.
    """
    try:
        return _reader(shape).run_validation(data)
    except drf.ValidationError as error:
        raise InvalidArgument(errors=faults_of(error.detail)) from None


@cache
def _reader(shape: type[Shape]) -> Shape:
    # Validation keeps nothing in the serializer; each new one would copy all of its fields.
    return shape()


def _item(shape: type[Shape], data: Any) -> dict[str, Any] | InvalidArgument:
    try:
        return shaped(shape, data)
    except InvalidArgument as fault:
        return fault


def _read(request: HttpRequest, limit: int) -> bytes:
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


def etag(revision: int) -> str:
    """Return the entity tag of a job's revision."""
    return f'"r{revision}"'


def check_protocol(text: str) -> None:
    """Refuse a protocol version that this service does not speak. No version is the newest.

    :raises ProtocolUnsupported: with the supported range as `current`.
    """
    if not text:
        return
    found = _VERSION.fullmatch(text.strip())
    if found is not None and PROTOCOL_MIN <= (int(found[1]), int(found[2] or 0)) <= PROTOCOL_MAX:
        return
    raise ProtocolUnsupported(current={"supported": supported_protocols()})


def supported_protocols() -> dict[str, str]:
    """Return the range of protocol versions that this service speaks."""
    return {
        "min": ".".join(map(str, PROTOCOL_MIN)),
        "max": ".".join(map(str, PROTOCOL_MAX)),
    }


# --- failing -------------------------------------------------------------------------------


def problem(refusal: DomainError) -> HttpResponse:
    """Return the refusal as a problem document."""
    if refusal.status == 503 and refusal.after_seconds is None:
        refusal.after_seconds = RETRY_AFTER_SECONDS
    answer = Answer(refusal.status, refusal.as_problem(instance=audit.request_urn()))
    response = respond(answer)
    if refusal.after_seconds is not None:
        response["Retry-After"] = str(refusal.after_seconds)
    if refusal.status == 401:
        response["WWW-Authenticate"] = 'Bearer realm="fencepost"'
    return response


def problem_response(error: Exception, context: dict[str, Any]) -> HttpResponse | None:
    """Return what a view's exception is answered with; None: nobody foresaw it, a 500."""
    refusal = refusal_of(error)
    if refusal is None:
        return None
    response = problem(refusal)
    if isinstance(error, drf.MethodNotAllowed) and (view := context.get("view")) is not None:
        response["Allow"] = ", ".join(sorted(method.upper() for method in view.calls))
    return response


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


def refusal_of(error: Exception) -> DomainError | None:
    """Return the refusal that an exception means, or None."""
    if isinstance(error, DomainError):
        return error
    if isinstance(error, DatabaseError | InterfaceError):
        return _refusal_of_database(error)
    for foreign, ours in _FOREIGN:
        if isinstance(error, foreign):
            return ours()
    return None


def _refusal_of_database(error: Exception) -> DomainError | None:
    state = sql.sqlstate(error)
    if state in RETRIED_STATES or state == QUERY_CANCELED:
        return Contention(after_seconds=RETRY_AFTER_SECONDS)
    if isinstance(error, DataError):
        return InvalidArgument("A value is outside of what can be stored.")
    # Lost, refused or shut down (classes 08 and 57), too many (53), or no state at all.
    if isinstance(error, OperationalError | InterfaceError):
        return Unavailable(after_seconds=RETRY_AFTER_SECONDS)
    return None


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


def problem_for_status(status: int, detail: str = "") -> HttpResponse:
    """Return the problem for an error answer that did not come from a view of the API."""
    kind = _BY_STATUS.get(status, Internal if status >= 500 else InvalidArgument)
    return problem(kind(detail))


def is_api_path(path: str) -> bool:
    """Return whether the path belongs to the API, where all failures are problems."""
    return path.startswith(API_PATHS) or path == "/v1"
