"""Statements that travel together: several SQL statements in one network round trip.

A hot move costs four trips (authenticate, lock, write, commit), so what belongs together is sent
as a libpq pipeline.  Each statement still has a snapshot of its own, which the rules "the row is
read in the statement after the lock" and "the clock is read after the lock" rely on.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import lru_cache, wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar

import psycopg
from django.conf import settings
from django.db import connection, transaction
from django.db.models import AutoField, BinaryField, JSONField, Model
from django.db.models.base import ModelState
from django.db.utils import DatabaseErrorWrapper
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import Loader
from psycopg.pq import Format, TransactionStatus
from psycopg.rows import dict_row

from governance.core import deadlines
from governance.core.fields import INSTANT_LAST, INSTANT_MIN

Row = dict[str, Any]
M = TypeVar("M", bound=Model)
P = ParamSpec("P")
R = TypeVar("R")

#: Whether the open transaction is there for one move, which then needs no savepoint of its own.
_for_one_move: ContextVar[bool] = ContextVar("for_one_move", default=False)


TIMESTAMPTZ_OID = psycopg.postgres.types["timestamptz"].oid


class Statement(NamedTuple):
    """A statement with server-side parameters, and whether it answers with rows."""

    sql: str
    params: Sequence[Any] | dict[str, Any] = ()


@contextmanager
def transaction_of_one_move() -> Iterator[None]:
    """Open a durable transaction for one move: what the move raises undoes all of it."""
    with transaction.atomic(durable=True):
        token = _for_one_move.set(True)
        try:
            yield
        finally:
            _for_one_move.reset(token)


@contextmanager
def bounded_instants() -> Iterator[None]:
    """Read an instant that no reader could hold as the nearest one that it can.

    For what must be possible with a row whatever is in it: to look at it, and to end it.
    """
    with connection.cursor():
        pass  # Django has put its own loader in place now
    adapters = connection.connection.adapters
    known = adapters.get_loader(TIMESTAMPTZ_OID, Format.TEXT)
    adapters.register_loader(TIMESTAMPTZ_OID, _bounding(known))
    try:
        yield
    finally:
        adapters.register_loader(TIMESTAMPTZ_OID, known)


def _bounding(known: type[Loader]) -> type[Loader]:
    """Return the loader that reads what `known` cannot, and what is out of bounds, as a bound."""

    class Bounding(Loader):
        # Django looks for it, and would put its own loader in place again.
        timezone = getattr(known, "timezone", None)

        def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
            super().__init__(oid, context)
            self._known = known(oid, context)

        def load(self, data: Buffer) -> Any:
            try:
                at = self._known.load(data)
            except psycopg.DataError:
                text = bytes(data)
                early = text.startswith(b"-") or text.endswith(b"BC")
                return INSTANT_MIN if early else INSTANT_LAST
            return min(max(at, INSTANT_MIN), INSTANT_LAST)

    return Bounding


def move(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a hot move: all or nothing, as `transaction.atomic`, with fewer round trips.

    In a `transaction_of_one_move` it is that transaction; anywhere else it opens one, or a
    savepoint.  Two round trips less for each request that has an idempotency key.
    """

    @wraps(function)
    def whole(*args: P.args, **kwargs: P.kwargs) -> R:
        if _for_one_move.get():
            return function(*args, **kwargs)
        with transaction.atomic():
            done = function(*args, **kwargs)
            deadlines.check()
            return done

    return whole


