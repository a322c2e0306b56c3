"""A real SIGKILL at every point where the worker writes to disk or has heard an answer.

Whatever the point: the other side is asked at most once in an attempt, and after one restart the
attempt has exactly one end, which is true of what happened.
"""

import json
import signal
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.worker.killing import run_worker, serve_executions

#: More than the points of one job's life, so that the last runs are ones without a kill.
POINTS = 27


@pytest.fixture
def governed_plane(plane):
    """The governed calls, with executions that know their state."""
    plane.executions = serve_executions(plane)
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


@pytest.fixture
def run(governed_plane, other_side, tmp_path):
    """Return a function that runs a worker, killed at a point, to its end; its exit code."""
    _, url = other_side
    http = ("--runtime", "http", "--endpoint", url)
    return lambda kill_at: run_worker(governed_plane.url, tmp_path, kill_at, *http)


@pytest.mark.parametrize("kill_at", range(1, POINTS + 1))
def test_a_kill_at_any_point_neither_repeats_nor_forgets(
    governed_plane, other_side, run, tmp_path, kill_at
):
    ids, _ = other_side
    governed_plane.add_job("task-1")
    killed = run(kill_at)
    assert killed in (-signal.SIGKILL, 0)
    # 0 never comes down to the kill: the second life is whole.
    assert run(0) == 0

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


def test_the_last_points_are_past_the_end_of_a_jobs_life(governed_plane, run):
    governed_plane.add_job("task-1")

    assert run(POINTS) == 0
