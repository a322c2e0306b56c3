"""Leases: the right to work on one attempt, for as long as it can be trusted."""

import enum
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fencepost_worker.timing import steady_now

#: Trust ends this much before the server's time-out, for the kill of what runs.
MARGIN_SECONDS = 5.0
#: ... but no more than this part of a short lease.
MARGIN_SHARE = 0.1
#: A beat may be missed twice before the lease is in danger.
BEATS_PER_LEASE = 3
MIN_INTERVAL_SECONDS = 0.05
#: A waiter looks at the clock this often even when nothing wakes it: the machine may have slept.
MAX_NAP_SECONDS = 5.0


class Ended(enum.Enum):
    """The reason for which a lease may not be used any more."""

    STOPPED = "the control plane ended the attempt"
    LOST = "the attempt belongs to another holder"
    FENCED = "the attempt is another's for now; what is known of it is kept"
    EXPIRED = "the lease ran out"
    ABORTED = "the worker is being stopped"


class LeaseEnded(Exception):
    """The work has no authority any more and must stop."""

    def __init__(self, why: Ended) -> None:
        self.why = why
        super().__init__(why.value)


@dataclass(frozen=True)
class Terms:
    """The terms of a lease: how long it lasts, and how often the server wants a heartbeat."""

    ttl_seconds: float
    interval_seconds: float

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> "Terms":
        """Read a claim's `lease`. An interval too long for the lease is shortened.

        :raises ValueError: the durations are missing or not positive numbers.
        """
        ttl = _seconds(document.get("ttl_seconds"))
        interval = _seconds(document.get("heartbeat_interval_seconds"))
        shortest = max(MIN_INTERVAL_SECONDS, min(interval, ttl / BEATS_PER_LEASE))
        return cls(ttl_seconds=ttl, interval_seconds=shortest)


def _seconds(value: object) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or value < 0:
        raise ValueError(f"a lease needs durations in seconds, got {value!r}")
    return float(value)


def trusted_until(*, requested_at: float, ttl_seconds: float) -> float:
    """Return the steady-clock instant up to which a lease may be used.

    Counted from the moment at which we asked: the grant was made later, so the server's own end
    is later still, however long the answer took.

    Source: C. Gray and D. Cheriton, "Leases", SOSP 1989, section 2 (clock drift aside).
    """
    return requested_at + ttl_seconds - min(MARGIN_SECONDS, ttl_seconds * MARGIN_SHARE)


class Lease:
    """One attempt's lease as this worker may rely on it. Thread-safe."""

    def __init__(
        self,
        *,
        task_id: str,
        attempt: int,
        fencing_token: int,
        terms: Terms,
        requested_at: float | None,
        progress: Callable[[], dict[str, Any] | None] = lambda: None,
    ) -> None:
        """Take the lease of a claim.

        :param requested_at: when the claim was first requested; None when that is not known (an
            answer replayed after a restart), so that only a heartbeat can give trust.
        :param progress: what to send with each heartbeat.

        `draining` is what the last heartbeat said of the agent: it takes no new work.
        """
        self.task_id = task_id
        self.attempt = attempt
        self.fencing_token = fencing_token
        self.interval_seconds = terms.interval_seconds
        self.progress = progress
        self._changed = threading.Condition()
        self._ended: Ended | None = None
        self._paused = False
        self.draining = False
        self._watchers: list[Callable[[], None]] = []
        self._until: float | None = None
        if requested_at is not None:
            self._until = trusted_until(requested_at=requested_at, ttl_seconds=terms.ttl_seconds)

    @property
    def ended(self) -> Ended | None:
        """Return why it may not be used any more, or None while it may."""
        with self._changed:
            return self._ended_now()

    @property
    def paused(self) -> bool:
        """Return whether the control plane asked the work to pause."""
        with self._changed:
            return self._paused

    @property
    def left_seconds(self) -> float:
        """Return for how long it may still be relied on, if nothing happens."""
        with self._changed:
            if self._ended_now() is not None:
                return 0.0
            return MAX_NAP_SECONDS if self._until is None else self._until - steady_now()

    def on_change(self, tell: Callable[[], None]) -> Callable[[], None]:
        """Call `tell` after each change, on the thread that makes it; return what ends that.

        It must neither block nor raise. The end by the clock is no change: see `left_seconds`.
        """
        with self._changed:
            self._watchers.append(tell)

        def unwatch() -> None:
            with self._changed:
                if tell in self._watchers:
                    self._watchers.remove(tell)

        return unwatch

    def check(self) -> None:
        """Refuse to go on without authority.

        :raises LeaseEnded: the lease may not be used any more.
        """
        ended = self.ended
        if ended is not None:
            raise LeaseEnded(ended)

    def renew(self, *, requested_at: float, ttl_seconds: float, control: str) -> None:
        """Apply a heartbeat's answer. Trust never shrinks by a late answer to an old question."""
        with self._changed:
            if self._ended is None:
                until = trusted_until(requested_at=requested_at, ttl_seconds=ttl_seconds)
                self._until = until if self._until is None else max(self._until, until)
                self._paused = control == "pause"
                self.draining = control == "drain"
            self._tell()

    def end(self, why: Ended) -> None:
        """Take the authority away; the first reason stands."""
        with self._changed:
            if self._ended is None:
                self._ended = why
            self._tell()

    def poke(self) -> None:
        """Wake who waits, because something that its predicate looks at has changed."""
        with self._changed:
            self._changed.notify_all()

    def wait(self, predicate: Callable[[], bool], *, timeout_s: float | None = None) -> bool:
        """Wait until `predicate` is true, the lease has ended or the time is over.

        :returns: the predicate's last value.
        """
        limit = None if timeout_s is None else steady_now() + timeout_s
        with self._changed:
            while not predicate():
                now = steady_now()
                if self._ended_now() is not None or (limit is not None and now >= limit):
                    return predicate()
                left = MAX_NAP_SECONDS if self._until is None else self._until - now
                nap = min(left, MAX_NAP_SECONDS)
                self._changed.wait(nap if limit is None else min(nap, limit - now))
            return True

    def carry_on(self, seconds: float) -> bool:
        """Wait so many seconds; return False when the lease ended meanwhile."""
        self.wait(lambda: False, timeout_s=seconds)
        return self.ended is None

    def wait_until_granted(self) -> None:
        """Return once the lease has trust; one of unknown age gets it from a heartbeat.

        :raises LeaseEnded: the lease ended before that.
        """
        self.wait(lambda: self._until is not None)
        self.check()

    def wait_while_paused(self) -> None:
        """Return when work may start.

        :raises LeaseEnded: the lease ended before that.
        """
        self.wait(lambda: not self._paused)
        self.check()

    def _tell(self) -> None:
        self._changed.notify_all()
        for tell in list(self._watchers):
            tell()

    def _ended_now(self) -> Ended | None:
        over = self._until is not None and steady_now() >= self._until
        if self._ended is None and over:
            self._ended = Ended.EXPIRED
        return self._ended
