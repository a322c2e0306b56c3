"""What a governed lifecycle costs: processor time by kind of process, and time by call.

Claim, route, permit, start, resolve, result, complete: one after the other, by one client, so that
what is counted is work and no waiting.
"""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from uuid_utils.compat import uuid7

#: What is called before the count begins: statements are prepared, caches are filled.
WARM_UP = 20
CALLS = ("submit", "claim", "route", "permit", "start", "resolve", "result", "complete")
RUNTIME = "command"
#: One priced model for all work, under a budget that has room.
CONFIGURATION = """
[[models]]
provider = "local"
name = "bench"
context_tokens_max = 100000
output_tokens_max = 4000

[[prices]]
provider = "local"
model = "bench"
rates = { input = 1, output = 2 }

[[policies]]
models = ["local/bench"]

[[budgets]]
scope = "global"
window = "month"
cap = 1000000
"""


class Caller(Protocol):
    """A connection that speaks JSON."""

    def post(self, path: str, body: Any, *, key: bool = False) -> Any: ...


def measure(
    submitter: Caller,
    worker: Caller,
    *,
    agent: str,
    envelope: Callable[[], Any],
    count: int,
    pids: Sequence[int],
) -> dict[str, Any]:
    """Return `core_ms` per lifecycle by kind of process, and `ms`, the median time by call.

    :param worker: sends the headers of a session once it has activated.
    :param pids: the processes that all others of the installation descend from.
    """
    session = worker.post(f"agents/{agent}/activate", _boot(), key=True)
    for _ in range(WARM_UP):
        lifecycle(submitter, worker, session, envelope(), defaultdict(list))
    took: defaultdict[str, list[float]] = defaultdict(list)
    before, client = core_seconds(pids), time.process_time()
    for _ in range(count):
        lifecycle(submitter, worker, session, envelope(), took)
    client, after = time.process_time() - client, core_seconds(pids)
    spent = {kind: after[kind] - before.get(kind, 0.0) for kind in sorted(after)}
    core_ms = {kind: round(1000 * used / count, 2) for kind, used in spent.items()}
    return {
        "lifecycles": count,
        "core_ms": {
            "governed": round(sum(core_ms.values()), 2),
            **core_ms,
            "client": round(1000 * client / count, 2),
        },
        "ms": {name: round(1000 * statistics.median(took[name]), 2) for name in CALLS},
    }


def lifecycle(
    submitter: Caller, worker: Caller, session: Any, task: Any, took: dict[str, list[float]]
) -> None:
    """Bring one task to its end by the governed way, and note how long each call took."""

    def call(name: str, api: Caller, path: str, body: Any, *, key: bool = False) -> Any:
        started = time.perf_counter()
        answer = api.post(path, body, key=key)
        took[name].append(time.perf_counter() - started)
        return answer

    worker.headers |= {  # type: ignore[attr-defined]
        "Fencepost-Session": session["session_id"],
        "Fencepost-Epoch": session["dispatcher_epoch"],
    }
    call("submit", submitter, "jobs", task)
    claimed = call("claim", worker, f"jobs/{task['task_id']}/claim", {"runtime": RUNTIME})
    execution = identity(task["task_id"], claimed)
    binding = {
        "task_id": task["task_id"],
        "attempt": claimed["attempt"],
        "fencing_token": claimed["fencing_token"],
        "external_request_id": execution,
    }
    asked = {"estimated_input_tokens": 1000, "max_output_tokens": 500}
    routed = call(
        "route", worker, "routes", binding | asked | {"route_request_id": f"{execution}:model"}
    )
    reservation = routed["reservation"]["reservation_id"]
    wanted = {"reservation_id": reservation, "mode": "mock"}
    revision = {"expected_revision": claimed["job"]["revision"]}
    permit = call("permit", worker, "executions/permits", binding | wanted | revision, key=True)
    digest = {"execution_digest": claimed["execution_digest"]}
    start = {"permit_id": permit["permit_id"], "runtime": RUNTIME, "request_sha256": "0" * 64}
    call("start", worker, "executions", binding | digest | start, key=True)
    usage = {"input_tokens": 900, "output_tokens": 400}
    end = binding | {"end": "settled", "usage": usage}
    call("resolve", worker, f"reservations/{reservation}/resolve", end)
    authority = {name: binding[name] for name in ("task_id", "attempt", "fencing_token")}
    result = {"outcome": "succeeded", "result_sha256": "0" * 64, "usage": usage}
    call("result", worker, f"executions/{execution}/result", authority | digest | result)
    done = {name: binding[name] for name in ("attempt", "fencing_token")} | {"result": {"x": 1}}
    call("complete", worker, f"jobs/{task['task_id']}/complete", done)


def identity(task_id: str, claimed: Any) -> str:
    """Return the `external_request_id` of a claim; contract, section 5."""
    said = {
        "task_id": task_id,
        "job_id": claimed["job"]["job_id"],
        "execution_digest": claimed["execution_digest"],
        "runtime": RUNTIME,
        "attempt": claimed["attempt"],
    }
    canonical = json.dumps(said, sort_keys=True, separators=(",", ":"))
    return f"xr_{hashlib.sha256(canonical.encode()).hexdigest()}"


def _boot() -> dict[str, Any]:
    return {
        "activation_operation_id": str(uuid7()),
        "cell_id": "bench",
        "boot_id": str(uuid7()),
        "protocol_version": "1.0",
        "runtime": RUNTIME,
        "capabilities": {},
    }


def core_seconds(pids: Sequence[int]) -> dict[str, float]:
    """Return the processor time of processes and all that descend from them, by kind of process."""
    spent: defaultdict[str, float] = defaultdict(float)
    ticks = os.sysconf("SC_CLK_TCK")
    for child in _descendants(pids):
        try:
            stat = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
            command = Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        # Its own, and that of those of its children that have ended.
        spent[_kind(command)] += sum(map(int, stat[11:15])) / ticks
    return dict(spent)


def _kind(command: str) -> str:
    if "postgres" in command.split(" ")[0]:
        return "database"
    return "web" if "gunicorn" in command else "other"


def _descendants(pids: Sequence[int]) -> Iterator[int]:
    children: defaultdict[int, list[int]] = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children[int(stat[1])].append(int(entry.name))
    waiting = list(pids)
    while waiting:
        found = waiting.pop()
        yield found
        waiting.extend(children[found])
