"""Artifacts on their way to the object store: grant, put, acceptance; contract 4.

The bytes go to the store and never through the control plane.  Each grant's call and key are
durable in the exchange before they are sent, so a restarted worker asks for the same grant, and
finds what it had put already accepted.  Putting is safe to repeat: a grant creates one object of
one size and checksum, or nothing.
"""

import enum
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import httpx2
from uuid_utils.compat import uuid7

from fencepost_worker.claim import Claim
from fencepost_worker.client import Call, ControlPlane, GaveUp, Problem, Refused
from fencepost_worker.exchange import Exchange, Result
from fencepost_worker.lease import Ended, Lease, LeaseEnded
from fencepost_worker.network import Network, cause
from fencepost_worker.timing import retry_delay_s, steady_now
from fencepost_worker.workspace import DEFAULT_MEDIA_TYPE

log = logging.getLogger("fencepost_worker")

#: A grant that the store turns down is asked for anew, but not for ever.
GRANTS_MAX = 3
CONNECT_TIMEOUT_SECONDS = 5.0
#: Silence of the store, while it takes bytes in or makes up its mind.
STORE_TIMEOUT_SECONDS = 60.0
CHUNK_BYTES = 1024 * 1024
#: Answers that say nothing about the grant: the same again may do.
BUSY_STATUSES = frozenset({408, 409, 425, 429})
#: `If-None-Match: *` found an object; whether it is the right one is judged on acceptance.
THERE_ALREADY = 412
#: The store does not hold the object that was granted.
NOT_STORED_REASONS = frozenset({"CHECKSUM_MISMATCH", "GRANT_EXPIRED"})
MEDIA_TYPE = re.compile(r"[a-z0-9.+-]+/[a-z0-9.+-]+")
MAX_MEDIA_TYPE_CHARS = 100
#: Of the pointer of an artifact that the store has.
STORED_PREFIX = "artifact:"


class Undelivered(Exception):
    """An artifact did not reach the store, so the attempt has not delivered."""

    def __init__(self, detail: str, *, retryable: bool = True) -> None:
        self.retryable = retryable
        super().__init__(detail)


class Postponed(Exception):
    """It cannot be told now; the next start of the worker takes the attempt up again."""


class Sent(enum.Enum):
    """The outcome of one request to the store."""

    STORED = "stored"
    UNKNOWN = "unknown"
    TURNED_DOWN = "turned down"


@dataclass(frozen=True)
class Granted:
    """The request that the store expects: these headers, these bytes, once.

    `url` is empty where the grant is of before and lets nobody put anything any more.
    """

    upload_id: str
    url: str
    headers: dict[str, str]

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Self:
        """Read a grant.

        :raises Undelivered: it is not one that this worker understands.
        """
        upload_id, url = document.get("upload_id"), document.get("url", 0)
        url = "" if url is None else url
        headers = document.get("headers")
        if not (isinstance(upload_id, str) and isinstance(url, str) and isinstance(headers, dict)):
            raise Undelivered("the grant cannot be read")
        if document.get("method", "PUT") != "PUT":
            raise Undelivered(f"the grant wants {document['method']!r:.20}")
        return cls(upload_id, url, {str(name): str(value) for name, value in headers.items()})


@dataclass(frozen=True)
class Artifact:
    """One kept file, as it is described to the control plane."""

    number: int
    path: Path
    name: str
    media_type: str
    size_bytes: int
    sha256: str

    @classmethod
    def of(cls, number: int, described: dict[str, Any], path: Path) -> Self:
        """Take the description that the workspace gave; `number` counts the result's artifacts."""
        media_type = str(described.get("media_type", "")).partition(";")[0].strip().lower()
        known = MEDIA_TYPE.fullmatch(media_type) and len(media_type) <= MAX_MEDIA_TYPE_CHARS
        return cls(
            number=number,
            path=path,
            name=stored_name(described["name"]),
            media_type=media_type if known else DEFAULT_MEDIA_TYPE,
            size_bytes=described["size_bytes"],
            sha256=described["sha256"],
        )

    @property
    def content(self) -> dict[str, Any]:
        """Return the members that the acceptance compares."""
        return {"sha256": self.sha256, "size_bytes": self.size_bytes}


