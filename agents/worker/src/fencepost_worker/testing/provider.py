"""A server on raw sockets that stands in for a provider, and does what no HTTP library would.

Only raw sockets can split a character over two packets, break a body off in the middle, state a
wrong length or send one byte a second.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from fencepost_worker.gateway.faces import Endpoint, Face, endpoint_of, face_asked
from fencepost_worker.testing.answers import Answer, Counts, Part, usual

MAX_HEAD_BYTES = 64 * 1024
MAX_BODY_BYTES = 256 * 1024 * 1024
#: How often what waits looks whether the client has gone.
GLANCE_SECONDS = 0.005
START_SECONDS = 10.0
TEXT = "The stand-in says hello."

Script = Answer | Callable[["Received"], Answer]


class _Gone(Exception):
    """The client has closed its connection."""


@dataclass
class Received:
    """A request as it arrived.

    :param headers: by name in lower case; of repeated ones the last.
    :param key: of a bearer, an `x-api-key` or an `api-key`; `""` where there was none.
    :param left: the client went away before its answer was complete.
    :param answered: the answer is over, complete or not.
    """

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    left: bool = False
    answered: bool = False

    @property
    def endpoint(self) -> Endpoint | None:
        """Return the endpoint that was asked, None for one that is not governed."""
        return endpoint_of(self.method, self.path)

    @property
    def face(self) -> Face:
        """Return the face in which it asked."""
        return face_asked(self.path, self.headers)

    @property
    def key(self) -> str:
        """Return the key that was presented."""
        bearer = self.headers.get("authorization", "")
        named = self.headers.get("x-api-key") or self.headers.get("api-key")
        return named or bearer.removeprefix("Bearer ")

    @property
    def json(self) -> dict[str, Any]:
        """Return the body, read; `{}` where it is no JSON object."""
        try:
            document = json.loads(self.body)
        except ValueError:
            return {}
        return document if isinstance(document, dict) else {}


@dataclass(frozen=True)
class _Scripted:
    script: Script
    endpoint: Endpoint | None
    model: str | None

    def fits(self, request: Received) -> bool:
        model = request.json.get("model") if self.model is not None else None
        return self.endpoint in (None, request.endpoint) and self.model == model


class StandInProvider:
    """A provider on a port of loopback, in a thread of its own. Use it as a context manager.

    It answers every endpoint of both faces by itself (`text`, `counts`), or as `script` says.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        models: Iterable[str] = ("stand-in",),
        text: str = TEXT,
        counts: Counts | None = None,
        key: str | None = None,
    ) -> None:
        """Prepare a provider.

        :param port: 0 takes a free one.
        :param models: what it lists; it answers for any.
        :param text: what its models say.
        :param counts: the tokens that it says each answer has used.
        :param key: the one key that it accepts; None accepts any, and none.
        """
        self._host, self._port = host, port
        self.models, self.text, self.key = tuple(models), text, key
        self.counts = counts or Counts()
        self._requests: list[Received] = []
        self._scripts: list[_Scripted] = []
        self._changed = threading.Condition()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self._failure: OSError | None = None

    @property
    def address(self) -> str:
        """Return `http://HOST:PORT`."""
        return f"http://{self._host}:{self._port}"

    @property
    def base_url_openai(self) -> str:
        """Return what goes into `OPENAI_BASE_URL`."""
        return f"{self.address}/v1"

    @property
    def base_url_anthropic(self) -> str:
        """Return what goes into `ANTHROPIC_BASE_URL`."""
        return self.address

    @property
    def requests(self) -> list[Received]:
        """Return what was asked by now, in its order."""
        with self._changed:
            return list(self._requests)

    def script(
        self, *scripts: Script, endpoint: Endpoint | None = None, model: str | None = None
    ) -> None:
        """Answer the next requests so, one each, in this order; afterwards as by itself.

        :param scripts: answers, or functions of the request that return one.
        :param endpoint: only requests of this endpoint.
        :param model: only requests of this model.
        """
        with self._changed:
            self._scripts += [_Scripted(each, endpoint, model) for each in scripts]

    def wait_for(
        self, condition: Callable[[list[Received]], bool], *, timeout_s: float = 10.0
    ) -> bool:
        """Wait until the condition holds of the requests, and return whether it does."""
        with self._changed:
            return self._changed.wait_for(lambda: condition(self._requests), timeout_s)

    def start(self) -> StandInProvider:
        """Listen, and return itself.

        :raises OSError: the port is taken.
        """
        ready = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(ready)), name="stand-in provider", daemon=True
        )
        self._thread.start()
        ready.wait(START_SECONDS)
        if self._failure is not None:
            raise self._failure
        return self

    def close(self) -> None:
        """Break off every connection and stop listening."""
        if self._loop is not None and self._stop is not None and self._thread is not None:
            if self._thread.is_alive():
                self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()
        self._thread = None

    def __enter__(self) -> StandInProvider:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def _serve(self, ready: threading.Event) -> None:
        stop = asyncio.Event()
        self._loop, self._stop = asyncio.get_running_loop(), stop
        connections: set[asyncio.Task[None]] = set()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            connections.add(task)
            try:
                await self._talk(reader, writer)
            except (OSError, _Gone, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                pass
            except asyncio.CancelledError:
                # Python 3.11 would print each connection that an agent has kept open as a fault.
                if not stop.is_set():
                    raise
            finally:
                connections.discard(task)
                writer.transport.abort()

        try:
            server = await asyncio.start_server(
                connected, self._host, self._port, limit=MAX_HEAD_BYTES
            )
        except OSError as error:
            self._failure = error
            ready.set()
            return
        self._port = server.sockets[0].getsockname()[1]
        ready.set()
        await stop.wait()
        server.close()
        for task in tuple(connections):
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (request := await _read(reader)) is not None:
            with self._changed:
                self._requests.append(request)
                answer = self._answer_to(request)
                self._changed.notify_all()
            try:
                going_on = await _send(answer, reader, writer)
            except (OSError, _Gone):
                request.left = True
                raise
            finally:
                with self._changed:
                    request.answered = True
                    self._changed.notify_all()
            if not going_on or request.headers.get("connection", "").lower() == "close":
                return

    def _answer_to(self, request: Received) -> Answer:
        for number, scripted in enumerate(self._scripts):
            if scripted.fits(request):
                del self._scripts[number]
                script = scripted.script
                return script if isinstance(script, Answer) else _played(script, request)
        if self.key is not None and request.key != self.key:
            return Answer.error(401, "authentication_error", "The key is not known.")
        return usual(
            request.endpoint,
            request.json,
            face=request.face,
            models=self.models,
            text=self.text,
            counts=self.counts,
        )


def _played(script: Callable[[Received], Answer], request: Received) -> Answer:
    try:
        return script(request)
    except Exception as error:
        # Said to who asks, since nobody else hears it.
        return Answer.error(500, "api_error", f"the script failed: {error!r}")


async def _read(reader: asyncio.StreamReader) -> Received | None:
    """Return the next request of a connection, None at its end."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.rstrip("\r\n").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = await _read_chunks(reader)
    else:
        body = await reader.readexactly(min(int(headers.get("content-length", 0)), MAX_BODY_BYTES))
    return Received(method, path, headers, body)


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while length := int((await reader.readline()).partition(b";")[0], 16):
        body += await reader.readexactly(length)
        await reader.readline()
        if len(body) > MAX_BODY_BYTES:
            raise _Gone
    while (await reader.readline()).strip():
        pass
    return bytes(body)


async def _send(answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Send an answer, and return whether its connection can be used again.

    :raises _Gone: the client went away before the end.
    """
    if answer.status:
        writer.write(_head_of(answer))
    for part in answer.parts if answer.status else ():
        if isinstance(part, bytes):
            writer.write(_framed(part) if answer.framing == "chunked" else part)
            await writer.drain()
            # One packet each, as far as that is ours to decide.
            await asyncio.sleep(0)
        else:
            await _wait(part, reader, writer)
        _look(reader, writer)
    if answer.end == "hang":
        await _wait(threading.Event(), reader, writer)
    if answer.end != "complete" or not answer.status:
        await _flushed(writer)
        return False
    if answer.framing == "chunked":
        writer.write(b"0\r\n\r\n")
    await _flushed(writer)
    return answer.framing != "close"


def _head_of(answer: Answer) -> bytes:
    headers = dict(answer.headers)
    if answer.framing == "chunked":
        headers["transfer-encoding"] = "chunked"
    elif answer.framing == "length":
        length = sum(len(part) for part in answer.parts if isinstance(part, bytes))
        # A body that is cut promises more than it has.
        headers.setdefault("content-length", str(length + 64 * (answer.end == "cut")))
    else:
        headers["connection"] = "close"
    lines = [
        f"HTTP/1.1 {answer.status} -",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _framed(part: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(part), part) if part else b""


async def _wait(part: Part, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Wait so many seconds or for the event, as long as the client is there."""
    loop = asyncio.get_running_loop()
    until = loop.time() + part if isinstance(part, (int, float)) else None
    while not (loop.time() >= until if until is not None else _is_set(part)):
        _look(reader, writer)
        await asyncio.sleep(GLANCE_SECONDS)


def _is_set(part: Part) -> bool:
    return isinstance(part, threading.Event) and part.is_set()


def _look(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    if reader.at_eof() or writer.transport.is_closing():
        raise _Gone


async def _flushed(writer: asyncio.StreamWriter) -> None:
    """Wait until the last byte is with the system; to break off earlier would lose it."""
    while writer.transport.get_write_buffer_size():
        await asyncio.sleep(GLANCE_SECONDS)
        if writer.transport.is_closing():
            raise _Gone
