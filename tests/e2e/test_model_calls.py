"""Programs that call models, behind a worker, against the real service and a stand-in provider."""

import io
import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from uuid import uuid4

import httpx2
import pytest

from fencepost_worker.testing import Answer
from governance.core.models import Fact
from governance.money import catalogue
from governance.money.models import Reservation, Resolution
from governance.money.pricing import RateSet
from jobs import evidence, transitions
from jobs.models import Attempt, Execution, Job, Upload

PATIENCE_SECONDS = 40
ROOT = Path(__file__).resolve().parents[2]
BY = {"actor": "command:test", "reason": "for the test"}
STANDIN = ("local", "standin-1")

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(120),
    pytest.mark.usefixtures("store_of_this_test"),
]

#: Nothing of it knows of a gateway: an agent as people write one.
AGENT = """
import json, os, sys
from openai import OpenAI
request = json.load(sys.stdin)
answer = OpenAI().chat.completions.create(
    model="standin-1", messages=[{"role": "user", "content": request["goal"]}]
)
names = ("external_request_id", "attempt", "execution_digest")
bound = {name: request[name] for name in names}
said = {"text": answer.choices[0].message.content}
print(json.dumps(bound | {"outcome": "succeeded", "result": said}))
"""
#: Says so when its call was answered, and stays.
STAYS = AGENT.replace(
    "names =",
    "open(sys.argv[1], 'w').write(str(os.getpid()))\nimport time\ntime.sleep(120)\nnames =",
)
CALLS_NOTHING = """
import json, sys
request = json.load(sys.stdin)
names = ("external_request_id", "attempt", "execution_digest")
print(json.dumps({name: request[name] for name in names} | {"outcome": "succeeded"}))
"""


@pytest.fixture
def priced() -> Callable[..., None]:
    """Return a function that lets hermes call the stand-in under a cap."""

    def price(cap: Decimal | None = None, **type_settings: str) -> None:
        catalogue.set_model(provider=STANDIN[0], name=STANDIN[1], **BY)
        rates = [RateSet(above_input_tokens=0, input=Decimal("0.50"), output=Decimal("1.50"))]
        catalogue.set_price(provider=STANDIN[0], name=STANDIN[1], rates=rates, **BY)
        catalogue.set_policy(models=[STANDIN], **BY)
        catalogue.set_budget(scope="global", window="none", cap=cap, **BY)
        wanted = transitions.TypeSettings(**({"model_use": "required"} | type_settings))
        transitions.configure_job_type(name="content_prep", settings=wanted, **BY)

    return price


def own_variables(**over: str) -> dict[str, str]:
    """Return this process's variables for a worker: the service's own weigh more than its file."""
    return {k: v for k, v in os.environ.items() if not k.startswith("FENCEPOST_")} | over


@pytest.fixture
def spawn(live_server, issue, tmp_path, provider, started) -> Callable[..., subprocess.Popen]:
    """Return a function that starts a worker process of hermes for a program."""
    token = issue(agent="hermes")
    key, config = tmp_path / "local.key", tmp_path / "worker.toml"
    key.write_text("sk-real\n")
    config.write_text(
        f'[worker]\nurl = "{live_server.url}"\nagent = "hermes"\ndata = "hermes"\n'
        "wait_seconds = 1\n"
        f'[providers.local]\napi = "openai"\nbase_url = "{provider.base_url_openai}"\n'
        'api_key_file = "local.key"\n'
    )

    def start(source: str, *options: str, arguments: tuple[str, ...] = ()) -> subprocess.Popen:
        program = tmp_path / "agent.py"
        program.write_text(source)
        command = [sys.executable, "-m", "fencepost_worker", "run", "--config", str(config)]
        command += [*options, "--", sys.executable, str(program), *arguments]
        process = subprocess.Popen(command, cwd=ROOT, env=own_variables(FENCEPOST_TOKEN=token))
        started.append(process)
        return process

    return start


def the_job() -> Job:
    return Job.objects.get(task_id="example-release-notes")


def given_back() -> tuple[Job, Attempt]:
    """Return the job and its attempt, which was deferred and is not counted."""
    job = the_job()
    attempt = Attempt.objects.get(job=job)
    assert (job.state, job.attempts_left, attempt.outcome) == (
        "queued",
        job.max_attempts,
        "deferred",
    )
    return job, attempt


