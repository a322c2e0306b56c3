"""Make the filled installation of the first release that the upgrade test begins with.

    cd <checkout of version 0.1.0>
    PYTHONPATH=. python <this repository>/tests/migrations/first_release/make.py

Writes beside itself: `installation.sql` (its database), `keys/` (the public halves of its signing
keys), `worker/` (the data folder of a worker that was killed) and `installation.json` (tokens, keys
and answers that its callers remember).  It runs that release's own code: nothing here is ours.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from uuid_utils.compat import uuid7

HERE = Path(__file__).resolve().parent
#: Leases and permits of the fixture do not run out: it is loaded long after it was made.
FAR = "2100-01-01 00:00:00+00"
PATIENCE_SECONDS = 60
PROGRAM = """
import json, os, pathlib, sys, time
request = json.load(sys.stdin)
if request["task_id"] == "worker-began":
    time.sleep(600)
bound = {n: request[n] for n in ("external_request_id", "attempt", "execution_digest")}
print(json.dumps(bound | {"outcome": "succeeded", "result": {"text": "done before"}}))
"""
remembered: dict[str, Any] = {}


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="fencepost-first-"))
    folder.chmod(0o711)
    os.environ |= {
        "FENCEPOST_DATA": str(folder),
        "FENCEPOST_URL": "http://testserver",
        "DJANGO_SETTINGS_MODULE": "governance.settings",
        "FENCEPOST_ALLOWED_HOSTS": "127.0.0.1,testserver",
        "FENCEPOST_LOG_LEVEL": "ERROR",
    }
    from governance import embedded

    server = embedded.hold(folder, throwaway=True)
    os.environ["FENCEPOST_DSN"] = server.dsn
    try:
        import django

        django.setup()
        fill(folder)
        dump(server.superuser_dsn, embedded.binaries())
        keep_keys(folder / "keys")
    finally:
        server.release()
        shutil.rmtree(folder, ignore_errors=True)
    text = json.dumps(remembered, indent=1, sort_keys=True)
    (HERE / "installation.json").write_text(text + "\n")


def fill(folder: Path) -> None:
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    call_command("bootstrap", verbosity=0)
    people()
    taken_in()
    by_hand()
    older_contract()
    call_command("seal_audit", verbosity=0)
    call_command("rotate_signing_key", verbosity=0)
    governed()
    console()
    worker(folder / "worker")
    publish_half()
    call_command("seal_audit", verbosity=0)
    # What is kept of a retired key is public.
    call_command("rotate_signing_key", verbosity=0)


def people() -> None:
    from agents.transitions import credentials, operators, principals

    by = {"actor": "command:setup", "reason": "first start"}
    principals.configure_agent(
        name="hermes", settings=principals.Settings(max_risk_tier="high"), **by
    )
    for name in ("anna", "ben"):
        operators.create(username=name, group="governor", **by)
    principals.register_submitter(name="ops", owner="anna", **by)
    tokens = {
        "ops": credentials.create(
            submitter="ops", scopes=["submit", "read", "control", "admit"], **by
        ),
        "hermes": credentials.create(agent="hermes", **by),
        "openclaw": credentials.create(agent="openclaw", **by),
        "governed": credentials.create(agent="hermes", note="the governed cell", **by),
    }
    remembered["tokens"] = {name: issued.token for name, issued in tokens.items()}


def call(who: str, path: str, body: dict[str, Any], key: str = "", **headers: str) -> Any:
    """POST as that principal, expect success, and return the answer's document."""
    from django.test import Client

    sent = {"Authorization": f"Bearer {remembered['tokens'][who]}"} | headers
    if key:
        sent["Idempotency-Key"] = key
    answer = Client().post(path, body, content_type="application/json", headers=sent)
    assert answer.status_code < 300, (path, answer.status_code, answer.content)
    return answer.json()


def envelope(task_id: str, **over: Any) -> dict[str, Any]:
    return {
        "task_id": task_id,
        "source": "manual",
        "title": f"Task {task_id}",
        "goal": "Outlive the upgrade.",
        "task_type": "content_prep",
        "risk_tier": "low",
        "priority": "normal",
        "inputs": {},
        "output_required": False,
        "review_required": False,
        "execution_approval_required": False,
        "rollback_required": False,
    } | over


HIGH = {"risk_tier": "high", "review_required": True, "execution_approval_required": True}
TASKS = {
    "held": HIGH,
    "approved": HIGH,
    "rejected": HIGH,
    "leased": {},
    "review": {"review_required": True},
    "rework": {"review_required": True, "max_attempts": 1},
    "failed": {"max_attempts": 1},
    "escalated": {},
    "permitted": {},
    "unknown": {},
    "in-doubt": {},
    "settled": {},
    "worker-done": {"task_type": "rewrite"},
    "worker-began": {"task_type": "rewrite"},
}


