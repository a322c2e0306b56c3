"""A control plane in a thread that answers as the contract says, with faults on demand."""

import asyncio
import base64
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

import pytest
import uvicorn.server
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from uuid_utils.compat import uuid7

from fencepost_worker.adapters.command import CommandAdapter
from fencepost_worker.claim import Claim
from fencepost_worker.client import ControlPlane, Session
from fencepost_worker.envelopes import PAYLOAD_TYPE, KeyRing, pre_authentication_encoding
from fencepost_worker.exchange import ExternalAgentExchange
from fencepost_worker.executor import ExternalAgentExecutor
from fencepost_worker.identity import canonical, sha256_hex
from fencepost_worker.journal import Journal
from fencepost_worker.loop import Plan, Worker
from fencepost_worker.uploads import Uploads
from fencepost_worker.workspace import Workspaces
from governance.core.digests import NotStrictJson, parse_strict
from governance.web.reading import BODY_BYTES_MAX
from tests.settings import WORKER_SOURCE

T = TypeVar("T")

PATIENCE_SECONDS = 20
TOKEN = "fp_test.secret"
#: In place of the tenths of seconds in which a server looks whether it is to end.
GLANCE_SECONDS = 0.005


class HastyClock:
    """`asyncio` for servers that are to notice their end at once: tests end thousands of them."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    @staticmethod
    async def sleep(seconds: float) -> None:
        await asyncio.sleep(min(seconds, GLANCE_SECONDS))


@pytest.fixture(scope="session", autouse=True)
def _servers_that_end_at_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uvicorn.server, "asyncio", HastyClock())
        yield


@dataclass
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class Fault:
    """What to do instead of answering the next request whose path matches.

    `status` 0 closes the connection without an answer; `applied` says whether the request had its
    effect before that.
    """

    path: str
    status: int = 0
    body: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    applied: bool = False


def apart(work: Coroutine[Any, Any, T]) -> T:
    """Run it in a thread of its own: a test in a browser leaves this one with a running loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def problem(status: int, code: str, reason: str, rule: str, **over: Any) -> dict[str, Any]:
    """Return a problem body."""
    retry = {"rule": rule, "after_seconds": over.pop("after_seconds", None)}
    return {
        "type": "about:blank",
        "title": reason,
        "status": status,
        "detail": f"told by the test: {reason}",
        "code": code,
        "reason": reason,
        "effect": over.pop("effect", "none"),
        "retry": retry,
        "current": over,
        "errors": [],
    }


