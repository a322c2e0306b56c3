"""The database itself refuses what must never be, whoever asks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.apps import apps
from django.db import connection, transaction
from django.db.utils import DatabaseError

from governance.core import clock, outbox
from governance.core.models import ChainHead, Fact
from governance.core.triggers import declared
from governance.management.commands.make_trigger_migration import difference

pytestmark = pytest.mark.django_db

APPEND_ONLY = {
    "governance_auditevent",
    "governance_auditcheckpoint",
    "governance_auditcheckpointleaf",
    "governance_prunedfact",
    "governance_pricetier",
    "governance_routepolicymodel",
    "governance_routedecision",
    "governance_reservationhold",
    "governance_resolution",
    "governance_budgetopening",
    "governance_adjustment",
    "governance_adjustmentverdict",
    "governance_adjustmentposting",
    "governance_agedreservation",
    "governance_unreserveduse",
    "governance_unreservedposting",
    "governance_disputeduse",
    "governance_disputeverdict",
    "agents_activation",
    "agents_admissionchange",
    "agents_formersession",
    "jobs_task",
    "jobs_approval",
    "jobs_review",
    "jobs_retryextension",
    "jobs_reflection",
    "jobs_executionevidence",
    "jobs_reconciliation",
}
NEVER_DELETED = {
    "governance_factsink",
    "governance_factstream",
    "governance_languagemodel",
    "governance_price",
    "governance_routepolicy",
    "governance_reservation",
    "governance_budget",
    "governance_budgetwindow",
    "governance_limit",
    "governance_outsidechange",
    "agents_agent",
    "agents_session",
    "agents_submitter",
    "agents_fleet",
    "jobs_job",
    "jobs_jobtype",
    "jobs_source",
    "jobs_attempt",
    "jobs_execution",
    "jobs_setaside",
    "jobs_permit",
}
#: Facts go when they were published long ago, and only then; see the tests below.
GUARDED_BY_ROW = {"governance_fact"}


def attempted(statement: str) -> str:
    """Run a statement that the database must refuse, and return the name of the refusal."""
    with (
        pytest.raises(DatabaseError) as caught,
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute(statement)
    cause = caught.value.__cause__
    return str(getattr(cause, "sqlstate", ""))


def refusing_tables(event: str) -> Iterator[str]:
    """Yield the tables with a statement trigger of ours on that event, from the catalogue."""
    bit = {"DELETE": 8, "UPDATE": 16, "TRUNCATE": 32}[event]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT t.tgrelid::regclass::text FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid"
            " WHERE NOT t.tgisinternal AND t.tgtype & 1 = 0 AND t.tgtype & %s <> 0"
            " AND p.proname IN ('fencepost_append_only', 'fencepost_never_deleted')",
            [bit],
        )
        yield from (table for (table,) in cursor.fetchall())


# A trigger per statement refuses also a statement that would have met no row.
@pytest.mark.parametrize("table", sorted(APPEND_ONLY))
def test_history_is_not_rewritten(table: str) -> None:
    [key] = [m._meta.pk.column for m in apps.get_models() if m._meta.db_table == table]
    assert attempted(f"UPDATE {table} SET {key} = {key} WHERE false") == "23001"


@pytest.mark.parametrize("table", sorted(APPEND_ONLY | NEVER_DELETED))
def test_history_is_not_deleted(table: str) -> None:
    assert attempted(f"DELETE FROM {table} WHERE false") == "23001"


@pytest.mark.parametrize("table", sorted(APPEND_ONLY | NEVER_DELETED | GUARDED_BY_ROW))
def test_history_is_not_truncated(table: str) -> None:
    assert attempted(f"TRUNCATE {table} CASCADE") == "23001"


def test_these_lists_are_those_of_the_database() -> None:
    """A table that is protected in a migration is tested here, and the other way round."""
    assert set(refusing_tables("UPDATE")) == APPEND_ONLY
    assert set(refusing_tables("DELETE")) == APPEND_ONLY | NEVER_DELETED
    assert set(refusing_tables("TRUNCATE")) == APPEND_ONLY | NEVER_DELETED | GUARDED_BY_ROW


def test_a_subject_with_an_audit_chain_cannot_be_deleted() -> None:
    subjects = {m._meta.db_table for m in apps.get_models() if issubclass(m, ChainHead)}
    assert subjects <= NEVER_DELETED


@pytest.mark.parametrize("app", sorted(declared()))
def test_the_database_has_the_triggers_that_are_declared_and_no_others(app: str) -> None:
    assert difference(app) == []


@pytest.fixture
def fact() -> Fact:
    stated = outbox.fact(stream="job:a", sequence=1, kind="job.claimed", at=clock.now(), data={})
    stated.save(force_insert=True)
    return stated


@pytest.mark.parametrize(
    "change",
    ["data = '{\"n\": 2}'", "type = 'x'", "sequence = 2", "stream = 'job:b'", "relayed = false"],
)
def test_the_content_of_a_fact_does_not_change(fact: Fact, change: str) -> None:
    assert attempted(f"UPDATE governance_fact SET {change}") == "23001"


def test_a_fact_that_waits_is_not_deleted_and_a_published_one_may_be(fact: Fact) -> None:
    assert attempted("DELETE FROM governance_fact") == "23001"
    Fact.objects.update(published_at=clock.now())
    assert Fact.objects.all().delete()[0] == 1


def test_the_counter_of_a_stream_never_falls() -> None:
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO governance_factstream (name, sequence) VALUES ('agent:a', 5)")
    assert attempted("UPDATE governance_factstream SET sequence = 4") == "23001"
