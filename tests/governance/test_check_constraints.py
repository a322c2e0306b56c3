"""`check_constraints` finds the rows of before that a new rule refuses, and validates the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from governance.management.commands.check_constraints import not_valid

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def two_jobs(make_job: Callable[..., Any]) -> None:
    """Two jobs, and rules that came after them: the first job breaks one, none the other."""
    for task_id in ("taken_in-100%", "taken-in-too"):
        make_job(task_id=task_id)
    run("SET CONSTRAINTS ALL IMMEDIATE")
    run("ALTER TABLE jobs_job ADD CONSTRAINT later_rule"
        " CHECK (NOT task_id LIKE '%\\_%') NOT VALID")  # fmt: skip
    run("COMMENT ON CONSTRAINT later_rule ON jobs_job IS 'Take the task in under another id.'")
    run("ALTER TABLE jobs_job ADD CONSTRAINT easy_rule"
        " CHECK (deadline_at > created_at) NOT VALID")  # fmt: skip


def run(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


def left() -> set[str]:
    return {constraint.name for constraint in not_valid()}


def test_a_row_is_listed_also_where_what_breaks_the_rule_cannot_be_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run("ALTER TABLE jobs_job DROP CONSTRAINT job_instants_are_bounded")
    run("UPDATE jobs_job SET deadline_at = '10000-01-01Z' WHERE task_id = 'taken-in-too'")
    run("ALTER TABLE jobs_job ADD CONSTRAINT job_instants_are_bounded"
        " CHECK (deadline_at < '9000-01-01Z') NOT VALID")  # fmt: skip

    with pytest.raises(CommandError, match="Constraints that rows break: 2"):
        call_command("check_constraints")

    assert "taken-in-too" in capsys.readouterr().out


def test_the_rows_that_break_a_rule_are_listed_with_what_repairs_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(CommandError, match="Constraints that rows break: 1"):
        call_command("check_constraints")
    output = capsys.readouterr().out
    assert "later_rule of jobs_job is broken by" in output
    assert "taken_in-100%" in output
    assert "taken-in-too" not in output
    assert "Repair: Take the task in under another id." in output
    # What is unknown passes: neither job has a deadline.
    assert "easy_rule of jobs_job: no row breaks it" in output
    assert left() == {"later_rule", "easy_rule"}


def test_what_no_row_breaks_is_validated_and_the_rest_after_its_repair() -> None:
    with pytest.raises(CommandError):
        call_command("check_constraints", validate=True, verbosity=0)
    assert left() == {"later_rule"}

    run("ALTER TABLE jobs_job DISABLE TRIGGER jobs_job_guard")
    run("UPDATE jobs_job SET task_id = 'renamed' WHERE task_id = 'taken_in-100%'")
    call_command("check_constraints", validate=True, verbosity=0)
    assert left() == set()


def test_no_more_rows_are_listed_than_asked_for(
    make_job: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    run("ALTER TABLE jobs_job ADD CONSTRAINT no_jobs CHECK (false) NOT VALID")
    with pytest.raises(CommandError, match="2"):
        call_command("check_constraints", limit=1)
    output = capsys.readouterr().out
    assert output.count("and more") == 1
    assert "Repair: none is known" in output


def test_a_database_without_open_rules_is_told_so(capsys: pytest.CaptureFixture[str]) -> None:
    run("ALTER TABLE jobs_job DROP CONSTRAINT later_rule, DROP CONSTRAINT easy_rule")
    call_command("check_constraints")
    assert capsys.readouterr().out == "No row breaks a constraint.\n"
