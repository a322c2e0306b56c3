"""Artifacts over HTTP: ask for a grant, say that the object is there; the local store's far end."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from rest_framework import serializers
from rest_framework.request import Request

from governance.core.errors import (
    DomainError,
    InvalidArgument,
    MethodNotAllowed,
    NotFound,
    PreconditionFailed,
)
from governance.core.idempotency import Answer
from governance.web.api import Call, problem
from governance.web.shapes import Text, Whole
from jobs import objects
from jobs.objects import OBJECT_BYTES_MAX, FolderStore
from jobs.operations import answers
from jobs.operations.execution_shapes import Sha256
from jobs.operations.shapes import AuthorityIn
from jobs.transitions import uploads
from jobs.web.views import AgentView


class MediaType(Text):
    """A media type without parameters."""

    default_error_messages = {"media_type": "A media type, as text/markdown."}

    def to_internal_value(self, data: object) -> str:
        text = super().to_internal_value(data)
        kind, _, rest = text.partition("/")
        known = set("abcdefghijklmnopqrstuvwxyz0123456789.+-")
        if not kind or not rest or len(text) > 100 or not set(kind + rest) <= known:
            self.fail("media_type")
        return text


class UploadIn(AuthorityIn):
    """The object that the attempt wants to put."""

    name = Text(plain=True, min_length=1, max_length=200)
    media_type = MediaType()
    size_bytes = Whole(min_value=0, max_value=OBJECT_BYTES_MAX)
    sha256 = Sha256()


class UploadDoneIn(AuthorityIn):
    """The object that the attempt has put."""

    sha256 = Sha256()
    size_bytes = Whole(min_value=0, max_value=OBJECT_BYTES_MAX)


class UploadOut(serializers.Serializer):
    """A grant: send exactly these headers and these bytes, once."""

    upload_id = serializers.UUIDField()
    method = serializers.CharField()
    url = serializers.CharField()
    headers = serializers.DictField(child=serializers.CharField())
    object_key = serializers.CharField()
    expires_at = serializers.DateTimeField()
    max_bytes = serializers.IntegerField()


class UploadDoneOut(serializers.Serializer):
    """The receipt of an artifact."""

    outcome = serializers.CharField()
    artifact_id = serializers.UUIDField()
    fact_id = serializers.CharField()
    result_code = serializers.CharField()


class Uploads(AgentView):
    """Grants to put artifacts."""

    calls: ClassVar = {
        "post": Call(
            "grant_upload",
            scopes=("work",),
            reads=UploadIn,
            answers={201: UploadOut},
            key="required",
            sessions=True,
        )
    }

    def post(self, request: Request) -> HttpResponse:
        """Grant the right to put one object of exactly this size and checksum."""
        body = self.read(UploadIn)
        entry = self.entry()
        announced = uploads.Announced(
            **{name: body.pop(name) for name in ("name", "media_type", "size_bytes", "sha256")}
        )

        def run() -> Answer:
            granted = uploads.grant_upload(entry=entry, announced=announced, **body)
            return Answer(201, answers.upload_grant(granted))

        return self.once(run, gate=self.gate(entry))


class CompleteUpload(AgentView):
    """The acceptance of an artifact."""

    calls: ClassVar = {
        "post": Call(
            "complete_upload",
            scopes=("work",),
            reads=UploadDoneIn,
            answers={200: UploadDoneOut},
            key="required",
            sessions=True,
        )
    }

    def post(self, request: Request, upload_id: UUID) -> HttpResponse:
        """Accept the object, if the store has what was announced."""
        body = self.read(UploadDoneIn)
        entry = self.entry()
        stored = uploads.look_at_store(upload_id=upload_id, agent_id=self.principal.id)

        def run() -> Answer:
            outcome = uploads.complete_upload(
                entry=entry, upload_id=upload_id, stored=stored, **body
            )
            return Answer(200, answers.uploaded(outcome))

        return self.once(run, gate=self.gate(entry))


@csrf_exempt
def receive_object(request: HttpRequest, signed: str) -> HttpResponse:
    """PUT /objects/{signed}: the far end of a local grant. The signature is the authority."""
    try:
        return _received(request, signed)
    except DomainError as refusal:
        response = problem(refusal)
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
