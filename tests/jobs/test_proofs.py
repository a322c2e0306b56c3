"""`verify_ledger` finds every row that is not as its event says, and names it."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection

from agents.principals import Principal
from governance.core.models import AuditEvent, OutsideChange
from governance.evidence import trail
from governance.money import catalogue, ledger, proofs
from governance.money.models import Budget, RoutePolicy
from jobs import executions, transitions
from jobs.models import Job
from jobs.transitions import live
from tests.jobs.governed import MODEL, TEST, Governed, price_a_model

pytestmark = pytest.mark.django_db


@pytest.fixture
def job(make_job: Callable[..., Job], hermes: Principal) -> Job:
    """A job that made two calls: one that was settled and one that failed, and got an attempt."""
    price_a_model(cap=Decimal(10))
    catalogue.set_model(provider="local", name="other", **TEST)
    job = make_job()
    worker = Governed(hermes)
    worker.claim(job)
    usage = {"input_tokens": 40, "output_tokens": 7}
    end(worker, job, worker.route(job), end="settled", usage=usage)
    end(worker, job, worker.route(job, call=2), end="failed", cost_basis="estimate")
    transitions.extend(task_id=job.task_id, extra=1, **TEST)
    live.authorize_live(agent="hermes", runtime="command", valid_seconds=60, **TEST)
    at_commit()
    return job


def end(worker: Governed, job: Job, routed: Any, **named: Any) -> None:
    executions.resolve_reservation(
        entry=worker.entry,
        binding=worker.binding(job),
        reservation_id=routed.reservation.reservation_id,
        **named,
    )


def tamper(statement: str) -> None:
    """Run SQL as a superuser who has turned the triggers off."""
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(statement)
        cursor.execute("SET session_replication_role = origin")


def at_commit() -> None:
    """Run what waits for the commit."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")


def found() -> set[str]:
    return {difference.check for difference in proofs.verify()}


LAST = "(SELECT max(reservation_id::text)::uuid FROM governance_reservation)"
ERASED = [
    f"DELETE FROM {table} WHERE reservation_id = {LAST}"
    for table in ("governance_reservationhold", "governance_resolution")
]
TAMPERED = [
    (
        "UPDATE governance_reservation SET state = 'settled' WHERE state = 'failed';"
        "UPDATE governance_resolution SET ended_as = 'settled' WHERE ended_as = 'failed'",
        {"resolution.row", "resolution.event", "resolution.state"},
    ),
    (
        "UPDATE governance_resolution SET input_tokens = 4, cost = cost - 0.000036"
        " WHERE ended_as = 'settled';"
        "UPDATE governance_budgetwindow SET spent = spent - 0.000036",
        {"resolution.actual", "resolution.usage.input_tokens"},
    ),
    (
        "; ".join(ERASED) + ";"
        f"DELETE FROM governance_routedecision WHERE decision_id ="
        f" (SELECT decision_id FROM governance_reservation WHERE reservation_id = {LAST});"
        f"DELETE FROM governance_reservation WHERE reservation_id = {LAST}",
        {"decision.row", "resolution.row"},
    ),
    ("UPDATE governance_routedecision SET max_output_tokens = 1", {"decision.max_output_tokens"}),
    ("UPDATE governance_reservation SET amount = amount / 2", {"decision.reservation.amount"}),
    ("UPDATE jobs_retryextension SET granted_by = 'user:eve'", {"retry_extension.granted_by"}),
    ("UPDATE jobs_retryextension SET granted_at = '2020-1-1Z'", {"retry_extension.granted_at"}),
    ("UPDATE jobs_retryextension SET ceiling = 99", {"retry_extension.ceiling"}),
    ("DELETE FROM jobs_retryextension", {"retry_extension.row"}),
    ("UPDATE governance_budget SET cap = 999999", {"governance_budget.cap"}),
    ("UPDATE governance_price SET ends_at = '2999-1-1Z'", {"governance_price.ends_at"}),
    (
        """UPDATE governance_price SET document = '{"free": true}'""",
        {"governance_price.document"},
    ),
    (
        "INSERT INTO governance_pricetier (price_id, above_input_tokens, input_rate, output_rate)"
        " SELECT id, 10, 0, 0 FROM governance_price",
        {"governance_pricetier.event"},
    ),
    (
        "INSERT INTO governance_routepolicymodel (policy_id, model_id, position)"
        " SELECT p.id, m.id, 2 FROM governance_routepolicy p, governance_languagemodel m"
        " WHERE m.name = 'other'",
        {"governance_routepolicymodel.event"},
    ),
    ("UPDATE governance_routepolicy SET retired_at = now()", {"governance_routepolicy.retired_at"}),
    ("UPDATE jobs_liveauthorization SET granted_by = 'x'", {"jobs_liveauthorization.granted_by"}),
    (
        "UPDATE jobs_liveauthorization SET ends_at = '2999-1-1Z'",
        {"jobs_liveauthorization.ends_at"},
    ),
    ("DELETE FROM jobs_liveauthorization", {"jobs_liveauthorization.row"}),
    ("UPDATE agents_credential SET hashed_key = 'mine'", {"agents_credential.hashed_key"}),
    ("UPDATE agents_agent SET max_risk_tier = 'high' WHERE name = 'hermes'",
     {"agents_agent.max_risk_tier"}),
    ("UPDATE jobs_jobtype SET max_attempts_ceiling = 99 WHERE name = 'rewrite'",
     {"jobs_jobtype.max_attempts_ceiling"}),
]  # fmt: skip


