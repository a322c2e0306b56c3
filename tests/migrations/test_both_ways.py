"""Migrations go forward on an empty database, backward to nothing, and forward again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connection
from pytest_django import DjangoDbBlocker

from tests.migrations.installations import at_work_on, scratch_database

OURS = ("jobs", "agents", "governance")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def empty_database(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    with django_db_blocker.unblock(), scratch_database("empty") as name, at_work_on(name):
        yield


def made() -> list[str]:
    """Return the tables and functions of ours, by name."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'r'"
            " AND relname ~ '^(jobs|agents|governance)_' UNION ALL"
            " SELECT proname FROM pg_proc WHERE proname ~ '^(jobs|agents|governance|fencepost)_'"
        )
        return sorted(name for (name,) in cursor.fetchall())


@pytest.mark.timeout(120)
def test_every_migration_goes_forward_and_backward(empty_database: None) -> None:
    call_command("migrate", verbosity=0)
    there = made()
    assert {"jobs_job", "jobs_job_guard", "fencepost_append_only"} <= set(there)
    for app in OURS:
        call_command("migrate", app, "zero", verbosity=0)
    assert made() == []
    call_command("migrate", verbosity=0)
    assert made() == there


@pytest.mark.parametrize("app", OURS)
def test_an_app_is_migrated_alone_on_a_new_database(empty_database: None, app: str) -> None:
    call_command("migrate", app, verbosity=0)
    assert any(name.startswith(f"{app}_") for name in made())
    call_command("migrate", verbosity=0)


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
