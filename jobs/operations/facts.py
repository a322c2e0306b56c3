"""The operation by which an agent states a fact, and is given its receipt."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from agents.operations.callers import entry_of, need_name
from governance.core.idempotency import Answer
from governance.operations.operation import DONE, Call, operation
from governance.operations.shapes import Object, Shape, Text
from jobs.operations import artifact_answers as answers
from jobs.operations.execution_shapes import Sha256
from jobs.operations.shapes import AuthorityIn, WorkerId
from jobs.transitions import facts

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
    """The attempt that the fact is about, and its worker where there is no activated session."""

    worker_id = WorkerId()


class FactIn(Shape):
    """What the outside world is to be told; `content_sha256` is of the RFC 8785 bytes of `data`."""

    fact_id = Text(plain=True, min_length=1, max_length=120)
    content_sha256 = Sha256()
    type = FactType()
    data = Object()  # type: ignore[assignment]
    subject = SubjectIn(allow_null=True, default=None)


@operation(
    scopes=("work",),
    reads=FactIn,
    answers=answers.ReceiptOut,
    key="required",
    moment=(),
    sessions=True,
)
def record_fact(call: Call) -> Answer:
    """State a fact; the same fact again answers the original receipt."""
    content = dict(call.body)
    subject = content.pop("subject")
    worker_id = subject.pop("worker_id", None) if subject else None
    if subject:
        need_name(call, worker_id, pointer="/subject/worker_id")
    entry = entry_of(call, worker_id)
    about = facts.Subject(**subject) if subject else None
    stated = facts.Stated(**content)

    def move() -> Answer:
        receipt = facts.state_fact(entry=entry, stated=stated, subject=about)
        return Answer(DONE, answers.receipt(receipt))

    return call.once(move)
