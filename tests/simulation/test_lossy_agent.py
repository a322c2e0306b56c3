"""An agent behind HTTP that loses answers, under the real worker and the real API; seeded.

Whatever it does to a request - answers, refuses, takes it and hangs up, hangs up at once -
no execution is sent twice, what is unknown stays unknown until a person says what became of it.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from governance.core.models import Fact
from governance.evidence import trail
from jobs import executions, wakeups
from jobs.models import Execution, Job, JobType
from tests.world import TEST

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(180)]

ROOT = Path(__file__).resolve().parents[2]
SEED = int(os.environ.get("FENCEPOST_SEED", "20"))
TASKS = int(os.environ.get("FENCEPOST_SIMULATED_TASKS", "12"))
ROUNDS = 4
WORKER_SECONDS = 60
FATES = ("answer", "answer", "refuse", "take and hang up", "hang up")
ENDED = {"completed", "failed"}


class Endpoint:
    """An agent with a will of its own. `taken` counts the calls it acted on, by task."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.taken: Counter[str] = Counter()
        self.fates: Counter[str] = Counter()
        self._lock = threading.Lock()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                endpoint.meet(self, json.loads(self.rfile.read(length)))

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/act"

    def meet(self, call: BaseHTTPRequestHandler, question: dict[str, Any]) -> None:
        task = question["title"]
        with self._lock:
            fate = self.draw.choice(FATES)
            self.fates[fate] += 1
            if fate in ("answer", "take and hang up"):
                self.taken[task] += 1
        if fate == "answer":
            self._answer(call, 200, self._result(question))
        elif fate == "refuse":
            self._answer(call, 400, {"error": {"message": "not today"}})
        else:
            call.close_connection = True
            call.connection.close()

    def _result(self, question: dict[str, Any]) -> dict[str, Any]:
        bound = ("external_request_id", "attempt", "execution_digest")
        said = {"outcome": "succeeded", "result": {"text": f"About {question['title']}."}}
        return {name: question[name] for name in bound} | said

    def _answer(self, call: BaseHTTPRequestHandler, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        call.send_response(status)
        call.send_header("Content-Type", "application/json")
        call.send_header("Content-Length", str(len(content)))
        call.end_headers()
        call.wfile.write(content)

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint(SEED)
    yield made
    made.close()
    wakeups.close()


@pytest.fixture
def work_until_empty(
    live_server: Any, issue: Callable[..., str], endpoint: Endpoint, tmp_path: Path
) -> Callable[[], None]:
    token = issue(agent="hermes")

    def run() -> None:
        command = [
            *(sys.executable, "-m", "fencepost_worker", "run", "--url", live_server.url),
            *("--agent", "hermes", "--data", str(tmp_path / "worker"), "--wait-seconds", "1"),
            *("--runtime", "http", "--endpoint", endpoint.url, "--once"),
        ]
        environ = os.environ | {"FENCEPOST_TOKEN": token}
        done = subprocess.run(
            command, cwd=ROOT, env=environ, timeout=WORKER_SECONDS, check=False, capture_output=True
        )
        assert done.returncode == 0, done.stderr.decode()[-2000:]

    return run


def test_nothing_is_sent_twice(
    endpoint: Endpoint, work_until_empty: Callable[[], None], make_job: Callable[..., Job]
) -> None:
    JobType.objects.filter(name="content_prep").update(backoff_base_seconds=0)
    for number in range(TASKS):
        make_job(task_id=f"sim-{number}", title=f"simulated task {number}", max_attempts=3)

    for _ in range(ROUNDS):
        work_until_empty()
        reconcile_by_the_endpoints_own_log(endpoint)
        if not Job.objects.exclude(state__in=ENDED).exists():
            break

    assert set(Job.objects.values_list("state", flat=True)) <= ENDED
    assert endpoint.fates["take and hang up"] and endpoint.fates["refuse"], endpoint.fates
    for job in Job.objects.select_related("task"):
        started = Execution.objects.filter(job=job).exclude(state="refused").count()
        assert endpoint.taken[job.task.title] <= started
        if job.state == "completed":
            assert endpoint.taken[job.task.title] >= 1
        # After one that happened no other was sent: it was bound to the job, not repeated.
        assert endpoint.taken[job.task.title] <= 1
        sequence = Fact.objects.filter(stream=job.audit_subject).order_by("sequence")
        numbers = list(sequence.values_list("sequence", flat=True))
        assert numbers == list(range(1, len(numbers) + 1))
    assert trail.verify().whole


def reconcile_by_the_endpoints_own_log(endpoint: Endpoint) -> None:
    """Be the operator who looks into the agent's log before saying what happened."""
    for execution in Execution.objects.filter(state="unknown").select_related("job__task"):
        if execution.reconciliations.exclude(verdict="undetermined").exists():
            continue
        happened = endpoint.taken[execution.job.task.title] > 0
        executions.reconcile(
            external_request_id=execution.external_request_id,
            verdict="happened" if happened else "not_happened",
            evidence={"seen_in": "the agent's log"},
            result={"text": "from the log"} if happened else None,
            **TEST,
        )
