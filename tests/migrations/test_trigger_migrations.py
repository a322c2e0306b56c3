"""`make_trigger_migration`: from what the database has to what is declared, and back."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import connection

from governance.core import triggers
from governance.core.triggers import Function
from governance.management.commands.make_trigger_migration import difference
from jobs.triggers import FUNCTIONS, TRIGGERS

pytestmark = pytest.mark.django_db

REFUSE = "BEGIN\n    RAISE EXCEPTION 'no';\nEND"
ANOTHER = Function("jobs_upload_rules", "An upload is final.", REFUSE)
OTHER_RULES = [
    replace(f, body=REFUSE) if f.name == "jobs_permit_guard" else f
    for f in FUNCTIONS
    if f.name != "jobs_attempt_guard"
] + [ANOTHER]
OTHER_TRIGGERS = [
    replace(t, events=frozenset({"INSERT", "UPDATE"})) if t.name == "jobs_job_guard" else t
    for t in TRIGGERS
    if t.name != "jobs_attempt_guard"
] + [triggers.row_trigger("jobs_upload", ANOTHER, "UPDATE")]


@pytest.fixture
def declared_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function and a trigger are changed, one of each is gone, one of each is new."""
    other = triggers.Declared(tuple(OTHER_RULES), tuple(OTHER_TRIGGERS))
    monkeypatch.setitem(triggers._declared, "jobs", other)


@pytest.fixture
def written(
    declared_otherwise: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, Any]:
    """The migration that the command writes: its name, and its module."""
    (tmp_path / "migrations").mkdir()
    monkeypatch.setattr(apps.get_app_config("jobs"), "path", str(tmp_path))
    call_command("make_trigger_migration", "jobs", "uploads_are_final", verbosity=0)
    [path] = (tmp_path / "migrations").glob("*.py")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return path.stem, module


def run(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


def test_it_follows_the_last_migration_of_the_app(written: tuple[str, Any]) -> None:
    name, module = written
    [(app, leaf)] = module.Migration.dependencies
    assert app == "jobs"
    assert name == f"{int(leaf[:4]) + 1:04}_uploads_are_final"


def test_forward_makes_what_is_declared_and_backward_what_was(written: tuple[str, Any]) -> None:
    _, module = written
    run(module.FORWARD)
    assert difference("jobs") == []
    run(module.BACKWARD)
    again = difference("jobs")
    assert [step.create for step in again] == module.FORWARD.strip().split("\n\n")


@pytest.mark.usefixtures("declared_otherwise")
def test_only_what_differs_is_made() -> None:
    made = [step.create.split("\n")[0] for step in difference("jobs")]
    assert made == [
        "DROP TRIGGER jobs_attempt_guard ON jobs_attempt;",
        "DROP TRIGGER jobs_job_guard ON jobs_job;",
        "CREATE OR REPLACE FUNCTION jobs_permit_guard() RETURNS trigger LANGUAGE plpgsql AS $$",
        "CREATE OR REPLACE FUNCTION jobs_upload_rules() RETURNS trigger LANGUAGE plpgsql AS $$",
        "CREATE TRIGGER jobs_job_guard",
        "CREATE TRIGGER jobs_upload_guard",
        "DROP FUNCTION jobs_attempt_guard;",
    ]


def test_nothing_is_written_where_nothing_differs(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("make_trigger_migration", "jobs", "nothing_new")
    assert "has what jobs/triggers.py declares" in capsys.readouterr().out


def test_a_name_that_is_no_name_of_a_module_is_refused(declared_otherwise: None) -> None:
    with pytest.raises(CommandError, match="no name of a migration"):
        call_command("make_trigger_migration", "jobs", "Uploads are final")
