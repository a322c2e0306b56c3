"""One request to a provider, and its answer on the way to the program, chunk by chunk.

What has not been passed on can still be answered otherwise; so the beginning of an answer is held
back until output begins, a refusal is read or `HOLD_SECONDS` are over.  What has begun is passed on
as it comes, at the pace at which it is taken, and is never ended cleanly where it was cut.
"""

import asyncio
import contextlib
import logging
import zlib
from collections.abc import AsyncIterator
from typing import Any

import httpx2

from fencepost_worker.gateway.faces import Endpoint
from fencepost_worker.gateway.problems import error_event
from fencepost_worker.gateway.readings import Reading
from fencepost_worker.gateway.refusals import ANSWER_LOST, ATTEMPT_ENDED
from fencepost_worker.gateway.tap import Tap
from fencepost_worker.gateway.verdicts import Cut
from fencepost_worker.gateway.wire import KEY_HEADERS, Reply, passed_back, seconds_asked

log = logging.getLogger("fencepost_worker")

HOLD_SECONDS = 2.0
DECODED_BYTES_MAX = 4 * 1024 * 1024
HOLD_BYTES_MAX = 64 * 1024
#: Of a refusal so much is read; what is longer is no refusal of a model's provider.
REFUSAL_BYTES_MAX = 1024 * 1024
#: So long is waited for a program that takes nothing, to tell it that its answer is cut.
LAST_WORD_SECONDS = 1.0
#: Why a call is cut whose program has left; any other reason is the end of its attempt.
CLIENT_LEFT = "the program went away"
KEY_REMOVED = b"[removed]"
EVENT_STREAM = "text/event-stream"
#: Faults of a client before a byte of the request has gone out.
NEVER_SENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
    httpx2.LocalProtocolError,
)