def evidence_of(job: Job) -> list[dict]:
    """Return what the evidence of the job says of its model calls' ends."""
    with io.BytesIO() as out:
        evidence.export(task_id=job.task_id, out=out, actor="user:auditor")
        with zipfile.ZipFile(out) as bundle:
            [name] = [n for n in bundle.namelist() if "resolutions" in n]
            return [json.loads(line) for line in bundle.read(name).splitlines()]


def run_to_the_end(process: subprocess.Popen) -> None:
    assert process.wait(PATIENCE_SECONDS) == 0


@pytest.fixture
def run_editor(issue, spawn, tmp_path) -> Callable[[], None]:
    """Return a function that runs the example of functions until there is no work."""
    config = tmp_path / "worker.toml"
    config.write_text(config.read_text().replace("[worker]", "[worker]\nonce = true"))
    own = own_variables(FENCEPOST_TOKEN=issue(agent="hermes"), FENCEPOST_CONFIG=str(config))

    def run() -> None:
        program = [sys.executable, str(ROOT / "examples" / "programs" / "editor.py")]
        subprocess.run(program, cwd=ROOT, env=own, timeout=PATIENCE_SECONDS, check=True)

    return run


@pytest.mark.parametrize("effects", ["external", "model_only"])
def test_functions_are_governed_as_programs_are(priced, submit, run_editor, provider, effects):
    priced(effects=effects)
    submit()
    run_editor()

    job = the_job()
    attempt = Attempt.objects.get(job=job)
    assert (job.state, attempt.outcome, attempt.runtime) == ("completed", "completed", "function")
    assert attempt.result["summary"] == provider.text
    [notes] = Upload.objects.filter(job=job)
    assert notes.state == Upload.State.STORED
    assert attempt.result["artifacts"][0]["pointer"] == f"artifact:{notes.artifact_id}"
    assert [asked.key for asked in provider.requests] == ["sk-real"]
    assert Reservation.objects.get().state == "settled"
    assert Execution.objects.get(job=job).state == "succeeded"
    assert Fact.objects.filter(type="com.example.notes.written").count() == 1


@pytest.mark.parametrize("effects", ["external", "model_only"])
def test_an_agent_that_knows_of_no_gateway_is_governed(priced, submit, spawn, provider, effects):
    priced(effects=effects)
    submit()
    run_to_the_end(spawn(AGENT, "--once"))

    job = the_job()
    attempt = Attempt.objects.get(job=job)
    assert (job.state, attempt.outcome) == ("completed", "completed")
    assert attempt.result["text"] == provider.text
    [asked] = provider.requests
    assert asked.key == "sk-real"
    reservation = Reservation.objects.get()
    resolution = Resolution.objects.get(reservation=reservation)
    assert (reservation.state, resolution.cost_basis) == ("settled", "usage")
    counted = (resolution.input_tokens, resolution.output_tokens)
    assert counted == (provider.counts.input, provider.counts.output)
    assert Execution.objects.get(job=job).state == "succeeded"
    [told] = evidence_of(job)
    assert (told["cost_basis"], told["input_tokens"]) == ("usage", provider.counts.input)


def test_an_agent_over_an_empty_budget_is_given_back_and_loses_no_attempt(
    priced, submit, spawn, provider
):
    priced(cap=Decimal(0))
    submit()
    run_to_the_end(spawn(AGENT, "--once"))

    job, attempt = given_back()
    assert attempt.error_message.startswith("BUDGET_EXHAUSTED: ")
    assert provider.requests == []
    # Nothing but the note of no room keeps it: it moves as soon as there is room.
    assert (job.available_at, job.unconfirmed_deferrals) == (attempt.ended_at, 0)


@pytest.mark.parametrize(
    ("status", "reason"), [(429, "PROVIDER_QUOTA"), (401, "PROVIDER_REFUSES_US")]
)
def test_what_a_provider_refuses_costs_no_attempt(priced, submit, spawn, provider, status, reason):
    priced()
    provider.script(*[Answer.error(status, "refused", "told by the test")] * 3)
    submit()
    run_to_the_end(spawn(AGENT, "--once"))

    _, attempt = given_back()
    assert attempt.error_message.startswith(f"{reason}: ")
    assert {each.cost_basis for each in Resolution.objects.all()} == {"none"}


def test_work_that_has_to_call_a_model_and_does_not_is_not_complete(priced, submit, spawn):
    priced()
    submit()
    run_to_the_end(spawn(CALLS_NOTHING, "--once"))

    attempt = Attempt.objects.get(job=the_job())
    assert (attempt.outcome, attempt.error_code) == ("failed", "RESULT_REFUSED")


