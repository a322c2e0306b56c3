"""Between the service and its database: counts how often it has sent, and then waited."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

CHUNK_BYTES = 1 << 16
#: A message's type and length; the length counts itself.
HEAD_BYTES = 5
READY = b"Z"


class Wire:
    """Passes on what goes to and from a PostgreSQL on a local socket.

    `trips` counts the round trips of the connection that was made first: each ends with the
    server's word that it is ready for the next.  Others, of a listener say, are passed on alone.

    Source: PostgreSQL, Frontend/Backend Protocol, Message Formats (`ReadyForQuery`).
    """

    def __init__(self, folder: Path, server: Path) -> None:
        self.trips = 0
        self._server, self._ends = server, [socket.socket(socket.AF_UNIX)]
        self._ends[0].bind(str(folder / server.name))
        self._ends[0].listen()
        self._thread(self._accept)

    def _thread(self, run: object, *arguments: object) -> None:
        threading.Thread(target=run, args=arguments, daemon=True).start()  # type: ignore[arg-type]

    def _accept(self) -> None:
        first = True
        with suppress(OSError):
            while True:
                client, _ = self._ends[0].accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(str(self._server))
                self._ends += [client, server]
                self._thread(self._pass_on, client, server, False)
                self._thread(self._pass_on, server, client, first)
                first = False

    def _pass_on(self, source: socket.socket, target: socket.socket, counted: bool) -> None:
        rest = b""
        with suppress(OSError):
            while data := source.recv(CHUNK_BYTES):
                if counted:
                    rest = self._count(rest + data)
                target.sendall(data)
        _end(target)

    def _count(self, data: bytes) -> bytes:
        """Count the ends of round trips in whole messages, and return what is left."""
        while len(data) >= HEAD_BYTES:
            length = 1 + int.from_bytes(data[1:HEAD_BYTES], "big")
            if len(data) < length:
                break
            self.trips += data[:1] == READY
            data = data[length:]
        return data

    def close(self) -> None:
        for end in self._ends:
            _end(end)
            end.close()


def _end(end: socket.socket) -> None:
    # A thread that waits for it is woken by this, and not by `close` alone.
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)


@contextmanager
def wire_to(server: Path, folder: Path) -> Iterator[Wire]:
    """Give a wire to the server whose socket is named, as a socket of the folder."""
    wire = Wire(folder, server)
    try:
        yield wire
    finally:
        wire.close()
