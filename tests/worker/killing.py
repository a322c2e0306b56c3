"""A worker that kills itself at one point of its life, and a control plane for its executions."""

import os
import subprocess
import sys
from pathlib import Path

from tests.settings import WORKER_SOURCE
from tests.worker.conftest import TOKEN, ScriptedPlane, Seen

PATIENCE_SECONDS = 40
NEVER = {"rule": "never", "after_seconds": None}

#: Counts durable writes, marks of calls and heard answers, and kills the process after one of them.
KILLED_WORKER = """
import os, signal, sys, threading
from fencepost_worker import durable
from fencepost_worker.client import ControlPlane
from fencepost_worker.gateway.marks import CallJournal
from fencepost_worker.__main__ import main

left, lock = [int(sys.argv[1])], threading.Lock()

def counted(function):
    def call(*args, **options):
        answer = function(*args, **options)
        with lock:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return answer
    return call

for name in ("replace", "create", "remove", "remove_folder"):
    setattr(durable, name, counted(getattr(durable, name)))
for name in ("begin", "sent", "settled", "done"):
    setattr(CallJournal, name, counted(getattr(CallJournal, name)))
beaten = ControlPlane.send
ControlPlane.send = lambda self, call, **options: (
    beaten if call.path.endswith("/heartbeat") else counted(beaten)
)(self, call, **options)
sys.exit(main(sys.argv[2:]))
"""


def run_worker(url: str, data: Path, kill_at: int, *options: str) -> int:
    """Run a worker of hermes until there is no work, and return how its process ended.

    :param kill_at: the point after which it is killed, counted from 1; 0 for none.
    """
    command = [sys.executable, "-c", KILLED_WORKER, str(kill_at), "run", "--once"]
    command += ["--url", url, "--token", TOKEN, "--agent", "hermes", "--data", str(data)]
    done = subprocess.run(
        [*command, *options],
        cwd=data.parent,
        env=os.environ | {"PYTHONPATH": str(WORKER_SOURCE)},
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    return done.returncode


def serve_executions(plane: ScriptedPlane) -> dict[str, str]:
    """Teach the scripted control plane executions that know their state; return these by id."""
    executions: dict[str, str] = {}

    def start(seen: Seen) -> tuple[int, dict]:
        state = executions.setdefault(seen.body["external_request_id"], "unknown")
        return 201, {
            "decision": "issued",
            "state": state,
            "may_begin": True,
            "deadline_seconds": 60,
        }

    def result(seen: Seen) -> tuple[int, dict]:
        request_id = seen.path.split("/")[3]
        state = executions.get(request_id)
        if state is None:
            return 404, {"code": "NOT_FOUND", "reason": "NOT_FOUND", "retry": NEVER}
        if state not in ("unknown", seen.body["outcome"]):
            return 409, {"code": "ABORTED", "reason": "RESULT_DIGEST_CONFLICT", "retry": NEVER}
        executions[request_id] = seen.body["outcome"]
        return 200, {"outcome": "recorded"}

    plane.routes["/activate$"] = lambda seen: (
        200,
        {"session_id": "s", "dispatcher_epoch": "e", "state": "current"},
    )
    plane.routes["/executions/permits$"] = lambda seen: (
        201,
        {"permit_id": "p", "state": "issued", "deadline_seconds": 60},
    )
    plane.routes["/v1/executions$"] = start
    plane.routes["/result$"] = result
    return executions
