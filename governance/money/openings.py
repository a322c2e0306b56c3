"""What a window has seen before its budget counts it: added up, held, and added up again.

Who sets a budget holds the money's lock exclusively, so that no call is decided or ends meanwhile.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from governance.core import sql
from governance.money.budgets import COUNTED_FOR
from governance.money.models import Budget
from governance.money.pricing import window_of
from governance.money.scopes import calls_in_sql, is_each, keys_in_sql

LOCK = (
    "SELECT id FROM governance_budgetwindow WHERE budget_id = %(budget)s"
    " AND starts_at = %(starts)s ORDER BY id FOR NO KEY UPDATE"
)
# The budgets of what a thing counts as in each scope.
BUDGETS = " JOIN governance_budget b ON b.scope = s.scope AND b.key IN (s.key, s.every)"
# The window of the budget in which something was. In the braces stands when.
IN_WINDOW = (
    " JOIN governance_budgetwindow w ON w.budget_id = b.id"
    f"  AND w.counted_for = {COUNTED_FOR} AND {{at}} >= w.starts_at"
    "  AND (w.ends_at IS NULL OR {at} < w.ends_at)"
)
RESERVED_IN_WINDOW = IN_WINDOW.format(at="r.reserved_at")
RECORDED_IN_WINDOW = IN_WINDOW.format(at="u.recorded_at")
NOT_HELD = (
    " NOT EXISTS (SELECT 1 FROM governance_reservationhold h"
    "  WHERE h.reservation_id = r.reservation_id AND h.window_id = w.id)"
)
# What was corrected and not posted to a window. In the braces stands of what it was.
UNPOSTED = (
    " LEFT JOIN LATERAL (SELECT sum(a.amount) AS amount FROM governance_adjustment a"
    "  LEFT JOIN governance_adjustmentverdict v ON v.adjustment_id = a.adjustment_id"
    "  WHERE {of} AND (NOT a.needs_confirmation OR v.verdict = 'confirmed')"
    "   AND NOT EXISTS (SELECT 1 FROM governance_adjustmentposting p"
    "    WHERE p.adjustment_id = a.adjustment_id AND p.window_id = w.id)) a ON true"
)


def seen(only: str = "") -> str:
    """Return the SQL of the calls `r`, with their budgets `b`, whether these counted them or not.

    A call is of the window in which it was reserved.

    :param only: the one scope that is looked for.
    """
    return calls_in_sql(only) + BUDGETS


def unreserved(only: str = "") -> str:
    """Return the SQL of what was used and not reserved; it is of the window it was recorded in."""
    keys = keys_in_sql(
        agent="u.agent",
        job_type="u.job_type",
        task_id="u.task_id",
        job_id="u.job_id",
        model="m",
        only=only,
    )
    return (
        " FROM governance_unreserveduse u LEFT JOIN governance_languagemodel m ON m.id = u.model_id"
        f" CROSS JOIN LATERAL ({keys}) AS s{BUDGETS}"
    )


def _uncounted(which: str, only: str = "") -> str:
    """Return the SQL of what was spent by window and not counted in it by its own calls.

    What ended calls cost that a window does not hold, with what was corrected before it counted
    them, and what was used beside them and not posted to it.

    :param which: the condition on the budget `b` and its window `w`.
    """
    return (
        "SELECT c.id, sum(c.spent) AS spent FROM ("
        "SELECT w.id, e.cost + coalesce(a.amount, 0) AS spent"
        + seen(only)
        + RESERVED_IN_WINDOW
        + " JOIN governance_resolution e ON e.reservation_id = r.reservation_id"
        + UNPOSTED.format(of="a.resolution_id = r.reservation_id")
        + f" WHERE{NOT_HELD} AND {which} UNION ALL"
        " SELECT w.id, coalesce(u.cost, 0) + coalesce(a.amount, 0) AS spent"
        + unreserved(only)
        + RECORDED_IN_WINDOW
        + UNPOSTED.format(of="a.use_id = u.use_id")
        + " WHERE NOT EXISTS (SELECT 1 FROM governance_unreservedposting q"
        f"   WHERE q.use_id = u.use_id AND q.window_id = w.id) AND {which}) c GROUP BY c.id"
    )


def _open(scope: str) -> str:
    """Return the SQL that makes the windows of one budget that lie at an instant.

    That of a budget for one key also where nothing was seen yet. Parameters of this and the
    statements below: budget, and the bounds of the window.
    """
    return (
        "INSERT INTO governance_budgetwindow"
        " (budget_id, counted_for, kind, starts_at, ends_at, held, spent)"
        ' SELECT n.id, n.counted_for, n."window", %(starts)s, %(ends)s, 0, 0 FROM ('
        f'  SELECT DISTINCT b.id, {COUNTED_FOR} AS counted_for, b."window"'
        + seen(scope)
        + "  WHERE b.id = %(budget)s AND r.reserved_at >= %(starts)s"
        "   AND (%(ends)s::timestamptz IS NULL OR r.reserved_at < %(ends)s)"
        f'  UNION SELECT DISTINCT b.id, {COUNTED_FOR}, b."window"'
        + unreserved(scope)
        + "  WHERE b.id = %(budget)s AND u.recorded_at >= %(starts)s"
        "   AND (%(ends)s::timestamptz IS NULL OR u.recorded_at < %(ends)s)"
        "  UNION SELECT b.id, '', b.\"window\" FROM governance_budget b"
        "   WHERE b.id = %(budget)s AND NOT %(each)s) n"
        " ORDER BY n.counted_for ON CONFLICT DO NOTHING"
    )


def _hold_open(scope: str) -> str:
    """Return the SQL that holds, in the windows of one budget, what is open and not held there."""
    return (
        "WITH held AS (INSERT INTO governance_reservationhold (reservation_id, window_id)"
        " SELECT r.reservation_id, w.id"
        + seen(scope)
        + RESERVED_IN_WINDOW
        + " WHERE b.id = %(budget)s"
        "  AND w.starts_at = %(starts)s AND r.state IN ('held', 'in_doubt') AND"
        + NOT_HELD
        + " RETURNING reservation_id, window_id),"
        " total AS (SELECT h.window_id, sum(r.amount) AS amount FROM held h"
        "  JOIN governance_reservation r ON r.reservation_id = h.reservation_id"
        "  GROUP BY h.window_id)"
        " UPDATE governance_budgetwindow w SET held = w.held + t.amount FROM total t"
        " WHERE w.id = t.window_id RETURNING w.id, t.amount"
    )


def _count(scope: str) -> str:
    """Return the SQL that counts, with a row that says so, what the windows of one budget miss."""
    return (
        "WITH seen AS ("
        + _uncounted("b.id = %(budget)s AND w.starts_at = %(starts)s", scope)
        + "), opened AS (INSERT INTO governance_budgetopening"
        "  (window_id, spent, opened_by, opened_at)"
        " SELECT w.id, coalesce(seen.spent, 0) - coalesce(o.spent, 0), %(actor)s, %(at)s"
        "  FROM governance_budgetwindow w LEFT JOIN seen ON seen.id = w.id"
        "  LEFT JOIN (SELECT window_id, sum(spent) AS spent FROM governance_budgetopening"
        "   GROUP BY window_id) o ON o.window_id = w.id"
        "  WHERE w.budget_id = %(budget)s AND w.starts_at = %(starts)s"
        "   AND (o.window_id IS NULL OR coalesce(seen.spent, 0) > o.spent)"
        " RETURNING window_id, spent)"
        " UPDATE governance_budgetwindow w SET spent = w.spent + o.spent FROM opened o"
        " WHERE w.id = o.window_id RETURNING w.id, o.spent"
    )


def wrong_openings() -> str:
    """Return the SQL of the openings that the rows contradict: one snapshot of all windows."""
    return (
        "WITH o AS (SELECT window_id AS id, sum(spent) AS spent FROM governance_budgetopening"
        "  GROUP BY window_id), seen AS ("
        + _uncounted("w.id IN (SELECT id FROM o)")
        + ") SELECT o.id, o.spent, coalesce(seen.spent, 0) AS spent_in_rows FROM o"
        " LEFT JOIN seen ON seen.id = o.id WHERE o.spent <> coalesce(seen.spent, 0) ORDER BY o.id"
    )


@dataclass(frozen=True)
class Opened:
    """What windows took over: their number, what was spent, and what open calls hold.

    `rows` are of each window that has an opening by this what that takes over.
    """

    windows: int
    spent: Decimal
    held: Decimal
    rows: Mapping[int, Decimal]

    @property
    def sha256(self) -> str:
        """Return the digest by which an event names the openings: a budget for each has many."""
        lines = (f"{window} {spent:.12f}" for window, spent in sorted(self.rows.items()))
        return hashlib.sha256(",".join(lines).encode()).hexdigest()


def open_windows(budget: Budget, *, actor: str, at: datetime) -> Opened:
    """Let a budget count what its present window has seen without it, and return what that is.

    The caller holds the money's lock exclusively, and locks the budget after this.  A window that
    has counted everything stays as it is.
    """
    starts, ends = window_of(budget.window, at)
    params = {"budget": budget.pk, "starts": starts, "ends": ends, "actor": actor, "at": at}
    scope = budget.scope
    opening = sql.Statement(_open(scope), params | {"each": is_each(scope, budget.key)})
    rest = (LOCK, _hold_open(scope), _count(scope))
    _, _, held, opened = sql.pipeline(opening, *(sql.Statement(text, params) for text in rest))
    touched = {row["id"] for row in [*held, *opened]}
    return Opened(
        windows=len(touched),
        spent=sum((row["spent"] for row in opened), Decimal(0)),
        held=sum((row["amount"] for row in held), Decimal(0)),
        rows={row["id"]: row["spent"] for row in opened},
    )
