"""How long closing an agent's admission takes over HTTP while 64 claimers claim, as JSON.

`make bench-barrier`, or `python -m tests.benchmarks.barrier --rounds 100 --claimers 64`.  The
claimers are processes of their own, since the one that closes must not wait for its own load
generator.  Each round: the claimers claim for a while, `POST /v1/agents/{agent}/admission` closes,
and no attempt may appear between its answer and the next opening; else the benchmark fails.  The
bar is p99 <= 500 ms.

`queue_ms` is what `GET /healthz` takes in the same moment, which asks nobody: the time until a
thread of the server is free.  What a close takes beyond that is the barrier's own.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import os
import statistics
import sys
import threading
import time
from multiprocessing.synchronize import Event
from typing import Any

import psycopg
from uuid_utils.compat import uuid7

from tests.benchmarks import throwaway_folder
from tests.benchmarks.__main__ import Api, Installation, envelope

AGENT = "openclaw"
BAR_MS = 500
BATCH = 500
QUEUED_MIN = 300
PROCESSES = 4
#: How long the claimers claim before a close, and how long it is watched that none comes behind.
OPEN_SECONDS, CLOSED_SECONDS = 0.4, 0.1
#: What a refused claimer waits, as a worker does that is told that its agent is closed.
REFUSED_SECONDS = 0.05


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100, help="closes that are measured")
    parser.add_argument("--claimers", type=int, default=64)
    asked = parser.parse_args()
    with throwaway_folder() as folder, Installation(folder) as service:
        found = measure(service, asked.rounds, asked.claimers)
    print(json.dumps(found, indent=2))
    return 0 if found["claims_behind_a_close"] == 0 else 1


def measure(service: Installation, rounds: int, claimers: int) -> dict[str, Any]:
    work = service.token(AGENT)
    submit = service.token("--submitter", "bench", "--scopes", "submit,admit")
    closer = Closer(service.port, submit)
    fork = multiprocessing.get_context("fork")
    stop = fork.Event()
    share = [claimers // PROCESSES + (n < claimers % PROCESSES) for n in range(PROCESSES)]
    crowd = [
        fork.Process(target=claim_until, args=(service.port, work, number, count, stop))
        for number, count in enumerate(share)
    ]
    latencies: list[float] = []
    queues: list[float] = []
    behind = 0
    with psycopg.connect(service.dsn, autocommit=True) as database:
        fill(Api(service.port, submit), database)
        for process in crowd:
            process.start()
        try:
            started, before = time.monotonic(), attempts(database)
            for _ in range(rounds):
                time.sleep(OPEN_SECONDS)
                queues.append(ask_health(service.port))
                latencies.append(closer.move("closed"))
                closed_with = attempts(database)
                time.sleep(CLOSED_SECONDS)
                behind += attempts(database) - closed_with
                fill(Api(service.port, submit), database)
                closer.move("open")
            seconds = time.monotonic() - started
            claimed = attempts(database) - before
        finally:
            stop.set()
            for process in crowd:
                process.join()
    taken = quantiles_ms(latencies)
    return {
        "claimers": claimers,
        "rounds": rounds,
        "claims_per_second": round(claimed / seconds, 1),
        "close_ms": taken,
        "queue_ms": quantiles_ms(queues),
        "bar_p99_ms": BAR_MS,
        "within_bar": taken["p99"] <= BAR_MS,
        "claims_behind_a_close": behind,
        "load_average": os.getloadavg()[0],
    }


def quantiles_ms(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    told = {"p50": statistics.median(ordered), "p99": p99, "max": ordered[-1]}
    return {name: round(value * 1000, 1) for name, value in told.items()}


def ask_health(port: int) -> float:
    """Return how many seconds the server takes to answer what asks nobody."""
    started = time.monotonic()
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    asked.request("GET", "/healthz")
    asked.getresponse().read()
    return time.monotonic() - started


class Closer:
    """Who opens and closes the agent, and knows the generation that it left."""

    def __init__(self, port: int, token: str) -> None:
        self.port, self.token, self.generation = port, token, 1

    def move(self, state: str) -> float:
        """Set the admission and return how many seconds the answer took."""
        body = {
            "state": state,
            "barrier_id": str(uuid7()),
            "expected_generation": self.generation,
            "reason": "benchmark",
        }
        started = time.monotonic()
        # A connection of its own: the server may have closed one that was idle for too long.
        answer = Api(self.port, self.token).post(f"agents/{AGENT}/admission", body, key=True)
        taken = time.monotonic() - started
        self.generation = answer["generation"]
        return taken


def fill(api: Api, database: psycopg.Connection) -> None:
    """Keep more queued than the claimers can take in a round; while the agent is closed."""
    [[queued]] = database.execute("SELECT count(*) FROM jobs_job WHERE state = 'queued'")
    if queued < QUEUED_MIN:
        api.post("jobs/batch", {"tasks": [envelope() for _ in range(BATCH)]})


def attempts(database: psycopg.Connection) -> int:
    [[count]] = database.execute("SELECT count(*) FROM jobs_attempt")
    return int(count)


def claim_until(port: int, token: str, number: int, claimers: int, stop: Event) -> None:
    """Claim one job after the other on `claimers` threads, until told to stop."""

    def run(thread: int) -> None:
        api, name = Api(port, token), f"bench-{number}-{thread}"
        while not stop.is_set():
            try:
                api.post("claims", {"worker_id": name, "limit": 1}, key=True)
            except RuntimeError as refused:
                if "ADMISSION" not in str(refused):
                    print(refused, file=sys.stderr)
                time.sleep(REFUSED_SECONDS)

    threads = [threading.Thread(target=run, args=(thread,)) for thread in range(claimers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    sys.exit(main())
