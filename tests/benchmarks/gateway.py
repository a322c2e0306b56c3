"""What the model gateway adds to calls, and what it holds while it makes them, as JSON.

`make bench-gateway`, or `python -m tests.benchmarks.gateway`.  A gateway in a process of its own
stands between one client and a stand-in provider, before a control plane in memory that answers
after `--plane-ms`.  Beside each number is that of the same calls made without a gateway.

    call_ms         streamed calls one after the other, with their marks on the disk of `--folder`:
                    the median that the gateway adds to the first chunk
    first_byte_ms   the same beside `--streams` streams that go on all the time, with the marks in
                    memory: the gateway's own work
    large_mib_s     one answer of 50 MB, and by how much the gateway's memory grew over it
    parallel_mib    the most memory of the gateway's process under 64 streams at once

The bars: 20 ms for a call with what its route takes, 3 ms for the first byte, 200 MiB. They are
for a machine that has a core for each of the three processes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import resource
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx2

from fencepost_worker.claim import Claim, Job
from fencepost_worker.client import Answer as PlaneAnswer
from fencepost_worker.client import Call, ControlPlane, Session
from fencepost_worker.gateway.attempts import GovernedAttempt
from fencepost_worker.gateway.providers import providers_of
from fencepost_worker.gateway.server import Gateway
from fencepost_worker.lease import Lease, Terms
from fencepost_worker.testing import Answer, StandInProvider
from fencepost_worker.testing.answers import event
from fencepost_worker.timing import steady_now

LARGE_BYTES = 50 * 1024 * 1024
PARALLEL = 64
CHUNKS = 50
BODY = {"model": "m", "messages": [{"role": "user", "content": "word " * 400}], "stream": True}


class InstantPlane(ControlPlane):
    """A control plane that issues every route and takes every end, after `delay_s`."""

    def __init__(self, delay_s: float) -> None:
        super().__init__(url="http://127.0.0.1:9", session=Session(worker_id="bench", token="t"))
        self._delay_s = delay_s
        self._issued = 0

    def send(self, call: Call, **_: Any) -> PlaneAnswer:
        """Answer a call."""
        requested_at = steady_now()
        time.sleep(self._delay_s)
        if call.path != "/v1/routes":
            return PlaneAnswer(200, {"outcome": "recorded"}, False, requested_at)
        self._issued += 1
        body = {
            "decision": "issued",
            "provider": "local",
            "model": "m",
            "max_output_tokens": 1000,
            "reservation": {"reservation_id": f"r{self._issued}"},
            "begin_within_seconds": 60,
        }
        return PlaneAnswer(200, body, False, requested_at)


def serve(provider_url: str, folder: str, delay_s: float, pipe: Connection) -> None:
    """Run a gateway until the pipe says so, and say what memory its process has taken."""
    gateway = Gateway(
        InstantPlane(delay_s), providers_of({"local": {"api": "openai", "base_url": provider_url}})
    )
    gateway.start()
    terms = Terms(ttl_seconds=3600, interval_seconds=60)
    claim = Claim({}, "bench", "0" * 32, 1, 1, 1, "0" * 64, terms)
    lease = Lease(
        task_id="bench", attempt=1, fencing_token=1, terms=terms, requested_at=steady_now()
    )
    admitted = gateway.admit(
        GovernedAttempt(
            job=Job(claim, {}),
            lease=lease,
            external_request_id="xr_bench",
            folder=Path(folder),
            models=({"provider": "local", "model": "m", "api": "openai"},),
            open_calls_max=PARALLEL * 2,
        )
    )
    pipe.send((gateway.address, admitted.key))
    while pipe.recv() == "memory":
        pipe.send((_memory_mib(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))
    admitted.end("done", patience_s=10)
    gateway.close()


def _memory_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def streamed() -> Answer:
    """Return a stream of some chunks, without a pause."""
    piece = event({"id": "c", "choices": [{"index": 0, "delta": {"content": "word " * 10}}]})
    usage = {"prompt_tokens": 400, "completion_tokens": 100}
    last = event({"id": "c", "choices": [], "usage": usage}) + b"data: [DONE]\n\n"
    return Answer.events(*[piece] * CHUNKS, last)


async def _first_byte_ms(client: httpx2.AsyncClient, url: str, headers: dict[str, str]) -> float:
    begun = time.perf_counter()
    async with client.stream("POST", url, json=BODY, headers=headers) as answer:
        answer.raise_for_status()
        parts = answer.aiter_raw()
        await anext(parts)
        taken = (time.perf_counter() - begun) * 1000
        async for _ in parts:
            pass
    return taken


async def _in_turn(url: str, headers: dict[str, str], *, calls: int) -> list[float]:
    """Return the times to the first byte of calls one after the other, the first apart."""
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
        return [await _first_byte_ms(client, url, headers) for _ in range(calls + 1)][1:]


async def _at_once(url: str, headers: dict[str, str], *, streams: int) -> None:
    """Make so many calls at once."""
    limits = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncClient(trust_env=False, timeout=60, limits=limits) as client:
        await asyncio.gather(*(_first_byte_ms(client, url, headers) for _ in range(streams)))


async def _large(url: str, headers: dict[str, str]) -> float:
    """Return how fast one large answer is taken, in MiB a second."""
    begun, length = time.perf_counter(), 0
    async with (
        httpx2.AsyncClient(trust_env=False, timeout=60) as client,
        client.stream("POST", url, json=BODY | {"stream": False}, headers=headers) as answer,
    ):
        async for part in answer.aiter_raw():
            length += len(part)
    assert length >= LARGE_BYTES
    return length / 2**20 / (time.perf_counter() - begun)


@contextmanager
def gateway_before(
    provider: StandInProvider, folder: str, delay_ms: float
) -> Iterator[tuple[str, dict[str, str], Callable[[], tuple[float, float]]]]:
    """Have a gateway in a process; give its address, a program's headers, and its memory."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=serve, args=(provider.base_url_openai, folder, delay_ms / 1000, theirs)
    )
    process.start()
    address, key = ours.recv()

    def memory() -> tuple[float, float]:
        ours.send("memory")
        found: tuple[float, float] = ours.recv()
        return found

    yield f"{address}/v1/chat/completions", {"authorization": f"Bearer {key}"}, memory
    ours.send("end")
    process.join()


