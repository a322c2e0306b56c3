"""When a failed job comes back: never at once, never beyond the cap, never all together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.backoff import retry_delay_seconds

ATTEMPTS = st.integers(1, 10_000)
BASES = st.integers(1, 3600)
CAPS = st.integers(1, 86_400)
DRAWS = st.floats(0, 1, exclude_max=True)


@given(ATTEMPTS, BASES, CAPS, DRAWS)
def test_the_wait_lies_between_half_and_the_whole(
    attempt: int, base: int, cap: int, draw: float
) -> None:
    whole = min(cap, base * 2 ** min(attempt - 1, 62))

    wait = retry_delay_seconds(attempt, base_seconds=base, cap_seconds=cap, draw=lambda: draw)

    assert whole / 2 <= wait <= whole <= cap


@given(ATTEMPTS, BASES, CAPS)
def test_a_later_attempt_never_waits_less(attempt: int, base: int, cap: int) -> None:
    def wait(number: int) -> float:
        return retry_delay_seconds(number, base_seconds=base, cap_seconds=cap, draw=lambda: 0.5)

    assert wait(attempt) <= wait(attempt + 1)


def test_two_that_failed_together_do_not_come_back_together() -> None:
    waits = {retry_delay_seconds(3, base_seconds=10, cap_seconds=3600) for _ in range(20)}

    assert len(waits) == 20


def test_attempts_are_counted_from_one() -> None:
    with pytest.raises(ValueError, match="counts from 1"):
        retry_delay_seconds(0, base_seconds=10, cap_seconds=3600)
