"""An installation of the first release goes forward in place, and its callers notice nothing.

`first_release/` holds one, filled: live leases, a permit, an unknown execution, an idempotency key,
held reservations, facts that wait, an audit trail with checkpoints, and the data folder of a worker
that was killed.  See `first_release/make.py`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from pytest_django import DjangoDbBlocker
from pytest_django.live_server_helper import LiveServer
from uuid_utils.compat import uuid7

from governance.core import idempotency, schema
from governance.core.models import Fact
from governance.local import placement
from governance.management.commands.make_trigger_migration import difference
from governance.money.models import Reservation
from governance.relay.relay import Relay
from governance.relay.sinks import Destination, Message
from jobs import executions
from jobs.models import Execution, Job
from tests.client import Api, refused
from tests.migrations.installations import address_of, at_work_on, scratch_database

FIRST = Path(__file__).parent / "first_release"
REMEMBERED: dict[str, Any] = json.loads((FIRST / "installation.json").read_text())
TOKENS: dict[str, str] = REMEMBERED["tokens"]
ROOT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 60
WORKER = "fencepost_worker"
OURS = ("governance", "agents", "jobs")
PROGRAM = "raise SystemExit('nothing is begun anew here')"
FILES = (
    "SELECT relname, relfilenode FROM pg_class WHERE relkind = 'r'"
    " AND relnamespace = 'public'::regnamespace ORDER BY relname"
)
#: What a table is: its columns, and the names and kinds of its constraints and indexes.
TABLES = """
SELECT 'column', table_name, column_name, data_type || coalesce(character_maximum_length::text, ''),
       is_nullable || is_identity
  FROM information_schema.columns WHERE table_schema = 'public'
UNION ALL
SELECT 'constraint', conrelid::regclass::text, conname, contype::text, convalidated::text
  FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND contype <> 'n'
UNION ALL
SELECT 'index', tablename, indexname, (indexdef ~ 'UNIQUE')::text, (indexdef ~ 'WHERE')::text
  FROM pg_indexes WHERE schemaname = 'public'
UNION ALL
SELECT 'storage', relname, coalesce(array_to_string(reloptions, ' '), ''), '', ''
  FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
"""


def fetched(query: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchall()


@pytest.fixture(scope="module")
def upgraded(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """The installation, gone forward with today's code; the tests of this module share it."""
    with django_db_blocker.unblock(), scratch_database("upgraded") as name:
        load(address_of(name))
        with at_work_on(name):
            files = fetched(FILES)
            call_command("migrate", verbosity=0)
            assert set(files) <= set(fetched(FILES)), "a table was written anew"
            yield


