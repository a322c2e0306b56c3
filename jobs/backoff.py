"""When a job that failed may be tried again."""

from __future__ import annotations

import random
from collections.abc import Callable


def retry_delay_seconds(
    attempt: int,
    *,
    base_seconds: float,
    cap_seconds: float,
    draw: Callable[[], float] = random.random,
) -> float:
    """Return the seconds to wait before the next attempt, with equal jitter.

    Half of `min(cap_seconds, base_seconds * 2 ** (attempt - 1))` is sure, the other half drawn:
    attempts that failed together do not come back together, and none comes back at once.

    :param attempt: attempts already made, counted from 1.
    :raises ValueError: `attempt` is below 1.

    Source: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
    """
    if attempt < 1:
        raise ValueError(f"attempt counts from 1, got {attempt}")
    whole = min(cap_seconds, base_seconds * 2 ** min(attempt - 1, 62))
    return whole / 2 + draw() * whole / 2
