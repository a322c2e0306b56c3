"""The worker against the real service over HTTP: the examples, and a worker that is killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs import transitions
from jobs.models import Attempt, Job, Upload

PATIENCE_SECONDS = 40
ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("store_of_this_test"),
]


@pytest.fixture
def spawn(live_server, issue, tmp_path, started) -> Callable[..., subprocess.Popen]:
    """Return a function that starts a worker process of an agent."""
    tokens: dict[str, str] = {}

    def start(agent: str, *options: str, program: list[str] | None = None) -> subprocess.Popen:
        token = tokens.get(agent) or tokens.setdefault(agent, issue(agent=agent))
        example = [sys.executable, str(EXAMPLES / "programs" / f"{agent}.py")]
        command = [sys.executable, "-m", "fencepost_worker", "run"]
        command += [
            "--url",
            live_server.url,
            "--agent",
            agent,
            "--data",
            str(tmp_path / agent),
            "--wait-seconds",
            "1",
        ]
        command += [*options, "--", *(example if program is None else program)]
        process = subprocess.Popen(command, cwd=ROOT, env=os.environ | {"FENCEPOST_TOKEN": token})
        started.append(process)
        return process

    return start


def run_to_the_end(process: subprocess.Popen) -> None:
    assert process.wait(PATIENCE_SECONDS) == 0


def state_of(task_id: str) -> str:
    return Job.objects.get(task_id=task_id).state


def test_the_examples_arrive_where_they_belong(submit, spawn):
    for path in sorted(EXAMPLES.glob("*.json")):
        submit(path)
        assert submit(path)["outcome"] == "already_queued"
    assert state_of("example-duration-parser") == "held"

    session = ("--once", "--cell-id", "local")
    run_to_the_end(spawn("hermes", *session, "--task-types", "artifact_production"))
    assert state_of("example-release-notes") == "queued", "it is for the runtime with a model"
    for agent in ("openclaw", "agent_zero"):
        run_to_the_end(spawn(agent, *session))
    assert state_of("example-parcel-data-contract") == "review_required"
    assert state_of("example-ticket-classification") == "completed"
    assert state_of("example-duration-parser") == "held"

    [contract, specification] = Upload.objects.filter(
        job__task_id="example-parcel-data-contract"
    ).order_by("name")
    assert {contract.state, specification.state} == {Upload.State.STORED}
    finished = Attempt.objects.get(job__task_id="example-parcel-data-contract").result
    assert {a["pointer"] for a in finished["artifacts"]} == {
        f"artifact:{contract.artifact_id}",
        f"artifact:{specification.artifact_id}",
    }

    transitions.approve(
        task_id="example-duration-parser", actor="user:approver", reason="It was looked at."
    )
    run_to_the_end(spawn("agent_zero", *session))
    assert state_of("example-duration-parser") == "review_required"
    delivered = Attempt.objects.get(job__task_id="example-duration-parser").result
    assert [a["name"] for a in delivered["artifacts"]] == [
        "change.patch",
        "rollback.patch",
        "tests.log",
    ]


def test_a_killed_workers_attempt_is_told_as_lost_and_the_next_attempt_does_the_work(
    submit, spawn, tmp_path
):
    began = tmp_path / "began"
    os.mkfifo(began)
    hang = [
        sys.executable,
        "-c",
        f"import time; open({str(began)!r}, 'w').write('x'); time.sleep(60)",
    ]
    submit(EXAMPLES / "classification.json")
    first = spawn("openclaw", program=hang)
    # Opens when the program has opened its end: it runs.
    began.read_text()
    first.send_signal(signal.SIGKILL)
    first.wait(PATIENCE_SECONDS)

    run_to_the_end(spawn("openclaw", "--once"))
    job = Job.objects.get(task_id="example-ticket-classification")
    lost = job.attempts.get(number=1)
    assert (job.state, lost.outcome, lost.error_code) == ("queued", "failed", "OUTCOME_UNKNOWN")

    Job.objects.filter(pk=job.pk).update(available_at=job.created_at)
    run_to_the_end(spawn("openclaw", "--once"))
    assert state_of("example-ticket-classification") == "completed"
    assert job.attempts.get(number=2).outcome == "completed"
