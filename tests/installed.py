"""The rows of an installation: made once in a process, and put back for each test that wants them.

An installation is some thirty moves with their audit events, and the same each time.  What they
leave is read once, in a transaction that is taken back, and written as rows afterwards.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass

from django.db import connection, transaction

from jobs import bootstrap

# What the database makes by itself, with its own keys after each flush.
APART = ("auth_permission", "auth_group_permissions", "django_content_type", "django_migrations")
TABLES = (
    "SELECT c.relname, string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum)"
    " FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0"
    "  AND NOT a.attisdropped AND a.attgenerated = ''"
    " WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')"
    "  AND NOT c.relispartition AND c.relname <> ALL(%s) GROUP BY c.relname ORDER BY c.relname"
)
READ_GRANTS = (
    "SELECT json_agg(json_build_object('group_id', g.group_id, 'codename', p.codename,"
    " 'app_label', t.app_label, 'model', t.model))::text"
    " FROM auth_group_permissions g JOIN auth_permission p ON p.id = g.permission_id"
    " JOIN django_content_type t ON t.id = p.content_type_id"
)
WRITE_GRANTS = (
    "INSERT INTO auth_group_permissions (group_id, permission_id) SELECT r.group_id, p.id"
    " FROM json_to_recordset(%s::json)"
    "  AS r(group_id int, codename text, app_label text, model text)"
    " JOIN django_content_type t ON t.app_label = r.app_label AND t.model = r.model"
    " JOIN auth_permission p ON p.content_type_id = t.id AND p.codename = r.codename"
)


SET_ROLE = "SET LOCAL session_replication_role = {}"


@dataclass(frozen=True)
class Installation:
    """Statements that write an installation into a database that has none, and the rows of each."""

    writes: tuple[str, ...]
    rows: tuple[str, ...]

    def put(self) -> None:
        """Write its rows; where there are others already, make what is missing by its moves."""
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT EXISTS (SELECT FROM agents_agent) OR EXISTS (SELECT FROM auth_group)"
                " OR EXISTS (SELECT FROM governance_auditevent)"
            )
            if cursor.fetchone()[0]:
                bootstrap.install()
                return
            with transaction.atomic():
                # They were judged when they were made.
                cursor.execute(
                    "; ".join(
                        [SET_ROLE.format("replica"), *self.writes, SET_ROLE.format("origin")]
                    ),
                    self.rows,
                )


def put() -> None:
    """Make an installation, as `bootstrap.install` does."""
    read_installation().put()


@functools.cache
@transaction.atomic
def read_installation() -> Installation:
    """Make an installation, read its rows, and take it back; the first time in an empty database.

    The ground of the tests asks for it before any of them runs.
    """
    statements: dict[str, str] = {}
    with connection.cursor() as cursor:
        cursor.execute(TABLES, [list(APART)])
        columns = dict(cursor.fetchall())
        before = {table: _rows(table) for table in columns}
        bootstrap.install()
        for table, names in columns.items():
            rows = [row for row in _rows(table) if row not in before[table]]
            if rows:
                write = (
                    f"INSERT INTO {table} ({names}) OVERRIDING SYSTEM VALUE SELECT {names}"
                    f" FROM json_populate_recordset(NULL::{table}, %s::json)"
                )
                statements[write] = json.dumps(rows)
        cursor.execute(READ_GRANTS)
        statements[WRITE_GRANTS] = cursor.fetchone()[0]
    transaction.set_rollback(True)
    return Installation(tuple(statements), tuple(statements.values()))


def _rows(table: str) -> list[object]:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT coalesce(json_agg(t), '[]')::text FROM {table} t")
        return list(json.loads(cursor.fetchone()[0]))
