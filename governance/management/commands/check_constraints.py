"""List the rows that a constraint refuses which was added to a table without looking at them.

A migration adds a CHECK to a filled table as NOT VALID: new rows obey it at once, and no lock lasts
for a scan.  The same migration says by COMMENT ON CONSTRAINT what repairs a row of before, a later
one validates, and stops where rows are left over.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from django.apps import apps
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection, transaction

from governance.core.ownership import as_owner

NOT_VALID = """
SELECT n.conname, c.relname, pg_get_expr(n.conbin, n.conrelid),
       coalesce(obj_description(n.oid, 'pg_constraint'), '')
  FROM pg_constraint n JOIN pg_class c ON c.oid = n.conrelid
 WHERE n.contype = 'c' AND NOT n.convalidated
   AND n.connamespace = current_schema()::regnamespace
 ORDER BY c.relname, n.conname
"""


class Constraint(NamedTuple):
    """A CHECK that was not validated: `condition` as SQL, `repair` as its comment says it."""

    name: str
    table: str
    condition: str
    repair: str


class Command(BaseCommand):
    help = (
        "List the rows that a constraint not validated yet refuses, and what repairs them. Exits "
        "with 0 when there are none, with 1 otherwise."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--validate", action="store_true", help="validate what no row breaks")
        parser.add_argument("--limit", type=int, default=20, help="rows to list per constraint")

    def handle(self, *, validate: bool, limit: int, **options: Any) -> None:
        broken = 0
        for constraint in not_valid():
            rows = offending(constraint, limit=limit + 1)
            if rows:
                broken += 1
                self._print(constraint, rows, limit)
            elif validate:
                with as_owner():
                    _validate(constraint)
                self.stdout.write(f"{constraint.name} of {constraint.table} is valid now.")
            else:
                self.stdout.write(f"{constraint.name} of {constraint.table}: no row breaks it.")
        if broken:
            raise CommandError(f"Constraints that rows break: {broken}.")
        self.stdout.write(self.style.SUCCESS("No row breaks a constraint."))

    def _print(self, constraint: Constraint, rows: list[str], limit: int) -> None:
        self.stdout.write(self.style.ERROR(f"{constraint.name} of {constraint.table} is broken by"))
        for row in rows[:limit]:
            self.stdout.write(f"  {row}")
        if len(rows) > limit:
            self.stdout.write("  and more")
        self.stdout.write(f"  Repair: {constraint.repair or 'none is known'}")


def not_valid() -> list[Constraint]:
    """Return the CHECK constraints that were not validated, by table and name."""
    with connection.cursor() as cursor:
        cursor.execute(NOT_VALID)
        return [Constraint(*row) for row in cursor.fetchall()]


@transaction.atomic
def offending(constraint: Constraint, *, limit: int) -> list[str]:
    """Return up to `limit` rows that break the constraint, each as its key and its name."""
    [model] = [m for m in apps.get_models() if m._meta.db_table == constraint.table]
    condition = constraint.condition.replace("%", "%%")
    # The key alone: what breaks a rule may be a value that cannot be read.
    key = connection.ops.quote_name(str(model._meta.pk.column))
    # As a CHECK does: what is unknown passes.
    broken = model._default_manager.raw(
        f"SELECT {key} FROM {constraint.table} WHERE ({condition}) IS FALSE LIMIT %s", [limit]
    )
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = 0")
    return [f"{row.pk}: {row}" for row in broken]


@transaction.atomic
def _validate(constraint: Constraint) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = 0")
        # Reads the whole table beside those who write to it.
        cursor.execute(
            f"ALTER TABLE {constraint.table} VALIDATE CONSTRAINT"
            f" {connection.ops.quote_name(constraint.name)}"
        )
