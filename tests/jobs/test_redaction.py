"""A credential in the words of a worker or a person is in no row, event or fact; money.md's M17."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection

from agents.entry import Entry
from governance.core.errors import OutcomeConflict
from governance.core.models import AuditEvent, Fact
from jobs import transitions
from jobs.models import Attempt, Escalation, Reflection

pytestmark = pytest.mark.django_db
SECRET, OTHER = "sk-proj-" + "A1b2" * 8, "sk-proj-" + "C3d4" * 8


def everything() -> str:
    """Return all text that this database keeps of jobs, attempts, events and facts."""
    tables = (
        "governance_auditevent", "governance_fact", "governance_idempotencyrecord",
        "jobs_attempt", "jobs_escalation", "jobs_job", "jobs_lease", "jobs_reflection",
        "jobs_review", "jobs_retryextension",
    )  # fmt: skip
    with connection.cursor() as cursor:
        found = []
        for table in tables:
            cursor.execute(f"SELECT coalesce(json_agg(t)::text, '') FROM {table} t")
            found.append(cursor.fetchone()[0])
        cursor.execute("SELECT coalesce(string_agg(encode(body, 'escape'), ' '), '') FROM"
                       " governance_auditevent")  # fmt: skip
        found.append(cursor.fetchone()[0])
    return " ".join(found)


@pytest.fixture
def held(running: Any, worker: Entry) -> dict[str, Any]:
    """Return authority over a running attempt."""
    return {"entry": worker} | running().binding


def test_what_a_worker_fails_with_is_kept_without_its_secrets(held: dict[str, Any]) -> None:
    words = {"error_message": f"401 for {SECRET}", "error_code": "E"}
    transitions.heartbeat(
        entry=held["entry"], beats=[{**_lease(held), "progress": {"said": [SECRET], "step": 2}}]
    )
    assert SECRET not in everything()
    transitions.fail(**held, **words, progress={"said": [SECRET], "step": 3})

    assert SECRET not in everything()
    ended = Attempt.objects.get()
    assert ended.error_message == "401 for [redacted]"
    assert ended.progress == {"said": ["[redacted]"], "step": 3}
    # The same is a repetition; what differs in the secret alone is something else.
    assert transitions.fail(**held, **words).outcome == "already_recorded"
    with pytest.raises(OutcomeConflict):
        transitions.fail(**held, **words | {"error_message": f"401 for {OTHER}"})


def test_an_outcome_of_before_is_known_by_its_plain_digest(held: dict[str, Any]) -> None:
    words = {"error_message": f"401 for {SECRET}", "error_code": "E"}
    transitions.fail(**held, **words)
    plain = transitions.work.digest(kind="fail", **words, retryable=True)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("UPDATE jobs_attempt SET outcome_sha256 = %s", [plain])
        cursor.execute("SET LOCAL session_replication_role = origin")

    assert transitions.fail(**held, **words).outcome == "already_recorded"


def test_what_a_worker_asks_a_person_is_kept_without_its_secrets(held: dict[str, Any]) -> None:
    transitions.escalate(**held, reason=f"May I use {SECRET}?", notify_to="")
    assert Escalation.objects.get().reason == "May I use [redacted]?"
    transitions.resolve(
        task_id=held["task_id"], resolution="fail", actor="user:anna", reason=f"No: {SECRET}."
    )
    assert SECRET not in everything()


def test_what_a_worker_learnt_and_why_it_deferred_are_kept_so(held: dict[str, Any]) -> None:
    transitions.reflect(**held, content={"what_worked": f"curl -H 'x: {SECRET}'"})
    transitions.defer(**held, reason=f"429 for {SECRET}", retry_after_seconds=60)
    assert Reflection.objects.get().what_worked == "curl -H 'x: [redacted]'"
    assert SECRET not in everything()


def test_what_a_digest_binds_is_kept_as_it_was_given(held: dict[str, Any]) -> None:
    transitions.complete(
        entry=held["entry"], completions=[{**_lease(held), "result": {"text": SECRET}}]
    )
    assert Attempt.objects.get().result == {"text": SECRET}
    bodies = [bytes(event.body).decode() for event in AuditEvent.objects.all()]
    assert not any(SECRET in body for body in bodies)
    assert SECRET not in json.dumps([fact.data for fact in Fact.objects.all()])


def _lease(held: dict[str, Any]) -> dict[str, Any]:
    return {name: held[name] for name in ("task_id", "attempt", "fencing_token")}
