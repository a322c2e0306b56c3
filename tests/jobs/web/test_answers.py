"""What answers show of a job, and what they leave out because it is large."""

from __future__ import annotations

import json
from typing import Any

import pytest
from uuid_utils.compat import uuid7

from agents.entry import Entry
from governance.core import sql
from governance.core.wire import ANSWER_BYTES_MAX
from governance.evidence.envelopes import payload_of
from governance.money import catalogue
from jobs import transitions
from jobs.models import Job, Lease
from jobs.transitions import TypeSettings
from jobs.transitions.claims import CLAIMS_BYTES_MAX
from jobs.transitions.story import TEXT_BYTES_MAX
from tests import plans
from tests.client import Api
from tests.work import make_available

pytestmark = pytest.mark.django_db

TEST = {"actor": "user:test", "reason": "for a test"}
HEAVY = 't."envelope"'
LARGE = 900 * 1000
#: Base64 makes four bytes of three; the rest of a claim is small beside it.
OF_A_LARGE_CLAIM = LARGE * 4 // 3


@pytest.fixture
def ops(submitter_token: str) -> Api:
    return Api(submitter_token)


@pytest.fixture
def agent(hermes_token: str) -> Api:
    return Api(hermes_token)


def own(api: Api, job: Job) -> dict[str, Any]:
    found: dict[str, Any] = api.get(f"/v1/jobs/{job.task_id}").json()
    return found


def claim_by_id(api: Api, job: Job, **members: Any) -> Any:
    sent = {"worker_id": "worker-1"} | members
    return api.post(f"/v1/jobs/{job.task_id}/claim", sent).json()


def claim_next(api: Api, **members: Any) -> Any:
    sent = {"worker_id": "worker-1"} | members
    return api.post("/v1/claims", sent, idempotency_key=str(uuid7()))


def authority(claimed: Any) -> dict[str, Any]:
    return {"worker_id": "worker-1"} | {n: claimed[n] for n in ("attempt", "fencing_token")}


# --- the answer on one job -------------------------------------------------------------------


def test_a_running_job_shows_its_lease_and_its_progress_to_both(
    make_job: Any, ops: Api, agent: Api
) -> None:
    job = make_job()
    claimed = claim_by_id(agent, job)
    beat = {"task_id": job.task_id, "progress": {"page": 7}}
    beat |= {name: claimed[name] for name in ("attempt", "fencing_token")}
    agent.post("/v1/leases/heartbeat", {"worker_id": "worker-1", "leases": [beat]})

    lease = Lease.objects.get()
    for found in (own(ops, job), own(agent, job)):
        assert found["lease"].keys() == {"expires_at", "heartbeat_at"}
        assert found["lease"]["expires_at"].startswith(f"{lease.expires_at:%Y-%m-%dT%H:%M:%S}")
        assert found["lease"]["heartbeat_at"] > claimed["job"]["state_since"]
        assert found["progress"] == {"page": 7}
        assert found["escalation_reason"] is None


def test_the_progress_stays_when_the_lease_has_gone(make_job: Any, ops: Api, agent: Api) -> None:
    job = make_job()
    sent = authority(claim_by_id(agent, job)) | {"error_message": "no", "progress": [1]}
    answered = agent.post(f"/v1/jobs/{job.task_id}/fail", sent).json()["job"]

    for found in (answered, own(ops, job)):
        assert (found["lease"], found["progress"]) == (None, [1])


def test_an_escalated_job_says_why_until_it_is_resolved(
    make_job: Any, ops: Api, agent: Api
) -> None:
    job = make_job()
    sent = authority(claim_by_id(agent, job)) | {"reason": "Which region?"}
    path = f"/v1/jobs/{job.task_id}/escalate"
    answered, again = agent.post(path, sent).json(), agent.post(path, sent).json()

    assert (answered["outcome"], again["outcome"]) == ("recorded", "already_recorded")
    for found in (answered["job"], again["job"], own(ops, job), own(agent, job)):
        assert found["escalation_reason"] == "Which region?"
    transitions.resolve(
        task_id=job.task_id, actor="user:anna", resolution="requeue", reason="eu-west"
    )
    assert own(ops, job)["escalation_reason"] is None
    assert claim_by_id(agent, job)["job"]["escalation_reason"] is None


