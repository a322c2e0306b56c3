"""What the gateway reaches: the control plane, on threads of its own, and the providers."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

import httpx2

from fencepost_worker.client import ControlPlane
from fencepost_worker.gateway.origins import Origins
from fencepost_worker.gateway.providers import Provider, Providers

#: Calls of the control plane, and marks on disk, at a time.
THREADS = 32
CONNECT_SECONDS = 10.0
#: Providers close idle connections after a minute and more; one that they have closed loses a call.
KEEP_ALIVE_SECONDS = 30.0
CONNECTIONS_KEPT = 64

#: What reads, hashes or rewrites a body of this size holds up all other streams.
LARGE_BODY_BYTES = 256 * 1024

P = ParamSpec("P")
T = TypeVar("T")


class Links:
    """Threads for what blocks, and a client for each provider. `closing` ends all waiting."""

    def __init__(self, plane: ControlPlane, providers: Providers) -> None:
        self.plane = plane
        self.providers = providers
        self.origins = Origins()
        self.closing = threading.Event()
        self._threads = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="gateway")
        self._clients: dict[str, httpx2.AsyncClient] = {}

    async def open(self) -> None:
        """Make the providers' clients, on the loop that uses them."""
        for provider in self.providers:
            self._clients[provider.name] = self.plane.network.async_client(
                # The lease ends what takes too long, and nothing else does.
                timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),
                limits=httpx2.Limits(
                    max_connections=None,
                    max_keepalive_connections=CONNECTIONS_KEPT,
                    keepalive_expiry=KEEP_ALIVE_SECONDS,
                ),
                # Body and headers agree, and are read as they pass.
                headers={"accept-encoding": "identity"},
            )

    async def close_clients(self) -> None:
        """Close the connections to providers."""
        for client in self._clients.values():
            await client.aclose()

    def close(self) -> None:
        """Let the threads end; those that wait for the control plane give up."""
        self.closing.set()
        self._threads.shutdown(wait=True, cancel_futures=True)

    def client(self, provider: Provider) -> httpx2.AsyncClient:
        """Return the client of a provider."""
        return self._clients[provider.name]

    async def blocking(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run on a thread what waits for disk or network."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: work(*args, **kwargs))

    async def over_body(self, body: bytes, work: Callable[[bytes], T]) -> T:
        """Return what comes of a request's body; a large one is worked on by a thread."""
        return await self.blocking(work, body) if len(body) > LARGE_BODY_BYTES else work(body)

    def carry_on(self, seconds: float) -> bool:
        """Wait so many seconds; return False when the gateway closes meanwhile."""
        return not self.closing.wait(seconds)
