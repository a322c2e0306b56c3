"""The HTTP face of operations: one view, made from the table of bindings.

The order of judgement is that of `performing.perform`: who calls, may it call this at all, the
headers and the query, and only then the body.  Every failure is a problem.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, cast

import structlog
from django.http import HttpResponse, HttpResponseNotModified
from django.urls import URLPattern, path
from rest_framework import exceptions as drf
from rest_framework.request import Request as HttpRequest
from rest_framework.utils.urls import replace_query_param
from rest_framework.views import APIView

from governance.core.errors import FieldFault, InvalidArgument
from governance.core.idempotency import Answer
from governance.core.protocol import check_protocol
from governance.operations.operation import Principal, Request
from governance.operations.performing import admit, perform
from governance.web.bindings import NOT_MODIFIED, Binding
from governance.web.openapi import OperationSchema
from governance.web.problems import problem_of, problem_response
from governance.web.reading import JSON_TYPE, arrival, context_of, json_of

#: W3C Trace Context, version 00.
_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}", re.ASCII)


class OperationView(APIView):
    """A path of the API: `bindings` has the operation of each method."""

    bindings: ClassVar[Mapping[str, Binding]] = {}
    http_method_names = ["get", "head", "post"]
    permission_classes = ()
    throttle_classes = ()
    parser_classes = ()
    renderer_classes = ()
    schema = OperationSchema()

    @property
    def binding(self) -> Binding:
        """Return the binding of the request's method.

        :raises MethodNotAllowed: the path has none.
        """
        method = self.request.method or ""
        binding = self.bindings.get("GET" if method == "HEAD" else method)
        if binding is None:
            raise drf.MethodNotAllowed(method)
        return binding

    @property
    def principal(self) -> Principal | None:
        """Return who calls: what authentication has made of the request's credential."""
        return cast("Principal | None", self.request.user)

    def get_exception_handler(self) -> Callable[..., HttpResponse | None]:
        # Not left to a setting: whatever the project configures, a view of the API fails as one.
        return problem_response

    def perform_content_negotiation(
        self, request: HttpRequest, force: bool = False
    ) -> tuple[Any, str]:
        """Give the one representation. RFC 9110, 12.5.1 allows to disregard `Accept`."""
        return None, JSON_TYPE

    def initial(self, request: HttpRequest, *args: Any, **identity: Any) -> None:
        """Judge the caller and the outside of the request, before anything is read."""
        self.arrived = arrival()
        operation = self.binding.operation
        _name_in_logs(request, identity, self.principal)
        admit(operation, self.principal, request.query_params)
        check_protocol(request.headers.get("Fencepost-Protocol", ""))
        # One of two values would win silently.
        once = request.query_params.keys() - operation.repeatable
        if twice := [name for name in once if len(request.query_params.getlist(name)) > 1]:
            faults = [FieldFault(f"/{name}", "given more than once") for name in sorted(twice)]
            raise InvalidArgument("Query parameters are given once.", errors=faults)

    def get(self, request: HttpRequest, **identity: Any) -> HttpResponse:
        """Answer a read."""
        return self._answer(request, identity)

    def post(self, request: HttpRequest, **identity: Any) -> HttpResponse:
        """Answer a write."""
        return self._answer(request, identity)

    def _answer(self, request: HttpRequest, identity: Mapping[str, Any]) -> HttpResponse:
        binding, operation = self.binding, self.binding.operation
        body = json_of(request._request, operation) if operation.reads else None
        context = context_of(request._request, operation, self.principal, arrived=self.arrived)
        received = Request(body, identity, request.query_params)
        return respond(binding, perform(operation, context, received), request)


def _name_in_logs(
    request: HttpRequest, identity: Mapping[str, Any], principal: Principal | None
) -> None:
    names = {name: str(value) for name, value in identity.items()}
    if trace := _TRACEPARENT.fullmatch(request.headers.get("traceparent", "")):
        names |= {"trace_id": trace[1], "parent_span_id": trace[2]}
    if principal is not None:
        names["principal"] = principal.text
    structlog.contextvars.bind_contextvars(**names)


def respond(binding: Binding, answer: Answer, request: HttpRequest) -> HttpResponse:
    """Return the answer as it goes over the wire."""
    status = binding.status_of(answer)
    if status >= 400:
        response = problem_of(answer)
    else:
        if binding.operation.paged:
            answer = _with_links(answer, request)
        response = HttpResponseNotModified()
        if status != NOT_MODIFIED:
            response = HttpResponse(answer.content, content_type=JSON_TYPE, status=status)
        if binding.etag:
            response["ETag"] = binding.etag_of(answer.members)
        response["Cache-Control"] = "no-store"
    if answer.replayed:
        response["Idempotent-Replayed"] = "true"
    return response


def _with_links(answer: Answer, request: HttpRequest) -> Answer:
    """Return the answer of a list with the addresses of the pages beside it for their cursors."""
    here = request.build_absolute_uri()
    links = {
        name: cursor and replace_query_param(here, "cursor", cursor)
        for name in ("next", "previous")
        for cursor in [answer.members[name]]
    }
    return Answer(answer.outcome, {**answer.members, **links})


def paths(*bindings: Binding) -> list[URLPattern]:
    """Return the routes of the bindings: one for each path, in the order of their first mention."""
    by_route: dict[str, dict[str, Binding]] = {}
    for binding in bindings:
        by_route.setdefault(binding.route, {})[binding.method] = binding
    return [
        path(route, OperationView.as_view(bindings=methods)) for route, methods in by_route.items()
    ]
