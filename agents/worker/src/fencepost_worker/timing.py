"""Time: the clock that leases are measured on, and the delays between retries."""

import random
import time
from collections.abc import Callable

BASE_SECONDS = 0.5
CAP_SECONDS = 30.0
#: 2 ** 16 times any base is past every cap; a larger exponent would only overflow.
MAX_EXPONENT = 16

# CLOCK_BOOTTIME goes on while the machine sleeps, as the server's clock does. None where there is
# no such clock; the monotonic one may then stand still in a sleep.
STEADY_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", None)


def steady_now() -> float:
    """Return seconds on a clock that is never set back and that counts suspended time."""
    return time.monotonic() if STEADY_CLOCK is None else time.clock_gettime(STEADY_CLOCK)


def retry_delay_s(
    failures: int,
    *,
    base_s: float = BASE_SECONDS,
    cap_s: float = CAP_SECONDS,
    draw: Callable[[], float] = random.random,
) -> float:
    """Return the seconds to wait after `failures` failures in a row, with full jitter.

    Uniform over [0, min(cap_s, base_s * 2 ** (failures - 1))): workers that lost the server
    together must not come back together.

    :raises ValueError: `failures` is below 1.

    Source: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
    """
    if failures < 1:
        raise ValueError(f"failures count from 1, got {failures}")
    ceiling_s: float = min(cap_s, base_s * 2 ** min(failures - 1, MAX_EXPONENT))
    return draw() * ceiling_s
