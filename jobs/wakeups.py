"""Wake-ups: workers that wait for work are told that there is some.

A hint and no truth: who waits also looks by itself every second, so a lost wake-up costs that
second and nothing else.  A process has one thread for it, with one connection of its own: it
listens, wakes the waiting requests of this process, and sends what this process announces, put
together and throttled, since a NOTIFY in every transaction would queue all commits behind one
another.

Waiting holds no database connection and no transaction, but a thread of the web server; so at most
half of a process's threads wait.
"""

from __future__ import annotations

import logging
import os
import selectors
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import psycopg
from django.conf import settings
from django.db import connection
from uuid_utils.compat import uuid7

from governance.core import deadlines

T = TypeVar("T")
log = logging.getLogger(__name__)

CHANNEL = "fencepost_wakeups"
#: A waiting request looks for work at least this often.
POLL_SECONDS = 1.0
#: NOTIFYs of a process are at least this far apart; what is announced meanwhile goes together.
SEND_GAP_SECONDS = 0.02
#: Told at once where too many wait already.
BUSY_RETRY_SECONDS = 2
RECONNECT_SECONDS = 2.0
THREADS_DEFAULT = 8


@dataclass(eq=False)
class Ticket:
    """One waiting request. `number` orders polls in time, also between processes."""

    agent_id: int
    worker: str
    number: str = field(default_factory=lambda: uuid7().hex)
    event: threading.Event = field(default_factory=threading.Event)
    ended: bool = False

    def wait(self, seconds: float) -> None:
        """Return when there may be work, when a newer poll took over, or after `seconds`."""
        self.event.wait(seconds)
        self.event.clear()


