"""What a refusal leaves unread of a request's body: it is read away, or the connection is closed.

Whoever answers before it has read the body, and closes while the client still sends, makes the
network drop the answer.  So what is left is read first, up to a bound; where more is to come the
answer says that the connection closes.  Small bodies are left to gunicorn, which reads up to
64 KiB away after its answer, but closes without a word above that.  What gunicorn refuses by
itself, before there is a request, is told by `write_problem`.

Source: RFC 9112, 9.3 and 9.6.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from typing import Any
from uuid import uuid4

from governance.core.errors import Internal, InvalidArgument

#: What gunicorn reads away by itself, less what it must not reach.
SMALL_BYTES = 60 * 1024
#: Above what any call takes, so that an ordinary client is told why its body is too large.
DRAIN_BYTES_MAX = 16 << 20
DRAIN_SECONDS = 5.0
CHUNK_BYTES = 16 * 1024

Environ = dict[str, Any]
Application = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]


class UnreadBodies:
    """WSGI middleware that leaves the connection usable, or closed, after a refusal."""

    def __init__(self, application: Application) -> None:
        self._application = application

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        declared = str(environ.get("CONTENT_LENGTH") or 0)
        length = int(declared) if declared.isdecimal() else 0
        if length < SMALL_BYTES and "HTTP_TRANSFER_ENCODING" not in environ:
            return self._application(environ, start_response)
        body = environ["wsgi.input"] = _Counted(environ["wsgi.input"])
        socket = environ.get("gunicorn.socket")

        def start(status: str, headers: Any, *more: Any) -> Any:
            # A success has read what it wanted, and what is left then is the server's to judge.
            if status[0] in "45" and not _drained(body, length, socket):
                # Of gunicorn's response; another server has its own way.
                close = getattr(getattr(start_response, "__self__", None), "force_close", None)
                if close is not None:
                    close()
            return start_response(status, headers, *more)

        return self._application(environ, start)


class _Counted:
    """A body that knows how much of it has been read."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.count = 0

    def read(self, *size: int) -> bytes:
        data: bytes = self._stream.read(*size)
        self.count += len(data)
        return data

    def readline(self, *size: int) -> bytes:
        data: bytes = self._stream.readline(*size)
        self.count += len(data)
        return data


def _drained(body: _Counted, length: int, socket: Any) -> bool:
    """Read the rest of the body away; False where it is too long, too slow, or broken."""
    left = (length - body.count) if length else DRAIN_BYTES_MAX
    if left > DRAIN_BYTES_MAX:
        return False
    deadline = time.monotonic() + DRAIN_SECONDS
    before = socket.gettimeout() if socket is not None else None
    try:
        while left > 0:
            seconds = deadline - time.monotonic()
            if seconds <= 0:
                return False
            if socket is not None:
                socket.settimeout(seconds)
            chunk = body.read(min(left, CHUNK_BYTES))
            if not chunk:
                return not length
            left -= len(chunk)
        return bool(length)
    except Exception:  # of the server's own kind, for chunks that are none
        return False
    finally:
        if socket is not None:
            socket.settimeout(before)


def write_problem(sock: Any, status: int, reason: str, message: str) -> None:
    """Write a failure for which no application was asked, as a problem (RFC 9457)."""
    from gunicorn import util

    refusal = InvalidArgument(message[:500]) if status < 500 else Internal()
    document = refusal.as_problem(instance=f"urn:uuid:{uuid4()}") | {
        "status": status,
        "title": reason,
    }
    body = json.dumps(document).encode()
    head = (
        f"HTTP/1.1 {status} {reason}\r\nConnection: close\r\nCache-Control: no-store\r\n"
        f"Content-Type: application/problem+json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    util.write_nonblock(sock, head.encode() + body)
