"""Post to budget windows: what every end, correction and unreserved use does to their counters."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal

from governance.core import sql
from governance.money import room
from governance.money.budgets import LOCK_HELD_WINDOWS, POST, note_overrun


def post(
    moved: Mapping[int, tuple[Decimal, Decimal]], *writes: sql.Statement, at: datetime
) -> None:
    """Make the writes, and move counters with them: windows locked by id, the truth never refused.

    Over-runs are noted and told, and who waits for room is told where there is some again.

    :param moved: of each window what it holds no more, and what was spent in it.
    """
    ids = sorted(moved)
    freed, spent = [moved[pk][0] for pk in ids], [moved[pk][1] for pk in ids]
    *_, posted, roomy = sql.pipeline(
        *writes,
        sql.Statement(LOCK_HELD_WINDOWS, (ids,)),
        sql.Statement(POST, (ids, freed, spent)),
        room.clear_of_windows(ids),
    )
    note_overrun(posted, at=at)
    room.cleared(roomy)
