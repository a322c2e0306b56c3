"""Perform an operation: judge the call from outside to inside, and answer it.

The order is one for all faces: who calls, may it call this at all, is the request well formed, the
key; only then is anything looked up.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import structlog

from governance.core import audit, deadlines, idempotency, sql
from governance.core.digests import NotStrictItem
from governance.core.errors import (
    FieldFault,
    IdempotencyKeyRequired,
    InvalidArgument,
    PermissionDenied,
    Unauthenticated,
)
from governance.core.idempotency import REFUSED, Answer, Key
from governance.operations.failures import diagnosed, refusal_of
from governance.operations.operation import Call, Context, Operation, Principal, Request
from governance.operations.shapes import Shape, defaults_of, shaped

#: Members of a request by which its log line is found; none of them is secret.
LOGGED_MEMBERS = ("task_id", "attempt", "worker_id")


def perform(operation: Operation, context: Context, request: Request) -> Answer:
    """Judge a call from outside to inside, and answer it.

    :raises DomainError: the call is refused; a refusal that is kept under the call's key is an
        answer, with the outcome `REFUSED`.
    """
    admit(operation, context.principal, request.query)
    context = _terms(operation, context)
    identity = _identity(operation, request.identity)
    body, beside = _body(operation, request.body)
    key = _key(operation, context, request, identity, (body, beside))
    call = Call(operation, context, body, identity, request.query, key, beside)
    token = audit.current_request_id.set(context.request_id or audit.current_request_id.get())
    try:
        with sql.ending(context.deadline):
            answer = _run(call)
    finally:
        audit.current_request_id.reset(token)
    known = answer.replayed or answer.outcome in (*operation.outcomes, REFUSED)
    assert known, f"{operation.name} has no outcome {answer.outcome}"
    assert key is None or key.used, f"{operation.name} passes its key over: see `Call.once`"
    assert key is None or _keeps_facts(operation, answer), (
        f"{operation.name} keeps time or authority, or gives some that it does not declare"
    )
    return answer


def _keeps_facts(operation: Operation, answer: Answer) -> bool:
    """Return whether what is kept of an answer has none of the operation's `moment` in it."""
    named = set(operation.moment or ())
    if not named.issuperset(answer.moment):
        return False
    if answer.replayed or answer.outcome == REFUSED or not answer.recorded:
        return True
    kept = answer.body if answer.kept_as is None else answer.kept_as
    return isinstance(kept, Mapping) and kept.keys().isdisjoint(named)


def _run(call: Call) -> Answer:
    """Run the operation, unless the caller has ceased to wait for it.

    :raises DeadlineExceeded: the time that it has set is over.
    :raises DomainError: what a failure of the database, or of a row, means.
    """
    try:
        deadlines.check()
        return call.operation.run(call)
    except Exception as error:
        refusal = diagnosed(call, error) or refusal_of(error)
        if refusal is None or refusal is error:
            raise
        raise refusal from error


def admit(operation: Operation, principal: Principal | None, query: Mapping[str, str]) -> None:
    """Judge the caller and the outside of a request, before anything of it is read.

    :raises Unauthenticated, PermissionDenied: the caller may not call this at all.
    :raises InvalidArgument: there are unknown query parameters.
    """
    if operation.scopes:
        _authorize(operation, principal)
    if unknown := query.keys() - operation.known_query:
        faults = [FieldFault("", f"unknown query parameter: {n[:100]}") for n in sorted(unknown)]
        raise InvalidArgument("There are unknown query parameters.", errors=faults)


def _authorize(operation: Operation, principal: Principal | None) -> None:
    if principal is None:
        raise Unauthenticated()
    if not principal.scopes:
        raise PermissionDenied("The credential has no scope.")
    if principal.scopes.isdisjoint(operation.scopes):
        wanted = " or ".join(f"`{scope}`" for scope in operation.scopes)
        raise PermissionDenied(f"The credential lacks the scope {wanted}.")


def _terms(operation: Operation, context: Context) -> Context:
    """Return of the caller's terms those that the operation knows."""
    named = operation.sessions
    return replace(
        context,
        session_id=context.session_id if named else None,
        epoch=context.epoch if named else None,
        key=context.key if operation.key else None,
        operation_id=context.operation_id if operation.key else None,
        if_match=context.if_match if operation.if_match else None,
        if_none_match=context.if_none_match if operation.if_none_match else None,
    )


