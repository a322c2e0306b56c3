"""The system under test: a server of the run, or the deployment that `--base-url` names."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from uuid_utils.compat import uuid7

TIMEOUT_SECONDS = 40
PROBLEM_MEMBERS = {
    *("type", "title", "status", "detail", "instance"),
    *("code", "reason", "effect", "retry", "current", "errors"),
}
CODES = {
    "INVALID_ARGUMENT": {400, 405, 406, 413, 415},
    "UNAUTHENTICATED": {401},
    "PERMISSION_DENIED": {403},
    "FAILED_PRECONDITION": {409},
    "ABORTED": {409, 412, 422},
    "RESOURCE_EXHAUSTED": {429},
    "UNAVAILABLE": {503},
    "DEADLINE_EXCEEDED": {504},
    "NOT_FOUND": {404},
    "ALREADY_EXISTS": {409},
}
EFFECTS = {"none", "applied", "unknown"}
RESULT_SHA256 = "cd" * 32
RULES = {
    *("never", "reauthenticate", "stop", "refresh", "wait", "defer", "reconcile", "read"),
    "same_key",
}


@dataclass(frozen=True)
class Target:
    """What is tested, and in whose name."""

    url: str
    agent: str
    agent_token: str
    other_token: str
    submitter_token: str
    task_type: str
    #: Whether a priced model is allowed for the agent's work of that type.
    models: bool


@dataclass(frozen=True)
class Reply:
    """An answer; `refusal` is its status and reason."""

    status: int
    headers: httpx2.Headers
    content: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.content)

    @property
    def refusal(self) -> tuple[int, str]:
        return self.status, self.body["reason"]


class Caller:
    """Calls in the name of one credential. Checks of every failure that it is a problem."""

    def __init__(self, url: str, token: str = "", **headers: str) -> None:
        bearer = {"Authorization": f"Bearer {token}"} if token else {}
        # No environment: a proxy of the machine has no part in this.
        self._client = httpx2.Client(
            base_url=url, headers=bearer | headers, timeout=TIMEOUT_SECONDS, trust_env=False
        )

    def send(self, method: str, path: str, **request: Any) -> Reply:
        answer = self._client.request(method, path, **request)
        reply = Reply(answer.status_code, answer.headers, answer.content)
        if reply.status >= 400:
            check_problem(reply)
        return reply

    def get(self, path: str, **headers: str) -> Reply:
        return self.send("GET", path, headers=names(headers))

    def post(self, path: str, body: Any = None, **headers: str) -> Reply:
        return self.send("POST", path, json={} if body is None else body, headers=names(headers))

    def raw(self, path: str, content: bytes, **headers: str) -> Reply:
        sent = {"Content-Type": "application/json"} | names(headers)
        return self.send("POST", path, content=content, headers=sent)

    def close(self) -> None:
        self._client.close()


def timeless(reply: Reply) -> Any:
    """Return the body of an answer without the seconds that leases have left."""

    def without_ttl(members: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in members.items() if name != "ttl_seconds"}

    return json.loads(reply.content, object_hook=without_ttl)


def names(headers: dict[str, str]) -> dict[str, str]:
    """`idempotency_key` is the header `Idempotency-Key`."""
    return {name.replace("_", "-"): value for name, value in headers.items()}


def check_problem(reply: Reply) -> None:
    """A failure is a problem of RFC 9457 with the members and words of the contract."""
    assert reply.headers["Content-Type"] == "application/problem+json", reply.content
    body = reply.body
    assert body.keys() >= PROBLEM_MEMBERS, body
    assert body["status"] == reply.status
    assert reply.status in CODES[body["code"]] or reply.status == 500
    assert body["effect"] in EFFECTS
    assert body["retry"]["rule"] in RULES
    assert body["reason"] == body["reason"].upper()
    if reply.status == 503:
        assert int(reply.headers["Retry-After"]) >= 0


def key() -> str:
    return str(uuid7())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A server of the run has a database; a deployment that is named has one of its own."""
    if config.getoption("base_url"):
        return
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.django_db(transaction=True))


@pytest.fixture
def target(request: pytest.FixtureRequest, base_url: str) -> Target:
    if base_url:
        told = os.environ
        return Target(
            url=base_url,
            agent=told.get("CONTRACT_AGENT", "hermes"),
            agent_token=told["CONTRACT_AGENT_TOKEN"],
            other_token=told["CONTRACT_OTHER_AGENT_TOKEN"],
            submitter_token=told["CONTRACT_SUBMITTER_TOKEN"],
            task_type=told.get("CONTRACT_TASK_TYPE", "content_prep"),
            models=bool(told.get("CONTRACT_MODELS")),
        )
    server = request.getfixturevalue("live_server")
    issue = request.getfixturevalue("issue")
    # Grants of the local store name the address that the service is known under.
    request.getfixturevalue("settings").PUBLIC_URL = server.url
    from tests.jobs.governed import price_a_model

    price_a_model()
    return Target(
        url=server.url,
        agent="hermes",
        agent_token=issue(agent="hermes"),
        other_token=issue(agent="openclaw"),
        submitter_token=issue(submitter="ops", scopes=["submit", "read", "control", "admit"]),
        task_type="content_prep",
        models=True,
    )


