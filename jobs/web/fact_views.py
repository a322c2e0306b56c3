"""Facts over HTTP: an agent states one, and is given its receipt."""

from __future__ import annotations

from typing import Any, ClassVar

from django.http import HttpResponse
from rest_framework import serializers
from rest_framework.request import Request

from governance.core.idempotency import Answer
from governance.web.api import Call
from governance.web.shapes import Object, Shape, Text
from jobs.operations import answers
from jobs.operations.execution_shapes import Sha256
from jobs.operations.shapes import AuthorityIn
from jobs.transitions import facts
from jobs.web.views import AgentView

TYPE_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]*"


class FactType(serializers.RegexField):
    """A CloudEvents type, as com.example.report.published."""

    def __init__(self, **options: Any) -> None:
        super().__init__(rf"\A{TYPE_PATTERN}\Z", max_length=120, trim_whitespace=False, **options)

    def to_internal_value(self, data: Any) -> str:
        if type(data) is not str:
            self.fail("invalid")
        return data


class SubjectIn(AuthorityIn):
    """The attempt that the fact is about."""


class FactIn(Shape):
    """What the outside world is to be told; `content_sha256` is of the RFC 8785 bytes of `data`."""

    fact_id = Text(plain=True, min_length=1, max_length=120)
    content_sha256 = Sha256()
    type = FactType()
    data = Object()  # type: ignore[assignment]
    subject = SubjectIn(allow_null=True, default=None)


class ReceiptOut(serializers.Serializer):
    """The fact is durably recorded; `sequence` is null where it is kept as evidence only."""

    receipt_id = serializers.UUIDField()
    fact_id = serializers.CharField()
    sequence = serializers.IntegerField(allow_null=True)
    recorded_at = serializers.DateTimeField()
    result_code = serializers.CharField()


class Facts(AgentView):
    """Facts that an agent states."""

    calls: ClassVar = {
        "post": Call(
            "record_fact",
            scopes=("work",),
            reads=FactIn,
            answers={200: ReceiptOut},
            key="required",
            sessions=True,
        )
    }

    def post(self, request: Request) -> HttpResponse:
        """State a fact; the same fact again answers the original receipt."""
        body = self.read(FactIn)
        subject = facts.Subject(**asked) if (asked := body.pop("subject")) else None
        entry, stated = self.entry(), facts.Stated(**body)

        def run() -> Answer:
            receipt = facts.state_fact(entry=entry, stated=stated, subject=subject)
            return Answer(200, answers.receipt(receipt))

        return self.once(run, gate=self.gate(entry))
