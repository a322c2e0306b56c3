"""The claims are such as can fail: rows that break one are found, and by that one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from agents.principals import Principal
from jobs.models import Job
from tests.invariants.claims import BROKEN_BY, broken_claims
from tests.jobs.governed import Governed, price_a_model, use_a_model

pytestmark = pytest.mark.django_db

BREAKS = {
    "DELETE FROM jobs_lease": "a job has a lease exactly while",
    "UPDATE jobs_lease SET fencing_token = fencing_token + 1": "a job has a lease exactly while",
    "UPDATE jobs_attempt SET number = 2": "attempts are numbered from 1",
    "UPDATE jobs_attempt SET ended_at = claimed_at, outcome = 'failed'": "an attempt is open",
    "UPDATE jobs_attempt SET fencing_token = fencing_token + 9": "tokens grow with the attempts",
    "INSERT INTO jobs_retryextension (job_id, from_max, to_max, ceiling, granted_by, granted_at,"
    " reason) SELECT id, 3, 9, 10, 'user:eve', now(), '' FROM jobs_job": "the limit of attempts",
    "UPDATE jobs_job SET deferrals = 1": "what does not count was deferred",
    "DELETE FROM governance_fact WHERE sequence = 2": "facts of a job are numbered",
    "UPDATE governance_fact SET sequence = 5 - sequence": "numbers of a stream are in the order",
    "UPDATE jobs_job SET state = 'queued'": "every change of a job's state",
    "UPDATE jobs_job SET state = 'escalated'": "an escalation is open",
    "UPDATE jobs_job SET unresolved_executions = 0": "a job counts its unresolved executions",
    "UPDATE jobs_job SET state = 'in_doubt', unresolved_executions = 0": "a job in doubt has",
    "UPDATE jobs_job SET state = 'completed', finished_at = now()": "nothing that may be claimed",
    "UPDATE jobs_permit SET state = 'issued'": "an execution belongs to",
    "UPDATE governance_reservation SET state = 'held', attempt = 9": "money is held only",
    "UPDATE jobs_job SET state = 'completed', unresolved_executions = 0, finished_at = now()": (
        "what is completed was delivered"
    ),
    "UPDATE governance_auditevent SET actor = 'user:eve' WHERE seq = 2": "edited: job:",
}


@pytest.fixture
def started(hermes: Principal, make_job: Callable[..., Job]) -> Job:
    """A job whose attempt has started an execution."""
    price_a_model()
    use_a_model("content_prep")
    job = make_job()
    Governed(hermes).begin(job)
    return job


def test_what_the_service_did_is_sound(started: Job) -> None:
    assert broken_claims() == []


@pytest.mark.parametrize(("change", "claim"), list(BREAKS.items()))
def test_rows_that_break_a_claim_are_found(started: Job, change: str, claim: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET LOCAL session_replication_role = replica")
        drop_checks(cursor)
        cursor.execute(change)
        assert cursor.rowcount > 0
        cursor.execute("SET LOCAL session_replication_role = origin")
    assert [found for found in broken_claims() if found.startswith(claim)]


def drop_checks(cursor: Any) -> None:
    """Let go of the constraints that would refuse the row first; the test is rolled back."""
    cursor.execute(
        "SELECT conrelid::regclass::text, conname FROM pg_constraint WHERE contype = 'c'"
        " AND conrelid::regclass::text ~ '^(jobs|governance)_'"
    )
    for table, name in cursor.fetchall():
        cursor.execute(f'ALTER TABLE {table} DROP CONSTRAINT "{name}"')
    # Numbers that change places pass each other.
    cursor.execute("ALTER TABLE governance_fact DROP CONSTRAINT fact_sequence_once")


def test_every_claim_but_the_rarest_has_been_seen_to_fail() -> None:
    seen = set(BREAKS.values())
    unseen = [claim for claim in BROKEN_BY if not any(claim.startswith(start) for start in seen)]
    # Both need rows that a test would have to invent as a whole.
    assert unseen == [
        "a permit is open only while its attempt runs",
        "high risk ran only with somebody else's approval",
    ]
