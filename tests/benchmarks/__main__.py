"""Lifecycles over HTTP beside pgbench running the same bare SQL on the same server, as JSON.

`make bench`, or `python -m tests.benchmarks --seconds 15 --clients 16`.  Everything runs on one
throwaway installation with durable commits: the embedded server, gunicorn as `manage.py up` starts
it, and the load generator.  pgbench is measured before and after, and the mean of both is what the
ratios are against, since shared machines drift.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from uuid_utils.compat import uuid7

from governance.local import embedded, placement, rendezvous
from tests.benchmarks import governed, throwaway_folder

ROOT = Path(__file__).resolve().parents[2]
BATCH = 50
BEATS = 500
START_SECONDS_MAX = 90
#: Governed lifecycles that are measured, for each second that another measurement takes.
GOVERNED_PER_SECOND = 20

#: One lifecycle: submit, claim, complete, each a transaction with its audit insert.
SCHEMA = """
DROP TABLE IF EXISTS bench_job, bench_audit;
CREATE TABLE bench_job (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task text UNIQUE NOT NULL, state text NOT NULL, token bigint NOT NULL DEFAULT 0, result jsonb);
CREATE TABLE bench_audit (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job bigint NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp(), body jsonb NOT NULL);
"""
LIFECYCLE = """
BEGIN;
INSERT INTO bench_job (task, state) VALUES (gen_random_uuid()::text, 'queued')
    RETURNING id AS job \\gset
INSERT INTO bench_audit (job, body) VALUES (:job, '{"action": "job.queued"}');
COMMIT;
BEGIN;
UPDATE bench_job SET state = 'active', token = token + 1 WHERE id = :job AND state = 'queued';
INSERT INTO bench_audit (job, body) VALUES (:job, '{"action": "job.claimed"}');
COMMIT;
BEGIN;
UPDATE bench_job SET state = 'completed', result = '{"x": 1}' WHERE id = :job AND token = 1;
INSERT INTO bench_audit (job, body) VALUES (:job, '{"action": "job.completed"}');
COMMIT;
"""


class Api:
    """A keep-alive connection that speaks JSON; as little client as Python can be."""

    def __init__(self, port: int, token: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
        }

    def post(self, path: str, body: Any, *, key: bool = False) -> Any:
        headers = self.headers | ({"Idempotency-Key": str(uuid7())} if key else {})
        self._connection.request("POST", f"/v1/{path}", json.dumps(body), headers)
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{path}: {answer.status} {content[:300]!r}")
        return json.loads(content)


class Installation:
    """A throwaway installation that serves on a free port."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder) / "data"
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.environ = {
            name: value for name, value in os.environ.items() if name != "DATABASE_URL"
        } | {"FENCEPOST_DATA": str(self.folder), "FENCEPOST_LOG_LEVEL": "WARNING"}

    def __enter__(self) -> Installation:
        command = ["up", "--no-workers", "--no-examples", "--port", str(self.port)]
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", *command],
            cwd=ROOT,
            env=self.environ,
            stdout=subprocess.DEVNULL,
            stderr=sys.stderr,
        )
        until = time.monotonic() + START_SECONDS_MAX
        while not self._ready():
            if time.monotonic() > until or self.process.poll() is not None:
                raise RuntimeError("The service did not start.")
            time.sleep(0.2)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(timeout=30)

    def _ready(self) -> bool:
        with suppress(OSError, http.client.HTTPException):
            asked = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            asked.request("GET", "/readyz")
            return asked.getresponse().status == 200
        return False

    def token(self, *arguments: str) -> str:
        made = subprocess.run(
            [sys.executable, "manage.py", "create_credential", *arguments, "--json"],
            cwd=ROOT,
            env=self.environ,
            check=True,
            capture_output=True,
            text=True,
        )
        return str(json.loads(made.stdout)["token"])

    def apply(self, configuration: str) -> None:
        """Configure the installation by a file in TOML."""
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(configuration)
            file.flush()
            subprocess.run(
                [sys.executable, "manage.py", "apply_governance", file.name, "--reason", "bench"],
                cwd=ROOT,
                env=self.environ,
                check=True,
                stdout=subprocess.DEVNULL,
            )

    @property
    def pids(self) -> list[int]:
        """Return the processes that all others descend from; the database is nobody's child."""
        [found] = self.folder.rglob("postmaster.pid")
        postmaster = found.read_text().split()[0]
        return [self.process.pid, int(postmaster)]

    @property
    def dsn(self) -> str:
        return self.dsn_of(rendezvous.ROLE)

    def dsn_of(self, role: str) -> str:
        found = embedded.running_dsn(self.folder, role=role)
        assert found is not None
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=15.0, help="of each measurement")
    parser.add_argument("--clients", type=int, default=16)
    asked = parser.parse_args()
    with throwaway_folder() as folder, Installation(folder) as service:
        print(json.dumps(measure(service, asked.seconds, asked.clients), indent=2))


