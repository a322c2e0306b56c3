"""A real SIGKILL at every point where the worker writes to disk or has heard an answer.

Whatever the point: the other side is asked at most once in an attempt, and after one restart the
attempt has exactly one end, which is true of what happened.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.settings import WORKER_SOURCE

PATIENCE_SECONDS = 30
#: More than the points of one job's life, so that the last runs are ones without a kill.
POINTS = 27
NEVER = {"rule": "never", "after_seconds": None}

#: Counts durable writes and heard answers, and kills the process after the one that it is told.
KILLED_WORKER = """
import os, signal, sys, threading
from fencepost_worker import durable
from fencepost_worker.client import ControlPlane
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
beaten = ControlPlane.send
ControlPlane.send = lambda self, call, **options: (
    beaten if call.path.endswith("/heartbeat") else counted(beaten)
)(self, call, **options)
sys.exit(main(sys.argv[2:]))
"""


@pytest.fixture
def governed_plane(plane):
    """The governed calls, with executions that know their state."""
    executions = {}

    def start(seen):
        executions.setdefault(seen.body["external_request_id"], "unknown")
        state = executions[seen.body["external_request_id"]]
        return 201, {
            "decision": "issued",
            "state": state,
            "may_begin": True,
            "deadline_seconds": 60,
        }

    def result(seen):
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
        {
            "session_id": "0190aaaa-0000-7000-8000-000000000001",
            "dispatcher_epoch": "0190eeee-0000-7000-8000-000000000001",
            "state": "current",
        },
    )
    plane.routes["/executions/permits$"] = lambda seen: (
        201,
        {"permit_id": "0190cccc-0000-7000-8000-000000000001", "deadline_seconds": 60},
    )
    plane.routes["/v1/executions$"] = start
    plane.routes["/result$"] = result
    plane.executions = executions
    return plane


@pytest.fixture
def other_side():
    """An agent over HTTP; the list of the request ids that it was asked with, and its address."""
    ids = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            ids.append(document["external_request_id"])
            names = ("external_request_id", "attempt", "execution_digest")
            bound = {name: document[name] for name in names} | {"outcome": "succeeded"}
            content = json.dumps(bound).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    ids_url = ids, f"http://127.0.0.1:{server.server_port}/"
    yield ids_url
    server.shutdown()
    server.server_close()


def run_worker(plane, data, url, kill_at):
    command = [sys.executable, "-c", KILLED_WORKER, str(kill_at)]
    command += ["run", "--url", plane.url, "--token", "fp_test.secret", "--agent", "hermes"]
    command += ["--data", str(data), "--runtime", "http", "--endpoint", url, "--once"]
    done = subprocess.run(
        command,
        cwd=data.parent,
        env=os.environ | {"PYTHONPATH": str(WORKER_SOURCE)},
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    return done.returncode


@pytest.mark.parametrize("kill_at", range(1, POINTS + 1))
def test_a_kill_at_any_point_neither_repeats_nor_forgets(
    governed_plane, other_side, tmp_path, kill_at
):
    ids, url = other_side
    governed_plane.add_job("task-1")
    killed = run_worker(governed_plane, tmp_path, url, kill_at)
    assert killed in (-signal.SIGKILL, 0)
    # 0 never comes down to the kill: the second life is whole.
    assert run_worker(governed_plane, tmp_path, url, 0) == 0

    assert len(ids) <= 1
    assert governed_plane.jobs["task-1"]["attempt"] == 1
    [(verb, body)] = governed_plane.outcomes.values()
    state = next(iter(governed_plane.executions.values()), None)
    if verb == "complete":
        assert (len(ids), state) == (1, "succeeded")
    elif body["error_code"] == "NOT_STARTED":
        assert ids == [] and state in ("not_started", None)
    else:
        assert (body["error_code"], state) == ("OUTCOME_UNKNOWN", "unknown")
    assert not list((tmp_path / "journal").rglob("claim.json")), "nothing is owed any more"
    if killed == 0:
        assert verb == "complete"


def test_the_last_points_are_past_the_end_of_a_jobs_life(governed_plane, other_side, tmp_path):
    _, url = other_side
    governed_plane.add_job("task-1")

    assert run_worker(governed_plane, tmp_path, url, POINTS) == 0
