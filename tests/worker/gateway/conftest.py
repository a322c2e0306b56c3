"""A gateway before a scripted control plane and a stand-in provider."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from fencepost_worker.claim import Claim
from fencepost_worker.client import ControlPlane
from fencepost_worker.gateway.attempts import GovernedAttempt
from fencepost_worker.gateway.providers import Providers, providers_of
from fencepost_worker.gateway.server import Admitted, Gateway
from fencepost_worker.testing import Counts, StandInProvider
from tests.worker.conftest import ScriptedPlane
from tests.worker.gateway.attempts import attempt_of
from tests.worker.gateway.books import MODELS, Books

PROVIDER_KEY = "sk-of-the-provider"


@pytest.fixture
def books(plane: ScriptedPlane) -> Books:
    return Books().serve(plane)


@pytest.fixture
def attempt(make_claim: Callable[..., Claim], tmp_path: Path) -> Callable[..., GovernedAttempt]:
    """Return a function that makes an attempt under a lease of its own."""

    def make(task_id: str = "task-1", **over: Any) -> GovernedAttempt:
        folder = tmp_path / "calls" / task_id
        return attempt_of(make_claim(task_id), folder, **{"models": MODELS} | over)

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


def tables_of(provider: StandInProvider, folder: Path, over: dict[str, Any]) -> Providers:
    """Return the two providers of the tests, who are one stand-in."""
    (folder / "key").write_text(PROVIDER_KEY)
    tables = {
        "openai": {"api": "openai", "base_url": provider.base_url_openai, "api_key_file": "key"},
        "anthropic": {
            "api": "anthropic",
            "base_url": provider.base_url_anthropic,
            "api_key_file": "key",
        },
    }
    for name, options in over.items():
        tables.setdefault(name, {}).update(options)
    return providers_of(tables, folder=folder, environ={})


@pytest.fixture
def provider() -> Iterator[StandInProvider]:
    with StandInProvider(counts=Counts(input=7, output=3)) as provider:
        yield provider


@dataclass
class Table:
    """A program's place at the gateway, with all that is around it."""

    gateway: Gateway
    attempt: GovernedAttempt
    admitted: Admitted
    provider: StandInProvider
    books: Books
    plane: ScriptedPlane

    @property
    def address(self) -> str:
        """Return the address of the gateway."""
        return self.gateway.address

    def openai(self, **over: Any) -> openai.OpenAI:
        """Return the official client, as it makes itself from the environment."""
        environment = self.admitted.environment
        return openai.OpenAI(
            base_url=environment["OPENAI_BASE_URL"], api_key=environment["OPENAI_API_KEY"], **over
        )

    def anthropic(self, **over: Any) -> anthropic.Anthropic:
        """Return the official client, as it makes itself from the environment."""
        environment = self.admitted.environment
        return anthropic.Anthropic(
            base_url=environment["ANTHROPIC_BASE_URL"],
            api_key=environment["ANTHROPIC_API_KEY"],
            **over,
        )

    def ask(
        self,
        path: str = "/v1/chat/completions",
        method: str = "POST",
        *,
        timeout: float = 20,
        **over: Any,
    ) -> httpx2.Response:
        """Send a request as a program that has the key, and return the whole answer."""
        headers = {"authorization": f"Bearer {self.admitted.key}"} | over.pop("headers", {})
        return httpx2.request(
            method, self.address + path, headers=headers, timeout=timeout, trust_env=False, **over
        )


@pytest.fixture
def table(
    start_gateway: Callable[[Providers], Gateway],
    attempt: Callable[..., GovernedAttempt],
    provider: StandInProvider,
    books: Books,
    plane: ScriptedPlane,
    tmp_path: Path,
) -> Callable[..., Table]:
    """Return a function that admits an attempt at a gateway before the stand-in provider.

    `providers` are options of the providers of the tests, by their names.
    """

    def make(task_id: str = "task-1", *, providers: Any = None, **over: Any) -> Table:
        gateway = start_gateway(tables_of(provider, tmp_path, providers or {}))
        made = attempt(task_id, **over)
        return Table(gateway, made, gateway.admit(made), provider, books, plane)

    return make