def test_a_job_says_how_many_attempts_are_left(make_job: Any, ops: Api, agent: Api) -> None:
    job = make_job(max_attempts=3)
    assert own(ops, job)["attempts_left"] == 3
    claimed = claim_by_id(agent, job)

    assert claimed["attempts_left"] == claimed["job"]["attempts_left"] == 2
    assert own(ops, job)["attempts_left"] == 2


# --- inputs ----------------------------------------------------------------------------------


def test_lists_carry_no_inputs_nor_read_them(make_job: Any, ops: Api, agent: Api) -> None:
    job = make_job(inputs={"secret": "no list has it"})

    for api in (ops, agent):
        with plans.sent() as statements:
            [listed] = api.get("/v1/jobs").json()["results"]
        assert not listed.keys() & {"inputs", "progress", "lease", "escalation_reason"}
        assert listed["goal"] == job.task.goal
        assert not [text for text, _ in statements if 't."inputs"' in text or HEAVY in text]
        assert own(api, job)["inputs"] == {"secret": "no list has it"}


def test_batches_carry_no_inputs_nor_read_them(make_job: Any, ops: Api, agent: Api) -> None:
    made = [make_job(inputs={"n": n}) for n in range(2)]
    claims = claim_next(agent, limit=2).json()["results"]
    done = [{"task_id": one["job"]["task_id"], "result": 1} | authority(one) for one in claims]
    with plans.sent() as statements:
        answered = agent.post("/v1/jobs/complete/batch", done).json()["results"]

    assert [item["outcome"] for item in answered] == ["recorded"] * 2
    assert not [item for item in answered if "inputs" in item["job"]]
    assert {item["job"]["lease"] for item in answered} == {None}
    assert not [text for text, _ in statements if 't."inputs"' in text or HEAVY in text]

    task = {name: getattr(made[0].task, name) for name in ("source", "title", "goal")}
    new = task | {"task_type": "content_prep", "risk_tier": "low", "inputs": {"n": 7}}
    queued = ops.post("/v1/jobs/batch", [new | {"task_id": "n-1"}, new | {"task_id": "n-2"}])
    again = ops.post("/v1/jobs/batch", [new | {"task_id": "n-1"}, new | {"task_id": "n-2"}])
    for answer in (queued, again):
        jobs = [item["job"] for item in answer.json()["results"]]
        assert [job["task_id"] for job in jobs] == ["n-1", "n-2"]
        assert not [job for job in jobs if "inputs" in job]
    assert ops.post("/v1/jobs", new | {"task_id": "n-1"}).json()["job"]["inputs"] == {"n": 7}


def test_a_page_of_jobs_with_large_results_has_eight_mebibytes(
    make_job: Any, worker: Entry, ops: Api
) -> None:
    for _ in range(12):
        job = make_job()
        claimed = transitions.claim_next(entry=worker)[0]
        done = {"task_id": job.task_id, "attempt": 1, "result": "x" * LARGE}
        done |= {"fencing_token": claimed.job.fencing_token}
        transitions.complete(entry=worker, completions=[done])

    first = ops.get("/v1/jobs")
    second = ops.get(first.json()["next"])
    listed = [job["task_id"] for page in (first, second) for job in page.json()["results"]]
    assert listed == [f"task-{n}" for n in range(12, 0, -1)]
    assert ANSWER_BYTES_MAX - LARGE < len(first.content) <= ANSWER_BYTES_MAX
    assert second.json()["next"] is None


