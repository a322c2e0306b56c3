"""The counters of budgets: open, lock, hold, post, and say when a cap is passed."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from governance.core import audit, sql
from governance.money.models import Budget, BudgetWindow
from governance.money.pricing import text_of, window_of

# The budgets that a call counts against, each with the window that `now` lies in.
APPLICABLE = (
    " FROM governance_budget b"
    " JOIN unnest(%(scopes)s::text[], %(keys)s::text[]) AS s(scope, key)"
    "  ON s.scope = b.scope AND b.key IN (s.key, '*')"
    " JOIN unnest(%(kinds)s::text[], %(starts)s::timestamptz[], %(ends)s::timestamptz[])"
    '  AS k(kind, starts_at, ends_at) ON k.kind = b."window"'
    " {join} JOIN governance_budgetwindow w ON w.budget_id = b.id AND w.kind = k.kind"
    "  AND w.starts_at = k.starts_at"
    "  AND w.counted_for = CASE b.key WHEN '*' THEN s.key ELSE '' END"
    " WHERE b.enabled"
)
# Waits for an uncommitted rival of the same window; in budget order, so that nobody waits back.
OPEN_WINDOWS = (
    "INSERT INTO governance_budgetwindow"
    " (budget_id, counted_for, kind, starts_at, ends_at, held, spent)"
    " SELECT b.id, CASE b.key WHEN '*' THEN s.key ELSE '' END, k.kind, k.starts_at, k.ends_at, 0, 0"
    + APPLICABLE.format(join="LEFT")
    + " AND w.id IS NULL ORDER BY b.id ON CONFLICT DO NOTHING"
)
# Locks: the windows, in id order.
LOCK_WINDOWS = "SELECT w.id" + APPLICABLE.format(join="") + " ORDER BY w.id FOR NO KEY UPDATE OF w"
# A statement of its own: the caps and counters as they are once the locks are held.
READ_ROOM = (
    'SELECT w.id, b.id AS budget_id, b.scope, b."window" AS kind, b.cap, b.soft_cap, w.warned_at,'
    " coalesce(w.held + w.spent, 0) AS used, k.ends_at"
    + APPLICABLE.format(join="LEFT")
    + " ORDER BY w.id"
)
# The rule itself: never past a cap, whatever was read before.
HOLD = (
    "UPDATE governance_budgetwindow w SET held = w.held + %s FROM governance_budget b"
    " WHERE b.id = w.budget_id AND w.id = ANY(%s::bigint[])"
    " AND (b.cap IS NULL OR w.held + w.spent + %s <= b.cap) RETURNING w.id"
)

LOCK_HELD_WINDOWS = (
    "SELECT id FROM governance_budgetwindow WHERE id = ANY(%s::bigint[])"
    " ORDER BY id FOR NO KEY UPDATE"
)
# What was spent is never refused: no cap here.
POST = (
    "UPDATE governance_budgetwindow w SET held = w.held - u.freed, spent = w.spent + u.cost"
    " FROM unnest(%s::bigint[], %s::numeric[], %s::numeric[]) AS u(id, freed, cost),"
    " governance_budget b WHERE w.id = u.id AND b.id = w.budget_id"
    " RETURNING w.id, b.id AS budget_id, b.cap, w.held + w.spent AS used, u.cost - u.freed AS moved"
)


def scopes_of(*, agent: str, job_type: str, task_id: str) -> dict[str, str]:
    """Return the key of a call in each scope that a budget may have."""
    return {
        Budget.Scope.GLOBAL.value: "",
        Budget.Scope.AGENT.value: agent,
        Budget.Scope.JOB_TYPE.value: job_type,
        Budget.Scope.JOB.value: task_id,
    }


def windows(scopes: dict[str, str], at: datetime) -> dict[str, Any]:
    kinds = list(Budget.Window.values)
    bounds = [window_of(kind, at) for kind in kinds]
    return {
        "scopes": list(scopes),
        "keys": list(scopes.values()),
        "kinds": kinds,
        "starts": [start for start, _ in bounds],
        "ends": [end for _, end in bounds],
    }


def warn(room: list[sql.Row], amount: Decimal, *, at: datetime) -> None:
    """Note on the budget's chain, once per window, that its soft cap was passed."""
    passed = [
        row
        for row in room
        if row["soft_cap"] is not None
        and row["warned_at"] is None
        and row["used"] + amount > row["soft_cap"]
    ]
    if not passed:
        return
    BudgetWindow.objects.filter(pk__in=[row["id"] for row in passed]).update(warned_at=at)
    note({row["budget_id"]: row["used"] + amount for row in passed}, action="budget.warned", at=at)


def note_overruns(posted: list[sql.Row], *, at: datetime) -> None:
    """Note on the budget's chain that what was posted has led past its cap.

    :param posted: rows of `POST`.
    """
    broken = {
        row["budget_id"]: row["used"]
        for row in posted
        if row["cap"] is not None and row["used"] > row["cap"] >= row["used"] - row["moved"]
    }
    if broken:
        note(broken, action="budget.overrun", at=at)


def note(used: dict[int, Decimal], *, action: str, at: datetime) -> None:
    locked = Budget.objects.select_for_update(no_key=True).filter(pk__in=used).order_by("pk")
    for budget in locked:
        audit.record(
            budget,
            action=action,
            actor="system:ledger",
            at=at,
            after={
                "used": text_of(used[budget.pk]),
                "cap": None if budget.cap is None else text_of(budget.cap),
                "soft_cap": None if budget.soft_cap is None else text_of(budget.soft_cap),
            },
        )
