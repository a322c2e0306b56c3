"""Meter calls by the limits of their scopes: judge, let through, correct at the end.

The generic cell rate algorithm: a meter says until when what it has let through would be spread
evenly over its rate.  A call fits where that is no more than a minute ahead, and moves it.  One
that is larger than a minute's tokens fits where nothing is ahead, and is paid off after.

Meters are the last rows that a call locks, by id, after budgets.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from governance.core import sql
from governance.core.errors import CallRateLimited
from governance.money.limits import LimitHold
from governance.money.scopes import Scopes, calls_in_sql, columns_of, is_each

MINUTE = timedelta(minutes=1)
#: When one of the open calls ends nobody knows: then it is asked again after so long.
OPEN_WAIT_SECONDS = 10
COUNTED_FOR = "CASE l.key WHEN s.every THEN s.key ELSE '' END"
APPLICABLE = (
    " FROM governance_limit l"
    " JOIN unnest(%(scopes)s::text[], %(keys)s::text[], %(every)s::text[]) AS s(scope, key, every)"
    "  ON s.scope = l.scope AND l.key IN (s.key, s.every)"
    " {join} JOIN governance_limitmeter m ON m.limit_id = l.id"
    f"  AND m.counted_for = {COUNTED_FOR} WHERE l.enabled"
)
# Whether anything is limited. To be read under the money's lock: who sets a limit holds it.
READ_LIMITED = "SELECT EXISTS (SELECT FROM governance_limit WHERE enabled) AS limited"
# Waits for an uncommitted rival of the same meter; in the limits' order, so that nobody waits back.
OPEN_METERS = (
    "INSERT INTO governance_limitmeter (limit_id, counted_for, requests_until, tokens_until)"
    f" SELECT l.id, {COUNTED_FOR}, clock_timestamp(), clock_timestamp()"
    + APPLICABLE.format(join="LEFT")
    + " AND m.id IS NULL ORDER BY l.id ON CONFLICT DO NOTHING"
)
# Locks: the meters, in id order.
LOCK_METERS = "SELECT m.id" + APPLICABLE.format(join="") + " ORDER BY m.id FOR NO KEY UPDATE OF m"
# A statement of its own: the meters and the clock as they are once the locks are held. What is open
# is found by the index of the meter.
READ_METERS = (
    "SELECT m.id, l.id AS limit_id, l.scope, s.key, l.requests_per_minute, l.tokens_per_minute,"
    " l.open_calls, m.requests_until, m.tokens_until, clock_timestamp() AS now,"
    " (SELECT count(*) FROM governance_limithold h WHERE h.meter_id = m.id) AS open"
    + APPLICABLE.format(join="LEFT")
    + " ORDER BY m.id"
)
# The meters of a limit that is made; in the braces stand the calls that are open under it.
METERS_OF_OPEN = (
    "INSERT INTO governance_limitmeter (limit_id, counted_for, requests_until, tokens_until)"
    " SELECT %(limit)s, n.counted_for, clock_timestamp(), clock_timestamp() FROM ("
    " SELECT DISTINCT o.counted_for FROM ({seen}) o"
    "  UNION SELECT '' WHERE NOT %(each)s) n ON CONFLICT DO NOTHING"
)
MOVE_METERS = (
    "UPDATE governance_limitmeter m SET requests_until = u.requests, tokens_until = u.tokens"
    " FROM unnest(%s::bigint[], %s::timestamptz[], %s::timestamptz[]) AS u(id, requests, tokens)"
    " WHERE m.id = u.id"
)
# Locks: the meters of calls that end, in id order. Index: limit_hold_once.
LOCK_HELD_METERS = (
    "SELECT m.id FROM governance_limitmeter m WHERE m.id IN (SELECT h.meter_id"
    "  FROM governance_limithold h WHERE h.reservation_id = ANY(%s::uuid[]))"
    " ORDER BY m.id FOR NO KEY UPDATE"
)
# What was metered and not used is given back, what was used beyond it is added.
FREE = (
    "WITH gone AS (DELETE FROM governance_limithold h"
    "  USING unnest(%s::uuid[], %s::bigint[]) AS u(id, used) WHERE h.reservation_id = u.id"
    "  RETURNING h.meter_id, CASE WHEN h.tokens > 0 AND u.used IS NOT NULL"
    "   THEN u.used - h.tokens ELSE 0 END AS more),"
    " total AS (SELECT meter_id, sum(more) AS more FROM gone GROUP BY meter_id)"
    " UPDATE governance_limitmeter m SET tokens_until = m.tokens_until + coalesce("
    "  make_interval(secs => (60 * t.more)::float8 / l.tokens_per_minute), '0')"
    " FROM total t, governance_limit l WHERE m.id = t.meter_id AND l.id = m.limit_id"
    " RETURNING l.id AS limit_id"
)
# Meters that hold what is not open. A call of before its limit may be open without a hold.
WRONG_HOLDS = (
    "SELECT h.reservation_id, h.meter_id, r.state FROM governance_limithold h"
    " JOIN governance_reservation r ON r.reservation_id = h.reservation_id"
    " WHERE r.state NOT IN ('held', 'in_doubt') ORDER BY h.reservation_id, h.meter_id"
)


def read_meters(scopes: Scopes) -> sql.Statement:
    """Return the statement that reads the meters of a call, without a lock."""
    return sql.Statement(READ_METERS, columns_of(scopes))


def lock_meters(scopes: Scopes) -> list[sql.Row]:
    """Make the meters of a call where there are none, lock them by id, and return their rows."""
    keys = columns_of(scopes)
    *_, meters = sql.pipeline(
        sql.Statement(OPEN_METERS, keys), sql.Statement(LOCK_METERS, keys), read_meters(scopes)
    )
    return meters


def over(meters: Iterable[sql.Row], *, tokens: int) -> list[dict[str, Any]]:
    """Return the bounds that a call does not fit, as a refusal tells them, with the wait of each.

    Members: `scope, key, limit, max, used, after_seconds`.
    """
    return [each for row in meters for each in _over(row, tokens)]


def _over(row: sql.Row, tokens: int) -> list[dict[str, Any]]:
    found = []
    for bound, until, count in (
        ("requests_per_minute", row["requests_until"], 1),
        ("tokens_per_minute", row["tokens_until"], tokens),
    ):
        rate = row[bound]
        if rate is None:
            continue
        ahead = max((until or row["now"]) - row["now"], timedelta(0))
        wait = ahead + min(_share(count, rate), MINUTE) - MINUTE
        if wait > timedelta(0):
            used = math.ceil(ahead / MINUTE * rate)
            found.append(_line(row, bound, used, math.ceil(wait.total_seconds())))
    if row["open_calls"] is not None and row["open"] >= row["open_calls"]:
        found.append(_line(row, "open_calls", row["open"], OPEN_WAIT_SECONDS))
    return found


def _line(row: sql.Row, bound: str, used: int, after_seconds: int) -> dict[str, Any]:
    return {
        "scope": row["scope"],
        "key": row["key"],
        "limit": bound,
        "max": row[bound],
        "used": used,
        "after_seconds": after_seconds,
    }


def _share(count: int, rate: int) -> timedelta:
    """Return how long a rate per minute takes to let so many through."""
    return timedelta(seconds=60 * count / rate)


def let_through(
    meters: Sequence[sql.Row], *, reservation_id: UUID, tokens: int
) -> list[sql.Statement]:
    """Return the statements that meter a call that fits, of the locked rows `meters`."""
    if not meters:
        return []
    requests = [_moved(row, "requests", 1) for row in meters]
    spread = [_moved(row, "tokens", tokens) for row in meters]
    holds = [
        LimitHold(
            reservation_id=reservation_id,
            meter_id=row["id"],
            tokens=0 if row["tokens_per_minute"] is None else tokens,
        )
        for row in meters
    ]
    moving = sql.Statement(MOVE_METERS, ([row["id"] for row in meters], requests, spread))
    return [moving, sql.insert(holds)]


def _moved(row: sql.Row, what: str, count: int) -> datetime:
    until, rate = row[f"{what}_until"], row[f"{what}_per_minute"]
    moved: datetime = until if rate is None else max(until, row["now"]) + _share(count, rate)
    return moved


def free(used: Mapping[UUID, int | None]) -> list[int]:
    """Let calls that have ended go from their meters, and return the limits that they were under.

    :param used: the tokens that each has used; None: as many as were metered.
    """
    ids = list(used)
    *_, rows = sql.pipeline(
        sql.Statement(LOCK_HELD_METERS, (ids,)), sql.Statement(FREE, (ids, list(used.values())))
    )
    return [row["limit_id"] for row in rows]


def hold_open(*, limit_id: int, scope: str, key: str) -> None:
    """Let a limit that is made or enabled hold the calls that are open under it.

    What they have asked for is not metered. The caller holds the money's lock exclusively.
    """
    seen = (
        f"SELECT r.reservation_id, l.id, {COUNTED_FOR} AS counted_for"
        + calls_in_sql(scope)
        + " JOIN governance_limit l ON l.id = %(limit)s AND l.scope = s.scope"
        " AND l.key IN (s.key, s.every) WHERE r.state IN ('held', 'in_doubt')"
    )
    params = {"limit": limit_id, "each": is_each(scope, key)}
    sql.pipeline(
        sql.Statement(METERS_OF_OPEN.format(seen=seen), params),
        sql.Statement(
            "INSERT INTO governance_limithold (reservation_id, meter_id, tokens)"
            f" SELECT o.reservation_id, m.id, 0 FROM ({seen}) o JOIN governance_limitmeter m"
            "  ON m.limit_id = o.id AND m.counted_for = o.counted_for ON CONFLICT DO NOTHING",
            params,
        ),
    )


def refusal(lines: Sequence[Mapping[str, Any]]) -> CallRateLimited:
    """Return the refusal of a call by limits, with the exact wait where a rate says it.

    :param lines: of each model that does not fit, `limits` as `over` returns them. A model waits
        for the last of its bounds, the call for the first of the models.
    """
    waits = [max(each["limits"], key=lambda bound: bound["after_seconds"]) for each in lines]
    first = min(waits, key=lambda bound: bound["after_seconds"])
    limit = {name: value for name, value in first.items() if name != "after_seconds"}
    return CallRateLimited(after_seconds=first["after_seconds"], current={"limit": limit})
