"""How long a call may take: an end that its caller has set, in force for all that it does.

Time here is the process's monotonic clock, since it bounds a wait of the caller and decides nothing
that is stored.  `governance.core.sql` asks before each statement, and bounds the statement by what
is left; waits end early by `bounded`.

Source: contract, section 2.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from governance.core.errors import DeadlineExceeded, DeadlineExceededUnknown

#: What a wait leaves of the call's time for the answer after it.
ANSWER_SECONDS = 0.25


@dataclass
class Deadline:
    """The end of a call. `at` is on the monotonic clock; `committed` says what cannot be undone."""

    at: float
    committed: bool = False

    @property
    def left(self) -> float:
        """Return the seconds that are left; negative where the time is over."""
        return self.at - time.monotonic()

    def note_commit(self) -> None:
        """Remember that a transaction of the call has been committed."""
        self.committed = True

    def refusal(self) -> DeadlineExceeded:
        """Return the refusal of a call whose time is over."""
        return DeadlineExceededUnknown() if self.committed else DeadlineExceeded()


_current: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


@contextmanager
def until(at: float | None) -> Iterator[None]:
    """Let the block end at that instant of the monotonic clock; None: whenever it does."""
    token = _current.set(None if at is None else Deadline(at))
    try:
        yield
    finally:
        _current.reset(token)


def current() -> Deadline | None:
    """Return the end of the call that is being served, or None where its caller has set none."""
    return _current.get()


def check() -> None:
    """Refuse to go on where the call's time is over.

    :raises DeadlineExceeded: it is; with the effect `unknown` where a transaction was committed.
    """
    deadline = _current.get()
    if deadline is not None and deadline.left <= 0:
        raise deadline.refusal()


def bounded(seconds: float) -> float:
    """Return how long a wait of so many seconds may take: it leaves time for its answer."""
    deadline = _current.get()
    return seconds if deadline is None else max(0.0, min(seconds, deadline.left - ANSWER_SECONDS))
