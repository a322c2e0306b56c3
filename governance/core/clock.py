"""The one clock, which is the database's, and the one form of an instant on the wire."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import overload

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


@overload
def instant(at: datetime) -> str: ...
@overload
def instant(at: datetime | None) -> str | None: ...
def instant(at: datetime | None) -> str | None:
    """Return an instant as the API writes it: RFC 3339, UTC, microseconds, `Z`; None stays None."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ") if at else None
