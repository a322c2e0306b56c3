"""Empty the database after a test that commits: only the tables that have rows, and those alone.

Django's own flush truncates every table, which makes a new file for each of them and for each of
their indexes, and then makes content types and permissions again: some 100 ms where nearly
all tables are empty.  What a test finds is the same: types, permissions, and nothing else.
"""

from __future__ import annotations

import functools

from django.db import connection

#: What stays: the database has made it for the models, and a flush would make it again.
KEPT = ("django_migrations", "django_content_type", "auth_permission")
#: A table of more pages is truncated, since what is deleted keeps its place.
PAGES_MAX = 16
PAGE_BYTES = 8192
READ_TABLES = (
    "SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace"
    " AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relname <> ALL(%s)"
    " ORDER BY c.relname"
)
# Past the triggers that refuse it. The lock waits for whoever still writes, as a TRUNCATE does.
EMPTY = """
BEGIN;
SET LOCAL session_replication_role = replica;
LOCK TABLE {all} IN SHARE ROW EXCLUSIVE MODE;
DO $$
DECLARE
    name text;
    large text;
BEGIN
    FOREACH name IN ARRAY (SELECT coalesce(array_agg(t), '{{}}') FROM ({found}) AS found(t)) LOOP
        IF pg_relation_size(name::regclass) > {bytes} THEN
            large := concat_ws(', ', large, name);
        ELSE
            EXECUTE 'DELETE FROM ' || name;
        END IF;
    END LOOP;
    IF large IS NOT NULL THEN
        EXECUTE 'TRUNCATE ' || large || ' CASCADE';
    END IF;
END $$;
DELETE FROM auth_permission WHERE id > {permissions};
DELETE FROM django_content_type WHERE id > {types};
COMMIT;
"""


@functools.cache
def statement() -> str:
    """Return what empties the database; to be asked for before a test has written to it."""
    with connection.cursor() as cursor:
        cursor.execute(READ_TABLES, [list(KEPT)])
        names = [name for (name,) in cursor.fetchall()]
        cursor.execute(
            "SELECT (SELECT max(id) FROM auth_permission),"
            " (SELECT max(id) FROM django_content_type)"
        )
        permissions, types = cursor.fetchone()
    return EMPTY.format(
        all=", ".join(names),
        found=" UNION ALL ".join(
            f"SELECT '{name}' WHERE EXISTS (SELECT FROM {name})" for name in names
        ),
        bytes=PAGES_MAX * PAGE_BYTES,
        permissions=permissions,
        types=types,
    )


def empty() -> None:
    """Delete all rows but those that are there without any test."""
    with connection.cursor() as cursor:
        cursor.execute(statement())
