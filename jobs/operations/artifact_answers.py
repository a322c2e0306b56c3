"""Answers on artifacts and facts, as JSON objects."""

from __future__ import annotations

from typing import Annotated, TypedDict

from governance.core.clock import instant
from governance.core.wire import AnyObject, InstantText, UriText, UuidText, explained
from jobs.models import Upload
from jobs.objects import Grant
from jobs.transitions.artifacts import Address
from jobs.transitions.facts import Receipt
from jobs.transitions.uploads import UploadGrant, UploadOutcome


class UploadOut(TypedDict):
    """A grant: send exactly these headers and these bytes, once."""

    upload_id: UuidText
    method: str
    url: Annotated[
        str | None,
        explained("null in a repeated answer whose grant has run out, or whose attempt has ended"),
    ]
    headers: dict[str, str]
    object_key: str
    expires_at: InstantText
    max_bytes: int


class UploadDoneOut(TypedDict):
    """The receipt of an artifact."""

    outcome: str
    artifact_id: UuidText
    fact_id: str
    result_code: str


class AddressOut(TypedDict):
    """Where an artifact is had until then, without a credential: keep it to yourself."""

    url: UriText
    expires_at: InstantText


class ReceiptOut(TypedDict):
    """The fact is durably recorded; `sequence` is null where it is kept as evidence only."""

    receipt_id: UuidText
    fact_id: str
    sequence: int | None
    recorded_at: InstantText
    result_code: str


def upload_grant(granted: UploadGrant) -> AnyObject:
    """Return the facts of a grant to put one object."""
    grant = granted.grant
    return {
        "upload_id": str(granted.upload.upload_id),
        "method": grant.method,
        "object_key": grant.object_key,
        "expires_at": instant(granted.upload.expires_at),
        "max_bytes": grant.max_bytes,
    }


def moment_of_grant(grant: Grant | None) -> AnyObject:
    """Return what of a grant's answer lets its holder act, or that nothing does."""
    return {"url": grant.url if grant else None, "headers": grant.headers if grant else {}}


def uploaded(outcome: UploadOutcome) -> UploadDoneOut:
    """Return the receipt of an artifact."""
    row: Upload = outcome.upload
    return {
        "outcome": outcome.outcome,
        "artifact_id": str(row.artifact_id),
        "fact_id": row.fact_id,
        "result_code": "APPLIED",
    }


def address(issued: Address) -> AddressOut:
    """Return the address of an artifact."""
    return {"url": issued.url, "expires_at": instant(issued.expires_at)}


def receipt(fact: Receipt) -> ReceiptOut:
    """Return the receipt of a fact."""
    return {
        "receipt_id": str(fact.receipt_id),
        "fact_id": fact.fact_id,
        "sequence": fact.sequence,
        "recorded_at": instant(fact.recorded_at),
        "result_code": "ACCEPTED",
    }
