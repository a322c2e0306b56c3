"""Operations of artifacts: ask for a grant, say that the object is there, have it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from agents.operations.callers import entry_of, principal_of
from governance.core.idempotency import Answer
from governance.operations.operation import DONE, Call, operation
from governance.operations.shapes import Text, Whole
from jobs.objects import OBJECT_BYTES_MAX
from jobs.operations import artifact_answers as answers
from jobs.operations.answering import answer_of
from jobs.operations.execution_shapes import Sha256
from jobs.operations.shapes import AuthorityIn
from jobs.transitions import artifacts, uploads

ANNOUNCED = ("name", "media_type", "size_bytes", "sha256")


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


@operation(
    scopes=("work",),
    reads=UploadIn,
    answers=answers.UploadOut,
    outcomes=("granted",),
    key="required",
    moment=("url", "headers"),
    sessions=True,
)
def grant_upload(call: Call) -> Answer:
    """Grant the right to put one object of exactly this size and checksum."""
    entry = entry_of(call)
    announced = uploads.Announced(**{name: call.body[name] for name in ANNOUNCED})
    authority = {name: value for name, value in call.body.items() if name not in ANNOUNCED}

    def move() -> Answer:
        granted = uploads.grant_upload(entry=entry, announced=announced, **authority)
        moment = answers.moment_of_grant(granted.grant)
        return Answer("granted", answers.upload_grant(granted), moment=moment)

    def renew(stored: Mapping[str, Any]) -> Mapping[str, Any]:
        upload_id = UUID(stored["upload_id"])
        again = uploads.granted_before(
            entry=replace(entry, key=None), upload_id=upload_id, **authority
        )
        return answers.moment_of_grant(again)

    return call.once(move, renew=renew)


@operation(
    scopes=("work",),
    identity={"upload_id": UUID},
    reads=UploadDoneIn,
    answers=answers.UploadDoneOut,
    outcomes=("recorded", "already_recorded"),
    key="required",
    moment=(),
    sessions=True,
)
def complete_upload(call: Call) -> Answer:
    """Accept the object, if the store has what was announced."""
    entry = entry_of(call)
    # Before the transaction: nothing is locked while the store is asked.
    stored = uploads.look_at_store(**call.identity, agent_id=entry.principal.id)

    def move() -> Answer:
        outcome = uploads.complete_upload(entry=entry, stored=stored, **call.identity, **call.body)
        return answer_of(outcome, answers.uploaded)

    return call.once(move)


@operation(scopes=("read",), identity={"artifact_id": UUID}, answers=answers.AddressOut)
def get_artifact(call: Call) -> Answer:
    """Get an address of an artifact that is good for a minute.

    For the submitter of its job and for its agent. Every address that is given is audited.
    """
    principal = principal_of(call)

    def move() -> Answer:
        issued = artifacts.issue_address(principal=principal, **call.identity)
        return Answer(DONE, answers.address(issued))

    return call.once(move)
