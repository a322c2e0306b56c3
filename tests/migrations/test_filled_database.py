"""Migrations go forward on a filled database: no table is written anew, nothing waits for a scan.

`BASE` is the state that a database is taken from; what came later must be of a kind that can be
done while work goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import apps
from django.contrib.postgres.operations import AddConstraintNotValid, AddIndexConcurrently
from django.db import connection, migrations
from django.db.migrations.loader import MigrationLoader

from tests import children

NAME = "migrated_filled"
BASE = {
    "governance": "0009_named_in_lists",
    "agents": "0008_named_in_lists",
    "jobs": "0006_index_paused",
}
#: Tables that grow with the work. A lock on one of them is felt by everybody.
HOT = {
    ("jobs", name)
    for name in ("job", "task", "attempt", "lease", "execution", "permit", "reflection")
} | {
    ("governance", name)
    for name in ("auditevent", "fact", "idempotencyrecord", "reservation", "resolution")
}
TABLES = sorted(apps.get_model(*label)._meta.db_table for label in HOT)
JOBS = 3000

BACK_AND_FORWARD = f"""
from django.core.management import call_command
from django.db import DatabaseError, connection
from jobs import bootstrap, filling

BASE, TABLES = {BASE!r}, {TABLES!r}

def asked(query, *params):
    with connection.cursor() as cursor:
        cursor.execute(query, params)
        return cursor.fetchall()

def rows():
    return [asked(f"SELECT count(*) FROM {{table}}")[0][0] for table in TABLES]

def files():
    return asked("SELECT relname, relfilenode FROM pg_class WHERE relname = ANY(%s)"
                 " ORDER BY relname", TABLES)

call_command("migrate", verbosity=0)
bootstrap.install()
for _ in filling.fill(jobs={JOBS}):
    pass
filled = rows()
for app in ("jobs", "agents", "governance"):
    call_command("migrate", app, BASE[app], verbosity=0)
before = files()

def rename(was, to):
    # Past the guards, by which no job is ever renamed.
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute("UPDATE jobs_job SET task_id = %s WHERE task_id = %s", [to, was])
        assert cursor.rowcount == 1
        cursor.execute("SET session_replication_role = origin")

rename("fill-7", "fill/7")
try:
    call_command("migrate", verbosity=0)
except DatabaseError as error:
    assert "a slash or an unseen character is in the task_id" in str(error), error
else:
    raise AssertionError("the broken row was not noticed")
assert rows() == filled
rename("fill/7", "fill-7")
call_command("migrate", verbosity=0)

assert rows() == filled, (rows(), filled)
assert files() == before, "a table was written anew"
assert asked("SELECT indexrelid::regclass FROM pg_index WHERE NOT indisvalid") == []
assert asked("SELECT conname FROM pg_constraint WHERE NOT convalidated") == []
call_command("verify_audit", verbosity=0)
call_command("verify_ledger", verbosity=0)
print("forward", filled[TABLES.index("jobs_job")])
"""


@pytest.fixture
def empty_database(transactional_db: None) -> Iterator[str]:
    with connection._nodb_cursor() as cursor:  # type: ignore[attr-defined]
        cursor.execute(f"DROP DATABASE IF EXISTS {NAME}")
        cursor.execute(f"CREATE DATABASE {NAME}")
    named = connection.settings_dict["NAME"]
    yield children.environment()["FENCEPOST_DSN"].replace(f"/{named}?", f"/{NAME}?")
    with connection._nodb_cursor() as cursor:  # type: ignore[attr-defined]
        cursor.execute(f"DROP DATABASE {NAME} WITH (FORCE)")


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.django_db(transaction=True)
def test_a_filled_database_goes_forward_in_place_or_stops_saying_which_row_is_wrong(
    empty_database: str,
) -> None:
    process = children.start_python(BACK_AND_FORWARD, FENCEPOST_DSN=empty_database)
    output, _ = process.communicate(timeout=150)
    assert process.returncode == 0, output
    assert output.endswith(f"forward {JOBS}\n")


def later_operations() -> Iterator[tuple[migrations.Migration, Any]]:
    """Yield the operations that came after `BASE`."""
    for (app, name), migration in MigrationLoader(None).disk_migrations.items():
        if app in BASE and name > BASE[app]:
            for operation in migration.operations:
                yield migration, operation


def test_no_later_migration_indexes_or_checks_a_hot_table_under_a_lock() -> None:
    found = []
    for migration, operation in later_operations():
        table = (migration.app_label, getattr(operation, "model_name", "").lower())
        if table not in HOT:
            continue
        scans = isinstance(operation, migrations.AddIndex | migrations.AddConstraint)
        aside = isinstance(operation, AddIndexConcurrently | AddConstraintNotValid)
        if scans and not aside:
            found.append(f"{migration}: {operation.describe()}")
    assert found == []


def test_no_later_migration_makes_an_index_by_hand_under_a_lock() -> None:
    found = [
        str(migration)
        for migration, operation in later_operations()
        if isinstance(operation, migrations.RunSQL)
        for words in [str(operation.sql).upper().replace("UNIQUE ", "")]
        if words.count("CREATE INDEX") != words.count("CREATE INDEX CONCURRENTLY")
    ]
    assert found == []
