"""The far end of local upload grants: outside of the API, since the path is the authority."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from governance.core.errors import (
    DomainError,
    InvalidArgument,
    MethodNotAllowed,
    NotFound,
    PreconditionFailed,
)
from governance.web.problems import problem
from jobs import objects
from jobs.objects import FolderStore


@csrf_exempt
def receive_object(request: HttpRequest, signed: str) -> HttpResponse:
    """PUT /objects/{signed}: the far end of a local grant. The signature is the authority."""
    try:
        return _received(request, signed)
    except DomainError as refusal:
        response = problem(refusal, method=request.method)
        if isinstance(refusal, MethodNotAllowed):
            response["Allow"] = "PUT"
        return response


def _received(request: HttpRequest, signed: str) -> HttpResponse:
    store = objects.store()
    if not isinstance(store, FolderStore):
        raise NotFound()
    if request.method != "PUT":
        raise MethodNotAllowed()
    if request.headers.get("Transfer-Encoding"):
        # Django takes a body in chunks for an empty one, which would be a checksum that is wrong.
        raise InvalidArgument("Send the Content-Length of the grant; chunks are not taken.")
    if not store.receive(signed=signed, body=request):  # type: ignore[arg-type]
        raise PreconditionFailed("The object is there already.")
    return HttpResponse(status=201)
