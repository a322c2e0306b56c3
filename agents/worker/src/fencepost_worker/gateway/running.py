"""An attempt at the gateway: its calls that are open, and what ends or delays them.

Everything here belongs to the gateway's event loop, and to no other thread.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Protocol

from fencepost_worker.client import Problem
from fencepost_worker.gateway.attempts import GovernedAttempt, ProviderRefusal, Spent
from fencepost_worker.gateway.kept import KeptAnswers
from fencepost_worker.gateway.marks import CallJournal
from fencepost_worker.gateway.refusals import (
    ATTEMPT_ENDED,
    ATTEMPT_PAUSED,
    TOO_MANY_CALLS,
    CallRefused,
    ClientGone,
    wants_deferral,
)
from fencepost_worker.lease import MAX_NAP_SECONDS

#: A call waits so long for its turn, and is refused then.
PLACE_SECONDS = 60.0
REFUSALS_KEPT = 100


class Bell:
    """Wakes who waits on the loop for something that another part of it changes."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def ring(self) -> None:
        """Let everybody look again."""
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    async def until(self, predicate: Callable[[], bool], seconds: float | None = None) -> bool:
        """Wait until `predicate` is true or the time is over; return its last value."""
        loop = asyncio.get_running_loop()
        end = None if seconds is None else loop.time() + seconds
        while not predicate():
            left = None if end is None else end - loop.time()
            if left is not None and left <= 0:
                return False
            future = loop.create_future()
            self._waiting.add(future)
            try:
                await asyncio.wait_for(future, left)
            except TimeoutError:
                return predicate()
            finally:
                self._waiting.discard(future)
        return True


class OpenCall(Protocol):
    """What an attempt must know of a call of it."""

    @property
    def gone(self) -> bool:
        """Return whether its program went away."""
        ...

    def cut(self, why: str) -> None:
        """Break it off now, wherever it is."""
        ...

    def leave(self) -> None:
        """Take its program for gone."""
        ...


class RunningAttempt:
    """One admitted attempt, from its first call until all of them are booked."""

    def __init__(self, attempt: GovernedAttempt, *, journal: CallJournal) -> None:
        self.attempt = attempt
        self.journal = journal
        #: Numbers of routes are given one after the other.
        self.routing = asyncio.Lock()
        self.bell = Bell()
        self.closed = ""
        self.open: set[OpenCall] = set()
        self.open_counts: set[OpenCall] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.books = Books()
        keys = [each.key for each in journal.calls.values()]
        self.kept = KeptAnswers(dict(filter(None, keys)), on_over=self.bell.ring)
        loop = asyncio.get_running_loop()
        self._unwatch = attempt.lease.on_change(lambda: _wake(loop, self.bell))
        self._watching = loop.create_task(self._watch())

    @property
    def barred(self) -> str:
        """Return why no call may begin any more; empty while one may."""
        ended = self.attempt.lease.ended
        return self.closed or (ended.value if ended else "")

    async def enter(self, call: OpenCall) -> None:
        """Wait for a place among the calls that may be open at a time, and take it.

        :raises CallRefused: the attempt ended, or there was none in time.
        :raises ClientGone: the program did not wait.
        """
        await self.bell.until(
            lambda: bool(self.barred) or call.gone or self._has_place(), PLACE_SECONDS
        )
        if call.gone:
            raise ClientGone
        self.check()
        if self.attempt.lease.paused:
            raise CallRefused(403, ATTEMPT_PAUSED, "The attempt is paused: no call begins.")
        if not self._has_place():
            limit = self.attempt.open_calls_max
            message = f"{limit} calls of this attempt are open, as many as may be at a time."
            raise CallRefused(429, TOO_MANY_CALLS, message)
        self.open.add(call)

    def exit(self, call: OpenCall) -> None:
        """Give the place up."""
        self.open.discard(call)
        self.bell.ring()

    def check(self) -> None:
        """Refuse to go on without authority.

        :raises CallRefused: the attempt has ended.
        """
        if why := self.barred:
            raise CallRefused(403, ATTEMPT_ENDED, f"No call begins any more: {why}.")

    def close(self, why: str) -> None:
        """Let no call begin any more, and take the program for gone."""
        self.closed = self.closed or why
        for call in [*self.open, *self.open_counts]:
            call.leave()
        self.bell.ring()

    def cut(self, why: str) -> None:
        """Break off every open call."""
        for call in [*self.open, *self.open_counts]:
            call.cut(why)
        self.bell.ring()

    async def ended(self, seconds: float | None) -> bool:
        """Wait until every call is booked, or the time is over; return whether they are."""
        if tasks := list(self.tasks):
            await asyncio.wait(tasks, timeout=seconds)
        if not self.tasks:
            self.forget()
        return not self.tasks

    def forget(self) -> None:
        """Let the lease and the journal go."""
        self._unwatch()
        self._watching.cancel()
        with contextlib.suppress(OSError):
            self.journal.close()

    def _has_place(self) -> bool:
        return not self.attempt.lease.paused and len(self.open) < self.attempt.open_calls_max

    async def _watch(self) -> None:
        lease = self.attempt.lease
        while lease.ended is None:
            # The end by the clock rings no bell.
            seconds = min(MAX_NAP_SECONDS, max(lease.left_seconds, 0.0))
            await self.bell.until(lambda: lease.ended is not None, seconds)
        self.cut(lease.ended.value)


class Books:
    """What an attempt's calls came to."""

    def __init__(self) -> None:
        self.calls = 0
        self.unbooked = 0
        self.at_a_cost = 0
        self.usage: dict[str, int] = {}
        self.refusals: list[Problem] = []
        self.no_room: Problem | None = None
        self.provider_refusals: list[ProviderRefusal] = []

    def refused(self, problem: Problem) -> None:
        """Note a refusal of the control plane."""
        self.refusals = [*self.refusals, problem][-REFUSALS_KEPT:]
        if wants_deferral(problem):
            self.no_room = problem

    def provider_refused(self, refusal: ProviderRefusal) -> None:
        """Note a refusal of a provider."""
        self.provider_refusals = [*self.provider_refusals, refusal][-REFUSALS_KEPT:]

    def routed(self) -> None:
        """Note a call that has its route: there was room."""
        self.no_room = None
        self.unbooked += 1

    def booked(self, *, costs: bool, usage: dict[str, object] | None) -> None:
        """Note a call whose end the control plane knows."""
        self.calls += 1
        self.unbooked -= 1
        self.at_a_cost += costs
        for name, count in (usage or {}).items():
            if type(count) is int:
                self.usage[name] = self.usage.get(name, 0) + count

    def spent(self) -> Spent:
        """Return all of it as it stands."""
        return Spent(
            calls=self.calls,
            open=self.unbooked,
            at_a_cost=self.at_a_cost,
            usage=dict(self.usage),
            refusals=tuple(self.refusals),
            no_room=self.no_room,
            provider_refusals=tuple(self.provider_refusals),
        )


def _wake(loop: asyncio.AbstractEventLoop, bell: Bell) -> None:
    with contextlib.suppress(RuntimeError):  # the gateway is closed
        loop.call_soon_threadsafe(bell.ring)