def part(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a part of a move: in its transaction, or in one of its own where there is none.

    Whoever calls lets its errors pass, so that it needs no savepoint: two round trips less.
    """

    @wraps(function)
    def whole(*args: P.args, **kwargs: P.kwargs) -> R:
        if connection.in_atomic_block:
            return function(*args, **kwargs)
        with transaction.atomic():
            return function(*args, **kwargs)

    return whole


def pipeline(*statements: Statement) -> list[list[Row]]:
    """Run the statements in one round trip and return the rows of each, as dicts.

    Opens the transaction if `transaction.atomic` has not sent its BEGIN yet.  An error of any
    statement is raised as Django's exception of its kind, after which the transaction is spent.

    :raises DeadlineExceeded: the call's time is over, and nothing was sent.
    """
    return _send(statements)


def commit_with(*statements: Statement) -> list[list[Row]]:
    """Run statements and commit with them in the same round trip; return the rows of each.

    The last act of a `transaction_of_one_move`: what Django commits at its end is nothing then.
    Where that is a part of a larger transaction, as in a test, only the statements are run.

    :raises DeadlineExceeded: the call's time is over, and nothing was sent.
    """
    if len(connection.atomic_blocks) > 1:
        return pipeline(*statements)
    connection.validate_no_broken_transaction()
    return _send(statements, commits=True)


@contextmanager
def ending(at: float | None) -> Iterator[None]:
    """Let all statements of the block end at that instant of the monotonic clock, the ORM's too.

    :param at: None: the block takes what it takes.
    """
    with deadlines.until(at), nullcontext() if at is None else _ending():
        yield


def _ending() -> Any:
    return connection.execute_wrapper(_execute_bounded)


def _execute_bounded(
    execute: Callable[..., R], statement: str, params: Any, many: bool, context: dict[str, Any]
) -> R:
    """Run a statement of the ORM within the call's time, in the one round trip that it takes."""
    if statement.startswith(("SAVEPOINT", "RELEASE", "ROLLBACK")):
        return execute(statement, params, many, context)
    with DatabaseErrorWrapper(connection), _flight():
        return execute(statement, params, many, context)


def _send(statements: Sequence[Statement], *, commits: bool = False) -> list[list[Row]]:
    connection.ensure_connection()
    started = time.monotonic()
    cursors: list[psycopg.Cursor[Row]] = []
    with DatabaseErrorWrapper(connection):
        with _flight(single=len(statements) == 1, commits=commits):
            for statement in statements:
                cursor = psycopg.Cursor(connection.connection, row_factory=dict_row)
                cursor.execute(statement.sql, statement.params or None, prepare=True)
                cursors.append(cursor)
        rows = [cursor.fetchall() if _has_rows(cursor) else [] for cursor in cursors]
    _note(statements, time.monotonic() - started)
    return rows


@contextmanager
def _flight(*, single: bool = False, commits: bool = False) -> Iterator[None]:
    """Let what the block executes travel together, with BEGIN and COMMIT where they belong to it.

    A statement of a call that has an end is cancelled then.  The bound is taken back at once: a
    COMMIT that is cancelled while it waits for a standby answers that all is well.
    """
    raw = connection.connection
    bound_ms = _bound_ms()
    idle = raw.info.transaction_status == TransactionStatus.IDLE
    opens = idle and not raw.autocommit
    # Reads outside of a transaction get one: what bounds them is in force in it only.
    apart = idle and raw.autocommit and bound_ms is not None
    # A pipeline brings nothing for a single statement in an open transaction.
    if single and not idle and bound_ms is None and not commits:
        yield
        return
    if opens:
        # The driver's own BEGIN would be waited for before anything else is sent.
        raw.autocommit = True
        if (deadline := deadlines.current()) is not None:
            transaction.on_commit(deadline.note_commit, robust=True)
    try:
        with raw.pipeline():
            if opens or apart:
                psycopg.Cursor(raw).execute("BEGIN")
            if bound_ms is not None:
                psycopg.Cursor(raw).execute(f"SET LOCAL statement_timeout = {bound_ms}")
            yield
            if bound_ms is not None:
                psycopg.Cursor(raw).execute("SET LOCAL statement_timeout TO DEFAULT")
            if commits or apart:
                psycopg.Cursor(raw).execute("COMMIT")
    except BaseException:
        if apart and raw.info.transaction_status != TransactionStatus.UNKNOWN:
            raw.rollback()
        raise


def _bound_ms() -> int | None:
    """Return the milliseconds that the call has left, where that is less than any statement has.

    :raises DeadlineExceeded: it has none.
    """
    deadline = deadlines.current()
    if deadline is None:
        return None
    deadlines.check()
    left_ms = max(1, int(deadline.left * 1000))
    usual_ms = int(settings.SESSION_SETTINGS["statement_timeout"])
    return left_ms if not usual_ms or left_ms < usual_ms else None


def sqlstate(error: BaseException) -> str:
    """Return the SQLSTATE of an error that Django raised for the database's; "" for none."""
    return getattr(error.__cause__, "sqlstate", None) or ""


def _has_rows(cursor: psycopg.Cursor[Row]) -> bool:
    # `description` would build an object for every column just to be asked whether there is one.
    return cursor.pgresult is not None and cursor.pgresult.nfields > 0


def _note(statements: Sequence[Statement], seconds: float) -> None:
    """Tell Django's query log of the one round trip, so that tests can count trips."""
    if connection.queries_logged:
        sql = ";\n".join(statement.sql for statement in statements)
        connection.queries_log.append({"sql": sql, "time": f"{seconds:.3f}"})


def any_of(text: str, values: Sequence[Any], *before: Any) -> Statement:
    """Return the statement whose last parameter, in `= ANY(%s::type[])`, is `values`.

    One value is asked for by `=`: PostgreSQL keeps the plan of that, but plans again at every
    execution for an array, which it takes for ten values when it does not look.

    :param before: the parameters before it.
    """
    if len(values) == 1:
        return Statement(_of_one(text), (*before, values[0]))
    return Statement(text, (*before, list(values)))


@lru_cache
def _of_one(text: str) -> str:
    return re.sub(r"= ANY\(%s::(\w+)\[\]\)", r"= %s::\1", text)


def one_cte(*statements: Statement) -> Statement:
    """Return one statement of several that write, each another table, in no order among them.

    None may rely on what another one writes, also not by a trigger; none may have named parameters.
    """
    *first, last = statements
    if not first:
        return last
    parts = ", ".join(f"w{n} AS ({statement.sql})" for n, statement in enumerate(first))
    params = [value for statement in statements for value in statement.params]
    return Statement(f"WITH {parts} {last.sql}", params)


def insert(
    rows: Sequence[Model], *, unless_present: bool = False, returning: tuple[str, ...] = ()
) -> Statement:
    """Return one INSERT of all rows (of one model) that fills every column but an automatic key.

    All rows travel as one JSON parameter: one prepared statement whatever their number, and no
    adaptation column by column.

    :param unless_present: skip rows that would break a unique constraint.  The statement waits
        for an uncommitted rival, bounded by `lock_timeout`.
    :param returning: columns to answer beside the primary key.
    """
    model = type(rows[0])
    text = _insert_sql(model, unless_present, returning, len(rows) == 1)
    return Statement(text, (_packed(rows, _insertable(model)),))


def update(rows: Sequence[Model], fields: tuple[str, ...]) -> Statement:
    """Return one UPDATE of the named fields of all rows (of one model), found by primary key."""
    model = type(rows[0])
    text = _update_sql(model, fields, len(rows) == 1)
    return Statement(text, (_packed(rows, _updatable(model, fields)),))


@lru_cache
def select_list(model: type[Model], alias: str, *, without: tuple[str, ...] = ()) -> str:
    """Return the select list of all columns of `model`, each named `<alias>_<column>`.

    :param without: columns that are not read; the rows have null in their place.
    """
    return ", ".join(
        f"NULL AS {alias}_{f.column}"
        if f.column in without
        else f'{alias}."{f.column}" AS {alias}_{f.column}'
        for f in model._meta.concrete_fields
    )


def build(model: type[M], row: Row, alias: str) -> M:
    """Return the instance of `model` whose columns `select_list` put into `row`.

    As `Model.from_db` makes it, but without `__init__`, which hot moves would spend a sixth of
    their time in: its signals and its setting of every field by itself are for nothing here.
    """
    made = model.__new__(model)
    made.__dict__ = {
        name: json.loads(row[key]) if is_json and row[key] is not None else row[key]
        for name, key, is_json in _sources(model, alias)
    }
    made._state = ModelState()
    made._state.adding, made._state.db = False, "default"
    return made


@lru_cache
def _sources(model: type[Model], alias: str) -> list[tuple[str, str, bool]]:
    return [
        (field.attname, f"{alias}_{field.column}", isinstance(field, JSONField))
        for field in model._meta.concrete_fields
    ]


def _packed(rows: Sequence[Model], fields: Sequence[Any]) -> str:
    """Return the rows as JSON text for `_recordset`: an array, or the one object."""
    names = [(field.column, field.attname) for field in fields]
    octets = [field.column for field in fields if isinstance(field, BinaryField)]
    packed = []
    for row in rows:
        columns = {column: getattr(row, attname) for column, attname in names}
        for column in octets:
            if (value := columns[column]) is not None:
                columns[column] = "\\x" + bytes(value).hex()
        packed.append(columns)
    content = packed[0] if len(rows) == 1 else packed
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False, default=str)


