"""Whose a session is, over HTTP and at a shell; contract sections 0, 1 and 4."""

from __future__ import annotations

import hashlib
import io
import json
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command
from uuid_utils.compat import uuid7

from agents.models import Agent, Credential, Session
from agents.transitions import epochs
from governance.core.models import AuditEvent
from governance.web.client_certificates import ENVIRON_KEY
from jobs.models import Job
from tests.client import Api, refused

pytestmark = pytest.mark.django_db

BY = {"actor": "user:anna", "reason": "planned"}
A = "aa" * 32
OF_ANOTHER = (401, "SESSION_OF_ANOTHER")


class Worker:
    """A process of hermes in an activated session, which others may call in."""

    def __init__(self, token, cell="cell-1"):
        self.api, self.cell, self.boot_id = Api(token), cell, str(uuid4())
        self.activate()

    def activate(self, **over):
        boot = {
            "activation_operation_id": str(uuid4()),
            "cell_id": self.cell,
            "boot_id": self.boot_id,
            "protocol_version": "1.0",
        }
        answer = self.api.post(
            "/v1/agents/hermes/activate", boot | over, Idempotency_Key=str(uuid7())
        )
        if answer.status_code == 200:
            self.told = answer.json()
        return answer

    def call(self, path, body, *, api=None, **headers):
        session = {
            "Fencepost_Session": self.told["session_id"],
            "Fencepost_Epoch": self.told["dispatcher_epoch"],
            "Idempotency_Key": str(uuid7()),
        }
        return (api or self.api).post(f"/v1/{path}", body, **(session | headers))


@pytest.fixture
def mine(hermes_token):
    return Worker(hermes_token)


@pytest.fixture
def other(issue):
    """Another credential of the same agent."""
    return Api(issue(agent="hermes"))


def rows():
    return (
        list(Job.objects.values()),
        list(Session.objects.values()),
        AuditEvent.objects.count(),
    )


def held_by(worker, job):
    told = worker.call(f"jobs/{job.task_id}/claim", {}).json()
    return {"attempt": 1, "fencing_token": told["fencing_token"]}


def test_no_call_of_another_lineage_in_the_session_does_anything(mine, other, make_job):
    job = make_job()
    held = held_by(mine, job)
    bound = held | {"task_id": job.task_id}
    named = bound | {"external_request_id": "xr_" + "0" * 64}
    data = {"n": 1}
    fact = {
        "fact_id": str(uuid7()),
        "content_sha256": hashlib.sha256(b'{"n":1}').hexdigest(),
        "type": "com.example.noted",
        "data": data,
    }
    put = {"name": "a.txt", "media_type": "text/plain", "size_bytes": 1, "sha256": "ab" * 32}
    permit = {"reservation_id": None, "mode": "mock", "expected_revision": 1}
    start = {
        "permit_id": str(uuid7()),
        "execution_digest": "ab" * 32,
        "runtime": "command",
        "request_sha256": "ab" * 32,
    }
    told = {"execution_digest": "ab" * 32, "outcome": "failed", "result_sha256": "ab" * 32}
    route = {
        "route_request_id": named["external_request_id"] + ":model",
        "estimated_input_tokens": 1,
        "max_output_tokens": 1,
    }
    failure = {"error_message": "no", "error_code": "E", "retryable": True}
    make_job()
    before = rows()
    for path, body in (
        (f"jobs/{job.task_id}/claim", {}),
        ("claims", {"limit": 1}),
        ("leases/heartbeat", {"leases": [bound]}),
        (f"jobs/{job.task_id}/complete", held | {"result": {}}),
        (f"jobs/{job.task_id}/fail", held | failure),
        (f"jobs/{job.task_id}/escalate", held | {"reason": "why"}),
        ("jobs/complete/batch", {"completions": [bound | {"result": {}}]}),
        ("routes", named | route),
        (f"reservations/{uuid7()}/resolve", named | {"end": "settled"}),
        ("executions/permits", named | permit),
        ("executions", named | start),
        (f"executions/{named['external_request_id']}/result", bound | told),
        ("facts", fact | {"subject": bound}),
        ("facts", fact | {"subject": None}),
        ("uploads", bound | put),
        (f"uploads/{uuid7()}/complete", bound | {"sha256": "ab" * 32, "size_bytes": 1}),
        ("agents/hermes/heartbeat", {"runtime": "command"}),
        (
            "agents/hermes/admission",
            {"state": "draining", "barrier_id": "b", "expected_generation": 1, "reason": "why"},
        ),
    ):
        answer = mine.call(path, body, api=other)
        assert refused(answer) == OF_ANOTHER, (path, answer.content)
        assert rows() == before, path
    assert mine.call(f"jobs/{job.task_id}/complete", held | {"result": {}}).status_code == 200


