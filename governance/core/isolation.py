"""One bad row and its neighbours: which errors belong to a row, and how a batch goes on.

A row that cannot be read, judged or written must stop nobody else.  What a connection, a lock, a
disk or the program itself does wrong belongs to no row, and fails as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from django.db import DatabaseError, DataError, IntegrityError, InterfaceError, transaction

from governance.core import sql
from governance.core.errors import DomainError

T = TypeVar("T")
R = TypeVar("R")

#: What decoding, judging and showing a row raises where its values are not what they must be.
OF_A_ROW = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, AssertionError)
#: SQLSTATEs of a row that breaks a CHECK or a trigger's rule. A unique key or a reference that is
#: broken is a race, or a fault of the program.
BREAKING = frozenset({"23514", "23001"})


def of_a_row(error: BaseException) -> bool:
    """Return whether an error may belong to the row that was at hand when it was raised."""
    if isinstance(error, DomainError):
        return False
    if isinstance(error, IntegrityError):
        return sql.sqlstate(error) in BREAKING
    if isinstance(error, DatabaseError | InterfaceError):
        return isinstance(error, DataError)
    return isinstance(error, OF_A_ROW)


def in_any_case(run: Callable[[], R]) -> R:
    """Return what `run` returns; where a row spoils it, once more past instants out of bounds.

    For what must be possible whatever is in a row. `run` is read-only, or a transaction.
    """
    try:
        return run()
    except Exception as error:
        if not of_a_row(error):
            raise
    with sql.bounded_instants():
        return run()


def apart(
    items: Sequence[T],
    move: Callable[[list[T]], list[R]],
    refuse: Callable[[T, Exception], list[R]],
) -> list[R]:
    """Return what a move makes of the items, when some of them may have a row that spoils it.

    By halves, each in a savepoint of its own, until the item is alone that it fails for; so few
    bad rows among many cost few moves more. It is first made for no item at all, which shows that
    the fault is not the caller's.

    :param move: of a list of items; run in a savepoint, in the order of the items.
    :param refuse: gives what stands in place of an item that the move fails for.
    """
    with transaction.atomic():
        move([])
    return _halves(list(items), move, refuse)


def past_bad_rows(
    items: Sequence[T],
    read: Callable[[list[T]], list[Any]],
    stub: Callable[[T, Exception], list[Any]],
) -> list[Any]:
    """Return what is read of the items; where some row spoils that, each by itself.

    :param stub: gives what stands in place of an item that cannot be read.
    """
    try:
        return read(list(items))
    except Exception as error:
        if not of_a_row(error):
            raise
    return apart(items, read, stub)


def _halves(
    items: list[T], move: Callable[[list[T]], list[R]], refuse: Callable[[T, Exception], list[R]]
) -> list[R]:
    if not items:
        return []
    try:
        with transaction.atomic():
            return move(items)
    except Exception as error:
        if not of_a_row(error):
            raise
        if len(items) == 1:
            return refuse(items[0], error)
    half = len(items) // 2
    return _halves(items[:half], move, refuse) + _halves(items[half:], move, refuse)