class QuietServer(ThreadingHTTPServer):
    """A server whose clients may be killed in the middle of an answer."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class ScriptedPlane:
    """Jobs, leases and recorded outcomes in memory, over real HTTP."""

    def __init__(self, port: int = 0) -> None:
        self.key = Ed25519PrivateKey.generate()
        self.jobs: dict[str, dict[str, Any]] = {}
        self.seen: list[Seen] = []
        #: What was not taken as JSON: path and fault.
        self.refused: list[tuple[str, str]] = []
        self.faults: list[Fault] = []
        self.controls: dict[str, str] = {}
        self.outcomes: dict[tuple[str, int, int], tuple[str, Any]] = {}
        self.replays: dict[str, tuple[int, dict[str, Any]]] = {}
        self.uploads: dict[str, dict[str, Any]] = {}
        self.objects: dict[str, bytes] = {}
        self.job_types: list[dict[str, Any]] = []
        self.ttl_seconds: float = 60
        self.interval_seconds: float = 0.1
        self.routes: dict[str, Callable[[Seen], tuple[int, dict[str, Any]]]] = {}
        self.changed = threading.Condition()
        plane = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                plane._serve(self)

            def do_POST(self) -> None:
                plane._serve(self)

            def do_PUT(self) -> None:
                plane._serve(self)

            def log_message(self, *args: Any) -> None:
                pass

        self.server = QuietServer(("127.0.0.1", port), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    # What a test arranges ---------------------------------------------------------------------

    def keys_document(self) -> dict[str, Any]:
        public = self.key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()
        key = {
            "keyid": "test-key",
            "keytype": "ed25519",
            "scheme": "ed25519",
            "keyval": {"public": public},
        }
        return {"keys": [key]}

    def add_job(self, task_id: str, **over: Any) -> dict[str, Any]:
        task = {
            "task_id": task_id,
            "job_id": str(uuid7()),
            "agent": "hermes",
            "task_type": "artifact_production",
            "risk_tier": "low",
            "title": "A title of some length",
            "goal": "Do the work that the test asks for.",
            "inputs": over.pop("inputs", {}),
            "output_required": True,
            "review_required": False,
            "execution_approval_required": False,
            "rollback_required": False,
            "issued_at": "2026-01-01T00:00:00Z",
        } | over
        payload = canonical(task)
        signature = self.key.sign(pre_authentication_encoding(PAYLOAD_TYPE, payload))
        job = {k: v for k, v in task.items() if k not in ("agent", "issued_at")}
        job |= {
            "owner": task["agent"],
            "state": "queued",
            "revision": 1,
            "attempt": 0,
            "max_attempts": 5,
            "fencing_token": 0,
            "execution_digest": sha256_hex(payload),
            "envelope": {
                "payload": base64.b64encode(payload).decode(),
                "payloadType": PAYLOAD_TYPE,
                "signatures": [{"keyid": "test-key", "sig": base64.b64encode(signature).decode()}],
            },
        }
        with self.changed:
            self.jobs[task_id] = job
            self.changed.notify_all()
        return job

    def fail_next(self, path: str, **over: Any) -> None:
        self.faults.append(Fault(path=path, **over))

    def expire(self, task_id: str) -> None:
        """End the lease as the sweeper does: the token is raised, the job is queued again."""
        with self.changed:
            job = self.jobs[task_id]
            job["state"] = "queued"
            job["fencing_token"] += 1

    def grant(self, task_id: str) -> dict[str, Any]:
        """Claim the job for a worker and return the item of the answer."""
        with self.changed:
            return self._grant(self.jobs[task_id])

    # What a test looks at ---------------------------------------------------------------------

    def calls(self, pattern: str) -> list[Seen]:
        return [seen for seen in list(self.seen) if re.search(pattern, seen.path)]

    def wait_for(self, happened: Callable[[], Any], seconds: float = PATIENCE_SECONDS) -> Any:
        with self.changed:
            assert self.changed.wait_for(happened, seconds), "it did not happen in time"
            return happened()

    def outcome_of(self, task_id: str) -> tuple[str, Any]:
        """Wait for the task's first recorded outcome, and return its verb and body."""
        return self.wait_for(
            lambda: next((o for (t, _, _), o in self.outcomes.items() if t == task_id), None)
        )

    # Answers ----------------------------------------------------------------------------------

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("Content-Length") or 0)
        raw = handler.rfile.read(length)
        headers = {name.lower(): value for name, value in handler.headers.items()}
        body = raw if handler.command == "PUT" else json.loads(raw) if raw else None
        seen = Seen(handler.command, handler.path, headers, body)
        with self.changed:
            self.seen.append(seen)
            fault = next((f for f in self.faults if re.search(f.path, seen.path)), None)
            if fault is not None:
                self.faults.remove(fault)
            self.changed.notify_all()
        status, body, extra = 0, {}, {}
        if fault is None or fault.applied:
            status, body, extra = self._judged(seen, raw) or self._answer(seen)
        if fault is not None:
            status, body, extra = fault.status, fault.body, fault.headers
        if status == 0:
            handler.close_connection = True
            return
        content = json.dumps(body).encode()
        handler.send_response(status)
        for name, value in extra.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    def _judged(self, seen: Seen, raw: bytes) -> tuple[int, dict[str, Any], dict[str, str]] | None:
        """Return the refusal of a body that the control plane's own reader does not take."""
        if not raw or seen.method == "PUT":
            return None
        try:
            parse_strict(raw)
        except NotStrictJson as error:
            self.refused.append((seen.path, str(error)))
            invalid = problem(400, "INVALID_ARGUMENT", "INVALID_ARGUMENT", "never")
            return 400, invalid | {"detail": str(error)}, {}
        if len(raw) <= BODY_BYTES_MAX or seen.path == "/v1/leases/heartbeat":
            return None
        self.refused.append((seen.path, "too large"))
        return 413, problem(413, "INVALID_ARGUMENT", "PAYLOAD_TOO_LARGE", "never"), {}

    def _answer(self, seen: Seen) -> tuple[int, dict[str, Any], dict[str, str]]:
        if seen.path == "/.well-known/fencepost/keys.json":
            return 200, self.keys_document(), {}
        if seen.method == "PUT":
            return self._stored(seen)
        if seen.headers.get("authorization") != f"Bearer {TOKEN}":
            return 401, problem(401, "UNAUTHENTICATED", "UNAUTHENTICATED", "reauthenticate"), {}
        for pattern, route in self.routes.items():
            if re.search(pattern, seen.path):
                return *route(seen), {}
        if seen.path == "/v1/claims":
            return self._claims(seen)
        with self.changed:
            try:
                if seen.path == "/v1/leases/heartbeat":
                    return 200, {"results": [self._beat(b) for b in seen.body["leases"]]}, {}
                if seen.path == "/v1/uploads":
                    return *self._upload(seen), {}
                if seen.path.startswith("/v1/uploads/"):
                    return *self._accept(seen), {}
                if seen.path == "/v1/facts":
                    return 200, {"result_code": "ACCEPTED"}, {}
                if seen.path.endswith("/reflections"):
                    return 201, {"outcome": "recorded"}, {}
                if seen.path.startswith("/v1/agents/") and seen.path.endswith("/bootstrap"):
                    return 200, {"job_types": self.job_types}, {}
                if seen.path.startswith("/v1/agents/") and seen.path.endswith("/heartbeat"):
                    return 200, {"heartbeat_interval_seconds": self.interval_seconds}, {}
                task_id, verb = seen.path.split("/")[3:5]
                return *self._end(task_id, verb, seen.body), {}
            finally:
                self.changed.notify_all()

    def _claims(self, seen: Seen) -> tuple[int, dict[str, Any], dict[str, str]]:
        key = seen.headers["idempotency-key"]
        with self.changed:
            if key in self.replays:
                return *self.replays[key], {"Idempotent-Replayed": "true"}
            queued = [j for j in self.jobs.values() if j["state"] == "queued"]
            if not queued and seen.body["wait_seconds"]:
                self.changed.wait_for(
                    lambda: any(j["state"] == "queued" for j in self.jobs.values()),
                    min(seen.body["wait_seconds"], 0.5),
                )
                queued = [j for j in self.jobs.values() if j["state"] == "queued"]
            granted = [self._grant(job) for job in queued[: seen.body["limit"]]]
            answer = 200, {"results": granted}
            if granted:
                self.replays[key] = answer
            self.changed.notify_all()
        return *answer, {}

    def _grant(self, job: dict[str, Any]) -> dict[str, Any]:
        job["state"] = "active"
        job["attempt"] += 1
        job["fencing_token"] += 1
        job["revision"] += 1
        beside = ("attempt", "fencing_token", "execution_digest", "envelope")
        lease = {
            "ttl_seconds": self.ttl_seconds,
            "heartbeat_interval_seconds": self.interval_seconds,
            "expires_at": "2026-01-01T00:15:00Z",
        }
        # The inputs are where they are signed: the worker does not ask for them beside that.
        within = ("fencing_token", "envelope", "inputs")
        inner = {name: value for name, value in job.items() if name not in within}
        extra = {name: job[name] for name in beside}
        extra |= {"lease": lease, "previous_progress": None, "rework": None}
        return {"outcome": "claimed", "job": inner} | extra

    def _beat(self, beat: dict[str, Any]) -> dict[str, Any]:
        job = self.jobs[beat["task_id"]]
        control = self.controls.get(beat["task_id"], "continue")
        if control == "stop":
            return {"status": 200, "ttl_seconds": 0, "control": "stop"}
        if job["state"] != "active" or job["fencing_token"] != beat["fencing_token"]:
            return problem(409, "ABORTED", "STALE_FENCING_TOKEN", "refresh")
        return {"status": 200, "ttl_seconds": self.ttl_seconds, "control": control}

    def _upload(self, seen: Seen) -> tuple[int, dict[str, Any]]:
        key, wanted = seen.headers["idempotency-key"], seen.body
        if key not in self.replays:
            if self.jobs[wanted["task_id"]]["fencing_token"] != wanted["fencing_token"]:
                return 409, problem(409, "ABORTED", "STALE_FENCING_TOKEN", "refresh")
            upload_id = str(uuid7())
            self.uploads[upload_id] = wanted | {"artifact_id": None}
            headers = {"Content-Length": str(wanted["size_bytes"]), "If-None-Match": "*"}
            headers["Content-Type"] = wanted["media_type"]
            url = f"{self.url}/objects/{upload_id}"
            grant = {"upload_id": upload_id, "method": "PUT", "url": url, "headers": headers}
            self.replays[key] = 201, grant
        return self.replays[key]

    def _stored(self, seen: Seen) -> tuple[int, dict[str, Any], dict[str, str]]:
        if "/objects/" in self.routes:
            return *self.routes["/objects/"](seen), {}
        return self._put(seen), {}, {}

    def _put(self, seen: Seen) -> int:
        upload_id = seen.path.rpartition("/")[2]
        if upload_id in self.objects:
            return 412
        self.objects[upload_id] = seen.body
        return 201

    def _accept(self, seen: Seen) -> tuple[int, dict[str, Any]]:
        upload_id = seen.path.split("/")[3]
        upload = self.uploads[upload_id]
        if upload["artifact_id"] is not None:
            return 200, {"outcome": "already_recorded", "artifact_id": upload["artifact_id"]}
        if sha256_hex(self.objects.get(upload_id, b"\0")) != seen.body["sha256"]:
            return 409, problem(409, "FAILED_PRECONDITION", "CHECKSUM_MISMATCH", "refresh")
        upload["artifact_id"] = str(uuid7())
        return 200, {"outcome": "recorded", "artifact_id": upload["artifact_id"]}

    def _end(self, task_id: str, verb: str, body: Any) -> tuple[int, dict[str, Any]]:
        job = self.jobs[task_id]
        identity = (task_id, body["attempt"], body["fencing_token"])
        if identity in self.outcomes:
            if self.outcomes[identity] == (verb, body):
                return 200, {"outcome": "already_recorded", "job": job}
            return 409, problem(409, "ABORTED", "OUTCOME_CONFLICT", "refresh")
        if body["fencing_token"] != job["fencing_token"]:
            return 409, problem(409, "ABORTED", "STALE_FENCING_TOKEN", "refresh")
        if job["state"] != "active":
            return 409, problem(409, "FAILED_PRECONDITION", "INVALID_TRANSITION", "refresh")
        self.outcomes[identity] = (verb, body)
        states = {"complete": "completed", "fail": "failed", "escalate": "escalated"}
        states |= {"defer": "retry_later"}
        job["state"] = states[verb]
        if verb == "fail" and body["retryable"]:
            job["state"] = "retry_later"
        return 200, {"outcome": "recorded", "job": job}