def taken_in() -> None:
    from governance import catalogue
    from governance.pricing import RateSet
    from jobs import transitions
    from jobs.transitions import TypeSettings

    by = {"actor": "user:anna", "reason": "models for the first jobs"}
    catalogue.set_model(provider="local", name="stand-in", **by)
    catalogue.set_price(
        provider="local", name="stand-in", rates=[RateSet(0, *map(_decimal, ("1", "2")))], **by
    )
    catalogue.set_policy(models=[("local", "stand-in")], **by)
    catalogue.set_budget(scope="global", window="none", cap=_decimal("50"), **by)
    catalogue.set_budget(scope="agent", key="hermes", window="day", cap=_decimal("20"), **by)
    transitions.configure_job_type(
        name="content_prep", settings=TypeSettings(uses_model=True), **by
    )
    key = str(uuid7())
    body = envelope("keyed")
    remembered["keyed"] = {"key": key, "body": body, "answer": call("ops", "/v1/jobs", body, key)}
    for task_id, over in TASKS.items():
        call("ops", "/v1/jobs", envelope(task_id, **over))


def _decimal(text: str) -> Any:
    from decimal import Decimal

    return Decimal(text)


def by_hand() -> None:
    from agents.transitions import inhibits
    from jobs import transitions

    by = {"actor": "user:ben", "reason": "decided before the upgrade"}
    transitions.approve(task_id="approved", **by)
    transitions.reject(task_id="rejected", **by)
    transitions.pause(task_id="approved", **by)
    closing = {"state": "closed", "barrier_id": "before-the-upgrade", "expected_generation": 1}
    call("ops", "/v1/agents/agent_zero/admission", closing | {"reason": "not needed"}, str(uuid7()))
    inhibits.inhibit(
        agent="agent_zero", owner="user:ben", reason="until it is needed", actor="user:ben"
    )


def older_contract() -> None:
    """Play a worker without a session: claims by name, leases by heartbeat."""
    from jobs import transitions

    def claim(task_id: str, key: str = "") -> dict[str, Any]:
        body = {"worker_id": "worker-1", "owner": "hermes"}
        answer = call("hermes", f"/v1/jobs/{task_id}/claim", body, key)
        bound = {name: answer[name] for name in ("attempt", "fencing_token")}
        return bound | {"worker_id": "worker-1"}

    by = {"actor": "user:ben", "reason": "decided before the upgrade"}
    key = str(uuid7())
    remembered["leased"] = claim("leased", key) | {"key": key}
    for task_id in ("review", "rework"):
        bound = claim(task_id)
        call("hermes", f"/v1/jobs/{task_id}/reflections", bound | {"what_worked": "all of it"})
        call("hermes", f"/v1/jobs/{task_id}/complete", bound | {"result": {"text": task_id}})
    transitions.review(task_id="rework", verdict="needs_rework", **by)
    broke = {"error_code": "BROKE", "error_message": "It broke.", "retryable": True}
    call("hermes", "/v1/jobs/failed/fail", claim("failed") | broke)
    call("hermes", "/v1/jobs/escalated/escalate", claim("escalated") | {"reason": "Ask a person."})


def governed() -> None:
    """Play a worker in an activated session: routes, permits, executions."""
    from agents.principals import identify
    from jobs import transitions
    from jobs.models import Job
    from tests.jobs.governed import Governed

    cell = Governed(identify(token=remembered["tokens"]["governed"]), cell="cell-1")
    remembered["session"] = {
        "Fencepost-Session": str(cell.entry.session_id),
        "Fencepost-Epoch": str(cell.entry.epoch),
    }

    def job(task_id: str) -> Any:
        return Job.objects.get(task_id=task_id)

    permitted = job("permitted")
    cell.claim(permitted)
    reservation = cell.route(permitted)["reservation"]["reservation_id"]
    permit = cell.permit(permitted, reservation)["permit_id"]
    remembered["permitted"] = bound_by(cell.binding(permitted)) | {
        "permit_id": permit,
        "execution_digest": permitted.task.execution_digest,
    }
    unknown = cell.begin(job("unknown"))
    remembered["unknown"] = bound_by(cell.binding(unknown.job)) | {
        "execution_digest": unknown.execution_digest
    }
    settled = cell.begin(job("settled"))
    cell.result(settled)
    completion = bound(cell, settled.job) | {"result": {"text": "settled"}}
    [completed] = transitions.complete(entry=cell.entry, completions=[completion])
    assert completed.job["state"] == "completed", completed
    doubtful = cell.begin(job("in-doubt"))
    transitions.fail(
        entry=cell.entry,
        **bound(cell, doubtful.job),
        error_code="OUTCOME_UNKNOWN",
        error_message="The worker was lost.",
        retryable=True,
    )


def bound(cell: Any, job: Any) -> dict[str, Any]:
    binding = cell.binding(job)
    names = ("task_id", "attempt", "fencing_token")
    return {name: getattr(binding, name) for name in names}


