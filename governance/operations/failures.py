"""Failures of the database, as the refusals that they mean to a caller."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from django.db import DatabaseError, DataError, InterfaceError, OperationalError

from governance.core import deadlines, sql
from governance.core.errors import Contention, DomainError, InvalidArgument, Unavailable
from governance.core.idempotency import RETRIED_STATES

if TYPE_CHECKING:
    from governance.operations.operation import Call

#: SQLSTATE of `statement_timeout`: the statement, and with it the transaction, did nothing.
QUERY_CANCELED = "57014"
#: A statement that is cancelled at the end of its call is heard of so near to that end.
CANCEL_SECONDS = 0.1
#: A refusal for a time without a known end says when to come back nevertheless.
RETRY_AFTER_SECONDS = 1
#: What the database's driver raises.
FAILURES = (DatabaseError, InterfaceError)
#: What apps know of an error: whether it is the fault of a row that the call is about.
diagnosers: list[Callable[[Call, Exception], DomainError | None]] = []


def diagnosed(call: Call, error: Exception) -> DomainError | None:
    """Return the refusal of a call that a row is at fault for, or None."""
    if isinstance(error, DomainError):
        return None
    return next(filter(None, (diagnose(call, error) for diagnose in diagnosers)), None)


def refusal_of(error: Exception) -> DomainError | None:
    """Return the refusal that an exception of the domain or the database means, or None."""
    if isinstance(error, DomainError):
        return error
    if not isinstance(error, FAILURES):
        return None
    state = sql.sqlstate(error)
    deadline = deadlines.current()
    if state == QUERY_CANCELED and deadline is not None and deadline.left < CANCEL_SECONDS:
        return deadline.refusal()
    if state in RETRIED_STATES or state == QUERY_CANCELED:
        return Contention(after_seconds=RETRY_AFTER_SECONDS)
    if isinstance(error, DataError):
        return InvalidArgument("A value is outside of what can be stored.")
    # Lost, refused or shut down (classes 08 and 57), too many (53), or no state at all.
    if isinstance(error, OperationalError | InterfaceError):
        return Unavailable(after_seconds=RETRY_AFTER_SECONDS)
    return None
