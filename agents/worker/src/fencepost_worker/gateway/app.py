"""The gateway's HTTP: who calls, what for, and the answer; the governing is `calls`."""

import asyncio
import hashlib
import json
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import unquote

from starlette.datastructures import Headers

from fencepost_worker.gateway import refusals
from fencepost_worker.gateway.attempts import GovernedAttempt, Spent
from fencepost_worker.gateway.bodies import Bodies, HeldBody
from fencepost_worker.gateway.booking import Desk
from fencepost_worker.gateway.calls import GovernedCall, Incoming, answer_refusal
from fencepost_worker.gateway.catalogue import Catalogue
from fencepost_worker.gateway.counting import CountTokens
from fencepost_worker.gateway.faces import Endpoint, Face, common_path, endpoint_of, face_asked
from fencepost_worker.gateway.links import Links
from fencepost_worker.gateway.marks import CallJournal
from fencepost_worker.gateway.refusals import CallRefused
from fencepost_worker.gateway.running import RunningAttempt
from fencepost_worker.gateway.wire import KEY_HEADERS, Reply, Send

log = logging.getLogger("fencepost_worker")

LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class Seat:
    """An admitted attempt with its desk."""

    def __init__(self, running: RunningAttempt, desk: Desk) -> None:
        self.running = running
        self.desk = desk


class GatewayApp:
    """The ASGI application. All of it runs on one loop."""

    def __init__(self, links: Links) -> None:
        self._links = links
        self._seats: dict[bytes, Seat] = {}
        self._attempts: set[RunningAttempt] = set()
        self._bodies = Bodies()
        #: The port that it is reached at, which a Host header must name.
        self.port = 0

    async def admit(
        self, key: str, attempt: GovernedAttempt, journal: CallJournal
    ) -> RunningAttempt:
        """Let who has this key call models for an attempt."""
        running = RunningAttempt(attempt, journal=journal)
        self._attempts.add(running)
        desk = Desk(
            attempt, plane=self._links.plane, journal=journal, carry_on=self._links.carry_on
        )
        self._seats[_digest(key)] = Seat(running, desk)
        return running

    async def end(
        self, key: str, running: RunningAttempt, why: str, seconds: float | None
    ) -> Spent:
        """Take the key back, and wait until the attempt's calls are booked."""
        self._seats.pop(_digest(key), None)
        running.close(why)
        if await running.ended(seconds):
            self._attempts.discard(running)
        return running.books.spent()

    def close(self) -> None:
        """Let no call begin any more, of any attempt, and cut what is open."""
        for running in self._attempts:
            running.close("the gateway closes")
            running.cut("the gateway closes")

    async def closed(self, seconds: float) -> None:
        """Wait until what was cut is booked, or the time is over."""
        await asyncio.gather(*(running.ended(seconds) for running in self._attempts))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        reply, headers = Reply(send), Headers(scope=scope)
        face = face_asked(scope["path"], headers)
        try:
            seat = self._seat(headers)
            endpoint = endpoint_of(scope["method"], scope["path"])
            if endpoint is None:
                message = f"{scope['method']} {scope['path']} is not governed, and not passed on."
                raise CallRefused(403, refusals.NOT_GOVERNED, message)
            if endpoint is Endpoint.MODELS:
                await self._models(seat, common_path(scope["path"])[0], face, reply)
                return
            await self._read_and_call(seat, endpoint, face, scope, receive, reply)
        except CallRefused as refusal:
            await answer_refusal(reply, face, refusal)

    async def _read_and_call(
        self,
        seat: Seat,
        endpoint: Endpoint,
        face: Face,
        scope: Scope,
        receive: Receive,
        reply: Reply,
    ) -> None:
        """Read a request's body, and make its call; the body's room is held until it is booked."""
        held = self._bodies.begin(seat)
        path, deployment = common_path(scope["path"])
        try:
            incoming = Incoming(
                endpoint=endpoint,
                face=face,
                path=path,
                deployment=deployment,
                query=scope["query_string"].decode("latin-1"),
                headers=scope["headers"],
                body=await _read_body(receive, held),
            )
            task, call = self._begin(seat, incoming, reply)
        except BaseException:
            held.release()
            raise
        task.add_done_callback(lambda _: held.release())
        watching = asyncio.ensure_future(_watch(receive, call))
        try:
            await call.answered.wait()
        finally:
            watching.cancel()

    def _begin(
        self, seat: Seat, incoming: Incoming, reply: Reply
    ) -> tuple[asyncio.Task[None], GovernedCall | CountTokens]:
        """Begin a call in a task of its own, which the connection's end does not end."""
        kind = GovernedCall if incoming.endpoint.spends else CountTokens
        call = kind(incoming, running=seat.running, desk=seat.desk, links=self._links, reply=reply)
        task = asyncio.get_running_loop().create_task(call.run())
        seat.running.tasks.add(task)
        task.add_done_callback(seat.running.tasks.discard)
        return task, call

    def _seat(self, headers: Headers) -> Seat:
        """Return the attempt whose key a request has.

        :raises CallRefused: it has none, or does not come from a program of this machine.
        """
        host = headers.get("host", "")
        name, _, port = host.rpartition(":")
        if name not in LOOPBACK_NAMES or port != str(self.port) or "origin" in headers:
            message = "The gateway answers programs of this machine alone, at its own address."
            raise CallRefused(403, "HOST_NOT_ALLOWED", message)
        for header in KEY_HEADERS:
            key = headers.get(header, "").removeprefix("Bearer ").strip()
            if key and (seat := self._seats.get(_digest(key))):
                return seat
        raise CallRefused(401, "UNAUTHENTICATED", "The key is of no attempt that may call models.")

    async def _models(self, seat: Seat, path: str, face: Face, reply: Reply) -> None:
        catalogue = Catalogue(seat.running.attempt.models, self._links.providers)
        name = unquote(path.removeprefix("/v1/models").strip("/"))
        document = catalogue.one(name, face) if name else catalogue.all(face)
        if document is None:
            raise CallRefused(404, "MODEL_NOT_ALLOWED", "The policy allows no model of that name.")
        content = json.dumps(document).encode()
        await reply.whole(200, [(b"content-type", b"application/json")], content)


async def _read_body(receive: Receive, held: HeldBody) -> bytes:
    """Return a request's body, whose room is taken as it comes.

    :raises CallRefused: it is too large, by itself or with others; it is read no further.
    """
    parts = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise CallRefused(400, "REQUEST_UNREADABLE", "The request broke off.")
        part = message.get("body", b"")
        held.grow(len(part))
        parts += part
        if not message.get("more_body", False):
            return bytes(parts)


async def _watch(receive: Receive, call: GovernedCall | CountTokens) -> None:
    """Tell a call when its program goes away; servers tell only who asks."""
    while (await receive())["type"] != "http.disconnect":
        pass
    call.leave()


def _digest(key: str) -> bytes:
    # Looked up by its digest, a key is not found out by how long the look-up takes.
    return hashlib.sha256(key.encode()).digest()