def is_over(pid: int) -> bool:
    """Tell whether a process has ended, though nobody may have asked yet how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.parametrize(("effects", "state"), [("model_only", "queued"), ("external", "in_doubt")])
def test_a_killed_worker_leaves_nothing_open_and_a_person_only_where_something_may_have_happened(
    priced, submit, spawn, provider, tmp_path, effects, state
):
    priced(effects=effects)
    submit()
    called = tmp_path / "called"
    os.mkfifo(called)
    worker = spawn(STAYS, arguments=(str(called),))
    pid = int(called.read_text())
    worker.send_signal(signal.SIGKILL)
    worker.wait(PATIENCE_SECONDS)

    run_to_the_end(spawn(AGENT, "--once"))
    job = the_job()
    assert job.state == state
    assert job.attempts.get(number=1).error_code == "OUTCOME_UNKNOWN"
    assert len(provider.requests) == 1
    assert Reservation.objects.get().state == "settled"
    assert is_over(pid), "the program ended with its worker"


def test_an_agent_that_claims_for_itself_calls_models_by_the_gateway_alone(
    priced, submit, live_server, issue, provider, tmp_path
):
    priced(effects="model_only")
    submit()
    token = issue(agent="hermes")
    api = httpx2.Client(base_url=live_server.url, headers={"Authorization": f"Bearer {token}"})

    def post(path: str, body: dict) -> dict:
        answer = api.post(path, json=body, headers={"Idempotency-Key": str(uuid4())})
        assert answer.is_success, answer.text
        return answer.json()

    boot = {"activation_operation_id": "a-1", "cell_id": "own", "boot_id": "b-1"}
    boot |= {"protocol_version": "1", "runtime": "own"}
    session = post("/v1/agents/hermes/activate", boot)
    api.headers["Fencepost-Session"] = session["session_id"]
    api.headers["Fencepost-Epoch"] = session["dispatcher_epoch"]
    [claimed] = post("/v1/claims", {"worker_id": "own"})["results"]
    (tmp_path / "local.key").write_text("sk-real")
    config = tmp_path / "gateway.toml"
    config.write_text(
        f'[providers.local]\napi = "openai"\nbase_url = "{provider.base_url_openai}"\n'
        'api_key_file = "local.key"\n'
    )
    command = [sys.executable, "-m", "fencepost_worker", "gateway", "--url", live_server.url]
    command += ["--token", token, "--agent", "hermes", "--data", str(tmp_path / "data")]
    command += ["--task", "example-release-notes", "--config", str(config)]
    command += ["--session-id", session["session_id"], "--epoch", session["dispatcher_epoch"]]
    gateway = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        names = ("OPENAI_BASE_URL", "OPENAI_API_KEY")
        said = dict(gateway.stdout.readline().strip().split("=", 1) for _ in names)
        assert tuple(said) == names
        answer = httpx2.post(
            f"{said['OPENAI_BASE_URL']}/chat/completions",
            json={"model": "standin-1", "messages": [{"role": "user", "content": "hello"}]},
            headers={"Authorization": f"Bearer {said['OPENAI_API_KEY']}"},
            timeout=PATIENCE_SECONDS,
        )
        assert answer.json()["choices"][0]["message"]["content"] == provider.text
        gateway.send_signal(signal.SIGTERM)
        assert gateway.wait(PATIENCE_SECONDS) == 0
    finally:
        gateway.kill()
        gateway.communicate()
        api.close()

    assert Reservation.objects.get().state == "settled"
    assert Execution.objects.get().state == "unknown", "its result is the agent's to tell"
    assert the_job().attempt == claimed["attempt"] == 1


def test_the_gateway_alone_is_for_who_holds_the_job(live_server, issue, submit, tmp_path):
    submit()
    config = tmp_path / "gateway.toml"
    config.write_text('[providers.local]\napi = "openai"\nbase_url = "http://127.0.0.1:9/v1"\n')
    command = [sys.executable, "-m", "fencepost_worker", "gateway", "--url", live_server.url]
    command += ["--token", issue(agent="hermes"), "--agent", "hermes"]
    command += ["--data", str(tmp_path / "data"), "--config", str(config)]
    command += ["--task", "example-release-notes", "--session-id", str(uuid4())]
    done = subprocess.run(
        [*command, "--epoch", str(uuid4())],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
        cwd=ROOT,
    )

    assert done.returncode == 2
    assert "example-release-notes" in done.stderr
    assert the_job().state == "queued"
