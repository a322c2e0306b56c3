"""Write the migration that brings an app's triggers to what `<app>/triggers.py` declares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.apps import apps
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection
from django.db.migrations.autodetector import MigrationAutodetector
from django.db.migrations.loader import MigrationLoader
from django.utils.text import slugify

from governance.core.triggers import Function, Statements, declared

FUNCTIONS = """
SELECT p.proname, p.prosrc, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid),
       l.lanname, p.provolatile = 'i'
  FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
 WHERE p.pronamespace = current_schema()::regnamespace
   AND (starts_with(p.proname, %(prefix)s) OR p.proname = ANY(%(names)s))
 ORDER BY p.proname
"""
TRIGGERS = """
SELECT t.tgname, c.relname, pg_get_triggerdef(t.oid, true)
  FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
 WHERE NOT t.tgisinternal AND starts_with(c.relname, %(prefix)s)
   AND c.relnamespace = current_schema()::regnamespace
 ORDER BY t.tgname
"""
MIGRATION = '''\
from django.db import migrations

FORWARD = {raw}"""
{forward}
"""

BACKWARD = {raw}"""
{backward}
"""


class Migration(migrations.Migration):
    dependencies = [{dependency}]

    operations = [migrations.RunSQL(FORWARD, reverse_sql=BACKWARD)]
'''


class Command(BaseCommand):
    help = (
        "Write the migration that brings an app's triggers and their functions from what the "
        "migrated database has to what <app>/triggers.py declares."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("app", choices=sorted(declared()))
        parser.add_argument("name", help="what the migration does, as add_index_to_jobs")

    def handle(self, *, app: str, name: str, **options: Any) -> None:
        if slugify(name).replace("-", "_") != name:
            raise CommandError(f"{name} is no name of a migration: lower case and underscores.")
        if not (steps := difference(app)):
            self.stdout.write(f"The database has what {app}/triggers.py declares.")
            return
        [(_, leaf)] = MigrationLoader(None).graph.leaf_nodes(app)
        number = (MigrationAutodetector.parse_number(leaf) or 0) + 1
        path = Path(apps.get_app_config(app).path) / "migrations" / f"{number:04}_{name}.py"
        forward = "\n\n".join(step.create for step in steps)
        backward = "\n".join(step.drop for step in reversed(steps))
        path.write_text(
            MIGRATION.format(
                forward=forward,
                backward=backward,
                raw="r" if "\\" in forward + backward else "",
                dependency=f'("{app}", "{leaf}")',
            )
        )
        self.stdout.write(f"{app}/migrations/{path.name}")


def difference(app: str) -> list[Statements]:
    """Return the steps from what the database has to what `app` declares.

    Forward, `create` runs of each in order; back, `drop` of each in reverse.
    """
    functions, triggers = declared()[app]
    target_functions = {function.name: function.statements for function in functions}
    target_triggers = {trigger.name: trigger.statements for trigger in triggers}
    present_functions, present_triggers = _installed(app, names=list(target_functions))
    steps = [
        Statements(present.drop, present.create)
        for name, present in present_triggers.items()
        if name not in target_triggers or not _same(target_triggers[name], present)
    ]
    for name, target in target_functions.items():
        present = present_functions.get(name)
        if present is None or not _same(target, present):
            steps.append(Statements(target.create, present.create if present else target.drop))
    steps += [
        target
        for name, target in target_triggers.items()
        if name not in present_triggers or not _same(target, present_triggers[name])
    ]
    steps += [
        Statements(present.drop, present.create)
        for name, present in present_functions.items()
        if name not in target_functions
    ]
    return steps


def _same(one: Statements, other: Statements) -> bool:
    """Return whether both make the same, however their lines are broken."""
    return one.create.split() == other.create.split()


def _installed(
    app: str, *, names: list[str]
) -> tuple[dict[str, Statements], dict[str, Statements]]:
    """Return an app's functions and triggers by name, as the database has them."""
    with connection.cursor() as cursor:
        cursor.execute(FUNCTIONS, {"prefix": f"{app}_", "names": names})
        functions = {
            name: Function(name, "", *rest).statements for name, *rest in cursor.fetchall()
        }
        cursor.execute(TRIGGERS, {"prefix": f"{app}_"})
        triggers = {
            name: Statements(f"{definition};", f"DROP TRIGGER {name} ON {table};")
            for name, table, definition in cursor.fetchall()
        }
    return functions, triggers
