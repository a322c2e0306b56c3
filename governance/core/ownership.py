"""Who owns the tables: migrations work as their owner, the service does not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.db import connection, transaction

OWNED = """
SELECT c.relname FROM pg_class c
 WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')
   AND pg_has_role(current_user, c.relowner, 'USAGE')
 ORDER BY c.relname LIMIT 1
"""


@contextmanager
def as_owner() -> Iterator[None]:
    """Let this thread's connection work as the owner of the tables, where one is named.

    Without `DATABASE_OWNER_URL` the service's own role is the only one there is.

    :raises TransactionManagementError: a transaction is open, whose work would be lost.
    """
    if not settings.OWNER_DATABASE:
        yield
        return
    if connection.in_atomic_block:
        raise transaction.TransactionManagementError("A transaction is open: it has one role.")
    usual = connection.settings_dict
    connection.close()
    connection.settings_dict = usual | settings.OWNER_DATABASE
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict = usual


def owns_tables() -> bool:
    """Return whether the service's role may alter tables: it owns one, or is in a role that does.

    True of a superuser, too.
    """
    with connection.cursor() as cursor:
        cursor.execute(OWNED)
        return cursor.fetchone() is not None
