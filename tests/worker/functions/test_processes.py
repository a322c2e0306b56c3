"""A program that stands on the package, as a process of its own: killed, and told to end."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.worker.conftest import PATIENCE_SECONDS

PROGRAM = """
import os, pathlib, signal, sys, time
from fencepost_worker import Worker

worker = Worker.from_env()
began = pathlib.Path(sys.argv[2])

@worker.job("artifact_production")
def work(job, ctx):
    with began.open("a") as file:
        file.write(f"{job.attempt}\\n")
    if sys.argv[1] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    while sys.argv[1] == "drained" and not began.with_suffix(".go").exists():
        time.sleep(0.01)
    return {"pages": 3}

worker.run(once=sys.argv[1] == "again")
"""


@pytest.fixture
def spawn(options, tmp_path):
    """Return a function that starts the program."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    named = ("url", "agent", "token", "data")
    variables = {f"FENCEPOST_{name.upper()}": str(options[name]) for name in named}
    started = []

    def start(how):
        command = [sys.executable, str(path), how, str(tmp_path / "began")]
        process = subprocess.Popen(command, env=os.environ | variables, cwd=tmp_path)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_a_killed_process_does_not_begin_its_function_again(plane, spawn, tmp_path):
    plane.add_job("task-1")
    assert spawn("killed").wait(PATIENCE_SECONDS) == -signal.SIGKILL
    assert not plane.outcomes

    assert spawn("again").wait(PATIENCE_SECONDS) == 0

    verb, body = plane.outcome_of("task-1")
    assert (verb, body["error_code"], body["retryable"]) == ("fail", "OUTCOME_UNKNOWN", True)
    assert (tmp_path / "began").read_text() == "1\n"


def test_a_signal_drains_it(plane, spawn, tmp_path):
    plane.add_job("task-1")
    process = spawn("drained")
    plane.wait_for(lambda: plane.jobs["task-1"]["state"] == "active")
    until = time.monotonic() + PATIENCE_SECONDS
    while not (tmp_path / "began").exists() and time.monotonic() < until:
        time.sleep(0.01)

    process.send_signal(signal.SIGTERM)
    plane.add_job("task-2")
    (tmp_path / "began.go").touch()

    assert process.wait(PATIENCE_SECONDS) == 0
    assert plane.outcome_of("task-1")[1]["result"]["pages"] == 3
    assert plane.jobs["task-2"]["state"] == "queued"
