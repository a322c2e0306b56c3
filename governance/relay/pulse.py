"""The pulse of background processes: a row that says when each last finished a round."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from governance.core import clock
from governance.relay.models import Pulse

#: How long each process that somebody counts on may go without a round, by its name.
_expected: dict[str, timedelta] = {}


def expect(name: str, *, within_seconds: float) -> None:
    """Count on a process: `silent` names it when it has not finished a round for so long."""
    _expected[name] = timedelta(seconds=within_seconds)


def silent() -> list[str]:
    """Return the processes that are counted on and have no pulse, or one that is too old."""
    beats, now = last_beats(), clock.now()
    return sorted(
        name
        for name, within in _expected.items()
        if name not in beats or beats[name] < now - within
    )


#: What else lessens the service while it serves, by its name.
_alarms: dict[str, Callable[[], bool]] = {}


def alarm(name: str, raised: Callable[[], bool]) -> None:
    """Let `degraded` name something as long as `raised` says so."""
    _alarms[name] = raised


def degraded() -> list[str]:
    """Return the processes that are silent, and the alarms that are raised."""
    return silent() + sorted(name for name, raised in _alarms.items() if raised())


def beat(name: str, **details: Any) -> None:
    """Note that the process of that name has just finished a round."""
    Pulse.objects.update_or_create(name=name, defaults={"at": clock.now(), "details": details})


def last_beats() -> dict[str, datetime]:
    """Return when each background process last finished a round, by its name."""
    return dict(Pulse.objects.order_by("name").values_list("name", "at"))
