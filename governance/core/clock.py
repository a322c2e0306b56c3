"""The one clock: the database's."""

from __future__ import annotations

from datetime import datetime

from django.db import connection

#: For pipelines: put it after the statement that takes the lock. See `now`.
READ_CLOCK = "SELECT clock_timestamp() AS now"


def now() -> datetime:
    """Return the database's `clock_timestamp()`, an aware UTC datetime.

    Call it after the locks are held: `now()` of SQL is the start of the transaction, and a clock
    read in the statement that waits for a lock can be as old as the wait.
    """
    with connection.cursor() as cursor:
        cursor.execute(READ_CLOCK)
        return cursor.fetchone()[0]
