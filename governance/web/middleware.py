"""What every request passes: its identity, and the one form in which the API fails."""

from __future__ import annotations

import re
from collections.abc import Callable

import structlog
from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse
from uuid_utils.compat import uuid7

from governance.core import audit
from governance.core.characters import shown
from governance.web.problems import PROBLEM_TYPE, is_api_path, problem_for_status

#: What a caller may name its request: short, and harmless in logs and headers.
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:\-]{1,64}", re.ASCII)

HOST_UNKNOWN = (
    "The Host header names no address of this service; its operator lists them in FENCEPOST_URL "
    "and FENCEPOST_ALLOWED_HOSTS."
)

GetResponse = Callable[[HttpRequest], HttpResponse]


def client_address(request: HttpRequest) -> str:
    """Return the address of whoever sends the request: for log lines and the lock-out.

    Behind a proxy it is what that proxy has seen, the last address of `X-Forwarded-For`; those
    before it are whatever the caller wrote.
    """
    passed_on = request.META.get("HTTP_X_FORWARDED_FOR", "") if settings.BEHIND_PROXY else ""
    return passed_on.rpartition(",")[2].strip() or request.META.get("REMOTE_ADDR", "")


class RequestIdentity:
    """Give the request its id, for events, log lines and the answer.

    An id that the caller sends is kept and echoed when it is well formed, else replaced.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        sent = request.META.get("HTTP_REQUEST_ID", "")
        request_id = sent if _REQUEST_ID.fullmatch(sent) else str(uuid7())
        # Where the log of requests looks for it; `headers` is made again if it was made before.
        request.META["HTTP_X_REQUEST_ID"] = request_id
        request.__dict__.pop("headers", None)
        structlog.contextvars.bind_contextvars(ip=client_address(request))
        token = audit.current_request_id.set(request_id)
        try:
            response = self.get_response(request)
        finally:
            audit.current_request_id.reset(token)
        response["Request-Id"] = request_id
        return response


class ApiProblems:
    """Turn what Django itself answers below `/v1` into a problem: 404, 400, 413, 500 and all else.

    A view's own problems pass untouched.  No text of Django's page survives, also not in DEBUG.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if not is_api_path(request.path_info) or response.status_code < 400:
            return response
        if response.get("Content-Type", "").startswith(PROBLEM_TYPE):
            return response
        problem = problem_for_status(
            response.status_code, _why(request, response), method=request.method
        )
        for name, value in response.items():
            if not problem.has_header(name) and not name.startswith("Content-"):
                problem[name] = value
        problem["Content-Length"] = str(len(problem.content))
        return problem


def _why(request: HttpRequest, response: HttpResponse) -> str:
    """Return what Django's answer leaves out."""
    if response.status_code == 400:
        try:
            request.get_host()
        except DisallowedHost:
            return HOST_UNKNOWN
    return ""


class SeenCharacters:
    """Show by number what would not be seen on a page of the console, wherever it comes from.

    A title, a reason or a label that turns text around, or hides some of it, could make an
    approval page say what it does not.  Here and not at each of hundreds of places in templates.
    """

    PATH = "/admin/"

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if (
            request.path_info.startswith(self.PATH)
            and not response.streaming
            and response.get("Content-Type", "").startswith("text/html")
        ):
            text = response.content.decode(response.charset)
            if (seen := shown(text)) != text:
                response.content = seen.encode(response.charset)
        return response