#: What rows say of whose call it was, when and why, each with what finds that it was changed.
REWRITTEN = [
    ("routedecision", "external_request_id = 'xr_eve'", {"decision", "reservation"}),
    ("routedecision", "call = call + 7", {"decision"}),
    ("routedecision", "task_id = 'eve'", {"decision", "reservation"}),
    ("routedecision", "agent = 'eve'", {"decision", "reservation"}),
    ("routedecision", "job_type = 'eve'", {"decision"}),
    ("routedecision", "risk_tier = 'high'", {"decision"}),
    ("routedecision", "runtime = 'eve'", {"decision"}),
    ("routedecision", "request_bytes = 1", {"decision"}),
    ("routedecision", """requirements = '["eve"]'""", {"decision"}),
    ("routedecision", "price_id = price_id + 7", {"decision"}),
    ("routedecision", "decided_at = decided_at - interval '1 day'", {"decision", "reservation"}),
    ("reservation", "agent = 'eve'", {"reservation"}),
    ("reservation", "attempt = attempt + 1", {"reservation"}),
    ("reservation", "reserved_at = reserved_at - interval '40 days'", {"reservation"}),
    ("resolution", "resolved_by = 'user:eve'", {"resolution"}),
    ("resolution", "reason = 'eve'", {"resolution"}),
    ("resolution", "resolved_at = resolved_at - interval '40 days'", {"resolution"}),
    ("resolution", "error_code = 'EVE'", {"resolution"}),
    ("resolution", "provider_response_id = 'eve'", {"resolution"}),
    ("resolution", "content_sha256 = repeat('0', 64)", {"resolution"}),
    ("budgetwindow", "starts_at = now() + interval '40 days'", {"budget_window"}),
]


@pytest.mark.parametrize(("table", "change", "kinds"), REWRITTEN)
def test_a_call_that_is_made_anothers_is_named(job, table, change, kinds):
    tamper(f"UPDATE governance_{table} SET {change}")

    differing = [*ledger.verify(), *proofs.verify()]

    assert {difference.check.partition(".")[0] for difference in differing} >= kinds, differing


def test_rows_and_events_agree_where_nobody_meddled(job):
    assert list(proofs.verify()) == []
    assert list(ledger.verify()) == []
    assert not OutsideChange.objects.exists()


@pytest.mark.parametrize(("statement", "checks"), TAMPERED)
def test_what_was_tampered_with_is_named(job, statement, checks):
    tamper(statement)

    differing = list(proofs.verify())

    assert {difference.check for difference in differing} & checks, differing
    assert {difference.check for difference in differing} <= checks, differing


def test_what_lowers_tokens_cost_and_counter_together_agrees_with_the_counters_alone(job):
    """The control: the rows alone do not show it."""
    statement, _ = TAMPERED[1]
    tamper(statement + "; UPDATE governance_resolution SET cost_split = NULL")

    assert list(ledger.verify()) == []
    assert "resolution.actual" in found()


