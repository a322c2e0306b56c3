"""Who calls an operation, as the rules of this app know it."""

from __future__ import annotations

from agents.entry import Entry
from agents.principals import Principal
from governance.operations.operation import Call


def principal_of(call: Call) -> Principal:
    """Return who calls: the credentials of this app are the only ones that authenticate."""
    principal = call.principal
    assert isinstance(principal, Principal)
    return principal


def entry_of(call: Call, worker_id: str | None = None) -> Entry:
    """Return who calls, for the gate of worker writes.

    :param worker_id: the worker's name, where the request has one.
    """
    context = call.context
    return Entry(
        principal=principal_of(call),
        worker_id=worker_id or "",
        session_id=context.session_id,
        epoch=context.epoch,
        key=call.key,
        if_match=context.if_match,
    )
