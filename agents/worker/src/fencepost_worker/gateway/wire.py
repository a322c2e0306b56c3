"""What goes over the wire beside bodies: which headers pass, and the answer to a program."""

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Protocol

Headers = list[tuple[bytes, bytes]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

#: Headers that may hold a key, of a program's request and of a provider's.
KEY_HEADERS = ("authorization", "x-api-key", "api-key")
#: Headers of a program that a provider gets to see; nothing that names the machine or the key.
PASSED_ON = frozenset(
    {
        b"accept", b"content-type", b"user-agent", b"anthropic-version", b"anthropic-beta",
        b"openai-beta", b"http-referer", b"x-title",
    }
)  # fmt: skip
PASSED_ON_PREFIX = b"x-stainless-"
#: Headers of a provider that are of its connection, or would be kept by a program as a session.
KEPT_BACK = frozenset(
    {
        b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate", b"te", b"trailer",
        b"transfer-encoding", b"upgrade", b"set-cookie", b"alt-svc", b"strict-transport-security",
        b"content-length", b"x-should-retry",
    }
)  # fmt: skip
#: A program that is told to wait longer would hang; official SDKs obey for hours.
RETRY_AFTER_SECONDS_MAX = 60
#: No provider is waited for longer; more is no number that anybody meant.
WAIT_SECONDS_MAX = 30 * 86_400.0
STATUS_MAX = 599
BAD_GATEWAY = 502
#: What our server sends in no header, though providers do.
_UNSENDABLE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_UNSENDABLE_NAME = re.compile(rb"[^!#$%&'*+.^_`|~0-9A-Za-z-]")


def passed_on(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    """Return the headers of a program's request that go to the provider."""
    return [
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, value in headers
        if name in PASSED_ON or name.startswith(PASSED_ON_PREFIX)
    ]


def passed_back(raw: Iterable[tuple[bytes, bytes]], *, status: int, whole: bool) -> Headers:
    """Return the headers of a provider's answer that go to the program.

    A final refusal tells official SDKs not to repeat it: each repetition would be a call of its
    own, with a reservation of its own.

    :param whole: the body goes on byte for byte, so that its length is known.
    """
    kept: Headers = []
    for name, value in raw:
        lower = name.lower()
        length = whole and lower == b"content-length"
        if (lower in KEPT_BACK and not length) or (status >= 400 and _too_long(lower, value)):
            continue
        if _UNSENDABLE_NAME.search(name) or _UNSENDABLE.search(value):
            continue
        kept.append((lower, value))
    if status >= 400:
        kept.append((b"x-should-retry", b"false"))
    return kept


def _too_long(name: bytes, value: bytes) -> bool:
    if name not in (b"retry-after", b"retry-after-ms"):
        return False
    try:
        seconds = float(value) / (1000 if name.endswith(b"-ms") else 1)
    except ValueError:  # a date, which may be any
        return True
    return not 0 <= seconds <= RETRY_AFTER_SECONDS_MAX


def seconds_asked(raw: Iterable[tuple[bytes, bytes]]) -> float | None:
    """Return how long a provider asks to wait, in seconds; None where it says nothing usable.

    `Retry-After` has seconds, or a date, which is reckoned from the answer's own.
    """
    named = {name.lower(): value.decode("latin-1") for name, value in raw}
    for name, unit in ((b"retry-after-ms", 1000), (b"retry-after", 1)):
        with contextlib.suppress(KeyError, ValueError):
            seconds = float(named[name]) / unit
            if 0 <= seconds <= WAIT_SECONDS_MAX:
                return seconds
    with contextlib.suppress(KeyError, ValueError, TypeError):
        at = parsedate_to_datetime(named[b"retry-after"])
        now = parsedate_to_datetime(named[b"date"]) if b"date" in named else datetime.now(UTC)
        return min(max((at - now).total_seconds(), 0.0), WAIT_SECONDS_MAX)
    return None


class Record(Protocol):
    """Who keeps an answer while it is given, also when its program has gone."""

    def start(self, status: int, headers: Headers) -> None:
        """Take status and headers."""
        ...

    def add(self, content: bytes) -> None:
        """Take a part of the body."""
        ...

    def finish(self) -> None:
        """Take the end of the body."""
        ...


class Reply:
    """The answer to a program, which may go away at any time; what is then written is nothing."""

    def __init__(self, send: Send) -> None:
        self._send_message = send
        self.record: Record | None = None
        self._left: asyncio.Future[None] | None = None
        self.started = False
        self.finished = False
        self._gone = False

    @property
    def gone(self) -> bool:
        """Return whether the program went away, or is taken for gone."""
        return self._gone

    @gone.setter
    def gone(self, gone: bool) -> None:
        self._gone = gone
        if gone:
            self.release()

    def release(self) -> None:
        """Wait no more for who does not take what was sent."""
        if self._left is not None and not self._left.done():
            self._left.set_result(None)

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        """Send a part, at the pace at which it is taken, while there is who takes it.

        A connection that nobody reads may stay open after its program has ended: a child of it
        holds it. Who is taken for gone is not waited for.
        """
        if self._left is None:
            self._left = asyncio.get_running_loop().create_future()
        sending = asyncio.ensure_future(self._send_message(message))
        try:
            await asyncio.wait({sending, self._left}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not sending.done():
                sending.cancel()
        if not sending.cancelled() and sending.done():
            sending.result()

    async def start(self, status: int, headers: Headers) -> None:
        """Send status and headers."""
        self.started = True
        if self.record is not None:
            self.record.start(status, headers)
        if not self.gone:
            known = status if 100 <= status <= STATUS_MAX else BAD_GATEWAY
            await self._send({"type": "http.response.start", "status": known, "headers": headers})

    async def write(self, content: bytes) -> None:
        """Send a part of the body, at the pace at which it is taken."""
        if self.record is not None:
            self.record.add(content)
        if content and not self.gone:
            await self._send({"type": "http.response.body", "body": content, "more_body": True})

    async def finish(self) -> None:
        """End the body. One that is never finished is broken off when the handler returns."""
        self.finished = True
        if self.record is not None:
            self.record.finish()
        if not self.gone:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def whole(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole answer."""
        length = (b"content-length", str(len(body)).encode())
        await self.start(status, [each for each in headers if each[0] != length[0]] + [length])
        await self.write(body)
        await self.finish()
