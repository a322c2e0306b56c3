"""The counters of budgets: open, lock, hold, post, and say when a cap is passed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from governance.core import audit, outbox, sql
from governance.money.models import CURRENCY, Budget, BudgetWindow
from governance.money.pricing import text_of, window_of
from governance.money.scopes import Scopes, columns_of

#: Of the open reservations of a full budget so many are told.
HOLDS_TOLD_MAX = 5
#: Advisory lock: shared by all that holds and posts, exclusively by who sets budgets. What it does
#: not let meet: a budget that is made or whose cap is changed, and a call that counts.
LOCK_CLASS = 6
SHARE_MONEY = sql.Statement("SELECT pg_advisory_xact_lock_shared(%s, 0)", (LOCK_CLASS,))
TAKE_MONEY = sql.Statement("SELECT pg_advisory_xact_lock(%s, 0)", (LOCK_CLASS,))

#: Whose window it is, of a budget for each.
COUNTED_FOR = "CASE b.key WHEN s.every THEN s.key ELSE '' END"
# The budgets that a call counts against, each with the window that `now` lies in.
APPLICABLE = (
    " FROM governance_budget b"
    " JOIN unnest(%(scopes)s::text[], %(keys)s::text[], %(every)s::text[]) AS s(scope, key, every)"
    "  ON s.scope = b.scope AND b.key IN (s.key, s.every)"
    " JOIN unnest(%(kinds)s::text[], %(starts)s::timestamptz[], %(ends)s::timestamptz[])"
    '  AS k(kind, starts_at, ends_at) ON k.kind = b."window"'
    " {join} JOIN governance_budgetwindow w ON w.budget_id = b.id AND w.kind = k.kind"
    "  AND w.starts_at = k.starts_at"
    f"  AND w.counted_for = {COUNTED_FOR}"
    # Also of those that are disabled: they go on counting, and refuse nothing.
    " WHERE true"
)
# Waits for an uncommitted rival of the same window; in budget order, so that nobody waits back.
OPEN_WINDOWS = (
    "INSERT INTO governance_budgetwindow"
    " (budget_id, counted_for, kind, starts_at, ends_at, held, spent)"
    f" SELECT b.id, {COUNTED_FOR}, k.kind, k.starts_at, k.ends_at, 0, 0"
    + APPLICABLE.format(join="LEFT")
    + " AND w.id IS NULL ORDER BY b.id ON CONFLICT DO NOTHING"
)
# Locks: the windows, in id order.
LOCK_WINDOWS = "SELECT w.id" + APPLICABLE.format(join="") + " ORDER BY w.id FOR NO KEY UPDATE OF w"
# Locks: the budgets, in id order, against a change of their caps.
LOCK_BUDGETS = "SELECT b.id" + APPLICABLE.format(join="") + " ORDER BY b.id FOR SHARE OF b"
# A statement of its own: the caps and counters as they are once the locks are held.
READ_ROOM = (
    'SELECT w.id, b.id AS budget_id, b.scope, b."window" AS kind, w.warned_at,'
    " w.exhausted_at, k.ends_at,"
    " s.key AS key,"
    " CASE WHEN b.enabled THEN b.cap END AS cap,"
    " CASE WHEN b.enabled THEN b.soft_cap END AS soft_cap,"
    " coalesce(w.held, 0) AS held, coalesce(w.spent, 0) AS spent,"
    " coalesce(w.held + w.spent, 0) AS used" + APPLICABLE.format(join="LEFT") + " ORDER BY w.id"
)
# The rule itself: never past a cap, whatever was read before.
HOLD = (
    "UPDATE governance_budgetwindow w SET held = w.held + %s FROM governance_budget b"
    " WHERE b.id = w.budget_id AND w.id = ANY(%s::bigint[])"
    " AND (b.cap IS NULL OR NOT b.enabled OR w.held + w.spent + %s <= b.cap) RETURNING w.id"
)
# The open reservations that hold most in a window. By their partial index first: few are open,
# and a window may have held many.
LARGEST_HOLDS = (
    "WITH o AS MATERIALIZED (SELECT reservation_id, task_id, amount FROM governance_reservation"
    "  WHERE state IN ('held', 'in_doubt'))"
    " SELECT o.reservation_id, o.task_id, o.amount FROM o JOIN governance_reservationhold h"
    "  ON h.reservation_id = o.reservation_id WHERE h.window_id = %s"
    f" ORDER BY o.amount DESC, o.reservation_id LIMIT {HOLDS_TOLD_MAX}"
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
    " RETURNING w.id, b.id AS budget_id, CASE WHEN b.enabled THEN b.cap END AS cap,"
    " CASE WHEN b.enabled THEN b.soft_cap END AS soft_cap, w.warned_at, w.exhausted_at,"
    " w.held + w.spent AS used, u.cost - u.freed AS moved"
)
#: What is told of a budget, each once per window.
SOFT_CAP_REACHED, EXHAUSTED = "budget.soft_cap_reached", "budget.exhausted"
ACTOR = "system:ledger"


def caps_of(budget: Budget) -> dict[str, str | None]:
    """Return the caps of a budget as events and facts have them."""
    return {
        "cap": None if budget.cap is None else text_of(budget.cap),
        "soft_cap": None if budget.soft_cap is None else text_of(budget.soft_cap),
    }


def windows(scopes: Scopes, at: datetime) -> dict[str, Any]:
    kinds = list(Budget.Window.values)
    bounds = [window_of(kind, at) for kind in kinds]
    return {
        **columns_of(scopes),
        "kinds": kinds,
        "starts": [start for start, _ in bounds],
        "ends": [end for _, end in bounds],
    }


def lock_room(scopes: Scopes, at: datetime, *first: sql.Statement) -> list[sql.Row]:
    """Open the windows of an instant, lock them by id, and return what room they have.

    :param first: what is sent before, in the same round trip.
    """
    params = windows(scopes, at)
    *_, room = sql.pipeline(
        *first,
        sql.Statement(OPEN_WINDOWS, params),
        sql.Statement(LOCK_WINDOWS, params),
        sql.Statement(READ_ROOM, params),
    )
    # One that an earlier release makes meanwhile counts from the next call.
    return [row for row in room if row["id"] is not None]


def tell(
    rows: Sequence[sql.Row],
    *,
    at: datetime,
    refused: Collection[int] = (),
    holding: Decimal = Decimal(0),
) -> None:
    """Say of locked windows, once of each, that a soft cap was passed or that there is no room.

    On the budget's audit chain and as a fact of its stream. There is no room where what is spent
    and held has come to the cap, or where a call was refused for want of it.

    :param rows: of each window `id, cap, soft_cap, warned_at, exhausted_at` and `used`, as it is
        now. :param refused: the windows that had no room for a call. :param holding: what is about
        to be held in each of them, and is in `used`.
    """
    soft = {row["id"] for row in rows if row["warned_at"] is None and _over_soft_cap(row)}
    full = {
        row["id"]
        for row in rows
        if row["exhausted_at"] is None and (row["id"] in refused or _full(row))
    }
    if not (soft or full):
        return
    BudgetWindow.objects.filter(pk__in=soft).update(warned_at=at)
    BudgetWindow.objects.filter(pk__in=full).update(exhausted_at=at)
    found = BudgetWindow.objects.filter(pk__in=soft | full).order_by("budget_id", "pk")
    # Locks: the budgets, by id, and under each the counter of its stream.
    locked = Budget.objects.select_for_update(no_key=True).order_by("pk")
    budgets = {row.pk: row for row in locked.filter(windows__in=soft | full).order_by("pk")}
    for window in found:
        window.held += holding
        for action, ids in ((SOFT_CAP_REACHED, soft), (EXHAUSTED, full)):
            if window.pk in ids:
                _say(budgets[window.budget_id], window, action=action, at=at)


def _over_soft_cap(row: sql.Row) -> bool:
    return row["soft_cap"] is not None and row["used"] > row["soft_cap"]


def _full(row: sql.Row) -> bool:
    # A cap of 0 has no room from its beginning; that is news once somebody asks for some.
    return row["cap"] is not None and row["used"] >= row["cap"] > 0


def _say(budget: Budget, window: BudgetWindow, *, action: str, at: datetime) -> None:
    caps = caps_of(budget)
    used = text_of(window.held + window.spent)
    audit.record(budget, action=action, actor=ACTOR, at=at, after={"used": used} | caps)
    data = caps | {
        "budget_id": budget.pk,
        "scope": budget.scope,
        "key": window.counted_for or budget.key,
        "window": budget.window,
        "starts_at": window.starts_at.isoformat(),
        "ends_at": window.ends_at and window.ends_at.isoformat(),
        "held": text_of(window.held),
        "spent": text_of(window.spent),
        "currency": CURRENCY,
    }
    stream = budget.audit_subject
    sequence = outbox.next_in_stream(stream)
    outbox.fact(stream=stream, sequence=sequence, kind=action, at=at, data=data).save()


def note_overrun(posted: list[sql.Row], *, at: datetime) -> None:
    """Note on the chains of budgets that what was posted has passed their caps, and tell of it.

    :param posted: the rows of `POST`.
    """
    broken = {
        row["budget_id"]: row["used"]
        for row in posted
        if row["cap"] is not None and row["used"] > row["cap"] >= row["used"] - row["moved"]
    }
    if broken:
        note(broken, action="budget.overrun", at=at)
    tell(posted, at=at)


def note(used: dict[int, Decimal], *, action: str, at: datetime) -> None:
    locked = Budget.objects.select_for_update(no_key=True).filter(pk__in=used).order_by("pk")
    for budget in locked:
        audit.record(
            budget,
            action=action,
            actor=ACTOR,
            at=at,
            after={"used": text_of(used[budget.pk])} | caps_of(budget),
        )
