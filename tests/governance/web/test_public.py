"""What is told without a credential."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.db import DatabaseError, connection
from django.test import Client

from agents.models import Agent
from governance.core import clock
from governance.core.models import Fact
from governance.evidence import envelopes
from governance.relay import pulse
from governance.relay.models import Pulse, StreamHold
from governance.web import public


@pytest.fixture
def anybody() -> Client:
    return Client()


def test_health_is_told_without_asking_the_database(anybody):
    # No database mark: a query would fail this test.
    assert anybody.get("/healthz").json() == {"status": "ok"}


@pytest.mark.django_db
def test_a_complete_installation_is_ready(anybody):
    pulse.beat("sweeper")
    answer = anybody.get("/readyz")
    assert answer.status_code == 200
    assert answer.json() == {
        "status": "ready",
        "checks": {"database": "ok", "migrations": "ok", "triggers": "ok"},
        "degraded": [],
    }


@pytest.mark.django_db
@pytest.mark.parametrize("there", [False, True], ids=["no pulse", "an old pulse"])
def test_a_sweeper_that_is_silent_is_named_and_takes_nothing_out_of_service(anybody, there):
    if there:
        pulse.beat("sweeper")
        Pulse.objects.update(at=clock.now() - timedelta(seconds=61))
    answer = anybody.get("/readyz")
    assert (answer.status_code, answer.json()["status"]) == (200, "ready")
    assert answer.json()["degraded"] == ["sweeper"]


@pytest.mark.django_db
def test_a_disabled_trigger_is_named_and_not_ready(anybody):
    with connection.cursor() as cursor:
        cursor.execute(
            "ALTER TABLE governance_auditevent DISABLE TRIGGER governance_auditevent_append_only"
        )
    answer = anybody.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["checks"]["triggers"] == "missing: governance_auditevent_append_only"


@pytest.mark.django_db
def test_a_migration_that_has_not_run_is_named_and_not_ready(anybody):
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM django_migrations WHERE app = 'sessions' AND name = '0001_initial'"
        )
    answer = anybody.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["checks"]["migrations"] == "missing: sessions.0001_initial"


def test_a_database_that_is_away_is_told_without_its_address(anybody, monkeypatch):
    def away() -> bool:
        raise DatabaseError("connection to server at 10.1.2.3 failed")

    monkeypatch.setattr(public, "reachable", away)
    answer = anybody.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["checks"] == {"database": "unreachable"}
    assert b"10.1.2.3" not in answer.content


@pytest.mark.django_db
def test_a_trigger_is_not_missed_before_its_migrations_have_run(anybody):
    with connection.cursor() as cursor:
        cursor.execute("DROP TRIGGER jobs_job_guard ON jobs_job")
        cursor.execute("DROP TRIGGER agents_agent_guard ON agents_agent")
        cursor.execute("DELETE FROM django_migrations WHERE app = 'jobs' AND name = '0001_jobs'")
    checks = anybody.get("/readyz").json()["checks"]
    assert checks["migrations"] == "missing: jobs.0001_jobs"
    assert checks["triggers"] == "missing: agents_agent_guard"


@pytest.mark.django_db
def test_the_public_keys_are_those_that_verify(anybody):
    answer = anybody.get("/.well-known/fencepost/keys.json")
    assert answer.json() == envelopes.public_keys()
    assert answer["Cache-Control"] == "public, max-age=60"


def told(anybody: Client, name: str) -> list[str]:
    """Return the samples of a gauge."""
    lines = anybody.get("/metrics").content.decode().splitlines()
    return [line for line in lines if re.match(rf"fencepost_{name}[ {{]", line)]


def gauge(anybody: Client, name: str, **labels: str) -> float:
    """Return the value of the one sample with these labels."""
    asked = [f'{label}="{value}"' for label, value in labels.items()]
    [line] = [line for line in told(anybody, name) if all(text in line for text in asked)]
    return float(line.rpartition(" ")[2])


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("headers", "token", "status"),
    [
        ({}, "", 200),
        ({"REMOTE_ADDR": "10.0.0.8"}, "", 404),
        ({"HTTP_X_FORWARDED_FOR": "10.0.0.8"}, "", 404),
        ({}, "secret", 404),
        ({"HTTP_AUTHORIZATION": "Bearer guess"}, "secret", 404),
        ({"HTTP_AUTHORIZATION": "Bearer secret", "REMOTE_ADDR": "10.0.0.8"}, "secret", 200),
    ],
)
def test_metrics_are_for_this_machine_or_the_token(
    anybody: Client, settings: Any, headers: dict[str, str], token: str, status: int
):
    settings.METRICS_TOKEN = token
    assert anybody.get("/metrics", **headers).status_code == status


@pytest.mark.django_db
def test_metrics_tell_jobs_by_agent_and_state_and_what_is_claimable(anybody, make_job):
    make_job(task_id="m-1")
    told = anybody.get("/metrics").content.decode()
    assert 'fencepost_jobs{agent="hermes",state="queued"} 1.0' in told
    assert 'fencepost_live_leases{agent="hermes"} 0.0' in told
    assert 'fencepost_oldest_claimable_seconds{agent="hermes"}' in told


@pytest.mark.django_db
def test_metrics_tell_how_long_background_processes_are_silent(anybody, world):
    assert "fencepost_pulse_age_seconds{" not in anybody.get("/metrics").content.decode()
    pulse.beat("sweeper")
    Pulse.objects.create(name="relay:rabbitmq", at=clock.now() - timedelta(minutes=2))

    assert gauge(anybody, "pulse_age_seconds", process="sweeper") < 60
    assert 120 <= gauge(anybody, "pulse_age_seconds", process="relay:rabbitmq") < 180


@pytest.mark.django_db
def test_metrics_tell_what_waits_for_the_relay_and_what_is_parked(anybody, make_job, settings):
    settings.BROKER_URL, settings.WEBHOOK_URL = "amqp://broker.example/", ""
    for name in ("facts_waiting", "oldest_fact_seconds", "streams_parked", "streams_retried"):
        assert gauge(anybody, name) == 0
    job = make_job()
    now = clock.now()
    StreamHold.objects.create(
        sink="rabbitmq", stream=job.audit_subject, fact=Fact.objects.get(), tries=12,
        last_error="no", failed_at=now, next_try_at=now, parked_at=now,
    )  # fmt: skip

    assert gauge(anybody, "facts_waiting") == 1
    assert gauge(anybody, "sink_facts_waiting", sink="rabbitmq") == 1
    assert 0 < gauge(anybody, "oldest_fact_seconds") < 60
    assert (gauge(anybody, "streams_parked"), gauge(anybody, "streams_retried")) == (1, 0)


@pytest.mark.django_db
def test_metrics_tell_the_guards_verdict_and_who_is_missing(anybody, world):
    Agent.objects.exclude(name="hermes").update(expected=False)
    Agent.objects.filter(name="hermes").update(expected=True)

    assert gauge(anybody, "guard", state="degraded") == 1
    assert gauge(anybody, "guard", state="healthy") == 0
    assert gauge(anybody, "agent_missing", agent="hermes") == 1
    assert 'agent="openclaw"' not in "".join(told(anybody, "agent_missing"))
    assert told(anybody, "agent_silent_seconds") == [], "it was never heard of"


@pytest.mark.django_db
def test_every_metric_is_documented(anybody, make_job):
    make_job()
    anybody.get("/healthz")
    page = Path(django_settings.BASE_DIR, "docs/reference/metrics.md").read_text()
    documented = set(re.findall(r"^\| `(fencepost_\w+)`", page, re.M))

    families = re.findall(
        r"^# TYPE (fencepost_\w+) (?:gauge|counter|histogram)$",
        anybody.get("/metrics").content.decode(),
        re.M,
    )
    exposed = {name for name in families if not name.endswith("_created")}

    assert documented == exposed


@pytest.mark.django_db
def test_requests_are_measured_by_route_and_never_by_path(anybody):
    anybody.get("/healthz")
    anybody.get("/no/such/path")
    told = anybody.get("/metrics").content.decode()
    assert 'fencepost_request_seconds_count{method="GET",route="/healthz",status="200"}' in told
    assert 'route="unmatched",status="404"' in told
    assert "/no/such/path" not in told


@pytest.mark.django_db
def test_metrics_of_the_processes_are_told_while_the_gauges_fail(anybody, monkeypatch):
    def fails() -> None:
        raise DatabaseError

    monkeypatch.setattr("governance.web.metrics._gauges", [fails])
    told = anybody.get("/metrics")
    assert told.status_code == 200
    assert b"fencepost_request_seconds" in told.content
