"""What a submitter's own jobs have cost: sums over the ends of their model calls."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from governance.core import clock, sql
from governance.core.errors import FieldFault, InvalidArgument
from governance.money.pricing import window_of

#: A range is as long as a leap year at most.
DAYS_MAX = 366
#: Calls that one answer sums up, and groups that it has.
CALLS_MAX = 500_000
GROUPS_MAX = 1000
LABEL = "label:"

# What is summed, by the word that a caller groups by.
GROUPS = {
    "day": "to_char(e.resolved_at AT TIME ZONE 'UTC', 'YYYY-MM-DD')",
    "model": "m.provider || '/' || m.name",
    "job_type": "d.job_type",
    LABEL: "t.labels ->> %(label)s",
}
JOINS = {
    "day": "",
    "model": (
        " JOIN governance_routedecision d ON d.decision_id = r.decision_id"
        " JOIN governance_languagemodel m ON m.id = d.model_id"
    ),
    "job_type": " JOIN governance_routedecision d ON d.decision_id = r.decision_id",
    LABEL: " JOIN jobs_task t ON t.job_id = j.id",
}
# The same, of what was used and not reserved.
JOINS_UNRESERVED = {
    "day": "",
    "model": " LEFT JOIN governance_languagemodel m ON m.id = e.model_id",
    "job_type": " CROSS JOIN LATERAL (SELECT e.job_type) AS d",
    LABEL: " JOIN jobs_task t ON t.job_id = j.id",
}
# No locks. Index: resolution_time_idx, or job_by_submitter_idx where its jobs are the fewer. A call
# that was released was never made.  The total is of all groups, also of those past the last row.
READ_SPEND = """
SELECT g.*, sum(g.calls) OVER () AS all_calls, sum(g.cost) OVER () AS total, count(*) OVER () AS n
  FROM (
SELECT "group", sum(cost) AS cost, sum(input_tokens) AS input_tokens,
       sum(output_tokens) AS output_tokens, sum(calls)::int AS calls
  FROM ((SELECT {group} AS "group", e.cost, coalesce(e.input_tokens, 0) AS input_tokens,
               coalesce(e.output_tokens, 0) AS output_tokens, 1 AS calls
          FROM governance_resolution e
          JOIN governance_reservation r ON r.reservation_id = e.reservation_id
          JOIN jobs_job j ON j.job_id = r.job_id{joins}
         WHERE e.resolved_at >= %(since)s AND e.resolved_at < %(until)s
           AND e.ended_as <> 'released' AND j.submitted_by = %(submitter)s
         LIMIT %(calls)s)
        UNION ALL
        (SELECT {group}, coalesce(e.cost, 0), e.input_tokens, e.output_tokens, 1
          FROM (SELECT u.*, u.recorded_at AS resolved_at FROM governance_unreserveduse u) e
          JOIN jobs_job j ON j.job_id = e.job_id{unreserved}
         WHERE e.resolved_at >= %(since)s AND e.resolved_at < %(until)s
           AND j.submitted_by = %(submitter)s
         LIMIT %(calls)s)
        UNION ALL
        (SELECT {group}, e.amount, 0, 0, 0
          FROM (SELECT a.amount, a.resolution_id, coalesce(v.decided_at, a.made_at) AS resolved_at
                  FROM governance_adjustment a
                  LEFT JOIN governance_adjustmentverdict v ON v.adjustment_id = a.adjustment_id
                 WHERE NOT a.needs_confirmation OR v.verdict = 'confirmed') e
          JOIN governance_reservation r ON r.reservation_id = e.resolution_id
          JOIN jobs_job j ON j.job_id = r.job_id{joins}
         WHERE e.resolved_at >= %(since)s AND e.resolved_at < %(until)s
           AND j.submitted_by = %(submitter)s)
        UNION ALL
        (SELECT {group}, e.amount, 0, 0, 0
          FROM (SELECT a.amount, u.job_id, u.model_id, u.job_type,
                       coalesce(v.decided_at, a.made_at) AS resolved_at
                  FROM governance_adjustment a
                  JOIN governance_unreserveduse u ON u.use_id = a.use_id
                  LEFT JOIN governance_adjustmentverdict v ON v.adjustment_id = a.adjustment_id
                 WHERE NOT a.needs_confirmation OR v.verdict = 'confirmed') e
          JOIN jobs_job j ON j.job_id = e.job_id{unreserved}
         WHERE e.resolved_at >= %(since)s AND e.resolved_at < %(until)s
           AND j.submitted_by = %(submitter)s)) AS call
 GROUP BY "group") AS g
 ORDER BY {order} LIMIT %(groups)s
"""
BY_DAY, BY_COST = 'g."group"', 'g.cost DESC, g."group"'


@dataclass(frozen=True)
class SpendGroup:
    """What the calls of one group have cost. `group` is None for jobs without the label."""

    group: str | None
    cost: Decimal
    input_tokens: int
    output_tokens: int
    calls: int


@dataclass(frozen=True)
class Spend:
    """What all calls of the range have cost, and the groups: by day, else the dearest first.

    `truncated`: there are more groups than `GROUPS_MAX`; the total is of all.
    """

    total: Decimal
    groups: list[SpendGroup]
    truncated: bool


def read_spend(
    *, submitter: str, since: date | None = None, until: date | None = None, group_by: str = "day"
) -> Spend:
    """Return what the calls of a submitter's jobs have cost that ended on the days of a range.

    :param submitter: the principal, as `Job.submitted_by` has it.
    :param since: the first day, in UTC; default the first of the month of `until`, or of today.
    :param until: the last day, itself included; default the last of the month of `since`.
    :param group_by: `day`, `model`, `job_type` or `label:KEY`.
    :raises InvalidArgument: the range is none, or longer than `DAYS_MAX`; it has too many calls.
    """
    first, last = _range(since, until)
    kind = LABEL if group_by.startswith(LABEL) else group_by
    statement = READ_SPEND.format(
        group=GROUPS[kind],
        joins=JOINS[kind],
        unreserved=JOINS_UNRESERVED[kind],
        order=BY_DAY if kind == "day" else BY_COST,
    )
    window = {
        "submitter": submitter,
        "since": datetime.combine(first, datetime.min.time(), UTC),
        "until": datetime.combine(last + timedelta(days=1), datetime.min.time(), UTC),
        "label": group_by.removeprefix(LABEL),
        "calls": CALLS_MAX + 1,
        "groups": GROUPS_MAX,
    }
    [rows] = sql.pipeline(sql.Statement(statement, window))
    if rows and rows[0]["all_calls"] > CALLS_MAX:
        raise _wrong_range(f"more than {CALLS_MAX} calls; ask for fewer days")
    return Spend(
        total=rows[0]["total"] if rows else Decimal(0),
        groups=[_group(row) for row in rows],
        truncated=bool(rows) and rows[0]["n"] > len(rows),
    )


def _group(row: sql.Row) -> SpendGroup:
    counts: dict[str, Any] = {
        name: int(row[name]) for name in ("input_tokens", "output_tokens", "calls")
    }
    return SpendGroup(group=row["group"], cost=row["cost"], **counts)


def _range(since: date | None, until: date | None) -> tuple[date, date]:
    """Return the first and the last day of what is asked for: by default this month.

    :raises InvalidArgument: the last is before the first, or too many days lie between.
    """
    given = until or since
    at = datetime.combine(given, datetime.min.time(), UTC) if given else clock.now()
    begins, ends = window_of("month", at)
    assert ends is not None
    first = since or begins.date()
    last = until or (ends - timedelta(days=1)).date()
    if last < first:
        raise _wrong_range("a day that is not before `from`")
    if (last - first).days >= DAYS_MAX:
        raise _wrong_range(f"{DAYS_MAX} days at most, from the first to the last")
    return first, last


def _wrong_range(detail: str) -> InvalidArgument:
    return InvalidArgument("A query parameter is not valid.", errors=[FieldFault("/to", detail)])
