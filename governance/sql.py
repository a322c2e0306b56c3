"""Statements that travel together: several SQL statements in one network round trip.

A hot move costs four trips (authenticate, lock, write, commit), so what belongs together is sent
as a libpq pipeline.  Each statement still has a snapshot of its own, which the rules "the row is
read in the statement after the lock" and "the clock is read after the lock" rely on.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import psycopg
from django.db import connection
from django.db.utils import DatabaseErrorWrapper
from psycopg.rows import dict_row

Row = dict[str, Any]


class Statement(NamedTuple):
    """A statement with server-side parameters, and whether it answers with rows."""

    sql: str
    params: Sequence[Any] | dict[str, Any] = ()


def together(*statements: Statement) -> list[list[Row]]:
    """Run the statements in one round trip and return the rows of each, as dicts.

    Opens the transaction if `transaction.atomic` has not sent its BEGIN yet.  An error of any
    statement is raised as Django's exception of its kind, after which the transaction is spent.
    """
    connection.ensure_connection()
    raw = connection.connection
    started = time.monotonic()
    cursors: list[psycopg.Cursor[Row]] = []
    # A pipeline brings nothing for a single statement in an open transaction.
    alone = len(statements) == 1 and raw.info.transaction_status != 0
    with DatabaseErrorWrapper(connection), nullcontext() if alone else raw.pipeline():
        for statement in statements:
            cursor = psycopg.Cursor(raw, row_factory=dict_row)
            cursor.execute(statement.sql, statement.params or None)
            cursors.append(cursor)
    with DatabaseErrorWrapper(connection):
        rows = [cursor.fetchall() if cursor.description else [] for cursor in cursors]
    _note(statements, time.monotonic() - started)
    return rows


def _note(statements: Sequence[Statement], seconds: float) -> None:
    """Tell Django's query log of the one round trip, so that tests can count trips."""
    if connection.queries_logged:
        sql = ";\n".join(statement.sql for statement in statements)
        connection.queries_log.append({"sql": sql, "time": f"{seconds:.3f}"})