def test_an_item_of_a_batch_has_texts_of_four_kibibytes(
    make_job: Any, ops: Api, worker: Entry
) -> None:
    task = {name: getattr(make_job().task, name) for name in ("source", "title", "goal")}
    again = task | {"task_id": "n-1", "task_type": "content_prep", "risk_tier": "low"}
    ops.post("/v1/jobs", again)
    transitions.claim(entry=worker, task_id="n-1", owner="hermes")
    done = {"task_id": "n-1", "attempt": 1, "fencing_token": 1, "result": ["x" * 5000]}
    transitions.complete(entry=worker, completions=[done])

    [item] = ops.post("/v1/jobs/batch", [again]).json()["results"]
    assert (item["status"], item["outcome"]) == (200, "already_queued")
    assert item["job"]["result"] == '["' + "x" * (TEXT_BYTES_MAX - 2)
    assert item["job"]["truncated"] is True
    alone = ops.post("/v1/jobs", again).json()["job"]
    assert alone["result"] == ["x" * 5000] and "truncated" not in alone


@pytest.mark.parametrize("by_id", [True, False])
@pytest.mark.parametrize(
    ("session", "asked", "given"),
    [
        (False, None, True),
        (False, False, False),
        (True, None, False),
        (True, True, True),
    ],
)
def test_a_claim_gives_inputs_beside_the_envelope_to_whom_asks(
    make_job: Any, agent: Api, governed: Any, by_id: bool, session: bool, asked: Any, given: bool
) -> None:
    job = make_job(inputs={"n": 1})
    if session:
        agent.headers["Fencepost-Session"] = str(governed.entry.session_id)
    asking = {} if asked is None else {"include_inputs": asked}
    if by_id:
        claimed = claim_by_id(agent, job, **asking)
    else:
        [claimed] = claim_next(agent, **asking).json()["results"]

    assert json.loads(payload_of(claimed["envelope"]))["inputs"] == {"n": 1}
    assert claimed["job"].get("inputs") == ({"n": 1} if given else None)
    assert "inputs" not in claimed


# --- the size of a claim ---------------------------------------------------------------------


def large(make_job: Any, count: int, **over: Any) -> None:
    for _ in range(count):
        make_job(inputs={"text": "x" * LARGE}, **over)


def test_a_claim_has_the_payload_once(make_job: Any, agent: Api) -> None:
    large(make_job, 1)
    answered = claim_next(agent, include_inputs=False)

    assert OF_A_LARGE_CLAIM < len(answered.content) < OF_A_LARGE_CLAIM + 10_000


@pytest.mark.parametrize("include_inputs", [False, True])
def test_a_claim_of_large_jobs_grants_as_many_as_eight_mebibytes_hold(
    make_job: Any, agent: Api, include_inputs: bool
) -> None:
    large(make_job, 10)
    of_one = OF_A_LARGE_CLAIM + (LARGE if include_inputs else 0)
    fit = CLAIMS_BYTES_MAX // of_one

    answered = claim_next(agent, limit=10, include_inputs=include_inputs)

    granted = [item["job"]["task_id"] for item in answered.json()["results"]]
    assert granted == [f"task-{n}" for n in range(1, fit + 1)]
    assert CLAIMS_BYTES_MAX - of_one < len(answered.content) <= CLAIMS_BYTES_MAX
    # What found no room is as it was.
    waiting = Job.objects.filter(state="queued")
    assert set(waiting.values_list("attempt", "revision")) == {(0, 1)}
    assert waiting.count() == 10 - fit
    rest = claim_next(agent, limit=10, include_inputs=include_inputs).json()["results"]
    assert rest[0]["job"]["task_id"] == f"task-{fit + 1}"


def test_the_first_job_is_granted_whatever_its_size(
    make_job: Any, worker: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.transitions.claims.CLAIMS_BYTES_MAX", 10)
    make_job(), make_job()

    [granted] = transitions.claim_next(entry=worker, limit=5)
    assert granted.job.task_id == "task-1"


def test_what_finds_no_room_is_not_read(make_job: Any, agent: Api) -> None:
    large(make_job, 10)
    read: list[int] = []
    pipeline = sql.pipeline

    def noting(*statements: sql.Statement) -> Any:
        rows = pipeline(*statements)
        read.extend(sum("t_envelope" in row for row in answer) for answer in rows)
        return rows

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sql, "pipeline", noting)
        claim_next(agent, limit=10, include_inputs=False)
    assert sum(read) == CLAIMS_BYTES_MAX // OF_A_LARGE_CLAIM + 1