def measure(service: Installation, seconds: float, clients: int) -> dict[str, Any]:
    submit, work = service.token("--submitter", "bench"), service.token("openclaw")
    run_sql(service.dsn_of(rendezvous.OWNER), SCHEMA)
    before = pgbench(service, seconds, clients)
    single = rate(clients, seconds, lambda n: lifecycle(service.port, submit, work, n))
    batched = rate(max(2, clients // 4), seconds, lambda n: batches(service.port, submit, work, n))
    beats = heartbeats(service.port, submit, work, seconds)
    service.apply(governed.CONFIGURATION)
    of_calls = governed.measure(
        Api(service.port, submit),
        Api(service.port, work),
        agent="openclaw",
        envelope=envelope,
        count=round(GOVERNED_PER_SECOND * seconds),
        pids=service.pids,
    )
    after = pgbench(service, seconds, clients)
    reference = statistics.mean([before, after])
    return {
        "clients": clients,
        "seconds": seconds,
        "pgbench_lifecycles_per_second": {"before": before, "after": after},
        "single_lifecycles_per_second": single,
        "batched_lifecycles_per_second": batched,
        "heartbeat_leases_per_second": beats,
        "heartbeat_hot_update_share": hot_share(service),
        **of_calls,
        "ratio_single_to_pgbench": round(single / reference, 3),
        "ratio_batched_to_pgbench": round(batched / reference, 3),
    }


def rate(clients: int, seconds: float, make: Callable[[int], Callable[[], int]]) -> float:
    """Return how many lifecycles per second `clients` threads bring about."""
    done = [0] * clients
    failures: list[BaseException] = []
    until = time.monotonic() + seconds

    def run(number: int) -> None:
        step = make(number)
        try:
            while time.monotonic() < until:
                done[number] += step()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(clients)]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return round(sum(done) / (time.monotonic() - started), 1)


def envelope() -> dict[str, Any]:
    return {
        "task_id": f"bench-{uuid7()}",
        "source": "proof",
        "title": "A task of the benchmark",
        "goal": "Be taken in, claimed and completed, as fast as may be.",
        "task_type": "classification",
        "risk_tier": "low",
        "inputs": {"text": "x" * 100},
    }


def lifecycle(port: int, submit: str, work: str, number: int) -> Callable[[], int]:
    """Single calls: queue, claim by task, complete."""
    submitter, worker, name = Api(port, submit), Api(port, work), f"bench-{number}"

    def step() -> int:
        task = envelope()
        submitter.post("jobs", task)
        claimed = worker.post(f"jobs/{task['task_id']}/claim", {"worker_id": name})
        done = {
            "worker_id": name,
            "attempt": claimed["attempt"],
            "fencing_token": claimed["fencing_token"],
            "result": {"x": 1},
        }
        worker.post(f"jobs/{task['task_id']}/complete", done)
        return 1

    return step


def batches(port: int, submit: str, work: str, number: int) -> Callable[[], int]:
    """Batches of 50: queue, claim next, complete."""
    submitter, worker, name = Api(port, submit), Api(port, work), f"bench-batch-{number}"

    def step() -> int:
        submitter.post("jobs/batch", {"tasks": [envelope() for _ in range(BATCH)]})
        claimed = worker.post("claims", {"worker_id": name, "limit": BATCH}, key=True)["results"]
        done = [
            {
                "task_id": each["job"]["task_id"],
                "worker_id": name,
                "attempt": each["attempt"],
                "fencing_token": each["fencing_token"],
                "result": {"x": 1},
            }
            for each in claimed
        ]
        if done:
            worker.post("jobs/complete/batch", {"completions": done})
        return len(done)

    return step


def heartbeats(port: int, submit: str, work: str, seconds: float) -> float:
    """Return the leases per second that two clients renew, 500 to a request."""
    submitter, worker = Api(port, submit), Api(port, work)
    beats: list[dict[str, Any]] = []
    for _ in range(2 * BEATS // BATCH):
        submitter.post("jobs/batch", {"tasks": [envelope() for _ in range(BATCH)]})
        body = {"worker_id": "bench-beats", "limit": BATCH}
        for each in worker.post("claims", body, key=True)["results"]:
            beats.append(
                {
                    "task_id": each["job"]["task_id"],
                    "attempt": each["attempt"],
                    "fencing_token": each["fencing_token"],
                }
            )

    def make(number: int) -> Callable[[], int]:
        api, own = Api(port, work), beats[number * BEATS : (number + 1) * BEATS]

        def step() -> int:
            answers = api.post("leases/heartbeat", {"leases": own})["results"]
            if any(each["status"] != 200 for each in answers):
                raise RuntimeError("A lease was not renewed.")
            return len(own)

        return step

    return rate(2, seconds, make)


def pgbench(service: Installation, seconds: float, clients: int) -> float:
    """Return the lifecycles per second of the bare SQL."""
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
        script.write(LIFECYCLE)
        script.flush()
        told = subprocess.run(
            [
                str(placement.binaries() / "pgbench"),
                *("-n", "-M", "prepared", "-f", script.name),
                *("-c", str(clients), "-j", "2", "-T", str(max(1, round(seconds)))),
                service.dsn,
            ],
            check=True,
            capture_output=True,
            text=True,
        )
    found = re.search(r"tps = ([\d.]+)", told.stdout)
    assert found is not None, told.stdout
    return round(float(found[1]), 1)


def hot_share(service: Installation) -> float | None:
    """Return the share of updates of leases that were heap-only."""
    query = (
        "SELECT round(n_tup_hot_upd::numeric / nullif(n_tup_upd, 0), 4)"
        " FROM pg_stat_user_tables WHERE relname = 'jobs_lease'"
    )
    said = run_sql(service.dsn, query).strip()
    return float(said) if said else None


def run_sql(dsn: str, sql: str) -> str:
    told = subprocess.run(
        [str(placement.binaries() / "psql"), "-qtA", "-v", "ON_ERROR_STOP=1", dsn],
        input=sql,
        check=True,
        capture_output=True,
        text=True,
    )
    return told.stdout


if __name__ == "__main__":
    main()
