"""Whether the database is as the code needs it."""

from __future__ import annotations

import pytest
from django.db import connection

from governance.core import schema

pytestmark = pytest.mark.django_db


def run(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


def test_a_complete_database_lacks_nothing() -> None:
    assert schema.missing_migrations() == set()
    assert schema.missing_triggers() == set()
    assert schema.half_replaced() == {}


@pytest.mark.parametrize(
    "change",
    [
        "DROP TRIGGER jobs_job_guard ON jobs_job",
        "ALTER TABLE jobs_job DISABLE TRIGGER jobs_job_guard",
        "ALTER TABLE jobs_job ENABLE REPLICA TRIGGER jobs_job_guard",
        "DROP TRIGGER jobs_job_guard ON jobs_job;"
        "CREATE TRIGGER jobs_job_guard BEFORE UPDATE ON jobs_source"
        " FOR EACH ROW EXECUTE FUNCTION jobs_job_guard()",
    ],
)
def test_a_trigger_that_guards_its_table_no_more_is_missing(change: str) -> None:
    run(change)
    assert schema.missing_triggers() == {"jobs_job_guard"}


def test_triggers_are_not_missed_before_the_migrations_of_their_app_have_run() -> None:
    run("DROP TRIGGER jobs_job_guard ON jobs_job; DROP TRIGGER agents_agent_guard ON agents_agent")
    run("DELETE FROM django_migrations WHERE app = 'jobs' AND name = '0003_triggers'")
    assert schema.missing_migrations() == {"jobs.0003_triggers"}
    assert schema.missing_triggers() == {"agents_agent_guard"}


FORGET = "DELETE FROM django_migrations WHERE app = 'jobs' AND name"


def test_an_app_that_stopped_within_the_first_release_is_named_with_its_last_migration() -> None:
    run(f"{FORGET} IN ('0001_jobs', '0002_effects', '0003_triggers') OR name > '0007_z'")
    assert schema.half_replaced() == {"jobs": "0007_approvals_end"}


@pytest.mark.parametrize(
    "forgotten",
    ["IN ('0001_jobs', '0002_effects', '0003_triggers')", "LIKE '%'", "= '0007_approvals_end'"],
    ids=["first release", "nothing", "today"],
)
def test_one_that_is_complete_or_empty_goes_forward(forgotten: str) -> None:
    run(f"{FORGET} {forgotten}")
    assert schema.half_replaced() == {}