def stored_name(name: str) -> str:
    """Return the name as one without a folder: the store keeps files side by side."""
    bare = re.sub(r"[/\\]", "-", name)
    seen = "".join(char if char.isprintable() else "_" for char in bare)
    return seen if seen.strip() else "_"


class Uploads:
    """Takes the artifacts of results to the store. Thread-safe."""

    def __init__(self, *, plane: ControlPlane, network: Network | None = None) -> None:
        self._plane = plane
        self._network = network or Network()

    def deliver(
        self,
        claim: Claim,
        result: Result,
        *,
        exchange: Exchange,
        path_of: Callable[[str], Path | None],
        lease: Lease,
    ) -> Result:
        """Return the result with pointers to its artifacts, once the store has all of them.

        Tries for the length of one lease, while this one lasts.

        :param path_of: where a kept artifact is, by checksum; None for one that is not kept here.
        :raises Undelivered: one did not get there.
        :raises Postponed: the worker is being stopped.
        """
        described = []
        with self._delivery(claim, exchange, lease) as delivery:
            for number, artifact in enumerate(result.document["artifacts"], 1):
                sha256 = artifact.get("sha256")
                path = path_of(sha256) if sha256 and not is_stored(artifact) else None
                if path is not None:
                    artifact = delivery.stored(number, artifact, path)
                described.append(artifact)
        return Result(result.document | {"artifacts": described})

    def store(
        self,
        claim: Claim,
        described: dict[str, Any],
        *,
        number: int,
        path: Path,
        exchange: Exchange,
        lease: Lease,
    ) -> dict[str, Any]:
        """Return the description of one artifact with its pointer, once the store has it.

        It may be called while the work goes on, and `deliver` then finds it done: both know an
        artifact by its `number`, its place in the result.

        :raises Undelivered, Postponed: as `deliver` does.
        """
        with self._delivery(claim, exchange, lease) as delivery:
            return delivery.stored(number, described, path)

    @contextmanager
    def _delivery(self, claim: Claim, exchange: Exchange, lease: Lease) -> Iterator["_Delivery"]:
        until = steady_now() + claim.terms.ttl_seconds

        def wait(seconds: float) -> bool:
            left = until - steady_now()
            return left > 0 and lease.carry_on(min(seconds, left)) and steady_now() < until

        try:
            with self._network.client() as store:
                yield _Delivery(self._plane, store, claim, exchange, lease, wait)
        except (GaveUp, LeaseEnded) as error:
            if lease.ended is Ended.ABORTED:
                raise Postponed from error
            raise Undelivered(f"the time for uploads was over: {error}") from error
        except Refused as error:
            raise _undelivered(error.problem) from error
        except OSError as error:
            raise Undelivered(f"a kept artifact cannot be read: {error.strerror}") from error


def is_stored(described: dict[str, Any]) -> bool:
    """Return whether the store has the artifact already, by its description of the worker's."""
    return str(described.get("pointer") or "").startswith(STORED_PREFIX)


