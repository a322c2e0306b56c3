"""The far ends of local grants and addresses: outside of the API, the path is the authority."""

from __future__ import annotations

from django.http import FileResponse, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
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

METHODS = ("GET", "HEAD", "PUT")
#: Of an artifact: a browser saves it, and whatever it is, nothing of it acts in our name.
AS_A_FILE = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cache-Control": "no-store",
}


@csrf_exempt
def serve_object(request: HttpRequest, signed: str) -> HttpResponseBase:
    """PUT or GET /objects/{signed}: the far end of a local grant, or of an address."""
    try:
        store = objects.store()
        if not isinstance(store, FolderStore):
            raise NotFound()
        if request.method not in METHODS:
            raise MethodNotAllowed()
        if request.method == "PUT":
            return _received(store, request, signed)
        return _delivered(store, signed)
    except DomainError as refusal:
        response = problem(refusal, method=request.method)
        if isinstance(refusal, MethodNotAllowed):
            response["Allow"] = ", ".join(METHODS)
        return response


def _received(store: FolderStore, request: HttpRequest, signed: str) -> HttpResponse:
    if request.headers.get("Transfer-Encoding"):
        # Django takes a body in chunks for an empty one, which would be a checksum that is wrong.
        raise InvalidArgument("Send the Content-Length of the grant; chunks are not taken.")
    if not store.receive(signed=signed, body=request):  # type: ignore[arg-type]
        raise PreconditionFailed("The object is there already.")
    return HttpResponse(status=201)


def _delivered(store: FolderStore, signed: str) -> FileResponse:
    name, file = store.deliver(signed=signed)
    return FileResponse(
        file,
        as_attachment=True,
        filename=name,
        content_type=objects.SENT_AS,
        headers=AS_A_FILE,
    )