def bound_by(binding: Any) -> dict[str, Any]:
    names = ("task_id", "attempt", "fencing_token", "external_request_id")
    return {name: getattr(binding, name) for name in names}


def console() -> None:
    """Leave what people leave at the console, and what operators do with a fleet."""
    from django.contrib.auth import get_user_model

    from governance import clock
    from governance.models import BulkItem, BulkRun, SavedView

    anna = get_user_model().objects.get(username="anna")
    run = BulkRun.objects.create(
        run_id=uuid7(),
        act="stop",
        model="jobs.job",
        reason="too many",
        total=1,
        created_at=clock.now(),
        finished_at=clock.now(),
        user=anna,
    )
    BulkItem.objects.create(
        run=run, position=1, key="rejected", outcome="done", at=clock.now(), revision=2
    )
    SavedView.objects.create(model="jobs.job", name="Mine", query="state=held", owner=anna)


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def log_message(self, *args: Any) -> None: ...


def worker(data: Path) -> None:
    """Let a worker process of that release claim two jobs, and kill it before it can report."""
    from governance.wsgi import application
    from jobs.models import Job

    def deaf(environ: dict[str, Any], start_response: Any) -> Any:
        if environ["PATH_INFO"].endswith("/complete"):
            start_response("503 Service Unavailable", [("Content-Type", "text/plain")])
            return [b""]
        return application(environ, start_response)

    server = make_server("127.0.0.1", 0, deaf, server_class=_Server, handler_class=_Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    program = data.with_name("program.py")
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "agents.runtime", "--agent", "openclaw", "--data", str(data)]
    command += ["--url", f"http://127.0.0.1:{server.server_port}", "--concurrency", "2"]
    command += ["--cell-id", "cell-7", "--worker-id", "openclaw-7", "--", sys.executable]
    process = subprocess.Popen(
        [*command, str(program)],
        env=os.environ | {"FENCEPOST_TOKEN": remembered["tokens"]["openclaw"]},
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )
    until = time.monotonic() + PATIENCE_SECONDS
    reports, starts = "journal/jobs/*/*/report.json", "exchange/*/started.json"
    while not (list(data.glob(reports)) and len(list(data.glob(starts))) == 2):
        assert time.monotonic() < until and process.poll() is None
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    server.shutdown()
    assert Job.objects.filter(task_id__startswith="worker-", state="active").count() == 2
    kept = HERE / "worker"
    shutil.rmtree(kept, ignore_errors=True)
    for part in ("journal", "exchange"):
        shutil.copytree(data / part, kept / part)
    shutil.copy(data / "session.json", kept)


def publish_half() -> None:
    """Note the older half of the facts as published; the others wait."""
    from governance import clock
    from governance.models import Fact

    waiting = Fact.objects.filter(published_at=None, relayed=True).order_by("id")
    middle = waiting[waiting.count() // 2].id
    waiting.filter(id__lt=middle).update(published_at=clock.now(), delivered_to=["webhook"])
    remembered["facts_waiting"] = waiting.count()


def dump(dsn: str, programs: Path) -> None:
    import psycopg

    with psycopg.connect(dsn, autocommit=True) as connection:
        # Past the triggers, which let no permit live longer than it was issued for.
        connection.execute("SET session_replication_role = replica")
        for table, column in (
            ("jobs_lease", "expires_at"),
            ("jobs_permit", "deadline_at"),
            ("jobs_execution", "deadline_at"),
            ("governance_idempotencyrecord", "expires_at"),
        ):
            connection.execute(f"UPDATE {table} SET {column} = %s", [FAR])
    command = [str(programs / "pg_dump"), "--no-owner", "--no-privileges", "--restrict-key=x"]
    text = subprocess.run([*command, "-d", dsn], check=True, capture_output=True, text=True).stdout
    (HERE / "installation.sql").write_text(compact(text))


def compact(text: str) -> str:
    """Return a dump without what only makes it longer."""
    for long, short in (
        (r"(?m)^(--.*|\\(un)?restrict .*|SET .*|SELECT pg_catalog.set_config.*|)\n", ""),
        (r"\bpublic\.", ""),
        (r"\n    START WITH 1\n    INCREMENT BY 1\n    NO MINVALUE\n    NO MAXVALUE", ""),
        (r" \(\n    SEQUENCE NAME \w+_id_seq\n    CACHE 1\n\);", ";"),
        (r" USING btree", ""),
        (r"character varying", "varchar"),
        (r"timestamp with time zone", "timestamptz"),
        (r"ALTER TABLE ONLY (.*)\n    ADD", r"ALTER TABLE \1 ADD"),
    ):
        text = re.sub(long, short, text)
    return text


def keep_keys(folder: Path) -> None:
    kept = HERE / "keys"
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir()
    for path in folder.iterdir():
        if re.search("PUBLIC KEY", path.read_text(errors="replace")):
            shutil.copy(path, kept)


if __name__ == "__main__":
    main()