def test_an_event_of_before_is_compared_by_what_it_says(job):
    """Events of an earlier release have neither usage nor the tokens of a request."""
    statement = (
        "UPDATE governance_auditevent SET body = convert_to((convert_from(body, 'UTF8')::jsonb"
        " #- '{details,usage}' #- '{details,usage_odd}' #- '{details,content_sha256}')::text,"
        " 'UTF8') WHERE action LIKE 'reservation.%' OR action LIKE 'route.%'"
    )
    tamper(statement)
    assert list(proofs.verify()) == []

    tamper("UPDATE governance_resolution SET cost = 0 WHERE ended_as = 'settled'")

    assert found() == {"resolution.actual"}


def test_an_event_that_cannot_be_read_stops_nothing(job):
    tamper("UPDATE governance_auditevent SET body = '\\xff' WHERE action = 'route.issued'")

    assert found() == {"decision.event"}


OUTSIDE = [
    ("UPDATE governance_budget SET cap = 999999", "budget"),
    (TAMPERED[11][0], "model"),
    (TAMPERED[12][0], "route_policy"),
    ("UPDATE governance_routepolicy SET retired_at = now()", "route_policy"),
    ("INSERT INTO jobs_liveauthorization (agent_id, runtime, granted_by, granted_at, reason,"
     " ends_at, revoked_by, revoke_reason) SELECT id, 'x', 'user:eve', now(), 'why',"
     " '2999-1-1Z', '', '' FROM agents_agent WHERE name = 'hermes'", "agent"),
    ("DELETE FROM jobs_liveauthorization", "agent"),
    ("UPDATE agents_credential SET hashed_key = 'mine' WHERE agent_id IS NULL", "submitter"),
    ("UPDATE agents_credential SET hashed_key = 'mine' WHERE agent_id IS NOT NULL", "agent"),
    ("INSERT INTO agents_maintenanceinhibit (owner, reason, starts_at, lifted_by, lift_reason)"
     " VALUES ('eve', 'why', now(), '', '')", "fleet"),
    ("UPDATE jobs_source SET enabled = false WHERE name = 'manual'", "source"),
    ("INSERT INTO jobs_retryextension (job_id, from_max, to_max, ceiling, granted_by, granted_at,"
     " reason) SELECT id, 4, 5, 10, 'user:eve', now(), 'why' FROM jobs_job", "job"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "kind"), OUTSIDE)
def test_a_change_that_is_no_move_becomes_an_event_of_the_databases(job, statement, kind):
    with connection.cursor() as cursor:
        cursor.execute(statement)

    at_commit()

    [event] = AuditEvent.objects.filter(action="changed_outside")
    change = OutsideChange.objects.get()
    assert event.subject.partition(":")[0] == kind
    assert (event.subject, event.seq) == (change.subject, change.seq)
    assert event.actor == f"database:{connection.settings_dict['USER']}"
    assert change.settled_at is None
    assert trail.verify().findings == []
    assert change.row_key.partition(":")[0] + ".changed_outside" in found()


def test_an_event_of_the_same_transaction_covers_only_what_it_states(job):
    catalogue.set_budget(scope="agent", key="hermes", window="day", cap=Decimal(3), **TEST)
    Budget.objects.filter(scope="agent").update(soft_cap=Decimal(2))

    at_commit()

    assert OutsideChange.objects.get().after["soft_cap"] == "2.000000000000"


def test_a_move_that_states_the_row_again_settles_the_change(job):
    Budget.objects.update(cap=Decimal(99))
    at_commit()
    assert found() == {"governance_budget.changed_outside"}

    catalogue.set_budget(scope="global", window="none", cap=Decimal(10), **TEST)
    at_commit()

    assert found() == set()
    assert OutsideChange.objects.get().settled_at is not None


def test_a_counter_of_a_row_is_no_change_of_configuration(job):
    with connection.cursor() as cursor:
        cursor.execute("UPDATE agents_credential SET last_used_at = now()")

    at_commit()

    assert not OutsideChange.objects.exists()


def test_a_policy_that_takes_the_place_of_another_is_stated_with_its_lines(job):
    catalogue.set_policy(models=[MODEL, ("local", "other")], **TEST)

    at_commit()

    assert RoutePolicy.objects.count() == 2
    assert (found(), OutsideChange.objects.count()) == (set(), 0)
