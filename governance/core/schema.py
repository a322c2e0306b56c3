"""Tell whether the database is as this code needs it: its migrations, and its triggers."""

from __future__ import annotations

from functools import lru_cache

from django.db import connection
from django.db.migrations import Migration
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from governance.core import triggers


def missing_migrations() -> set[str]:
    """Return the migrations of this code that the database has not seen, as `app.name`."""
    applied = _applied()
    return {f"{app}.{name}" for app, name in _on_disk() if (app, name) not in applied}


def half_replaced() -> dict[str, str]:
    """Return the apps that stopped within migrations that are gone, replaced by one of today's.

    Such an app can neither go on, for the rest of them is not here, nor begin anew.

    :return: for each app the last of its replaced migrations that the database has seen.
    """
    applied, here = _applied(), _on_disk()
    found: dict[str, str] = {}
    for (app, name), migration in here.items():
        replaced = set(migration.replaces) - here.keys()
        seen = replaced & applied
        if seen and seen != replaced and (app, name) not in applied:
            found[app] = max(found.get(app, ""), *(name for _, name in seen))
    return found


def missing_triggers() -> set[str]:
    """Return the declared triggers that are absent or disabled, where migrations are complete."""
    behind = {name.partition(".")[0] for name in missing_migrations()}
    return triggers.missing(except_of=behind)


def _applied() -> set[tuple[str, str]]:
    return set(MigrationRecorder(connection).applied_migrations())


@lru_cache(maxsize=1)
def _on_disk() -> dict[tuple[str, str], Migration]:
    """Return the migrations of this code. They are the same for the life of the process."""
    return MigrationLoader(None, ignore_no_migrations=True).disk_migrations or {}
