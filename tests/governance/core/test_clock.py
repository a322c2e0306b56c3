"""The form of an instant on the wire."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from governance.core.clock import instant

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("at", "written"),
    [
        (NOON, "2026-03-01T12:00:00.000000Z"),
        (NOON + timedelta(microseconds=7), "2026-03-01T12:00:00.000007Z"),
        (NOON.astimezone(timezone(timedelta(hours=5))), "2026-03-01T12:00:00.000000Z"),
        (None, None),
    ],
)
def test_an_instant_is_utc_with_microseconds(at: datetime | None, written: str | None) -> None:
    assert instant(at) == written
