"""The gateway of a worker: a server on loopback, in a thread with an event loop of its own."""

import asyncio
import logging
import secrets
import socket
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import uvicorn

from fencepost_worker.client import ControlPlane, GaveUp
from fencepost_worker.gateway.app import GatewayApp
from fencepost_worker.gateway.attempts import GovernedAttempt, Spent
from fencepost_worker.gateway.environment import GATEWAY_ADDRESS, client_variables
from fencepost_worker.gateway.links import Links
from fencepost_worker.gateway.marks import CallJournal
from fencepost_worker.gateway.providers import API_KEY, Providers
from fencepost_worker.gateway.recovery import recover
from fencepost_worker.gateway.running import RunningAttempt
from fencepost_worker.timing import steady_now

log = logging.getLogger("fencepost_worker")

HOST = "127.0.0.1"
#: Official SDKs keep idle connections for 5 s: who closes first must not be us.
KEEP_ALIVE_SECONDS = 90
SHUTDOWN_SECONDS = 2
BACKLOG = 512
START_SECONDS = 30.0
LOOPBACK = "127.0.0.1,localhost,::1"

T = TypeVar("T")


class GatewayNotStarted(Exception):
    """The gateway's server did not come up; the message says why."""


@dataclass(frozen=True)
class Admitted:
    """An attempt whose program may call models.

    `key` is the attempt's own, and dies with it. `environment` is what the program is given so
    that SDKs find the gateway by themselves.
    """

    key: str
    environment: dict[str, str]
    _gateway: "Gateway"
    _running: RunningAttempt

    def end(self, why: str, *, patience_s: float | None = None) -> Spent:
        """Let no call begin any more, and wait until every open one is booked.

        Calls of a program that is gone end as they do when it leaves; where the lease has ended
        they are cut.  What is not booked in time is `open`: `recover` sends it, now or at the next
        start.

        :param why: what a program that still calls is told.
        :param patience_s: how long the control plane is waited for; None: until the gateway closes.
        """
        return self._gateway.end(self.key, self._running, why, patience_s=patience_s)


class Gateway:
    """The gateway. `admit` and `Admitted.end` may be called from any thread."""

    def __init__(self, plane: ControlPlane, providers: Providers) -> None:
        """Make a gateway that is not yet listening."""
        self._links = Links(plane, providers)
        self._plane = plane
        self._app = GatewayApp(self._links)
        self._socket: socket.socket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: uvicorn.Server | None = None
        self._thread = threading.Thread(target=self._run, name="gateway", daemon=True)
        self._ready = threading.Event()

    @property
    def address(self) -> str:
        """Return the address of the gateway, without a path.

        :raises GatewayNotStarted: it does not listen.
        """
        if self._socket is None:
            raise GatewayNotStarted("the gateway was not started")
        return f"http://{HOST}:{self._socket.getsockname()[1]}"

    def variables(self, key: str) -> dict[str, str]:
        """Return the variables by which SDKs find the gateway, with this key.

        :raises GatewayNotStarted: it does not listen.
        """
        azure = any(each.auth == API_KEY for each in self._links.providers)
        return client_variables(self.address, key, azure=azure)

    def start(self) -> None:
        """Listen on a free port of loopback.

        :raises GatewayNotStarted: it could not.
        """
        try:
            self._socket = _listening()
        except OSError as error:
            raise GatewayNotStarted(f"the gateway cannot listen on loopback: {error}") from error
        self._app.port = self._socket.getsockname()[1]
        self._thread.start()
        if not self._ready.wait(START_SECONDS) or self._loop is None:
            raise GatewayNotStarted("the gateway did not come up")

    def close(self) -> None:
        """Stop listening, and wait for nobody; what is not booked stays in the journal."""
        self._links.closing.set()
        loop, server = self._loop, self._server
        if loop is not None and server is not None and self._thread.is_alive():
            loop.call_soon_threadsafe(self._app.close)
            server.should_exit = True
            self._thread.join()
        if self._socket is not None:
            self._socket.close()
        self._links.close()

    def admit(self, attempt: GovernedAttempt) -> Admitted:
        """Let the program of an attempt call models, under a key of its own.

        What an earlier process left open of the attempt is booked first.

        :raises GaveUp, Refused: as `recover` does.
        :raises GatewayNotStarted: it does not listen.
        """
        address = self.address
        recover(attempt.folder, self._plane, attempt.binding, wait=attempt.lease.carry_on)
        journal = CallJournal(attempt.folder)
        key = f"fpg_{secrets.token_urlsafe(32)}"
        running = self._in_loop(self._app.admit(key, attempt, journal)).result()
        environment = self.variables(key) | {
            GATEWAY_ADDRESS: address,
            "NO_PROXY": LOOPBACK,
            "no_proxy": LOOPBACK,
        }
        return Admitted(key, environment, self, running)

    def end(
        self, key: str, running: RunningAttempt, why: str, *, patience_s: float | None
    ) -> Spent:
        """End an attempt's calls; see `Admitted.end`."""
        until = None if patience_s is None else steady_now() + patience_s
        spent = running.books.spent()
        if self._thread.is_alive():
            spent = self._in_loop(self._app.end(key, running, why, patience_s)).result()
        if running.tasks or not running.journal.unfinished:
            return spent
        # A route whose answer did not come before the lease ended may have been issued.
        attempt = running.attempt
        try:
            whole = recover(
                attempt.folder,
                self._plane,
                attempt.binding,
                wait=lambda seconds: self._may_wait(seconds, until),
            )
        except GaveUp:
            return replace(spent, open=running.journal.unfinished)
        return replace(
            spent, calls=whole.calls, open=0, at_a_cost=whole.at_a_cost, usage=whole.usage
        )

    def _may_wait(self, seconds: float, until: float | None) -> bool:
        """Wait so many seconds, if the time is not over before."""
        if until is not None and steady_now() + seconds >= until:
            return False
        return self._links.carry_on(seconds)

    def _in_loop(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _run(self) -> None:
        try:
            with asyncio.Runner() as runner:
                runner.run(self._serve())
        except Exception:
            log.exception("the gateway ended by a fault")
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        assert self._socket is not None
        # Breaking off an answer is a thing that we do; uvicorn would call it an error each time.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        config = uvicorn.Config(
            self._app,
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )
        self._server = uvicorn.Server(config)
        self._loop = asyncio.get_running_loop()
        self._loop.call_soon(self._ready.set)
        await self._links.open()
        try:
            await self._server.serve(sockets=[self._socket])
        finally:
            await self._app.closed(SHUTDOWN_SECONDS)
            await self._links.close_clients()


def _listening() -> socket.socket:
    """Return a socket on a free port of loopback."""
    # Only of a socket that says that it is TCP asyncio sends small parts at once: else each answer
    # waits 40 ms for an acknowledgement.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.bind((HOST, 0))
        listening.listen(BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening
