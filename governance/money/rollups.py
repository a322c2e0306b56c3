"""Sum up by hour what was spent, so that the console's page costs the same however many calls were.

The hours that may still change are summed up anew, whole, so nothing is counted twice.  An hour is
final once every transaction has ended that may have written into it: see `SpendHourCursor`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db import transaction

from governance.core import clock, sql
from governance.money.hours import SpendHourCursor

#: A page that is drawn is behind the ledger by no more than this and a round of the sweeper.
COUNT_SECONDS = 20
#: So long after its end an hour waits for those who have read their clock in it.
LAG = timedelta(minutes=2)
#: A first round over years is made of parts.
DAYS_PER_ROUND = 31
#: Nothing is older: what says so cannot be read.
EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)

MODEL = "coalesce(m.provider || '/' || m.name, '')"
SUMS = (
    "cost", "unreserved", "corrected", "calls", "uses", "corrections", "flagged", "unpriced",
    "input_tokens", "output_tokens",
)  # fmt: skip
#: What a person should look at of a call `e` and of a use `u`, and a use that nobody can price.
FLAGGED_CALL, FLAGGED_USE = "(e.overrun OR e.usage_missing)", "u.usage_odd"
UNPRICED_USE = "u.cost IS NULL"
# The corrections that count, with whose call or use each is of.
CORRECTED = """
  FROM (SELECT c.adjustment_id AS pk, c.amount, c.resolution_id, c.use_id,
               coalesce(v.decided_at, c.made_at) AS at
          FROM governance_adjustment c
          LEFT JOIN governance_adjustmentverdict v ON v.adjustment_id = c.adjustment_id
         WHERE NOT c.needs_confirmation OR v.verdict = 'confirmed') a
  LEFT JOIN governance_reservation r ON r.reservation_id = a.resolution_id
  LEFT JOIN governance_routedecision d ON d.decision_id = r.decision_id
  LEFT JOIN governance_unreserveduse u ON u.use_id = a.use_id
  LEFT JOIN governance_languagemodel m ON m.id = coalesce(d.model_id, u.model_id)
 WHERE a.at >= %(since)s AND a.at < %(until)s
"""
# Every row of the ledger that has spent something, by the instant since when it counts. Indexes:
# resolution_time_idx, unreserved_use_recorded_idx; corrections are few.
LEDGER = f"""
SELECT e.resolved_at AS at, r.agent, d.job_type, {MODEL} AS model, e.cost, 0 AS unreserved,
       0 AS corrected, 1 AS calls, 0 AS uses, 0 AS corrections,
       {FLAGGED_CALL}::int AS flagged, 0 AS unpriced,
       coalesce(e.input_tokens, 0) AS input_tokens, coalesce(e.output_tokens, 0) AS output_tokens
  FROM governance_resolution e
  JOIN governance_reservation r ON r.reservation_id = e.reservation_id
  JOIN governance_routedecision d ON d.decision_id = r.decision_id
  JOIN governance_languagemodel m ON m.id = d.model_id
 WHERE e.resolved_at >= %(since)s AND e.resolved_at < %(until)s AND e.ended_as <> 'released'
UNION ALL
SELECT u.recorded_at, u.agent, u.job_type, {MODEL}, 0, coalesce(u.cost, 0), 0, 0, 1, 0,
       {FLAGGED_USE}::int, ({UNPRICED_USE})::int, u.input_tokens, u.output_tokens
  FROM governance_unreserveduse u LEFT JOIN governance_languagemodel m ON m.id = u.model_id
 WHERE u.recorded_at >= %(since)s AND u.recorded_at < %(until)s
UNION ALL
SELECT a.at, coalesce(r.agent, u.agent), coalesce(d.job_type, u.job_type), {MODEL}, 0, 0,
       a.amount, 0, 0, 1, 0, 0, 0, 0{CORRECTED}"""
HOURS = (
    "SELECT date_trunc('hour', l.at, 'UTC') AS hour, l.agent, l.job_type, l.model,"
    f" {', '.join(f'sum(l.{name}) AS {name}' for name in SUMS)}"
    f" FROM ({LEDGER}) l GROUP BY 1, 2, 3, 4"
)
# Locks: the cursor's row, held by the caller.
COUNT = (
    f"INSERT INTO governance_spendhour AS s (hour, agent, job_type, model, {', '.join(SUMS)})"
    f" {HOURS} ORDER BY 1, 2, 3, 4 ON CONFLICT (hour, agent, job_type, model) DO UPDATE SET"
    f" {', '.join(f'{name} = EXCLUDED.{name}' for name in SUMS)}"
    f" WHERE ({', '.join(f's.{name}' for name in SUMS)})"
    f" IS DISTINCT FROM ({', '.join(f'EXCLUDED.{name}' for name in SUMS)})"
)
# The clock, the first transaction that is under way, and this one: all that began to write before
# have a smaller number, which a snapshot's xmax does not say of those still at it. And the first
# row of the ledger, for who has not summed up anything yet.
READ_NOW = (
    "SELECT clock_timestamp() AS now, pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS lo,"
    " pg_current_xact_id()::text::bigint AS own"
)
READ_FIRST = (
    "SELECT least((SELECT min(resolved_at) FROM governance_resolution WHERE resolved_at >= %(at)s),"
    " (SELECT min(recorded_at) FROM governance_unreserveduse WHERE recorded_at >= %(at)s)) AS at"
)
# Sums of final hours that the ledger contradicts: one snapshot.
WRONG_HOURS = f"""
SELECT hour, agent, job_type, model, expected::text AS expected, found::text AS found FROM (
SELECT hour, agent, job_type, model,
       (SELECT to_jsonb(x) FROM (SELECT {", ".join(f"l.{name}" for name in SUMS)}) x
         WHERE l.calls IS NOT NULL) AS expected,
       (SELECT to_jsonb(x) FROM (SELECT {", ".join(f"s.{name}" for name in SUMS)}) x
         WHERE s.calls IS NOT NULL) AS found
  FROM ({HOURS}) l
  FULL JOIN (SELECT * FROM governance_spendhour WHERE hour < %(until)s) s
 USING (hour, agent, job_type, model)) both_ways
 WHERE expected IS DISTINCT FROM found
 ORDER BY hour, agent, job_type, model
"""


def count_if_due() -> bool:
    """Count for a page, unless somebody did a moment ago; return whether it did."""
    at = SpendHourCursor.objects.values_list("counted_at", flat=True).first()
    if at is not None and clock.now() - at < timedelta(seconds=COUNT_SECONDS):
        return False
    return count()


@transaction.atomic
def count() -> bool:
    """Sum up the hours that are not final, and make final those into which nobody writes any more.

    Returns False at once while another process is at it.
    """
    SpendHourCursor.objects.bulk_create(
        [SpendHourCursor(pk=1, counted_at=clock.now())], ignore_conflicts=True
    )
    cursor = SpendHourCursor.objects.select_for_update(skip_locked=True, no_key=True).first()
    if cursor is None:
        return False
    [state], [first] = sql.pipeline(
        sql.Statement(READ_NOW), sql.Statement(READ_FIRST, {"at": EPOCH})
    )
    now = state["now"]
    since = cursor.settled_until or _hour(first["at"] or now)
    until = min(since + timedelta(days=DAYS_PER_ROUND), _hour(now) + HOUR)
    # Seen after the look at the transactions: whoever had ended by then is in the sums.
    sql.pipeline(sql.Statement(COUNT, {"since": since, "until": until}))
    _settle(cursor, since=since, until=until, ended_before=state["lo"])
    if cursor.barrier is None and (over := _hour(now - LAG)) > (cursor.settled_until or since):
        cursor.barrier, cursor.barrier_until = state["own"], over
    cursor.counted_at = now
    cursor.save()
    return True


def _settle(
    cursor: SpendHourCursor, *, since: datetime, until: datetime, ended_before: int
) -> None:
    """Make the hours final that were summed up after all had ended who wrote into them."""
    if cursor.barrier is None or cursor.barrier_until is None or ended_before < cursor.barrier:
        return
    cursor.settled_until = max(since, min(cursor.barrier_until, until))
    if cursor.settled_until >= cursor.barrier_until:
        cursor.barrier = cursor.barrier_until = None


def _hour(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def wrong_hours() -> sql.Statement | None:
    """Return what finds the final sums that the ledger contradicts; None where none is final."""
    until = SpendHourCursor.objects.values_list("settled_until", flat=True).first()
    return sql.Statement(WRONG_HOURS, {"since": EPOCH, "until": until}) if until else None


# --- read ---------------------------------------------------------------------------------------

#: What the sums are told by, and narrowed by.
KINDS = ("day", "agent", "job_type", "model")
NARROWED = ("agent", "job_type", "model")
# Index: spend_hour_once.
READ_HOURS = (
    "WITH h AS MATERIALIZED (SELECT to_char(hour AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day,"
    f" agent, job_type, model, {', '.join(SUMS)} FROM governance_spendhour"
    " WHERE hour >= %(since)s AND hour < %(until)s"
)
READ_SUMS = ") " + " UNION ALL ".join(
    f"SELECT '{kind}' AS kind, {kind} AS name,"
    f" {', '.join(f'sum({name}) AS {name}' for name in SUMS)} FROM h GROUP BY {kind}"
    for kind in KINDS
)


@dataclass(frozen=True)
class Spent:
    """What was spent under a name: in USD, with how many rows of which kind."""

    name: str
    cost: Decimal
    unreserved: Decimal
    corrected: Decimal
    calls: int
    uses: int
    corrections: int
    flagged: int
    unpriced: int
    input_tokens: int
    output_tokens: int

    @property
    def total(self) -> Decimal:
        """Return what was spent altogether."""
        return self.cost + self.unreserved + self.corrected


def read_spent(
    *, first: date, last: date, narrowed: dict[str, str] | None = None
) -> dict[str, list[Spent]]:
    """Return what was spent on the days of a range, by each of `KINDS`: by day, else dearest first.

    :param narrowed: of the whole only that of an `agent`, a `job_type`, a `model`.
    """
    given = {name: value for name, value in (narrowed or {}).items() if name in NARROWED}
    since, until = bounds(first, last)
    condition = "".join(f" AND {name} = %({name})s" for name in given)
    statement = f"{READ_HOURS}{condition}{READ_SUMS}"
    [rows] = sql.pipeline(sql.Statement(statement, {"since": since, "until": until} | given))
    found: dict[str, list[Spent]] = {kind: [] for kind in KINDS}
    for row in rows:
        found[row["kind"]].append(_spent(row))
    for kind, spent in found.items():
        spent.sort(key=lambda one: one.name)
        if kind != "day":
            spent.sort(key=lambda one: -one.total)
    return found


def _spent(row: sql.Row) -> Spent:
    amounts = (row[name] for name in SUMS[:3])
    return Spent(row["name"], *amounts, *(int(row[name]) for name in SUMS[3:]))


def total_of(spent: Sequence[Spent], name: str = "") -> Spent:
    """Return the sum under another name."""
    amounts = {each: sum((getattr(one, each) for one in spent), Decimal(0)) for each in SUMS[:3]}
    counts = {each: sum(getattr(one, each) for one in spent) for each in SUMS[3:]}
    sums: dict[str, Any] = {**amounts, **counts}
    return Spent(name, **sums)


def bounds(first: date, last: date) -> tuple[datetime, datetime]:
    """Return the beginning of the first day and the end of the last, in UTC."""
    begin = datetime.combine(first, datetime.min.time(), UTC)
    return begin, datetime.combine(last, datetime.min.time(), UTC) + timedelta(days=1)