@pytest.fixture
def plane() -> Iterator[ScriptedPlane]:
    scripted = ScriptedPlane()
    yield scripted
    scripted.close()


@pytest.fixture
def client(plane: ScriptedPlane) -> Iterator[ControlPlane]:
    control_plane = ControlPlane(
        url=plane.url, session=Session(worker_id="hermes@test", token=TOKEN)
    )
    yield control_plane
    control_plane.close()


@pytest.fixture
def keys(client: ControlPlane) -> KeyRing:
    return KeyRing(plane=client)


@pytest.fixture
def make_claim(plane: ScriptedPlane) -> Callable[..., Claim]:
    """Return a function that adds a job, claims it and reads the claim."""

    def make(task_id: str = "task-1", **over: Any) -> Claim:
        plane.add_job(task_id, **over)
        return Claim.from_answer(plane.grant(task_id))

    return make


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], list[str]]:
    """Return a function that writes a program and returns its command line.

    The program's `request` is the request document, and `answer(...)` prints a bound result.
    """

    def write(source: str) -> list[str]:
        path = tmp_path / "program.py"
        path.write_text(
            "import json, os, pathlib, signal, subprocess, sys, time\n"
            "request = json.load(sys.stdin)\n"
            "NAMES = ('external_request_id', 'attempt', 'execution_digest')\n"
            "def answer(outcome='succeeded', **over):\n"
            "    bound = {name: request[name] for name in NAMES}\n"
            "    print(json.dumps(bound | {'outcome': outcome} | over), flush=True)\n" + source
        )
        return [sys.executable, str(path)]

    return write