def _identity(operation: Operation, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the call is about, each name in its type."""
    identity = {}
    for name, kind in operation.identity.items():
        try:
            value = given[name]
            identity[name] = value if isinstance(value, kind) else kind(value)
        except (KeyError, ValueError, TypeError):
            fault = FieldFault(f"/{name}", "required, and of its form")
            raise InvalidArgument(errors=[fault]) from None
    structlog.contextvars.bind_contextvars(**{name: str(v) for name, v in identity.items()})
    return identity


def _body(operation: Operation, body: Any) -> tuple[Any, dict[str, Any]]:
    """Return the request's body in its shape, and what a batch says of all its items.

    An absent body is an empty object.

    :raises InvalidArgument: with every fault and its JSON pointer.
    """
    if operation.reads is None:
        return {}, {}
    if operation.batch_max:
        items, beside = _items(operation, body)
        return [_item(operation.reads, item) for item in items], beside
    members = shaped(operation.reads, {} if body is None else body)
    named = {name: members[name] for name in LOGGED_MEMBERS if members.get(name) is not None}
    structlog.contextvars.bind_contextvars(**named)
    return members, {}


def _items(operation: Operation, body: Any) -> tuple[list[Any], dict[str, Any]]:
    """Return the items of a batch, and what stands beside them.

    :raises InvalidArgument: the outer shape is broken, or the batch is too large or empty.
    """
    beside: dict[str, Any] = {}
    if isinstance(body, dict):
        named = body.keys() & {operation.batch_name, "items"}
        beside = {name: value for name, value in body.items() if name not in named}
        if beside and operation.beside is None:
            named = set()
        body = body[named.pop()] if len(named) == 1 else None
    if not isinstance(body, list):
        wanted = f"an object with the one member `{operation.batch_name}`, an array"
        raise InvalidArgument("This is no batch.", errors=[FieldFault("", wanted)])
    if not 1 <= len(body) <= operation.batch_max:
        raise InvalidArgument(f"A batch has 1 to {operation.batch_max} items.")
    return body, shaped(operation.beside, beside) if operation.beside else {}


def _item(shape: type[Shape], data: Any) -> dict[str, Any] | InvalidArgument:
    if isinstance(data, NotStrictItem):
        fault = FieldFault(data["pointer"], data["detail"])
        return InvalidArgument("The item is not I-JSON.", errors=[fault])
    try:
        return shaped(shape, data)
    except InvalidArgument as fault:
        return fault


def _key(
    operation: Operation,
    context: Context,
    request: Request,
    identity: Mapping[str, Any],
    shaped_body: tuple[Any, Mapping[str, Any]],
) -> Key | None:
    """Return the identity of the request under its key.

    :raises IdempotencyKeyRequired: it has none, and needs one.
    :raises IdempotencyKeyInvalid, IdempotencyKeyExpired: as `idempotency.read_key`.
    :raises InvalidArgument: as `idempotency.read_operation_id`.
    """
    if context.key is None:
        if operation.key == "required":
            raise IdempotencyKeyRequired()
        return None
    key = idempotency.read_key(context.key, now_ms=time.time_ns() // 1_000_000)
    named = idempotency.read_operation_id(context.operation_id, operation=operation.name)
    digest = partial(idempotency.request_digest, operation=operation.name, identity=identity)
    assert context.principal is not None
    return Key(
        context.principal.text,
        operation.name,
        key,
        digest(request=_comparable(operation, request.body, *shaped_body)),
        operation_id=named,
        digest_v1=lambda: digest(request={} if request.body is None else request.body, version=1),
    )


def _comparable(operation: Operation, sent: Any, body: Any, beside: Mapping[str, Any]) -> Any:
    """Return what must be equal in a repetition: the validated request; of a batch, of each item.

    A malformed item of a batch is compared as it was sent.
    """
    if operation.reads is None or not operation.batch_max:
        return _stated(operation.reads, body)
    raw, _ = _items(operation, sent)
    items = [
        {"malformed": given}
        if isinstance(item, InvalidArgument)
        else _stated(operation.reads, item)
        for given, item in zip(raw, body, strict=True)
    ]
    return {"items": items, "beside": _stated(operation.beside, beside)}


def _stated(shape: type[Shape] | None, members: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members that say something: neither null nor what they are without being said.

    A member that a later release adds so changes no digest of a request that does not have it.
    """
    silent = defaults_of(shape) if shape is not None else {}
    return {
        name: value
        for name, value in members.items()
        if value is not None and not (name in silent and _same(silent[name], value))
    }


def _same(default: Any, value: Any) -> bool:
    return type(default) is type(value) and bool(default == value)
