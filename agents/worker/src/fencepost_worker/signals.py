"""Signals: SIGTERM and SIGINT drain a worker, and a second one stops it."""

import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

OBEYED = (signal.SIGTERM, signal.SIGINT)


class Drained(Protocol):
    """What is told of signals: a worker."""

    def drain(self) -> None:
        """Take no more jobs; finish those that run, then end."""

    def abort(self) -> None:
        """Stop what runs and end."""


@contextmanager
def obeyed_signals(worker: Drained, *, drain_seconds: float) -> Iterator[None]:
    """Drain at SIGTERM and SIGINT; stop work after `drain_seconds`, or at the second signal.

    Signals reach the main thread only: elsewhere this does nothing, and whoever runs the worker
    there tells it by `drain`.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # Sockets and no pipe: they are what every system can wait for.
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    # The interpreter writes at once, in whichever thread the signal arrives. A handler would wait
    # for the main thread, which may be waiting for a lock that only this signal would free.
    before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    handlers = {number: signal.signal(number, _noted) for number in OBEYED}
    thread = threading.Thread(
        target=_obey, args=(reader, worker, drain_seconds), name="signals", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        # The thread reads the end of the stream, and ends.
        writer.close()
        thread.join()
        reader.close()


def _obey(reader: socket.socket, worker: Drained, drain_seconds: float) -> None:
    if _heard(reader) is None:
        return
    worker.drain()
    timer = threading.Timer(drain_seconds, worker.abort)
    timer.daemon = True
    timer.start()
    if _heard(reader) is not None:
        worker.abort()
    timer.cancel()


def _heard(reader: socket.socket) -> int | None:
    """Wait for a signal of ours and return its number; None when nobody listens any more.

    Signals that the rest of the process has handlers for are written to the stream as well.
    """
    while content := reader.recv(1):
        if content[0] in OBEYED:
            return content[0]
    return None


def _noted(number: int, frame: FrameType | None) -> None:
    """Keep the interpreter from ending the process; the stream has the signal already."""