class Forwarding:
    """An exchange with a provider.

    After `run`: `status` of the answer, None where none came; `head`, the beginning of its body
    that was not passed on; `sent`, whether the provider may have got the request; `lost`, whether
    the answer broke off; `cut_by`, why we broke it off.
    """

    def __init__(
        self,
        client: httpx2.AsyncClient,
        request: httpx2.Request,
        *,
        endpoint: Endpoint,
        stream: bool,
        reply: Reply,
        tap: Tap,
    ) -> None:
        self._client = client
        self._request = request
        self._endpoint = endpoint
        self._stream = stream
        self._reply = reply
        self._tap = tap
        self._decoder = Decoder("")
        self._cut: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._events = False
        self.status: int | None = None
        self.raw_headers: list[tuple[bytes, bytes]] = []
        self.head = b""
        self.sent = True
        self.lost = False
        self.whole = False
        self.cut_by = ""

    @property
    def passed(self) -> bool:
        """Return whether the program got any of the answer."""
        return self._reply.started

    @property
    def reading(self) -> Reading:
        """Return what was read of the answer."""
        return self._tap.reading()

    @property
    def response_id(self) -> str:
        """Return the id that the answer has given itself by now; empty before."""
        return self._tap.account.response_id

    @property
    def cut_kind(self) -> Cut | None:
        """Return why the answer was not read to its end; None where the provider ended it."""
        if self.cut_by:
            return Cut.CLIENT_LEFT if self.cut_by == CLIENT_LEFT else Cut.FENCED
        return Cut.BROKEN_OFF if self.lost else None

    @property
    def retry_after(self) -> float | None:
        """Return the seconds that the provider asks to wait, None where it says nothing usable."""
        return seconds_asked(self.raw_headers)

    def cut(self, why: str) -> None:
        """Break it off now; the first reason stands.

        Who is done with reading keeps what it has read: a client that leaves at the news that its
        answer broke off has not broken it off.
        """
        if self._cut.done():
            return
        if not self.lost and not self.whole:
            self.cut_by = why
        self._cut.set_result(why)

    async def run(self) -> None:
        """Send the request, and pass its answer on until its end or until it is cut."""
        work = asyncio.ensure_future(self._exchange())
        try:
            # One of them ends with a word, the other without.
            ending: set[asyncio.Future[Any]] = {work, self._cut}
            await asyncio.wait(ending, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not work.done():
                work.cancel()
                await asyncio.wait({work})
        if work.cancelled():
            if not self.lost:
                await self._tell_cut(self._cut.result())
            self.lost = self.lost or not self.whole
        else:
            work.result()
        self._tap.close(cut=self.lost)

    async def pass_back(self) -> None:
        """Give the program an answer that was held back, as the provider gave it."""
        assert self.status is not None
        headers = passed_back(self.raw_headers, status=self.status, whole=False)
        await self._reply.whole(self.status, headers, self.head)

    async def _exchange(self) -> None:
        try:
            response = await self._client.send(self._request, stream=True)
        except NEVER_SENT as error:
            log.warning("a provider was not reached: %s", type(error).__name__)
            self.sent, self.lost = False, True
            return
        except httpx2.HTTPError as error:
            log.warning("a provider gave no answer: %s", type(error).__name__)
            self.lost = True
            return
        self.status, self.raw_headers = response.status_code, response.headers.raw
        self._decoder = Decoder(response.headers.get("content-encoding", ""))
        self._events = response.headers.get("content-type", "").lower().startswith(EVENT_STREAM)
        try:
            if response.is_success:
                await self._answer(response)
            else:
                await self._refusal(response)
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            log.warning("a provider's answer broke off: %s", type(error).__name__)
            self.lost = True
            await self._end_of_cut(ANSWER_LOST, "The provider's answer broke off.")
        finally:
            with contextlib.suppress(httpx2.HTTPError):
                await response.aclose()

    async def _refusal(self, response: httpx2.Response) -> None:
        """Keep the beginning of a refusal, for the verdict and for the program."""
        body = bytearray()
        async for raw in response.aiter_raw():
            body += raw
            if len(body) > REFUSAL_BYTES_MAX:
                break
        self.head = self._without_key(bytes(body[:REFUSAL_BYTES_MAX]))
        self.whole = True

    def _without_key(self, body: bytes) -> bytes:
        """Return a refusal without the key that was shown: some repeat one that they refuse."""
        shown = (self._request.headers.get(name, "") for name in KEY_HEADERS)
        for key in (each.removeprefix("Bearer ").encode() for each in shown):
            body = body.replace(key, KEY_REMOVED) if key else body
        return body

    async def _answer(self, response: httpx2.Response) -> None:
        chunks = response.aiter_raw()
        ended = await self._hold(chunks)
        if not ended:
            async for raw in chunks:
                await self._reply.write(self._read(raw))
        self.whole = True
        last = self._tap.close()
        if self.passed:
            await self._reply.write(last)
            await self._finish()
        else:
            self.head += last

    async def _finish(self) -> None:
        """End the answer as the provider has: cleanly only where it came to its own end."""
        so_far = self._tap.account
        if not self._events or so_far.ended or so_far.finished:
            await self._reply.finish()
        elif so_far.error is None:
            await self._end_of_cut(ANSWER_LOST, "The provider's stream ended before its end.")

    async def finish_held(self) -> None:
        """Give the program an answer that came to its end before any of it was passed on."""
        assert self.status is not None
        headers = passed_back(self.raw_headers, status=self.status, whole=False)
        if not self._events:
            await self._reply.whole(self.status, headers, self.head)
            return
        await self._reply.start(self.status, headers)
        await self._reply.write(self.head)
        await self._finish()

    async def _hold(self, chunks: AsyncIterator[bytes]) -> bool:
        """Read the beginning of an answer, and pass it on once there is no way back.

        :returns: whether the answer ended. Then nothing of it was passed on but where it had to be.
        """
        loop = asyncio.get_running_loop()
        held, until = bytearray(), float("inf")
        while True:
            following = asyncio.ensure_future(anext(chunks, None))
            try:
                left = until - loop.time() if held else None
                await asyncio.wait({following}, timeout=left and max(0.0, left))
                if not following.done():
                    await self._release(held)
                raw = await following
            finally:
                following.cancel()
            if raw is None:
                self.head = bytes(held)
                return True
            if not held:
                until = loop.time() + HOLD_SECONDS
            held += self._read(raw)
            if self.passed or self._has_begun(len(held)):
                await self._release(held)
                return False
            if self._events and self._tap.account.error is not None:
                self.head = bytes(held)
                return True

    def _has_begun(self, held_bytes: int) -> bool:
        """Return whether there is no way back any more, or none is needed."""
        if held_bytes > HOLD_BYTES_MAX:
            return True
        so_far = self._tap.account
        return self._events and (so_far.began or so_far.ended) and so_far.error is None

    async def _release(self, held: bytearray) -> None:
        assert self.status is not None
        if not self.passed:
            # Of what was asked for as a stream a chunk may be taken out, whatever it calls itself.
            whole = not self._events and not self._stream
            headers = passed_back(self.raw_headers, status=self.status, whole=whole)
            await self._reply.start(self.status, headers)
        await self._reply.write(bytes(held))
        held.clear()

    def _read(self, raw: bytes) -> bytes:
        """Let the tap read a chunk, and return what of it goes on."""
        if not self._decoder.encoded:
            return self._tap.feed(raw)
        # A provider that compresses all the same is read beside; its bytes go on as they are.
        self._tap.feed(self._decoder.feed(raw))
        if self._decoder.lost:
            self._tap.lose("not_decoded")
        return raw

    async def _tell_cut(self, why: str) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORD_SECONDS):
                await self._end_of_cut(ATTEMPT_ENDED, f"The answer was cut: {why}.")

    async def _end_of_cut(self, reason: str, message: str) -> None:
        """Say in the stream that it is cut. It is then broken off, since it is never finished.

        In the middle of an event there is nothing to be said: what follows would be part of it.
        """
        self._tap.close(cut=True)
        if self.passed and self._stream and self._tap.at_boundary and not self._reply.finished:
            event = error_event(self._endpoint, reason=reason, message=message)
            await self._reply.write(event)


class Decoder:
    """Decodes what a provider compressed although it was asked not to; for reading alone."""

    def __init__(self, encoding: str) -> None:
        self.encoded = encoding.strip().lower() not in ("", "identity")
        known = encoding.strip().lower() in ("gzip", "deflate")
        self._stream = zlib.decompressobj(zlib.MAX_WBITS | 32) if known else None

    @property
    def lost(self) -> bool:
        """Return whether what comes is encoded, and cannot be read any more."""
        return self.encoded and self._stream is None

    def feed(self, raw: bytes) -> bytes:
        """Return what a chunk holds; nothing where it cannot be decoded."""
        if not self.encoded:
            return raw
        if self._stream is None:
            return b""
        try:
            decoded = self._stream.decompress(raw, DECODED_BYTES_MAX)
        except zlib.error:
            self._stream = None
            return b""
        if self._stream.unconsumed_tail:
            self._stream = None
        return decoded