def _compared(provider: StandInProvider, url: str, headers: dict[str, str], calls: int) -> Any:
    """Return how long calls take through the gateway and without it, in turns of ten."""
    direct = f"{provider.base_url_openai}/chat/completions"
    found: dict[str, list[float]] = {"through": [], "without": []}
    for _ in range(calls // 10):
        for name, where, whose in (("through", url, headers), ("without", direct, {})):
            provider.script(*[lambda _: streamed()] * 11)
            found[name] += asyncio.run(_in_turn(where, whose, calls=10))
    through, without = (statistics.median(found[name]) for name in ("through", "without"))
    return {"through": through, "without": without, "added": through - without}


@contextmanager
def going_on(
    provider: StandInProvider, url: str, headers: dict[str, str], n: int
) -> Iterator[None]:
    """Have so many streams that go on, a chunk every 50 ms each, until the end."""
    over, begun = threading.Event(), threading.Barrier(n + 1)

    def hold() -> None:
        with (
            httpx2.Client(trust_env=False, timeout=60) as client,
            client.stream("POST", url, json=BODY, headers=headers) as answer,
        ):
            parts = answer.iter_raw()
            next(parts)
            begun.wait()
            while not over.is_set() and next(parts, None):
                pass

    piece = event({"id": "c", "choices": [{"index": 0, "delta": {"content": "word"}}]})
    provider.script(*[Answer.events(*[piece, 0.05] * 10_000)] * n)
    threads = [threading.Thread(target=hold) for _ in range(n)]
    for thread in threads:
        thread.start()
    begun.wait()
    yield
    over.set()
    for thread in threads:
        thread.join()


def measured(*, streams: int, calls: int, delay_ms: float, folder: str | None) -> dict[str, Any]:
    """Measure, and return the numbers; milliseconds and MiB."""
    in_memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    found: dict[str, Any] = {"plane_ms": delay_ms}
    with StandInProvider() as provider, tempfile.TemporaryDirectory(dir=folder) as at:
        with gateway_before(provider, at, delay_ms) as (url, headers, memory):
            found["call_ms"] = _compared(provider, url, headers, calls)
            provider.script(*[lambda _: streamed()] * PARALLEL)
            asyncio.run(_at_once(url, headers, streams=PARALLEL))
            now, most = memory()
            found["parallel_mib"] = {"calls": PARALLEL, "now": now, "most": most}
            provider.script(
                Answer(parts=(b'{"x":"', *[b"x" * 65536] * (LARGE_BYTES // 65536 + 1), b'"}'))
            )
            rate = asyncio.run(_large(url, headers))
            found["large_mib_s"] = {"rate": rate, "grown_mib": memory()[1] - most}
    with StandInProvider() as provider, tempfile.TemporaryDirectory(dir=in_memory) as at:
        with (
            gateway_before(provider, at, 0.0) as (url, headers, _),
            going_on(provider, url, headers, streams),
        ):
            found["first_byte_ms"] = _compared(provider, url, headers, calls)
    return found


def main() -> None:
    """Print the numbers."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--streams", type=int, default=16)
    options.add_argument("--calls", type=int, default=100)
    options.add_argument("--plane-ms", type=float, default=0.0, help="what a route takes")
    options.add_argument("--folder", help="where the journal of the calls is")
    given = options.parse_args()
    found = measured(
        streams=given.streams, calls=given.calls, delay_ms=given.plane_ms, folder=given.folder
    )
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
