"""The memory that requests take: how many bytes of bodies are held at a time, of all attempts.

A body is read before its call has a place, and is kept until the call is booked. So connections
alone bound nothing: a program that sends many large bodies at once would end the worker, and with
it the attempts of other jobs.
"""

from collections import Counter
from collections.abc import Hashable

from fencepost_worker.gateway.refusals import TOO_LARGE_TOGETHER, CallRefused

#: A request that is larger is refused, and read no further.
BODY_BYTES_MAX = 64 * 1024 * 1024
#: Of all bodies that are held at a time, in bytes.
TOTAL_BYTES_MAX = 4 * BODY_BYTES_MAX
#: Of those of one attempt: it leaves room for others.
ATTEMPT_BYTES_MAX = TOTAL_BYTES_MAX // 2


class Bodies:
    """The bytes of bodies that are held, by the attempt that they are of."""

    def __init__(self) -> None:
        self._held: Counter[Hashable] = Counter()
        self.total = 0

    def begin(self, owner: Hashable) -> "HeldBody":
        """Return a body of an attempt, of which nothing is read."""
        return HeldBody(self, owner)

    def add(self, owner: Hashable, count: int) -> None:
        """Take the room for so many bytes more.

        :raises CallRefused: there is none; nothing is taken.
        """
        mine = self._held[owner] + count
        if self.total + count > TOTAL_BYTES_MAX or mine > ATTEMPT_BYTES_MAX:
            message = "The requests that are open hold as many bytes as may be held at a time."
            raise CallRefused(429, TOO_LARGE_TOGETHER, message)
        self._held[owner] = mine
        self.total += count

    def remove(self, owner: Hashable, count: int) -> None:
        """Give so many bytes back."""
        self.total -= count
        self._held[owner] -= count
        if not self._held[owner]:
            del self._held[owner]


class HeldBody:
    """The room of one body, from its first byte until its call is booked."""

    def __init__(self, bodies: Bodies, owner: Hashable) -> None:
        self._bodies = bodies
        self._owner = owner
        self._count = 0

    def grow(self, count: int) -> None:
        """Take the room for so many bytes more of it.

        :raises CallRefused: it is too large, or there is no room; nothing is taken.
        """
        if self._count + count > BODY_BYTES_MAX:
            most = f"A request has {BODY_BYTES_MAX} bytes at most."
            raise CallRefused(413, "REQUEST_TOO_LARGE", most)
        self._bodies.add(self._owner, count)
        self._count += count

    def release(self) -> None:
        """Give all of its room back."""
        self._bodies.remove(self._owner, self._count)
        self._count = 0