class _Board:
    """Who waits in this process, and what it has to tell the others."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.lock = threading.Lock()
        self.tickets: dict[int, set[Ticket]] = defaultdict(set)
        self.waiting = 0
        self.outgoing: set[str] = set()
        self.thread: threading.Thread | None = None
        self.closing = False
        self.closed = threading.Event()
        self.poke_read, self.poke_write = os.pipe()
        os.set_blocking(self.poke_write, False)
        os.set_blocking(self.poke_read, False)

    def join(self, ticket: Ticket, waiting_max: int) -> bool:
        with self.lock:
            self._supersede(ticket)
            if self.waiting >= waiting_max:
                return False
            self.waiting += 1
            self.tickets[ticket.agent_id].add(ticket)
        self.tell(f"poll {ticket.agent_id} {ticket.number} {ticket.worker}")
        return True

    def leave(self, ticket: Ticket) -> None:
        with self.lock:
            self.waiting -= 1
            self.tickets[ticket.agent_id].discard(ticket)

    def _supersede(self, newer: Ticket) -> None:
        for older in self.tickets[newer.agent_id]:
            if older.worker == newer.worker and older.number < newer.number:
                older.ended = True
                older.event.set()

    def wake(self, agent_id: int) -> None:
        with self.lock:
            for ticket in self.tickets[agent_id]:
                ticket.event.set()

    def tell(self, message: str) -> None:
        with self.lock:
            if self.closing:
                return
            self.outgoing.add(message)
            if self.thread is None or not self.thread.is_alive():
                self.thread = threading.Thread(target=self._run, name="wakeups", daemon=True)
                self.thread.start()
        self.poke()

    def poke(self) -> None:
        # A full pipe has woken the thread already.
        with suppress(BlockingIOError):
            os.write(self.poke_write, b"!")

    def hear(self, message: str) -> None:
        kind, _, rest = message.partition(" ")
        if kind == "work":
            self.wake(int(rest))
        elif kind == "poll":
            agent_id, number, worker = rest.split(" ", 2)
            with self.lock:
                self._supersede(Ticket(int(agent_id), worker, number))

    def _run(self) -> None:
        while not self.closing:
            try:
                with psycopg.connect(**connection_parameters(), autocommit=True) as raw:
                    self._serve(raw)
            except psycopg.Error as error:
                log.warning("wake-ups are out, polling goes on: %s", error)
                self.closed.wait(RECONNECT_SECONDS)

    def _serve(self, raw: psycopg.Connection) -> None:
        raw.execute(f"LISTEN {CHANNEL}")
        sent_at = 0.0
        with selectors.DefaultSelector() as selector:
            selector.register(raw.fileno(), selectors.EVENT_READ)
            selector.register(self.poke_read, selectors.EVENT_READ)
            while not self.closing:
                gap = sent_at + SEND_GAP_SECONDS - time.monotonic()
                if self.outgoing and gap <= 0:
                    self._send(raw)
                    sent_at = time.monotonic()
                selector.select(max(gap, 0.001) if self.outgoing else None)
                with suppress(BlockingIOError):
                    os.read(self.poke_read, 4096)
                for notice in raw.notifies(timeout=0):
                    # What this process announced, it has told its own already.
                    if notice.pid != raw.info.backend_pid:
                        self.hear(notice.payload)

    def _send(self, raw: psycopg.Connection) -> None:
        with self.lock:
            messages, self.outgoing = sorted(self.outgoing), set()
        raw.execute(
            "SELECT pg_notify(%s, message) FROM unnest(%s::text[]) AS u(message)",
            (CHANNEL, messages),
        )


_board = _Board()


def _here() -> _Board:
    """Return this process's board: a child of a fork has none of its parent's threads."""
    global _board
    if _board.pid != os.getpid():
        _board = _Board()
    return _board


def announce(agent_id: int) -> None:
    """Tell everybody that this agent may have work. Call it after the commit; never fails."""
    board = _here()
    board.wake(agent_id)
    board.tell(f"work {agent_id}")


@contextmanager
def waiting(*, agent_id: int, worker: str) -> Iterator[Ticket | None]:
    """Wait as this worker: a ticket, or None where too many of the process's threads wait.

    A newer poll of the same worker ends this one, whichever process it is in.
    """
    ticket, board = Ticket(agent_id, worker), _here()
    if not board.join(ticket, max(1, threads() // 2)):
        yield None
        return
    try:
        yield ticket
    finally:
        board.leave(ticket)


class Crowded(Exception):
    """Too many requests of this process wait already; come back after `after_seconds`."""

    after_seconds = BUSY_RETRY_SECONDS


def look_until_found(
    look: Callable[[], T | None], *, agent_id: int, worker: str, seconds: float
) -> T | None:
    """Call `look` until it finds something, and return that; None when the time is over.

    Waits between the calls without a database connection. A newer wait of the same worker ends
    this one.

    :param seconds: how long to wait; with 0, `look` is called once. A call that has an end waits
        no longer than leaves time for its answer.
    :raises Crowded: it would have to wait, and nobody more may.
    """
    seconds = deadlines.bounded(seconds)
    deadline = time.monotonic() + seconds
    found = look()
    if found is not None or not seconds:
        return found
    with waiting(agent_id=agent_id, worker=worker) as ticket:
        if ticket is None:
            raise Crowded
        while not ticket.ended:
            # Looked at once more after the ticket is in place: no announcement falls between.
            found = look()
            left = deadline - time.monotonic()
            if found is not None or left <= 0:
                return found
            if not connection.in_atomic_block:
                connection.close()
            ticket.wait(min(left, POLL_SECONDS))
    return None


def close() -> None:
    """End the thread and its connection, for who is about to drop the database."""
    global _board
    board, _board = _here(), _Board()
    board.closing = True
    board.closed.set()
    board.poke()
    if board.thread is not None:
        board.thread.join(timeout=5)
    os.close(board.poke_read)
    os.close(board.poke_write)


def threads() -> int:
    return int(getattr(settings, "WEB_THREADS", THREADS_DEFAULT))


def connection_parameters() -> dict[str, Any]:
    """Return what Django connects with: a connection of our own, beside any pool."""
    wanted = connection.get_connection_params()
    for name in ("cursor_factory", "context", "prepare_threshold"):
        wanted.pop(name, None)
    return wanted
