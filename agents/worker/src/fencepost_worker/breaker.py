"""The breaker: what is refused again and again is not asked for, for a while.

Work that cannot begin costs a claim and its deferral each time; a worker whose provider refuses
its key, or whose agent may not act, would go through the whole queue that way.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from fencepost_worker.timing import steady_now

#: A pause doubles with each refusal that follows one, up to this.
REST_SECONDS_MAX = 3600.0
DOUBLINGS_MAX = 16


@dataclass(frozen=True)
class Rest:
    """A type of job that is not asked for, why, and until when on the steady clock."""

    task_type: str
    reason: str
    until: float


@dataclass(frozen=True)
class _Count:
    reason: str
    refusals: int
    rests: int = 0


class Breaker:
    """Counts equal refusals in a row, for each type of job. Thread-safe."""

    def __init__(
        self,
        *,
        refusals_max: int = 5,
        rest_s: float = 300.0,
        now: Callable[[], float] = steady_now,
    ) -> None:
        """Make a breaker that opens for `rest_s` seconds after `refusals_max` equal refusals."""
        self._refusals_max = refusals_max
        self._rest_s = rest_s
        self._now = now
        self._counts: dict[str, _Count] = {}
        self._rests: dict[str, Rest] = {}
        self._lock = threading.Lock()

    def refused(
        self,
        task_type: str,
        reason: str,
        *,
        detail: str = "",
        for_all: bool = False,
        rest_max_s: float = REST_SECONDS_MAX,
    ) -> Rest | None:
        """Note that a job of the type was refused; return the rest that follows, if one does.

        After a rest the type is asked for again, and the first refusal for the same reason is
        enough for a longer one.

        :param reason: what makes refusals equal; `detail` is for people.
        :param for_all: it is refused whatever the job is, as by a provider that takes no key of
            ours: the first one is enough.
        :param rest_max_s: the longest rest, in seconds.
        """
        with self._lock:
            count = self._counts.get(task_type)
            if count is None or count.reason != reason:
                count = _Count(reason, 0)
            count = replace(count, refusals=count.refusals + 1)
            self._counts[task_type] = count
            if not (for_all or count.rests or count.refusals >= self._refusals_max):
                return None
            if task_type in self._resting():
                # Jobs that were claimed before it began end one after the other.
                return None
            seconds = min(self._rest_s * 2**count.rests, rest_max_s)
            self._counts[task_type] = replace(count, rests=min(count.rests + 1, DOUBLINGS_MAX))
            words = f"{reason}: {detail}" if detail else reason
            self._rests[task_type] = Rest(task_type, words, self._now() + seconds)
            return self._rests[task_type]

    def served(self, task_type: str) -> None:
        """Note that a job of the type was not refused: what was counted is over."""
        with self._lock:
            self._counts.pop(task_type, None)
            self._rests.pop(task_type, None)

    def rests(self) -> list[Rest]:
        """Return what is not asked for now."""
        with self._lock:
            return sorted(self._resting().values(), key=lambda rest: rest.task_type)

    def _resting(self) -> dict[str, Rest]:
        now = self._now()
        self._rests = {name: rest for name, rest in self._rests.items() if rest.until > now}
        return self._rests