@lru_cache
def _insertable(model: type[Model]) -> tuple[Any, ...]:
    return tuple(f for f in model._meta.concrete_fields if not isinstance(f, AutoField))


@lru_cache
def _updatable(model: type[Model], names: tuple[str, ...]) -> tuple[Any, ...]:
    return (model._meta.pk, *(model._meta.get_field(name) for name in names))


@lru_cache
def _insert_sql(
    model: type[Model], unless_present: bool, returning: tuple[str, ...], one: bool
) -> str:
    fields = _insertable(model)
    names = ", ".join(f'"{f.column}"' for f in fields)
    values = ", ".join(f'u."{f.column}"' for f in fields)
    conflict = " ON CONFLICT DO NOTHING" if unless_present else ""
    answered = ", ".join(f'"{name}"' for name in (model._meta.pk.column, *returning))
    return (
        f'INSERT INTO "{model._meta.db_table}" ({names}) SELECT {values} '
        f"FROM {_recordset(fields, one)}{conflict} RETURNING {answered}"
    )


@lru_cache
def _update_sql(model: type[Model], names: tuple[str, ...], one: bool) -> str:
    key, *fields = _updatable(model, names)
    targets = ", ".join(f'"{f.column}"' for f in fields)
    values = ", ".join(f'u."{f.column}"' for f in fields)
    return (
        f'UPDATE "{model._meta.db_table}" AS t SET ({targets}) = ROW({values}) '
        f"FROM {_recordset([key, *fields], one)} "
        f'WHERE t."{key.column}" = u."{key.column}"'
    )


def _recordset(fields: Sequence[Any], one: bool) -> str:
    # A set is taken for a hundred rows, for which the whole table is read while it is small.
    columns = ", ".join(f'"{f.column}" {_type(f)}' for f in fields)
    return f"json_to_record{'' if one else 'set'}(%s::json) AS u({columns})"


def _type(field: Any) -> str:
    kind = field.rel_db_type(connection) if field.primary_key else field.db_type(connection)
    return str(kind)
