"""Hands the request to an agent behind HTTP, and takes its answer as the result.

The external request id is the agent's idempotency key.  A request is repeated only where nothing
of it was sent; whatever happens after that is an answer, or an unknown outcome.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

from fencepost_worker import rules
from fencepost_worker.adapters import RuntimeAdapter, result_of
from fencepost_worker.exchange import MAX_ANSWER_BYTES, Request, Result, ResultRefused
from fencepost_worker.executor import ExternalAgentExecutor, Grant, OutcomeUnknown
from fencepost_worker.lease import Lease
from fencepost_worker.network import Network, cause
from fencepost_worker.timing import retry_delay_s
from fencepost_worker.workspace import Workspaces

log = logging.getLogger("fencepost_worker")

CONNECT_TIMEOUT_SECONDS = 5.0
SILENCE_TIMEOUT_SECONDS = 300.0
MAX_CONNECT_TRIES = 5
#: By these the other side says that it did not take the request on, and may later.
LATER_STATUSES = frozenset({429, 503})
#: After these it may have acted, or be acting still.
UNKNOWN_STATUSES = frozenset({202, 408, 409, 425, 500, 502, 504})
#: Errors of a connection that was never made: nothing was sent.
NOT_CONNECTED = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


class NothingSent(Exception):
    """The other side could not be reached in time; no byte of the request left."""


class Declined(Exception):
    """The other side answered that it does not do this."""

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        self.retryable = status in LATER_STATUSES
        super().__init__(f"answered {status}: {text[:1000]}")


class Endpoint:
    """The other side of an effect: one address and its key."""

    def __init__(
        self,
        *,
        url: str,
        key_file: Path | None = None,
        silence_s: float = SILENCE_TIMEOUT_SECONDS,
        network: Network | None = None,
    ) -> None:
        """Make an endpoint; the key file is read for each request, so that it can be rotated.

        :param silence_s: seconds without a byte after which the outcome is unknown.
        """
        self._url = url
        self._network = network or Network()
        self._key_file = key_file
        self._timeout = httpx2.Timeout(silence_s, connect=min(CONNECT_TIMEOUT_SECONDS, silence_s))

    @contextmanager
    def post(self, request: Request, *, lease: Lease, grant: Grant) -> Iterator[httpx2.Response]:
        """Send the request once and yield the answer, its body unread.

        :raises NothingSent: there was no connection before the grant or the lease ended.
        :raises Declined: the other side said no.
        :raises OutcomeUnknown: it may have acted, and its answer was lost or says nothing.
        """
        headers = {
            "Content-Type": "application/json",
            "Idempotency-Key": request.external_request_id,
        }
        if self._key_file is not None:
            headers["Authorization"] = f"Bearer {self._key_file.read_text().strip()}"
        content = rules.encoded(request.document)
        with self._network.client(timeout=self._timeout) as client:
            outgoing = client.build_request("POST", self._url, content=content, headers=headers)
            try:
                response = _sent(client, outgoing, lease=lease, grant=grant)
                try:
                    _check_status(response)
                    yield response
                finally:
                    response.close()
            except httpx2.HTTPError as error:
                lost = f"the answer was lost: {cause(error, self._url)}"
                raise OutcomeUnknown(lost) from error


def _sent(
    client: httpx2.Client, outgoing: httpx2.Request, *, lease: Lease, grant: Grant
) -> httpx2.Response:
    why = f"{outgoing.url.host}: there was no time left"
    for tries in range(1, MAX_CONNECT_TRIES + 1):
        if grant.over or lease.ended is not None:
            break
        try:
            return client.send(outgoing, stream=True)
        except NOT_CONNECTED as error:
            why = cause(error, str(outgoing.url))
            log.warning("%s", why)
        if tries < MAX_CONNECT_TRIES and not lease.carry_on(retry_delay_s(tries)):
            break
    raise NothingSent(f"it could not be reached: {why}")


def _check_status(response: httpx2.Response) -> None:
    status = response.status_code
    if status in UNKNOWN_STATUSES or 300 <= status < 400:
        raise OutcomeUnknown(f"answered {status}, which does not say what happened")
    if not response.is_success:
        raise Declined(status, read_bounded(response).decode(errors="replace"))


def read_bounded(response: httpx2.Response) -> bytes:
    """Return the body.

    :raises ResultRefused: it is larger than an answer may be.
    """
    content = bytearray()
    for chunk in response.iter_bytes():
        content += chunk
        if len(content) > MAX_ANSWER_BYTES:
            message = f"the answer is larger than {MAX_ANSWER_BYTES} bytes"
            raise ResultRefused(message, code="OUTPUT_TOO_LARGE")
    return bytes(content)


def under_lease(lease: Lease, effect: Callable[[], Result]) -> Result:
    """Run the effect on a thread of its own and wait for it while the lease lasts.

    :raises OutcomeUnknown: the lease ended first. The thread is left to its time-outs; what it
        brings back is not used.
    """
    done: list[Result | BaseException] = []

    def run() -> None:
        try:
            done.append(effect())
        except BaseException as error:  # handed over to the waiting thread
            done.append(error)
        lease.poke()

    threading.Thread(target=run, name="effect", daemon=True).start()
    lease.wait(lambda: bool(done))
    if not done:
        raise OutcomeUnknown("the lease ended while the effect was under way")
    [outcome] = done
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def outcome_of(request: Request, effect: Callable[[], Result]) -> Result:
    """Run the effect and return its refusals as results.

    :raises OutcomeUnknown: as the effect does.
    """
    try:
        return effect()
    except NothingSent as error:
        return Result.failed(
            request,
            code="AGENT_UNREACHABLE",
            message=str(error),
            retryable=True,
            outcome="not_started",
        )
    except Declined as error:
        return Result.failed(
            request,
            code=f"AGENT_ANSWERED_{error.status}",
            message=str(error),
            retryable=error.retryable,
        )
    except ResultRefused as error:
        return Result.failed(request, code=error.code, message=str(error), retryable=False)


class HttpAdapter(RuntimeAdapter):
    """The `http` runtime."""

    runtime = "http"

    def __init__(
        self, *, executor: ExternalAgentExecutor, endpoint: Endpoint, workspaces: Workspaces
    ) -> None:
        """Make an adapter.

        :param workspaces: whose store keeps a result that no request carries.
        """
        super().__init__(executor=executor)
        self._endpoint = endpoint
        self._workspaces = workspaces

    def kept_artifact(self, sha256: str) -> Path | None:
        """Return where an artifact of ours is kept; those that an agent names are its own."""
        path = self._workspaces.path_of(sha256)
        return path if path.is_file() else None

    def invoke(self, request: Request, *, lease: Lease, grant: Grant) -> Result:
        """Ask the agent once; see `RuntimeAdapter.invoke`."""

        def ask() -> Result:
            with self._endpoint.post(request, lease=lease, grant=grant) as response:
                content = read_bounded(response)
            try:
                return result_of(request, rules.read(content), self._workspaces)
            except rules.NotStrict as error:
                raise ResultRefused(f"the answer is not JSON: {error.fault.detail}") from error

        return under_lease(lease, lambda: outcome_of(request, ask))