def load(address: str) -> None:
    """Restore the dump into an empty database."""
    psql = [str(placement.binaries() / "psql"), "-q", "-v", "ON_ERROR_STOP=1", "-d", address]
    dump = str(FIRST / "installation.sql")
    done = subprocess.run([*psql, "-f", dump], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(autouse=True)
def folder(upgraded: None, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The installation's folder, which an upgrade keeps: the keys are there."""
    shutil.copytree(FIRST / "keys", tmp_path / "keys")
    (tmp_path / "keys").chmod(0o700)
    settings.DATA_DIR = tmp_path
    # The upgrade was on the day of the dump, whenever this runs: its keys are fresh.
    monkeypatch.setattr(idempotency, "check_age", lambda key, now_ms: None)
    return tmp_path


def test_every_replaced_migration_is_known_and_none_is_missing() -> None:
    assert schema.missing_migrations() == set()
    applied = set(MigrationRecorder(connection).applied_migrations())
    assert {("jobs", "0013_index_high_risk"), ("jobs", "0001_jobs")} <= applied


def test_the_tables_are_those_of_a_new_installation(django_db_blocker: DjangoDbBlocker) -> None:
    found = fetched(TABLES)
    with django_db_blocker.unblock(), scratch_database("made_new") as name, at_work_on(name):
        call_command("migrate", verbosity=0)
        new = fetched(TABLES)
    assert sorted(found) == sorted(new)


@pytest.mark.parametrize("app", OURS)
def test_the_triggers_are_those_declared(app: str) -> None:
    assert difference(app) == []


def test_the_audit_trail_and_the_ledger_are_whole(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("verify_audit")
    call_command("verify_ledger")
    output = capsys.readouterr().out
    assert "The audit trail is whole" in output
    assert " 2 checkpoints" in output
    assert "The ledger agrees with its rows" in output


def bound(task: str, *names: str) -> dict[str, Any]:
    """Return what the caller remembers of its attempt, by the names of its call."""
    return {name: REMEMBERED[task][name] for name in ("attempt", "fencing_token", *names)}


def test_a_lease_of_before_is_renewed_and_its_job_completed() -> None:
    hermes = Api(TOKENS["hermes"])
    beat = {"leases": [bound("leased") | {"task_id": "leased"}]}
    [renewed] = hermes.post("/v1/leases/heartbeat", beat).json()["results"]
    assert renewed["outcome"] == "renewed"

    done = bound("leased", "worker_id") | {"result": {"text": "done after"}}
    # Its type used a model, so that it must call one.
    assert hermes.post("/v1/jobs/leased/complete", done).status_code == 409
    done["no_model_reason"] = "It was done before it had to."
    assert hermes.post("/v1/jobs/leased/complete", done).status_code == 200
    assert Job.objects.get(task_id="leased").state == "review_required"


def test_the_token_of_before_still_fences() -> None:
    stale = bound("leased", "worker_id") | {"fencing_token": 2, "result": {}}
    answer = Api(TOKENS["hermes"]).post("/v1/jobs/leased/complete", stale)
    assert refused(answer) == (409, "STALE_FENCING_TOKEN")


def test_a_stored_answer_is_given_again() -> None:
    keyed = REMEMBERED["keyed"]
    repeated = Api(TOKENS["ops"]).post("/v1/jobs", keyed["body"], idempotency_key=keyed["key"])
    assert repeated["Idempotent-Replayed"] == "true"
    assert repeated.json() == keyed["answer"]
    other = keyed["body"] | {"title": "Another task"}
    answer = Api(TOKENS["ops"]).post("/v1/jobs", other, idempotency_key=keyed["key"])
    assert refused(answer) == (422, "IDEMPOTENCY_KEY_REUSED")


def test_an_unknown_execution_of_before_is_reported_and_its_reservation_settled() -> None:
    names = ("task_id", "execution_digest")
    outcome = {"result_sha256": "cd" * 32, "usage": {"input_tokens": 500, "output_tokens": 100}}
    cell = Api(TOKENS["governed"], **REMEMBERED["session"])
    execution = Execution.objects.get(job__task_id="unknown")
    assert Reservation.objects.get(pk=execution.reservation_id).state == "in_doubt"

    answer = cell.post(
        f"/v1/executions/{execution.external_request_id}/result",
        bound("unknown", *names) | {"outcome": "succeeded"} | outcome,
        idempotency_key=str(uuid7()),
    )
    assert answer.status_code == 200, answer.content
    execution.refresh_from_db()
    assert execution.state == "succeeded"
    assert Reservation.objects.get(pk=execution.reservation_id).state == "settled"


def test_a_permit_of_before_starts_its_execution_once() -> None:
    cell = Api(TOKENS["governed"], **REMEMBERED["session"])
    names = ("task_id", "external_request_id", "permit_id", "execution_digest")
    start = bound("permitted", *names) | {"runtime": "command", "request_sha256": "ab" * 32}
    assert Reservation.objects.get(task_id="permitted").state == "held"
    first, again = (
        cell.post("/v1/executions", start, idempotency_key=str(uuid7())) for _ in range(2)
    )
    assert (first.status_code, again.status_code) == (201, 200)
    assert Execution.objects.get(job__task_id="permitted").state == "unknown"


def test_an_execution_in_doubt_is_reconciled() -> None:
    execution = Execution.objects.get(job__task_id="in-doubt")
    executions.reconcile(
        external_request_id=execution.external_request_id,
        verdict="not_happened",
        actor="user:anna",
        reason="The provider has no such call.",
    )
    assert Job.objects.get(task_id="in-doubt").state == "queued"


def test_the_facts_that_waited_are_relayed_in_the_order_of_their_streams(settings: Any) -> None:
    settings.BROKER_URL, settings.WEBHOOK_URL = "", "http://127.0.0.1:1/"
    waiting = list(Fact.objects.filter(published_at=None, relayed=True).order_by("id"))
    assert len(waiting) >= REMEMBERED["facts_waiting"] > 0
    sink = TakingSink()
    relay = Relay(Destination("webhook", "here", lambda: sink))
    while relay.relay_pass():
        pass
    relay.close()
    streams: dict[str, list[int]] = {}
    for message in sink.taken:
        event = json.loads(message.body)
        streams.setdefault(event["subject"], []).append(int(event["sequence"]))
    assert sum(map(len, streams.values())) == len(waiting)
    assert all(numbers == sorted(numbers) for numbers in streams.values())
    assert not Fact.objects.filter(published_at=None, relayed=True).exists()


class TakingSink:
    """Takes every message."""

    usable = True

    def __init__(self) -> None:
        self.taken: list[Message] = []

    def send(self, message: Message) -> None:
        self.taken.append(message)

    def keep(self) -> None: ...

    def close(self) -> None: ...


@pytest.fixture
def plane(settings: Any) -> Iterator[LiveServer]:
    settings.ALLOWED_HOSTS = ["127.0.0.1"]
    server = LiveServer("127.0.0.1")
    yield server
    server.stop()


def test_a_worker_that_was_killed_before_finishes_from_its_journal(
    plane: LiveServer, tmp_path: Path
) -> None:
    data = tmp_path / "worker"
    shutil.copytree(FIRST / "worker", data)
    # It takes nothing new: what it does is what it finds.
    options = [
        "--max-jobs",
        "0",
        "--agent",
        "openclaw",
        "--cell-id",
        "cell-7",
        "--worker-id",
        "openclaw-7",
    ]
    command = [sys.executable, "-m", WORKER, "--url", plane.url, "--data", str(data), *options]
    environment = os.environ | {"FENCEPOST_TOKEN": TOKENS["openclaw"]}
    done = subprocess.run(
        [*command, "--", sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr

    # What was done was journaled, and is reported; what was only begun is not begun again.
    finished, began = (Job.objects.get(task_id=f"worker-{what}") for what in ("done", "began"))
    assert finished.state == "completed", done.stderr
    assert finished.attempts.get().result["text"] == "done before"
    assert (began.state, began.attempts.get(number=1).error_code) == ("queued", "OUTCOME_UNKNOWN")
    assert list((data / "journal" / "jobs").glob("*/*/claim.json")) == []


def test_all_is_whole_after_the_work_went_on() -> None:
    call_command("seal_audit", verbosity=0)
    call_command("verify_audit", verbosity=0)
    call_command("verify_ledger", verbosity=0)
