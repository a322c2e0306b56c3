"""Statements that travel together: several SQL statements in one network round trip.

A hot move costs four trips (authenticate, lock, write, commit), so what belongs together is sent
as a libpq pipeline.  Each statement still has a snapshot of its own, which the rules "the row is
read in the statement after the lock" and "the clock is read after the lock" rely on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import nullcontext
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import psycopg
from django.db import connection
from django.db.models import AutoField, JSONField, Model
from django.db.utils import DatabaseErrorWrapper
from psycopg.rows import dict_row

Row = dict[str, Any]
M = TypeVar("M", bound=Model)


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


def insert(rows: Sequence[Model], *, unless_present: bool = False) -> Statement:
    """Return one INSERT of all rows (of one model) that fills every column but an automatic key.

    :param unless_present: skip rows that would break a unique constraint.  The statement waits
        for an uncommitted rival, bounded by `lock_timeout`.
    """
    model = type(rows[0])
    fields = _insertable(model)
    return Statement(_insert_sql(model, unless_present), _columns(rows, fields))


def update(rows: Sequence[Model], fields: tuple[str, ...]) -> Statement:
    """Return one UPDATE of the named fields of all rows (of one model), found by primary key."""
    model = type(rows[0])
    named = [model._meta.pk, *(model._meta.get_field(name) for name in fields)]
    return Statement(_update_sql(model, fields), _columns(rows, named))


def select_list(model: type[Model], alias: str) -> str:
    """Return the select list of all columns of `model`, each named `<alias>_<column>`."""
    return ", ".join(
        f'{alias}."{f.column}" AS {alias}_{f.column}' for f in model._meta.concrete_fields
    )


def build(model: type[M], row: Row, alias: str) -> M:
    """Return the instance of `model` whose columns `select_list` put into `row`."""
    fields = model._meta.concrete_fields
    values = [_loaded(field, row[f"{alias}_{field.column}"]) for field in fields]
    return model.from_db("default", [field.attname for field in fields], values)


def _loaded(field: Any, value: Any) -> Any:
    return json.loads(value) if isinstance(field, JSONField) and isinstance(value, str) else value


def _columns(rows: Sequence[Model], fields: Sequence[Any]) -> list[list[Any]]:
    return [[_dumped(field, getattr(row, field.attname)) for row in rows] for field in fields]


def _dumped(field: Any, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(field, JSONField):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return bytes(value) if isinstance(value, memoryview) else value


@lru_cache
def _insertable(model: type[Model]) -> tuple[Any, ...]:
    return tuple(f for f in model._meta.concrete_fields if not isinstance(f, AutoField))


@lru_cache
def _insert_sql(model: type[Model], unless_present: bool) -> str:
    fields = _insertable(model)
    names = ", ".join(f'"{f.column}"' for f in fields)
    conflict = " ON CONFLICT DO NOTHING" if unless_present else ""
    key = model._meta.pk.column
    return (
        f'INSERT INTO "{model._meta.db_table}" ({names}) SELECT {_read(fields)} '
        f'FROM unnest({_arrays(fields)}) AS u({names}){conflict} RETURNING "{key}"'
    )


@lru_cache
def _update_sql(model: type[Model], names: tuple[str, ...]) -> str:
    key = model._meta.pk
    fields = [model._meta.get_field(name) for name in names]
    targets = ", ".join(f'"{f.column}"' for f in fields)
    every = ", ".join(f'"{f.column}"' for f in [key, *fields])
    return (
        f'UPDATE "{model._meta.db_table}" AS t SET ({targets}) = ROW({_read(fields)}) '
        f"FROM unnest({_arrays([key, *fields])}) AS u({every}) "
        f'WHERE t."{key.column}" = u."{key.column}"'
    )


def _read(fields: Sequence[Any]) -> str:
    return ", ".join(
        f'u."{f.column}"::jsonb' if isinstance(f, JSONField) else f'u."{f.column}"' for f in fields
    )


def _arrays(fields: Sequence[Any]) -> str:
    return ", ".join(f"%s::{_array_type(f)}" for f in fields)


def _array_type(field: Any) -> str:
    kind = field.rel_db_type(connection) if field.primary_key else field.db_type(connection)
    if isinstance(field, JSONField) or kind.startswith("varchar"):
        return "text[]"
    return f"{kind}[]"
