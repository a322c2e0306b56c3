"""A worker of functions before a scripted control plane."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost_worker import Worker
from tests.worker.conftest import PATIENCE_SECONDS, TOKEN, ScriptedPlane

TYPE = "artifact_production"
SESSION = {
    "session_id": "0190aaaa-0000-7000-8000-000000000001",
    "dispatcher_epoch": "0190eeee-0000-7000-8000-000000000001",
    "state": "current",
}
SKILL = {
    "skill_id": 7,
    "task_type": "artifact_production",
    "context_type": "csv",
    "pattern": "read the header first",
    "tool_sequence": ["read"],
    "occurrences": 3,
    "successes": 2,
    "failures": 1,
    "confidence": 0.7,
    "updated_at": "2026-01-01T00:00:00Z",
}


def outcome(plane: ScriptedPlane, worker: Worker, *, task_id: str = "task-1") -> tuple[str, Any]:
    """Run the worker on one job and return how the attempt ended."""
    plane.add_job(task_id, inputs={"pages": 3})
    worker.run(max_jobs=1)
    return plane.outcome_of(task_id)


def beats(plane: ScriptedPlane) -> list[dict[str, Any]]:
    """Return the beats that the plane has heard."""
    return [beat for seen in plane.calls("/v1/leases/heartbeat") for beat in seen.body["leases"]]


@pytest.fixture(autouse=True)
def served(plane: ScriptedPlane) -> ScriptedPlane:
    """Teach the control plane what a worker of functions asks for besides."""
    plane.routes["/activate$"] = lambda seen: (200, SESSION)
    plane.routes["/v1/hermes/skills"] = lambda seen: (200, [SKILL, {"odd": True}])
    return plane


@pytest.fixture
def options(plane: ScriptedPlane, tmp_path: Path) -> dict[str, object]:
    """Return the options of a worker."""
    return {
        "url": plane.url,
        "agent": "hermes",
        "token": TOKEN,
        "data": tmp_path / "data",
        "wait_seconds": 1,
    }


@pytest.fixture
def worker(options: dict[str, object]) -> Worker:
    """Return a worker without functions."""
    return Worker(**options)  # type: ignore[arg-type]


@pytest.fixture
def running() -> Iterator[Callable[..., threading.Thread]]:
    """Return a function that runs a worker in a thread of the test."""
    started: list[tuple[Worker, threading.Thread]] = []

    def run(worker: Worker, **how: object) -> threading.Thread:
        thread = threading.Thread(target=worker.run, kwargs=how, daemon=True)
        thread.start()
        started.append((worker, thread))
        return thread

    yield run
    for worker, thread in started:
        worker.abort()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive(), "the worker did not end"