def test_the_stored_answer_of_an_admission_is_for_who_may_still_act(mine, other):
    body = {"state": "draining", "barrier_id": "b", "expected_generation": 1, "reason": "why"}
    name, mine_of_before = str(uuid7()), mine.told["session_id"]

    def drain(**over):
        return mine.call("agents/hermes/admission", body, **({"Idempotency_Key": name} | over))

    assert drain().status_code == 200
    assert drain()["Idempotent-Replayed"] == "true"
    assert refused(drain(api=other)) == OF_ANOTHER

    mine.activate(boot_id="another")
    superseded = drain(Fencepost_Session=mine_of_before)
    assert refused(superseded) == (401, "SESSION_SUPERSEDED")
    # A restarted process is given its answer.
    assert drain()["Idempotent-Replayed"] == "true"


def test_another_lineage_activates_neither_the_boot_nor_the_cell(mine, other):
    before = rows()
    for over in (
        {},
        {"boot_id": "another"},
        {"previous_session_id": mine.told["session_id"]},
    ):
        answer = Worker.activate(_as(mine, other), **over)
        assert refused(answer) == OF_ANOTHER
    assert rows() == before


def _as(worker, api):
    someone = object.__new__(Worker)
    someone.api, someone.cell, someone.boot_id = api, worker.cell, worker.boot_id
    return someone


def test_a_former_id_is_told_to_activate(mine, make_job):
    job = make_job()
    held = held_by(mine, job)
    before = mine.told
    epochs.rotate(**BY)
    stale = mine.call(f"jobs/{job.task_id}/complete", held | {"result": {}})
    assert refused(stale) == (409, "DISPATCHER_EPOCH_STALE")
    assert mine.activate(previous_session_id=before["session_id"]).json()["rebound"] is True
    assert mine.told["session_id"] != before["session_id"]
    stale = mine.api.post(
        "/v1/leases/heartbeat",
        {"leases": [held | {"task_id": job.task_id}]},
        Fencepost_Session=before["session_id"],
    )
    assert refused(stale) == (409, "DISPATCHER_EPOCH_STALE")
    assert stale.json()["retry"]["rule"] == "refresh"
    done = mine.call(f"jobs/{job.task_id}/complete", held | {"result": {}})
    assert done.json()["outcome"] == "recorded"


def test_a_certificate_is_demanded_of_every_call(hermes_token, issue):
    bound = issue(agent="hermes", certificate_sha256=A)
    call_command(
        "configure_agent", "hermes", "--require-certificates", "--reason", "r", stdout=io.StringIO()
    )
    bare = Api(hermes_token).get("/v1/agents/hermes/status")
    assert refused(bare) == (401, "CLIENT_CERTIFICATE_REQUIRED")
    assert "bound to none" in bare.json()["detail"]
    api = Api(bound)
    assert refused(api.get("/v1/agents/hermes/status")) == (401, "CLIENT_CERTIFICATE_MISMATCH")
    api.client.defaults[ENVIRON_KEY] = A
    assert api.get("/v1/agents/hermes/status").status_code == 200
    call_command(
        "configure_agent", "hermes", "--no-require-certificates", "--reason", "r",
        stdout=io.StringIO(),
    )  # fmt: skip
    assert Api(hermes_token).get("/v1/agents/hermes/status").status_code == 200
    assert Agent.objects.get(name="hermes").require_certificates is False


def run(*command):
    out = io.StringIO()
    call_command(*command, "--reason", "due", "--json", stdout=out)
    return json.loads(out.getvalue())


def test_a_cell_is_released_and_a_fingerprint_added_at_a_shell(mine, other, issue):
    run("act", "session.release_cell", mine.told["session_id"])
    assert Session.objects.get().state == "superseded"
    with pytest.raises(CommandError):
        run("act", "session.release_cell", mine.told["session_id"])
    assert Worker.activate(_as(mine, other), boot_id="another").status_code == 200

    token = issue(agent="hermes", certificate_sha256=A)
    prefix = token.removeprefix("fp_").partition(".")[0]
    rotated = run("rotate_credential", prefix, "--certificate-sha256", "BB:" * 31 + "BB")
    row = Credential.objects.get(prefix=rotated["prefix"])
    assert (row.certificate_sha256, row.former_certificate_sha256) == ("bb" * 32, A)
    assert row.lineage == Credential.objects.get(prefix=prefix).lineage
