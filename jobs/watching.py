"""Watching: requests that wait until a job is over, or has changed.

A process asks for the revisions of all jobs that its requests watch, in one query by primary key
four times a second, and wakes whoever watches one that has moved on.  So a watch sees every change,
whatever made it, and a change knows of no watch.  A NOTIFY would be sooner, but every move would
have to send it: it queues all commits of the database behind one another.

Waiting holds no database connection and no transaction, but a thread of the web server; so an
eighth of a process's threads watch at most, and four of them for one principal.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg
from django.db import connection

from governance.core import deadlines
from jobs import wakeups
from jobs.queries import JobRecord

log = logging.getLogger(__name__)

POLL_SECONDS = 0.25
RECONNECT_SECONDS = 2.0
#: The connection is kept so long after the last watch.
IDLE_SECONDS = 10.0
#: One of so many threads watches at most.
THREADS_PER_WATCH = 8
PER_PRINCIPAL_MAX = 4

# Locks: none. Index: the primary key.
READ_REVISIONS = "SELECT id, revision FROM jobs_job WHERE id = ANY(%s)"


@dataclass(eq=False)
class Watch:
    """One waiting request: whose it is, the job, and the revision that it has seen."""

    principal: str
    job_pk: int
    revision: int
    event: threading.Event = field(default_factory=threading.Event)
    #: Nobody looks for it any more.
    ended: bool = False

    def wait(self, seconds: float) -> bool:
        """Return True once the job has moved on, or False after `seconds`."""
        moved = self.event.wait(seconds)
        self.event.clear()
        return moved


class _Board:
    """Who watches in this process, and the thread that looks for all of them."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.lock = threading.Lock()
        self.watches: set[Watch] = set()
        self.thread: threading.Thread | None = None
        self.arrived = threading.Event()
        self.closed = threading.Event()

    def join(self, watch: Watch, watches_max: int) -> bool:
        with self.lock:
            own = sum(other.principal == watch.principal for other in self.watches)
            if len(self.watches) >= watches_max or own >= PER_PRINCIPAL_MAX or self.closed.is_set():
                return False
            self.watches.add(watch)
            if self.thread is None or not self.thread.is_alive():
                self.thread = threading.Thread(target=self._run, name="watching", daemon=True)
                self.thread.start()
        self.arrived.set()
        return True

    def leave(self, watch: Watch) -> None:
        with self.lock:
            self.watches.discard(watch)

    def _run(self) -> None:
        while not self.closed.is_set():
            try:
                with psycopg.connect(**wakeups.connection_parameters(), autocommit=True) as raw:
                    self._serve(raw)
                return
            except psycopg.Error as error:
                log.warning("jobs cannot be watched: %s", error)
                # They ask for themselves, and are told what is wrong.
                for watch in self._watches():
                    watch.event.set()
                self.closed.wait(RECONNECT_SECONDS)
                if self._ended():
                    return

    def _serve(self, raw: psycopg.Connection) -> None:
        """Look until nobody watches any more."""
        while not self.closed.is_set():
            self.arrived.clear()
            if watches := self._watches():
                self._look(raw, watches)
                self.closed.wait(POLL_SECONDS)
            elif not self.arrived.wait(IDLE_SECONDS) and self._ended():
                return

    def _look(self, raw: psycopg.Connection, watches: list[Watch]) -> None:
        pks = list({watch.job_pk for watch in watches})
        revisions: dict[int, int] = dict(raw.execute(READ_REVISIONS, (pks,)).fetchall())
        for watch in watches:
            if revisions.get(watch.job_pk) != watch.revision:
                watch.event.set()

    def _watches(self) -> list[Watch]:
        with self.lock:
            return list(self.watches)

    def _ended(self) -> bool:
        """Let the next watch start a thread of its own, unless there is one already."""
        with self.lock:
            if not self.watches:
                self.thread = None
            return self.thread is None


_board = _Board()


def _here() -> _Board:
    """Return this process's board: a child of a fork has none of its parent's threads."""
    global _board
    if _board.pid != os.getpid():
        _board = _Board()
    return _board


@contextmanager
def _watching(watch: Watch) -> Iterator[bool]:
    board = _here()
    joined = board.join(watch, max(1, wakeups.threads() // THREADS_PER_WATCH))
    try:
        yield joined
    finally:
        board.leave(watch)


def follow(
    found: JobRecord,
    read: Callable[[], JobRecord],
    over: Callable[[JobRecord], bool],
    *,
    principal: str,
    seconds: float,
) -> JobRecord:
    """Read a job until the wait for it is over, and return it as it stands then.

    Waits between the reads without a database connection.  Who would wait beside too many others
    is given what was found.

    :param found: the job as it was read first, by `read`.
    :param over: tells of a job whether there is nothing more to wait for.
    :param seconds: how long to wait at most. A call that has an end waits no longer than leaves
        time for its answer.
    """
    end = time.monotonic() + deadlines.bounded(seconds)
    watch = Watch(principal, found.job.pk, found.job.revision)
    if over(found) or end <= time.monotonic():
        return found
    with _watching(watch) as joined:
        while joined and not over(found):
            if not connection.in_atomic_block:
                connection.close()
            moved = watch.wait(end - time.monotonic())
            found = read()
            watch.revision = found.job.revision
            if not moved or watch.ended:
                break
    return found


def close() -> None:
    """End the thread and its connection, for who is about to drop the database.

    Who waits is answered with the job as it stands.
    """
    global _board
    board, _board = _here(), _Board()
    board.closed.set()
    board.arrived.set()
    for watch in board._watches():
        watch.ended = True
        watch.event.set()
    if board.thread is not None:
        board.thread.join(timeout=5)
