"""Prefixes of task ids that one submitter owns, and nobody else may use."""

from __future__ import annotations

from governance.core import sql

#: First argument of the two-key advisory lock of all prefixes; the second is 0. Every intake holds
#: it shared until it commits, whoever changes a prefix exclusively: once that is answered, no
#: intake that was judged by the older prefixes can still commit.
PREFIX_LOCK = 9
LOCK_SHARED = "SELECT pg_advisory_xact_lock_shared(%s, 0)"
LOCK_EXCLUSIVE = "SELECT pg_advisory_xact_lock(%s, 0)"

# No lock; must follow the lock in a statement of its own. Few rows.
READ_OWNERS = (
    "SELECT t.task_id, s.name FROM unnest(%s::text[]) AS t (task_id)"
    " JOIN agents_taskprefix p ON starts_with(t.task_id, p.prefix)"
    " JOIN agents_submitter s ON s.id = p.submitter_id"
)


def owners(task_ids: list[str]) -> tuple[sql.Statement, sql.Statement]:
    """Return the statements that lock the prefixes as they are, and read who owns each task id.

    The second answers rows of `task_id` and the `name` of the submitter, for ids that are owned.
    """
    return (
        sql.Statement(LOCK_SHARED, (PREFIX_LOCK,)),
        sql.Statement(READ_OWNERS, (task_ids,)),
    )


def hold() -> None:
    """Let no intake commit until the end of the transaction, and no other change of a prefix."""
    sql.pipeline(sql.Statement(LOCK_EXCLUSIVE, (PREFIX_LOCK,)))