@dataclass
class Running:
    """A worker in a thread of the test."""

    worker: Worker
    thread: threading.Thread
    data: Path

    def join(self) -> None:
        self.thread.join(PATIENCE_SECONDS)
        assert not self.thread.is_alive(), "the worker did not end"


@pytest.fixture
def start_worker(
    client: ControlPlane, keys: KeyRing, tmp_path: Path
) -> Iterator[Callable[..., Running]]:
    """Return a function that starts a worker of the command runtime."""
    started: list[Running] = []

    def start(
        program: list[str], *, stop_grace_s: float = 1.0, uploads: bool = True, **plan: Any
    ) -> Running:
        data = tmp_path / "data"
        adapter = CommandAdapter(
            executor=ExternalAgentExecutor(exchange=ExternalAgentExchange(data / "exchange")),
            workspaces=Workspaces(data),
            program=program,
            stop_grace_s=stop_grace_s,
        )
        worker = Worker(
            plane=client,
            journal=Journal(data / "journal"),
            adapter=adapter,
            keys=keys,
            plan=Plan(**({"agent": "hermes", "wait_seconds": 1} | plan)),
            uploads=Uploads(plane=client) if uploads else None,
        )
        running = Running(worker, threading.Thread(target=worker.run, daemon=True), data)
        running.thread.start()
        started.append(running)
        return running

    yield start
    for running in started:
        running.worker.abort()
        running.join()


@pytest.fixture
def spawn_worker(
    plane: ScriptedPlane, tmp_path: Path
) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Return a function that starts `python -m fencepost_worker` as its own process.

    Its `python_path` is where packages are found before those that are installed.
    """
    spawned: list[subprocess.Popen[bytes]] = []

    def spawn(
        program: list[str], *options: str, python_path: str = str(WORKER_SOURCE)
    ) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "fencepost_worker", "run", "--url", plane.url]
        command += [
            "--token",
            TOKEN,
            "--agent",
            "hermes",
            "--data",
            str(tmp_path / "data"),
            "--wait-seconds",
            "1",
        ]
        process = subprocess.Popen(
            [*command, *options, "--", *program],
            # Away from the checkout: nothing but the package is there to be imported.
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": python_path},
        )
        spawned.append(process)
        return process

    yield spawn
    for process in spawned:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_SECONDS)
