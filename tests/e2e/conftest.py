"""What tests of workers against the real service share: its store, and what they start."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from fencepost_worker.testing import StandInProvider
from jobs import objects, wakeups

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
#: Until a process that was killed is gone.
KILLED_SECONDS = 40


@pytest.fixture
def store_of_this_test(settings, live_server, tmp_path) -> Iterator[None]:
    """Keep artifacts in the test's own folder, and hand them out by the test's own server."""
    settings.DATA_DIR = tmp_path / "plane"
    settings.PUBLIC_URL = live_server.url
    objects.store.cache_clear()
    yield
    objects.store.cache_clear()
    wakeups.close()


@pytest.fixture
def provider() -> Iterator[StandInProvider]:
    with StandInProvider(key="sk-real") as standin:
        yield standin


@pytest.fixture
def submit(live_server, submitter_token) -> Callable[..., dict]:
    """Return a function that takes in an example task over HTTP: by default one for a model."""

    def send(path: Path = EXAMPLES / "content-prep.json") -> dict:
        answer = httpx2.post(
            f"{live_server.url}/v1/jobs",
            json=json.loads(path.read_text()),
            headers={"Authorization": f"Bearer {submitter_token}"},
        )
        assert answer.is_success, answer.text
        return answer.json()

    return send


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen]]:
    """Return a list of processes; those in it are killed at the end."""
    processes: list[subprocess.Popen] = []
    yield processes
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.wait(KILLED_SECONDS)