@dataclass(frozen=True)
class _Delivery:
    """The delivery of one attempt's artifacts to the store."""

    plane: ControlPlane
    store: httpx2.Client
    claim: Claim
    exchange: Exchange
    lease: Lease
    wait: Callable[[float], bool]

    def stored(self, number: int, described: dict[str, Any], path: Path) -> dict[str, Any]:
        """Return the description of an artifact with its pointer, once it is accepted."""
        artifact_id = self.complete(Artifact.of(number, described, path))
        return described | {"pointer": f"{STORED_PREFIX}{artifact_id}"}

    def complete(self, artifact: Artifact) -> str:
        """Return the id of the artifact, once it is accepted."""
        for turn in range(1, GRANTS_MAX + 1):
            granted, repeated = self._grant(artifact, turn)
            # An earlier process may have put it; asking is cheaper than sending all of it again.
            accepted = self._accepted(granted, artifact) if repeated else None
            accepted = accepted or self._put_and_accepted(granted, artifact)
            if accepted is not None:
                return accepted
            self._pause(turn, f"the store turned down {artifact.name}")
        raise Undelivered(f"{artifact.name}: the store took it under none of {GRANTS_MAX} grants")

    def _grant(self, artifact: Artifact, turn: int) -> tuple[Granted, bool]:
        body = self._authority | artifact.content
        body |= {"name": artifact.name, "media_type": artifact.media_type}
        new = Call("POST", "/v1/uploads", body, key=str(uuid7()))
        call, repeated = self.exchange.once(f"upload-{artifact.number}-{turn}", new)
        answer = self.plane.deliver(call, wait=self.wait)
        return Granted.from_document(answer.body), repeated

    def _put_and_accepted(self, granted: Granted, artifact: Artifact) -> str | None:
        """Return the accepted artifact's id; None where this grant leads nowhere."""
        failures = 0
        while (sent := self._put(granted, artifact)) is not Sent.TURNED_DOWN:
            # Also after a lost answer: an object that is there already may cost the connection.
            accepted = self._accepted(granted, artifact)
            if accepted is not None or sent is Sent.STORED:
                return accepted
            failures += 1
            self._pause(failures, f"the store did not take {artifact.name}")
        return None

    def _put(self, granted: Granted, artifact: Artifact) -> Sent:
        if not granted.url:
            return Sent.TURNED_DOWN
        timeout = httpx2.Timeout(STORE_TIMEOUT_SECONDS, connect=CONNECT_TIMEOUT_SECONDS)
        try:
            # A request of its own making has no header but the granted ones, least of all a token.
            request = httpx2.Request(
                "PUT",
                granted.url,
                headers=granted.headers,
                content=_chunks(artifact.path, self.lease),
                extensions={"timeout": timeout.as_dict()},
            )
            with closing(self.store.send(request, stream=True)) as response:
                status = response.status_code
        except httpx2.InvalidURL as error:
            raise Undelivered("the grant's address cannot be read") from error
        except httpx2.HTTPError as error:
            log.warning("the store gave no answer: %s", cause(error, granted.url))
            return Sent.UNKNOWN
        if 200 <= status < 300 or status == THERE_ALREADY:
            return Sent.STORED
        log.warning("the store answered %s", status)
        return Sent.UNKNOWN if status >= 500 or status in BUSY_STATUSES else Sent.TURNED_DOWN

    def _accepted(self, granted: Granted, artifact: Artifact) -> str | None:
        """Return the artifact's id; None when the store does not hold what was granted."""
        # A key of its own each time: an accepted upload is known by its id and checksum, and a
        # refusal kept under a key would be repeated when the object is there at last.
        path = f"/v1/uploads/{granted.upload_id}/complete"
        call = Call("POST", path, self._authority | artifact.content, key=str(uuid7()))
        try:
            answer = self.plane.deliver(call, wait=self.wait)
        except Refused as error:
            if error.problem.reason not in NOT_STORED_REASONS:
                raise
            return None
        artifact_id = str(answer.body.get("artifact_id"))
        outcome = answer.body.get("outcome")
        log.info("%s: artifact %s %s", self.claim.task_id, artifact.name, outcome)
        return artifact_id

    def _pause(self, failures: int, why: str) -> None:
        if not self.wait(retry_delay_s(failures)):
            raise GaveUp(why)

    @property
    def _authority(self) -> dict[str, Any]:
        return {"task_id": self.claim.task_id} | self.claim.authority


def _chunks(path: Path, lease: Lease) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            lease.check()
            yield chunk


def _undelivered(problem: Problem) -> Undelivered:
    detail = f"{problem.reason or problem.code}: {problem.detail}"
    return Undelivered(detail, retryable=problem.rule not in ("stop", "never", "read"))
