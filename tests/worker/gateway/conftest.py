"""A gateway before a scripted control plane and a stand-in provider."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost_worker.claim import Claim, Job
from fencepost_worker.client import ControlPlane
from fencepost_worker.gateway.attempts import GovernedAttempt
from fencepost_worker.gateway.providers import Providers, providers_of
from fencepost_worker.gateway.server import Gateway
from fencepost_worker.identity import external_request_id
from fencepost_worker.lease import Lease
from fencepost_worker.timing import steady_now
from tests.worker.conftest import ScriptedPlane
from tests.worker.gateway.books import MODELS, Books

PROVIDER_KEY = "sk-of-the-provider"


@pytest.fixture
def books(plane: ScriptedPlane) -> Books:
    return Books().serve(plane)


@pytest.fixture
def attempt(make_claim: Callable[..., Claim], tmp_path: Path) -> Callable[..., GovernedAttempt]:
    """Return a function that makes an attempt under a lease of its own."""

    def make(task_id: str = "task-1", **over: Any) -> GovernedAttempt:
        claim = make_claim(task_id)
        lease = Lease(
            task_id=claim.task_id,
            attempt=claim.attempt,
            fencing_token=claim.fencing_token,
            terms=claim.terms,
            requested_at=steady_now(),
        )
        request_id = external_request_id(
            task_id=claim.task_id,
            job_id=claim.job_id,
            execution_digest=claim.execution_digest,
            runtime="command",
            attempt=claim.attempt,
        )
        return GovernedAttempt(
            job=Job(claim, {}),
            lease=lease,
            external_request_id=request_id,
            folder=tmp_path / "calls" / task_id,
            models=over.pop("models", MODELS),
            **over,
        )

    return make


@pytest.fixture
def start_gateway(client: ControlPlane) -> Iterator[Callable[[Providers], Gateway]]:
    """Return a function that starts a gateway."""
    started: list[Gateway] = []

    def start(providers: Providers) -> Gateway:
        gateway = Gateway(client, providers)
        gateway.start()
        started.append(gateway)
        return gateway

    yield start
    for gateway in started:
        gateway.close()


def tables_of(openai: str, anthropic: str, folder: Path, **over: Any) -> Providers:
    """Return the two providers of the tests, whose addresses these are."""
    (folder / "key").write_text(PROVIDER_KEY)
    tables = {
        "openai": {"api": "openai", "base_url": openai, "api_key_file": "key"},
        "anthropic": {"api": "anthropic", "base_url": anthropic, "api_key_file": "key"},
    }
    for name, options in over.items():
        tables[name] |= options
    return providers_of(tables, folder=folder, environ={})


