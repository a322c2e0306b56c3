"""Migrations go forward on an empty database, backward to nothing, and forward again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connection

from tests import children

NAME = "migrated_both_ways"
OURS = ("jobs", "agents", "governance")
ROOT = Path(__file__).resolve().parents[2]

FORWARD_BACKWARD_FORWARD = """
from django.core.management import call_command
from django.db import connection

def tables():
    with connection.cursor() as cursor:
        cursor.execute("SELECT relname FROM pg_class WHERE relkind = 'r'"
                       " AND relname ~ '^(jobs|agents|governance)_'")
        found = [name for (name,) in cursor.fetchall()]
        cursor.execute("SELECT proname FROM pg_proc WHERE proname"
                       " ~ '^(jobs|agents|governance|fencepost)_'")
        return sorted(found + [name for (name,) in cursor.fetchall()])

call_command("migrate", verbosity=0)
there = tables()
assert there
for app in ("jobs", "agents", "governance"):
    call_command("migrate", app, "zero", verbosity=0)
assert tables() == [], tables()
call_command("migrate", verbosity=0)
assert tables() == there
print("both ways")
"""


@pytest.fixture
def empty_database(transactional_db: None) -> Iterator[str]:
    with connection._nodb_cursor() as cursor:  # type: ignore[attr-defined]
        cursor.execute(f"DROP DATABASE IF EXISTS {NAME}")
        cursor.execute(f"CREATE DATABASE {NAME}")
    yield NAME
    with connection._nodb_cursor() as cursor:  # type: ignore[attr-defined]
        cursor.execute(f"DROP DATABASE {NAME} WITH (FORCE)")


@pytest.mark.slow
@pytest.mark.timeout(150)
@pytest.mark.django_db(transaction=True)
def test_every_migration_goes_forward_and_backward(empty_database: str) -> None:
    named = connection.settings_dict
    dsn = children.environment()["FENCEPOST_DSN"].replace(f"/{named['NAME']}?", f"/{NAME}?")
    process = children.start_python(FORWARD_BACKWARD_FORWARD, FENCEPOST_DSN=dsn)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    assert output.endswith("both ways\n")


@pytest.mark.django_db
def test_the_migrations_make_what_the_models_say() -> None:
    call_command("makemigrations", *OURS, "--check", "--dry-run", verbosity=0)


@pytest.mark.parametrize("app", OURS)
def test_a_migration_imports_none_of_our_code(app: str) -> None:
    found = [
        path.name
        for path in sorted((ROOT / app / "migrations").glob("0*.py"))
        for line in path.read_text().splitlines()
        if line.startswith(tuple(f"{word} {ours}" for word in ("from", "import") for ours in OURS))
    ]
    assert found == []
