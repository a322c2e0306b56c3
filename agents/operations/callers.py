"""Who calls an operation, as the rules of this app know it."""

from __future__ import annotations

from agents.entry import Entry
from agents.principals import Principal
from governance.core.errors import FieldFault, InvalidArgument
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


def named_entry(call: Call, worker_id: str | None) -> Entry:
    """Return who calls, where a lease is asked for or written under: it must be somebody.

    :raises InvalidArgument: as `need_name`.
    """
    need_name(call, worker_id)
    return entry_of(call, worker_id)


def need_name(call: Call, worker_id: str | None, *, pointer: str = "/worker_id") -> None:
    """Refuse a request that names neither a session nor a worker. Source: contract, section 1.

    :raises InvalidArgument: at the pointer where the worker's name belongs.
    """
    if call.context.session_id is None and not worker_id:
        fault = FieldFault(pointer, "required without an activated session")
        raise InvalidArgument(errors=[fault])
