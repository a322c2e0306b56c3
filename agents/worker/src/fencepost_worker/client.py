"""Calls of the control plane over HTTP: one request, its refusal as a value, the retry rules.

A request is sent again only with the same identity (idempotency key, or task + attempt), and only
where its refusal says that this helps.  Source of the rules: the contract, section 2; of the
problem body: RFC 9457.
"""

import logging
import ssl
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from email.utils import parsedate_to_datetime
from pathlib import Path
from time import time
from typing import Any

import httpx2
from uuid_utils.compat import uuid7

from fencepost_worker import rules
from fencepost_worker.network import Complaints, Network, cause
from fencepost_worker.timing import retry_delay_s, steady_now

log = logging.getLogger("fencepost_worker")

PROTOCOL_VERSION = "1"
#: The status of what is kept as evidence, and changes nothing.
KEPT_STATUS = 202
CONNECT_TIMEOUT_SECONDS = 5.0
ANSWER_TIMEOUT_SECONDS = 30.0
#: A refusal may ask for hours (an inhibit's end); an operator may lift it long before that.
MAX_WAIT_SECONDS = 60.0

#: The rule of a refusal for want of room: the attempt is given back, and does not count.
DEFER = "defer"
TRANSIENT_CODES = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED"})
#: A refused budget is a recorded decision of this attempt: waiting within it changes nothing.
DECIDED_REASONS = frozenset({"BUDGET_EXHAUSTED"})
#: Refusals of who calls, by token or certificate: either may have been renewed meanwhile.
UNKNOWN_CALLER_REASONS = frozenset(
    {"UNAUTHENTICATED", "CLIENT_CERTIFICATE_MISMATCH", "CLIENT_CERTIFICATE_REQUIRED"}
)


@dataclass(frozen=True)
class Call:
    """One request to the control plane; sending it again means the same thing."""

    method: str
    path: str
    body: dict[str, Any] | None = None
    key: str | None = None

    def as_document(self) -> dict[str, Any]:
        """Return the form in which the call is kept on disk."""
        return {"method": self.method, "path": self.path, "body": self.body, "key": self.key}


@dataclass(frozen=True)
class Answer:
    """An answer: the JSON body, and the steady-clock instant at which it was first requested."""

    status: int
    body: dict[str, Any]
    replayed: bool
    requested_at: float


@dataclass(frozen=True)
class Problem:
    """A refusal as the control plane states it (RFC 9457 and the contract's members)."""

    status: int
    code: str
    reason: str
    detail: str
    rule: str
    effect: str
    after_seconds: float | None = None
    current: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_body(
        cls, body: dict[str, Any], *, status: int, after: float | None = None
    ) -> "Problem":
        """Read a problem body; what is missing is filled with the most careful meaning."""
        retry = body["retry"] if isinstance(body.get("retry"), dict) else {}
        seconds = retry.get("after_seconds")
        return cls(
            status=status,
            code=str(body.get("code", "")),
            reason=str(body.get("reason", "")),
            detail=str(body.get("detail", body.get("title", "")))[:2000],
            rule=str(retry.get("rule", "")),
            effect=str(body.get("effect", "unknown")),
            after_seconds=float(seconds) if isinstance(seconds, (int, float)) else after,
            current=body["current"] if isinstance(body.get("current"), dict) else {},
        )

    @classmethod
    def decided(cls, reason: Any, *, status: int) -> "Problem":
        """Return a decision against a request, which is an answer, as the problem that it is."""
        return cls(
            status=status,
            code="PERMISSION_DENIED",
            reason=str(reason or "REFUSED"),
            detail="the control plane decided against it",
            rule="stop",
            effect="none",
        )

    def as_document(self) -> dict[str, Any]:
        """Return the form in which it is kept on disk."""
        return asdict(self)

    @property
    def transient(self) -> bool:
        """Return whether the same request, sent again later, may succeed.

        A failure without a rule (a proxy's 502, an unexpected 500) leaves the effect unknown; the
        same identity again is how it becomes known.
        """
        if not self.rule:
            return self.status >= 500 or self.status == 429
        if self.rule == "same_key":
            return True
        return (
            self.rule in ("wait", "reconcile")
            and self.code in TRANSIENT_CODES
            and self.reason not in DECIDED_REASONS
        )


