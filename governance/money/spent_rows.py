"""Read the rows behind a figure of what was spent: calls, unreserved uses, corrections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from governance.core import sql
from governance.money.rollups import (
    CORRECTED,
    FLAGGED_CALL,
    FLAGGED_USE,
    MODEL,
    NARROWED,
    UNPRICED_USE,
    bounds,
)

ROWS_SHOWN = 100
#: Calls of a range that are looked at for those of one agent, type or model.
LOOKED_AT_MAX = 20_000
CALL, USE, CORRECTION = "call", "use", "correction"
ALL, FLAGGED = "all", "flagged"
#: What a page may be narrowed to: what a person should look at, or one kind of rows.
ONLY = (ALL, FLAGGED, "unreserved", "unpriced", "corrected")
KINDS = {
    ALL: (CALL, USE, CORRECTION),
    FLAGGED: (CALL, USE),
    "unreserved": (USE,),
    "unpriced": (USE,),
    "corrected": (CORRECTION,),
}
FLAGS = ("overrun", "usage_missing", "usage_odd", "disputed")
AT_CALL, AT_USE = "e.resolved_at", "u.recorded_at"
# Each kind, the newest first, of which a bounded number is looked at. Indexes: resolution_time_idx,
# or resolution_flagged_idx; unreserved_use_recorded_idx; corrections are few.
READ = {
    CALL: f"""
SELECT 'call' AS kind, e.at, e.pk, r.task_id, r.agent, d.job_type, {MODEL} AS model, e.cost,
       e.overrun, e.usage_missing, e.usage_odd, e.disputed, false AS unpriced
  FROM (SELECT e.resolved_at AS at, e.reservation_id AS pk, e.* FROM governance_resolution e
         WHERE e.resolved_at >= %(since)s AND e.resolved_at < %(until)s
           AND e.ended_as <> 'released'{{before_call}}{{marked_call}}
         ORDER BY e.resolved_at DESC, e.reservation_id DESC LIMIT %(looked_at)s) e
  JOIN governance_reservation r ON r.reservation_id = e.pk
  JOIN governance_routedecision d ON d.decision_id = r.decision_id
  JOIN governance_languagemodel m ON m.id = d.model_id""",
    USE: f"""
SELECT 'use', u.recorded_at, u.use_id, u.task_id, u.agent, u.job_type, {MODEL}, u.cost,
       false, false, u.usage_odd, u.disputed, {UNPRICED_USE}
  FROM (SELECT * FROM governance_unreserveduse u
         WHERE u.recorded_at >= %(since)s
           AND u.recorded_at < %(until)s{{before_use}}{{marked_use}}
         ORDER BY u.recorded_at DESC, u.use_id DESC LIMIT %(looked_at)s) u
  LEFT JOIN governance_languagemodel m ON m.id = u.model_id""",
    CORRECTION: f"""
SELECT 'correction', a.at, a.pk, coalesce(r.task_id, u.task_id), coalesce(r.agent, u.agent),
       coalesce(d.job_type, u.job_type), {MODEL}, a.amount,
       false, false, false, false, false{CORRECTED}""",
}
NAMES = f"kind, at, pk, task_id, agent, job_type, model, amount, {', '.join(FLAGS)}, unpriced"
MARKED = {
    FLAGGED: (f" AND {FLAGGED_CALL}", f" AND {FLAGGED_USE}"),
    "unpriced": ("", f" AND {UNPRICED_USE}"),
}
READ_OPENINGS = (
    "SELECT count(*) AS n, coalesce(sum(spent), 0) AS spent FROM governance_budgetopening"
    " WHERE opened_at >= %(since)s AND opened_at < %(until)s"
)


@dataclass(frozen=True)
class Shown:
    """A row that has spent something, or taken it back; `amount` is None where nobody knows it."""

    kind: str
    at: datetime
    pk: UUID
    task_id: str
    agent: str
    job_type: str
    model: str
    amount: Decimal | None
    flags: tuple[str, ...]


@dataclass(frozen=True)
class Openings:
    """What new budgets took over of before: how many windows, and how much."""

    count: int
    spent: Decimal


def read(
    *,
    first: date,
    last: date,
    only: str = ALL,
    narrowed: Mapping[str, str] | None = None,
    before: tuple[datetime, UUID] | None = None,
) -> list[Shown]:
    """Return up to `ROWS_SHOWN` rows of the days of a range, the newest first.

    Of one agent, type or model: those among the newest `LOOKED_AT_MAX` of each kind.

    :param only: one of `ONLY`. :param before: time and id of the row that a page ended with.
    """
    since, until = bounds(first, last)
    given = {name: value for name, value in (narrowed or {}).items() if name in NARROWED}
    marked_call, marked_use = MARKED.get(only, ("", ""))
    older = " AND ({at}, {pk}) < (%(at)s, %(pk)s)" if before else ""
    words = {
        "before_call": older.format(at=AT_CALL, pk="e.reservation_id"),
        "before_use": older.format(at=AT_USE, pk="u.use_id"),
        "marked_call": marked_call,
        "marked_use": marked_use,
    }
    parts = " UNION ALL ".join(f"({READ[kind].format(**words)})" for kind in KINDS[only])
    conditions = [f"{name} = %({name})s" for name in given]
    conditions += ["(at, pk) < (%(at)s, %(pk)s)"] if before else []
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    params: dict[str, Any] = {
        "since": since,
        "until": until,
        "looked_at": LOOKED_AT_MAX if given else ROWS_SHOWN,
        "rows": ROWS_SHOWN,
        **given,
    }
    if before:
        params |= {"at": before[0], "pk": before[1]}
    statement = (
        f"SELECT * FROM ({parts}) AS row ({NAMES}){where} ORDER BY at DESC, pk DESC LIMIT %(rows)s"
    )
    [rows] = sql.pipeline(sql.Statement(statement, params))
    return [_shown(row) for row in rows]


def _shown(row: sql.Row) -> Shown:
    flags = [name for name in FLAGS if row[name]]
    flags += ["unreserved"] * (row["kind"] == USE) + ["unpriced"] * row["unpriced"]
    names = ("kind", "at", "pk", "task_id", "agent", "job_type", "model", "amount")
    return Shown(**{name: row[name] for name in names}, flags=tuple(flags))


def openings(*, first: date, last: date) -> Openings:
    """Return what budgets that were made on the days of a range took over."""
    since, until = bounds(first, last)
    [[row]] = sql.pipeline(sql.Statement(READ_OPENINGS, {"since": since, "until": until}))
    return Openings(row["n"], row["spent"])