@pytest.fixture
def call_as(target: Target) -> Iterator[Callable[..., Caller]]:
    """Return a caller with a token: `call_as("")` has none."""
    made: list[Caller] = []

    def make(token: str, **headers: str) -> Caller:
        made.append(Caller(target.url, token, **headers))
        return made[-1]

    yield make
    for caller in made:
        caller.close()


@pytest.fixture
def worker(target: Target, call_as: Callable[..., Caller]) -> Caller:
    return call_as(target.agent_token)


@pytest.fixture
def stranger(target: Target, call_as: Callable[..., Caller]) -> Caller:
    """The credential of another agent."""
    return call_as(target.other_token)


@pytest.fixture
def ops(target: Target, call_as: Callable[..., Caller]) -> Caller:
    return call_as(target.submitter_token)


@pytest.fixture
def envelope(target: Target) -> Callable[..., dict[str, Any]]:
    """Return a task envelope that nobody has sent before."""

    def make(**over: Any) -> dict[str, Any]:
        return {
            "task_id": f"contract-{uuid4()}",
            "source": "manual",
            "title": "Conformance",
            "goal": "Show that the contract is kept.",
            "task_type": target.task_type,
            "risk_tier": "low",
        } | over

    return make


@dataclass(frozen=True)
class Claimed:
    """A running job: its id, and what each write of its holder carries."""

    task_id: str
    worker_id: str
    job: dict[str, Any]

    @property
    def authority(self) -> dict[str, Any]:
        return {"attempt": self.job["attempt"], "fencing_token": self.job["fencing_token"]}

    def path(self, verb: str) -> str:
        return f"/v1/jobs/{self.task_id}/{verb}"


@pytest.fixture
def claimed(ops: Caller, worker: Caller, envelope: Callable[..., dict[str, Any]]) -> Claimed:
    return claim_new(ops, worker, envelope())


def claim_new(ops: Caller, worker: Caller, task: dict[str, Any], **headers: str) -> Claimed:
    """Queue a task and claim it."""
    assert ops.post("/v1/jobs", task).status == 201
    worker_id = f"w-{uuid4()}"
    sent = {"worker_id": worker_id, "lease_seconds": 60}
    reply = worker.post(f"/v1/jobs/{task['task_id']}/claim", sent, **headers)
    assert (reply.status, reply.body["outcome"]) == (200, "claimed")
    return Claimed(task["task_id"], worker_id, reply.body["job"] | reply.body)


class Cell:
    """A cell of the agent, in which boots come and go."""

    def __init__(self, target, worker):
        self.path = f"/v1/agents/{target.agent}"
        self.worker, self.cell_id = worker, f"cell-{uuid4()}"

    def activate(self, boot_id, operation=None, same=None, **over):
        body = {
            "activation_operation_id": operation or str(uuid4()),
            "cell_id": self.cell_id,
            "boot_id": boot_id,
            "protocol_version": "1.0",
            "runtime": "command",
            "capabilities": {},
        } | over
        return self.worker.post(f"{self.path}/activate", body, idempotency_key=same or key())


def headers(reply):
    return {
        "fencepost_session": reply.body["session_id"],
        "fencepost_epoch": reply.body["dispatcher_epoch"],
    }


@pytest.fixture
def cell(target, worker):
    return Cell(target, worker)


def request_id(job: dict[str, Any], *, attempt: int) -> str:
    """Return the external request id: of these plain values, sorted keys are their RFC 8785."""
    named = {
        "task_id": job["task_id"],
        "job_id": job["job_id"],
        "execution_digest": job["execution_digest"],
        "runtime": job["runtime"],
        "attempt": attempt,
    }
    text = json.dumps(named, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "xr_" + hashlib.sha256(text.encode()).hexdigest()


@dataclass
class Acting:
    """A claimed job under a session, and the calls that lead its holder outside."""

    caller: Caller
    held: Claimed
    session: dict[str, str]

    @property
    def id(self) -> str:
        return request_id(self.held.job, attempt=self.held.job["attempt"])

    @property
    def binding(self) -> dict[str, Any]:
        return {
            "task_id": self.held.task_id,
            **self.held.authority,
            "external_request_id": self.id,
        }

    def post(self, path, body, same=None, **session):
        sent = {"idempotency_key": same or key()} | (session or self.session)
        return self.caller.post(path, body, **sent)

    def permit(self, **over):
        body = self.binding | {
            "reservation_id": None,
            "mode": "mock",
            "expected_revision": self.held.job["revision"],
        }
        return self.post("/v1/executions/permits", body | over)

    def start(self, permit_id, same=None, **over):
        body = self.binding | {
            "permit_id": permit_id,
            "execution_digest": self.held.job["execution_digest"],
            "runtime": self.held.job["runtime"],
            "request_sha256": "ab" * 32,
        }
        return self.post("/v1/executions", body | over, same)

    def result(self, **over):
        body = {
            "task_id": self.held.task_id,
            **self.held.authority,
            "execution_digest": self.held.job["execution_digest"],
            "outcome": "succeeded",
            "result_sha256": RESULT_SHA256,
            "result": {"n": 1},
        }
        return self.post(f"/v1/executions/{self.id}/result", body | over)

    def begin(self):
        started = self.start(self.permit().body["permit_id"])
        assert started.status in (200, 201)
        return started


@pytest.fixture
def acting(ops, worker, target, envelope):
    session = headers(Cell(target, worker).activate("a"))
    return Acting(worker, claim_new(ops, worker, envelope(), **session), session)