def test_what_earlier_attempts_have_left_takes_room_as_well(
    make_job: Any, worker: Entry, agent: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        job = make_job()
        claimed = claim_by_id(agent, job)
        failure = authority(claimed) | {"error_message": "no", "progress": "x" * 30_000}
        assert agent.post(f"/v1/jobs/{job.task_id}/fail", failure).status_code == 200
        make_available(job)
    monkeypatch.setattr("jobs.transitions.claims.CLAIMS_BYTES_MAX", 100_000)

    answered = claim_next(agent, limit=3)
    assert len(answered.json()["results"]) == 2
    assert 60_000 < len(answered.content) <= 100_000


def test_a_hundred_small_jobs_fit(make_job: Any, agent: Api) -> None:
    for _ in range(100):
        make_job()
    assert len(claim_next(agent, limit=100).json()["results"]) == 100


# --- models ----------------------------------------------------------------------------------


@pytest.fixture
def models(world: None) -> None:
    made = [
        catalogue.set_model(provider="local", name=name, **TEST)
        for name in ("small", "large", "off")
    ]
    catalogue.set_policy(models=[("local", "small")], **TEST)
    order = [("local", name) for name in ("large", "off", "small")]
    catalogue.set_policy(agent="hermes", risk_tier="low", models=order, **TEST)
    catalogue.switch_model(model_id=made[-1].pk, enabled=False, **TEST)


@pytest.mark.parametrize("by_id", [True, False])
@pytest.mark.parametrize(
    ("tier", "names"), [("low", [(1, "large"), (3, "small")]), ("medium", [(1, "small")])]
)
def test_a_claim_names_the_models_of_its_policy_in_order(
    models: None, make_job: Any, agent: Api, by_id: bool, tier: str, names: Any
) -> None:
    job = make_job(risk_tier=tier)
    if by_id:
        claimed = claim_by_id(agent, job)
    else:
        [claimed] = claim_next(agent).json()["results"]

    known = {"api": "openai", "context_tokens_max": None, "output_tokens_max": None}
    assert claimed["models"] == [
        {"position": position, "provider": "local", "model": name, "max_output_tokens": 16384}
        | known
        for position, name in names
    ]


def test_without_a_policy_a_claim_names_none(make_job: Any, agent: Api) -> None:
    assert claim_by_id(agent, make_job())["models"] == []


@pytest.mark.parametrize("by_id", [True, False])
def test_a_claim_tells_what_the_type_says_of_model_calls(
    models: None, make_job: Any, agent: Api, by_id: bool
) -> None:
    settings = TypeSettings(model_use="required", effects="model_only", open_calls_max=3)
    transitions.configure_job_type(name="content_prep", settings=settings, **TEST)
    job = make_job()

    found = claim_by_id(agent, job) if by_id else claim_next(agent).json()["results"][0]

    told = {name: found[name] for name in ("model_use", "effects", "open_calls_max")}
    assert told == {"model_use": "required", "effects": "model_only", "open_calls_max": 3}


def test_what_is_held_for_output_is_the_policys_and_no_more_than_the_model_can(
    world: None, make_job: Any, agent: Api
) -> None:
    catalogue.set_model(provider="local", name="small", output_tokens_max=700, **TEST)
    catalogue.set_model(provider="anthropic", name="large", context_tokens_max=9000, **TEST)
    allowed = [("local", "small"), ("anthropic", "large")]
    catalogue.set_policy(models=allowed, max_output_tokens=1000, **TEST)

    [small, large] = claim_by_id(agent, make_job())["models"]

    assert (small["max_output_tokens"], small["output_tokens_max"]) == (700, 700)
    assert (large["max_output_tokens"], large["context_tokens_max"]) == (1000, 9000)
    assert (small["api"], large["api"]) == ("openai", "anthropic")