class Refused(Exception):
    """The control plane refused the request."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(f"{problem.status} {problem.reason or problem.code}: {problem.detail}")


class NoRoom(Refused):
    """The control plane refused to let the effect begin, for want of room: it is deferred."""


class Unreachable(Exception):
    """No answer came; whether the request arrived is not known."""


class GaveUp(Exception):
    """The wait for an answer ended before an answer came; the request may have had its effect."""


class Session:
    """The identity of the caller: an implicit session of `(agent, worker_id)`.

    The token is read from a file again when the control plane rejects it, so that a rotated
    credential is picked up without a restart.
    """

    def __init__(self, *, worker_id: str, token: str = "", token_file: Path | None = None) -> None:
        self.worker_id = worker_id
        self._token = token
        self._token_file = token_file
        # One thread mends; what it sends meanwhile may be refused, and mended, too.
        self._lock = threading.RLock()
        if token_file is not None:
            self._token = token_file.read_text().strip()

    def headers(self) -> dict[str, str]:
        """Return the headers that say who calls."""
        return {"Authorization": f"Bearer {self._token}"}

    def open(self, plane: "ControlPlane", *, wait: Callable[[float], bool]) -> None:
        """Open the session; an implicit one is open by calling.

        :raises Refused: the control plane does not let us.
        :raises GaveUp: `wait` said so.
        """
        return None

    def presence(self) -> Call | None:
        """Return the call that says that we live; None where asking for work says it."""
        return None

    def mend(
        self,
        plane: "ControlPlane",
        problem: Problem,
        *,
        sent_with: dict[str, str],
        wait: Callable[[float], bool],
    ) -> bool:
        """Renew the session after a refusal, if that helps; return whether to send the call again.

        Only the call is repeated, with its identity; never the work that it is about.

        :param sent_with: the headers under which the call was refused.
        """
        if problem.reason not in UNKNOWN_CALLER_REASONS or self._token_file is None:
            return False
        with self._lock:
            try:
                # One that is being written may be empty for a moment.
                self._token = self._token_file.read_text().strip() or self._token
            except (OSError, UnicodeError):
                log.warning("the token file cannot be read")
            return self.headers()["Authorization"] != sent_with["Authorization"]


class ControlPlane:
    """Sends calls. Thread-safe: heartbeats, jobs and the claim loop share one."""

    def __init__(
        self,
        *,
        url: str,
        session: Session,
        network: Network | None = None,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        """Make a client of the control plane.

        :param network: proxies and certificates; default those of the environment alone.
        """
        self.session = session
        self._url = url.rstrip("/")
        self._complaints = Complaints()
        #: What else of this worker reaches others does so through the same.
        self.network = network or Network()
        self._options = {} if transport is None else {"transport": transport, "mounts": None}
        self._connecting = threading.Lock()
        self._clients: list[httpx2.Client] = []
        self._proof = self.network.certificates
        self._http = self._connected()

    def close(self) -> None:
        """Close the connections."""
        for client in self._clients:
            client.close()

    def _connected(self) -> httpx2.Client:
        """Return a client without connections. Those of before end what is under way on them."""
        client = self.network.client(
            base_url=self._url,
            headers={"Fencepost-Protocol": PROTOCOL_VERSION, "Accept": "application/json"},
            **self._options,
        )
        self._clients.append(client)
        return client

    def _proves_anew(self, refused: ssl.SSLContext) -> bool:
        """Leave connections that were made with certificates of before, where there are newer.

        :param refused: the certificates under which a call was refused.
        :returns: whether calls go out under newer ones from now on.
        """
        with self._connecting:
            newest = self.network.certificates
            if self._proof is not newest:
                self._http, self._proof = self._connected(), newest
            return newest is not refused

    def send(
        self,
        call: Call,
        *,
        timeout_s: float = ANSWER_TIMEOUT_SECONDS,
        sent_with: dict[str, str] | None = None,
        listed: bool = False,
    ) -> Answer:
        """Send the call once and return its answer.

        :param timeout_s: seconds of silence after which no answer is expected any more.
        :param sent_with: the headers that say who calls; by default the session's.
        :param listed: the answer is a bare list, as older clients read it; its rows are `items`.
        :raises Refused: the control plane refused it.
        :raises Unreachable: no answer came.
        """
        requested_at = steady_now()
        headers = dict(self.session.headers() if sent_with is None else sent_with)
        if call.key is not None:
            headers["Idempotency-Key"] = call.key
        content = None
        if call.body is not None:
            content = rules.encoded(call.body)
            headers["Content-Type"] = "application/json"
        timeout = httpx2.Timeout(timeout_s, connect=min(CONNECT_TIMEOUT_SECONDS, timeout_s))
        try:
            response = self._http.request(
                call.method, call.path, content=content, headers=headers, timeout=timeout
            )
        except httpx2.HTTPError as error:
            raise Unreachable(f"{call.method} {call.path}: {cause(error, self._url)}") from error
        return _read(response, requested_at=requested_at, listed=listed)

    def deliver(
        self,
        call: Call,
        *,
        wait: Callable[[float], bool],
        timeout_s: float = ANSWER_TIMEOUT_SECONDS,
    ) -> Answer:
        """Send the call until it is answered, always with the same identity.

        :param wait: waits so many seconds; returns False when there is no use in going on.
        :raises Refused: the refusal is one that sending again does not mend.
        :raises GaveUp: `wait` said so.
        """
        failures, first_requested_at, mended = 0, steady_now(), set[str]()
        while True:
            sent_with, proof = self.session.headers(), self._proof
            try:
                answer = self.send(call, timeout_s=timeout_s, sent_with=sent_with)
                self._complaints.settle()
                return Answer(answer.status, answer.body, answer.replayed, first_requested_at)
            except Unreachable as error:
                after = 0.0
                self.complain(str(error))
            except Refused as error:
                problem = error.problem
                if problem.reason not in mended:
                    mended.add(problem.reason)
                    unknown = problem.reason in UNKNOWN_CALLER_REASONS
                    proven = unknown and self._proves_anew(proof)
                    if self.session.mend(self, problem, sent_with=sent_with, wait=wait) or proven:
                        continue
                if not problem.transient:
                    raise
                after = problem.after_seconds or 0.0
                log.warning("refused for now: %s", error)
            failures += 1
            delay = min(MAX_WAIT_SECONDS, after) + retry_delay_s(failures)
            if not wait(delay):
                raise GaveUp(f"{call.method} {call.path}")

    def complain(self, reason: str) -> None:
        """Log that no answer came; the same reason again and again only now and then."""
        if (line := self._complaints.of(reason)) is not None:
            log.warning("no answer, will send the same again: %s", line)

    def report(self, call: Call, *, wait: Callable[[float], bool]) -> Answer:
        """Deliver what became of an attempt, and see that it counts.

        What an old epoch's session says is kept and decides nothing (202). Where this session can
        be bound anew, it is, and says it again, as something new.

        :raises Refused, GaveUp: as `deliver` does.
        """
        answer = self.deliver(call, wait=wait)
        alive = self.session.presence()
        if answer.status != KEPT_STATUS or alive is None:
            return answer
        try:
            self.deliver(alive, wait=wait)
        except Refused as error:
            log.warning("what was said is kept as evidence: %s", error)
            return answer
        key = None if call.key is None else str(uuid7())
        return self.deliver(replace(call, key=key), wait=wait)


def _read(response: httpx2.Response, *, requested_at: float, listed: bool) -> Answer:
    try:
        body = response.json()
    except ValueError:
        body = None
    if response.is_success:
        if listed and isinstance(body, list):
            body = {"items": body}
        if not isinstance(body, dict):
            raise Unreachable(f"{response.request.url.path}: the answer is not a JSON object")
        replayed = response.headers.get("Idempotent-Replayed", "") == "true"
        return Answer(response.status_code, body, replayed, requested_at)
    after = _retry_after_s(response.headers.get("Retry-After"))
    problem = body if isinstance(body, dict) else {}
    raise Refused(Problem.from_body(problem, status=response.status_code, after=after))


def _retry_after_s(value: str | None) -> float | None:
    """Return the seconds of a Retry-After header, which may also be a date (RFC 9110, 10.2.3)."""
    if value is None:
        return None
    if value.strip().isdigit():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time())
    except (TypeError, ValueError):
        return None
