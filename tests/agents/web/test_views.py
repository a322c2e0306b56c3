"""The agents API over HTTP: sessions, presence, admission; contract sections 0, 3, 4, 9."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest
from django.urls import reverse
from uuid_utils.compat import uuid7

from agents import guard
from agents.models import Activation, AdmissionChange, Agent, Presence, Session
from agents.transitions import epochs, inhibits, sessions
from governance.core.models import IdempotencyRecord
from governance.money import catalogue
from tests.client import Api, refused

pytestmark = pytest.mark.django_db

BY = {"actor": "user:anna", "reason": "planned"}
BOOT = {
    "activation_operation_id": "op-1",
    "cell_id": "cell-1",
    "boot_id": "boot-1",
    "protocol_version": "1.0",
    "runtime": "command",
    "capabilities": {"gpu": False},
}
CLOSE = {"state": "closed", "barrier_id": "b-1", "expected_generation": 1, "reason": "why not"}


@pytest.fixture
def api(hermes_token):
    return Api(hermes_token)


@pytest.fixture
def ops(submitter_token):
    return Api(submitter_token)


def activate(api, key=None, agent="hermes", **over):
    return api.post(
        f"/v1/agents/{agent}/activate", BOOT | over, Idempotency_Key=str(key or uuid7())
    )


def session_of(answer):
    told = answer.json()
    return {
        "Fencepost_Session": told["session_id"],
        "Fencepost_Epoch": told["dispatcher_epoch"],
    }


def test_a_session_is_activated_and_claims(api, make_job):
    job = make_job()
    answer = activate(api)
    assert answer.status_code == 200
    assert answer.json()["session_generation"] == 1

    claimed = api.post(
        f"/v1/jobs/{job.task_id}/claim",
        {"owner": "hermes", "lease_seconds": 60},
        **session_of(answer),
    )
    assert claimed.status_code == 200
    again = api.post(
        f"/v1/jobs/{job.task_id}/claim",
        {"owner": "hermes", "lease_seconds": 60},
        **session_of(answer),
    ).json()
    assert again["outcome"] == "already_running"
    assert again["job"]["fencing_token"] == claimed.json()["job"]["fencing_token"]


def test_the_same_key_replays_the_same_bytes(api):
    key = uuid7()
    first = activate(api, key)
    again = activate(api, key)
    assert again.content == first.content
    assert again["Idempotent-Replayed"] == "true"
    assert Activation.objects.count() == 1


def test_the_stored_answer_of_a_superseded_session_is_not_given(api):
    key = uuid7()
    activate(api, key)
    activate(api, boot_id="boot-2", activation_operation_id="op-2")
    assert refused(activate(api, key)) == (401, "SESSION_SUPERSEDED")


def test_a_key_is_required(api):
    response = api.post("/v1/agents/hermes/activate", BOOT)
    assert refused(response) == (400, "IDEMPOTENCY_KEY_REQUIRED")
    assert not Session.objects.filter(kind="activated").exists()


@pytest.mark.parametrize(
    "over",
    [
        {"cell_id": ""},
        {"boot_id": "b\u0007"},
        {"boot_id": 7},
        {"capabilities": []},
        {"previous_session_id": "no"},
        {"unknown": 1},
        {"capabilities": {str(n): n for n in range(65)}},
    ],
)
def test_a_malformed_activation_is_refused(api, over):
    assert refused(activate(api, **over)) == (400, "INVALID_ARGUMENT")
    assert not Session.objects.filter(kind="activated").exists()


@pytest.mark.parametrize("version", ["0.9", "2.0", "latest"])
def test_an_unsupported_protocol_is_refused_with_the_range(api, version):
    response = activate(api, protocol_version=version)
    assert refused(response) == (400, "PROTOCOL_UNSUPPORTED")
    assert response.json()["current"]["supported"] == {"min": "1.0", "max": "1.0"}
    assert not Session.objects.filter(kind="activated").exists()


def test_an_unapproved_cell_gets_202_and_the_same_key_learns_of_the_approval(api):
    Agent.objects.filter(name="hermes").update(approve_cells=True)
    key = uuid7()
    assert activate(api, key).status_code == 202
    waiting = activate(api, key)
    assert (waiting.status_code, waiting.json()["state"]) == (202, "pending")
    sent = api.post("/v1/agents/hermes/heartbeat", {}, **session_of(waiting))
    assert refused(sent) == (403, "SESSION_NOT_APPROVED")
    sessions.approve_cell(agent="hermes", cell_id="cell-1", **BY)
    done = activate(api, key)
    assert (done.status_code, done.json()["state"]) == (200, "current")


def test_nobody_speaks_for_another_agent(api, ops):
    assert refused(activate(api, agent="openclaw")) == (403, "PERMISSION_DENIED")
    assert refused(activate(ops)) == (403, "PERMISSION_DENIED")
    for path in ("status", "bootstrap"):
        assert refused(api.get(f"/v1/agents/openclaw/{path}")) == (403, "PERMISSION_DENIED")
        assert refused(api.get(f"/v1/agents/nobody/{path}")) == (403, "PERMISSION_DENIED")
    sent = api.post("/v1/agents/openclaw/heartbeat", {"runtime": "http"})
    assert refused(sent) == (403, "PERMISSION_DENIED")
    assert not Presence.objects.exists()


def test_a_heartbeat_tells_how_things_stand(api):
    answer = activate(api)
    inhibits.inhibit(agent="hermes", **BY)
    told = api.post("/v1/agents/hermes/heartbeat", {"runtime": "http"}, **session_of(answer)).json()
    assert told["admission"] == {"state": "open", "generation": 1}
    assert told["inhibit"] == {"reason": "planned", "owner": "user:anna", "ends_at": None}
    assert told["dispatcher_epoch"] == answer.json()["dispatcher_epoch"]
    assert told["heartbeat_interval_seconds"] == 20
    assert Presence.objects.get().runtime == "http"


def test_workers_of_the_older_contract_say_that_they_live(api):
    api.post("/v1/agents/hermes/heartbeat", {"runtime": "command", "worker_ids": ["a", "b"]})
    api.post("/v1/agents/hermes/heartbeat", {"runtime": "command"})
    names = Session.objects.filter(presence__isnull=False).values_list("worker_id", flat=True)
    assert sorted(names) == ["a", "b", "hermes"]


def test_a_stale_epoch_is_refused_with_the_new_one(api):
    answer = activate(api)
    epoch = epochs.rotate(**BY)
    sent = api.post("/v1/agents/hermes/heartbeat", {}, **session_of(answer))
    assert refused(sent) == (409, "DISPATCHER_EPOCH_STALE")
    assert sent.json()["current"] == {"dispatcher_epoch": str(epoch)}
    assert sent.json()["code"] == "ABORTED"


def test_an_unknown_session_must_activate(api, world):
    sent = api.post("/v1/agents/hermes/heartbeat", {}, Fencepost_Session=str(uuid4()))
    assert refused(sent) == (401, "SESSION_REQUIRED")


def test_admission_is_closed_and_replayed(ops):
    sent = {"Idempotency_Key": str(uuid7())}
    first = ops.post("/v1/agents/hermes/admission", CLOSE, **sent)
    assert first.json() == {
        "state": "closed",
        "generation": 2,
        "barrier_id": "b-1",
        "active_leases": 0,
        "effects_until": None,
    }
    again = ops.post("/v1/agents/hermes/admission", CLOSE, **sent)
    assert again.content == first.content
    with_another_key = ops.post("/v1/agents/hermes/admission", CLOSE, Idempotency_Key=str(uuid7()))
    assert with_another_key.json() == first.json()
    assert AdmissionChange.objects.count() == 1


def test_a_replayed_close_says_what_is_under_way_now(ops, hermes_token, make_job):
    """Neither count nor bound is kept: both are as of the answer, as for another key."""
    sent = {"Idempotency_Key": str(uuid7())}
    make_job()
    worker, path = Api(hermes_token), "/v1/jobs/task-1"
    token = worker.post(f"{path}/claim", {"worker_id": "w"}).json()["fencing_token"]
    first = ops.post("/v1/agents/hermes/admission", CLOSE, **sent).json()
    record = IdempotencyRecord.objects.get(operation="set_admission")
    assert json.loads(bytes(record.body)).keys() == {"state", "generation", "barrier_id"}

    worker.post(f"{path}/complete", {"worker_id": "w", "attempt": 1, "fencing_token": token})
    again = ops.post("/v1/agents/hermes/admission", CLOSE, **sent)

    assert again["Idempotent-Replayed"] == "true"
    assert (first["active_leases"], again.json()["active_leases"]) == (1, 0)
    assert again.json() | {"active_leases": 1} == first


@pytest.mark.parametrize(
    ("over", "expected"),
    [
        ({"expected_generation": 7, "barrier_id": "b-2"}, (409, "GENERATION_MISMATCH")),
        ({"state": "open"}, (409, "BARRIER_CONFLICT")),
        ({"state": "ajar"}, (400, "INVALID_ARGUMENT")),
        ({"reason": ""}, (400, "INVALID_ARGUMENT")),
        ({"reason": "   ", "barrier_id": "b-2"}, (400, "INVALID_ARGUMENT")),
        ({"expected_generation": True}, (400, "INVALID_ARGUMENT")),
        ({"expected_generation": None}, (400, "INVALID_ARGUMENT")),
    ],
)
def test_an_admission_change_that_makes_no_sense_is_refused(ops, over, expected):
    ops.post("/v1/agents/hermes/admission", CLOSE, Idempotency_Key=str(uuid7()))
    sent = ops.post("/v1/agents/hermes/admission", CLOSE | over, Idempotency_Key=str(uuid7()))
    assert refused(sent) == expected
    assert Agent.objects.get(name="hermes").admission_generation == 2


def test_admission_needs_its_scope_and_an_agent_only_drains_itself(api, issue, ops):
    reader = Api(issue(submitter="reader", scopes=["read", "submit"]))
    for caller, change, expected in (
        (reader, CLOSE, (403, "PERMISSION_DENIED")),
        (api, CLOSE, (403, "PERMISSION_DENIED")),
    ):
        sent = caller.post("/v1/agents/hermes/admission", change, Idempotency_Key=str(uuid7()))
        assert refused(sent) == expected
    assert Agent.objects.get(name="hermes").admission == "open"
    drain = CLOSE | {"state": "draining"}
    sent = api.post("/v1/agents/hermes/admission", drain, Idempotency_Key=str(uuid7()))
    assert sent.json()["state"] == "draining"
    sent = ops.post("/v1/agents/nobody/admission", CLOSE, Idempotency_Key=str(uuid7()))
    assert refused(sent) == (404, "NOT_FOUND")


def test_status_says_how_an_agent_stands(api, ops):
    activate(api)
    for caller in (api, ops):
        told = caller.get("/v1/agents/hermes/status").json()
        assert told["freshness"] == "fresh"
        assert told["active_leases"] == 0
        assert told["admission"]["state"] == "open"
        [live] = told["sessions"]
        assert (live["cell_id"], live["state"]) == ("cell-1", "current")


def test_bootstrap_says_what_an_agent_may_do(api):
    told = api.get("/v1/agents/hermes/bootstrap").json()
    assert told["max_risk_tier"] == "medium"
    assert [kind["task_type"] for kind in told["job_types"]] == [
        "artifact_production",
        "content_prep",
        "healthcheck",
        "skill_extraction",
    ]
    assert [kind["models"] for kind in told["job_types"]] == [[]] * 4
    assert told["protocol"] == {"min": "1.0", "max": "1.0"}
    assert told["keys"]["keys"]
    assert told["limits"]["claim_limit_max"] == 100


def test_bootstrap_names_the_models_that_policies_allow_to_a_type_in_their_order(api):
    act = {"actor": "command:test", "reason": "for the test"}
    for provider, name in (("openai", "gpt-a"), ("anthropic", "claude-b"), ("openai", "gpt-c")):
        catalogue.set_model(provider=provider, name=name, **act)
    models = [("anthropic", "claude-b"), ("openai", "gpt-a")]
    catalogue.set_policy(models=models, job_type="content_prep", **act)
    # Another, for one tier of it; and one that says nothing of this agent.
    catalogue.set_policy(
        models=[("openai", "gpt-c")], job_type="content_prep", risk_tier="high", **act
    )
    catalogue.set_policy(models=[("openai", "gpt-c")], agent="openclaw", **act)

    told = {
        kind["task_type"]: [(each["model"], each["api"]) for each in kind["models"]]
        for kind in api.get("/v1/agents/hermes/bootstrap").json()["job_types"]
    }

    assert set(told["content_prep"]) == {
        ("claude-b", "anthropic"),
        ("gpt-a", "openai"),
        ("gpt-c", "openai"),
    }
    assert [model for model, _ in told["content_prep"] if model != "gpt-c"] == ["claude-b", "gpt-a"]
    assert told["healthcheck"] == []


QUIET = {"task_type": "rewrite", "reason": "ten refusals in a row", "until": "2999-01-31T09:30:00Z"}


def test_a_heartbeat_says_what_is_not_asked_for_until_it_says_otherwise(api):
    answer = activate(api)
    over = QUIET | {"task_type": "healthcheck", "until": "2001-01-31T09:30:00Z"}

    def told(said):
        sent = api.post("/v1/agents/hermes/heartbeat", said, **session_of(answer))
        assert sent.status_code == 200
        [session] = api.get("/v1/agents/hermes/status").json()["sessions"]
        return session["not_asking"]

    [shown] = told({"not_asking": [QUIET, over]})

    assert (shown["task_type"], shown["reason"]) == ("rewrite", "ten refusals in a row")
    assert shown["until"].startswith("2999-01-31T09:30:00")
    [hermes] = [watch for watch in guard.look().agents if watch.agent == "hermes"]
    assert [each.task_type for each in hermes.not_asking] == ["rewrite"]
    assert told({}) == []
    assert Presence.objects.get(session__session_id=answer.json()["session_id"]).not_asking is None


@pytest.mark.parametrize(
    "said",
    [
        {"task_type": "", "reason": "x", "until": QUIET["until"]},
        {"task_type": "rewrite", "reason": "x" * 201, "until": QUIET["until"]},
        {"task_type": "rewrite", "reason": "x", "until": "tomorrow"},
        {"task_type": "rewrite", "reason": "x"},
    ],
)
def test_what_is_not_asked_for_has_a_type_a_reason_and_an_end(api, said):
    answer = activate(api)

    sent = api.post(
        "/v1/agents/hermes/heartbeat", {"not_asking": [QUIET, said]}, **session_of(answer)
    )

    assert refused(sent) == (400, "INVALID_ARGUMENT")
    assert not Presence.objects.exclude(not_asking=None).exists()


def test_the_overview_says_what_a_worker_does_not_ask_for(api, as_):
    api.post("/v1/agents/hermes/heartbeat", {"worker_ids": ["a"], "not_asking": [QUIET]})

    seen = as_("viewer").get(reverse("admin:index")).content.decode()

    assert "does not ask for rewrite until" in seen
    agent = Agent.objects.get(name="hermes")
    page = as_("viewer").get(reverse("admin:agents_agent_change", args=[agent.pk]))
    assert "Does not ask for rewrite until" in page.content.decode()
