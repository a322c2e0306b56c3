"""Scopes whose budgets have no room: noted when work is given back for it, cleared with the cause.

A note is a hint that keeps workers from jobs whose calls would be refused; it decides nothing.  A
route is judged by the budgets alone.  Source: the contract, section 1, "Deferral".

Notes are the last rows that a transaction locks, by scope and key.  Who writes one holds the
windows and the budgets that it rests on, so that no room is made in between; who makes room holds
the window or the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial

from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from governance.core import sql
from governance.core.clock import READ_CLOCK
from governance.core.errors import BudgetExhausted, CallRateLimited
from governance.money.budgets import (
    LOCK_BUDGETS,
    LOCK_WINDOWS,
    OPEN_WINDOWS,
    READ_ROOM,
    windows,
)
from governance.money.fitting import applies
from governance.money.metering import over, read_meters
from governance.money.models import Budget, RouteDecision
from governance.money.notes import NoRoom
from governance.money.scopes import OF_MODEL, Scopes, scopes_of_models

#: A note on a budget whose window has no end; then one job is tried again.
WITHOUT_END_SECONDS = 900
#: A scope is out of room where less than this part of its cap is left. Where more is left, a call
#: was too dear for it and its job alone is noted, so that one job does not stop all others.
LEFT_MIN = Decimal("0.1")
#: So many jobs that are noted by themselves say that the scope is what has no room ...
JOBS_MAX = 10
#: ... and so long they are believed: dearer ones stand before cheaper ones no longer than this.
BELIEVED_SECONDS = 60

# Locks: the notes, by scope and key. Of two for one scope the one that lasts longer is kept.
NOTE = """
INSERT INTO governance_noroom AS n
       (scope, key, budget_id, window_id, limit_id, amount, reason, noted_at, until)
SELECT u.* FROM unnest(%(scope)s::text[], %(key)s::text[], %(budget_id)s::bigint[],
       %(window_id)s::bigint[], %(limit_id)s::bigint[], %(amount)s::numeric[], %(reason)s::text[],
       %(noted_at)s::timestamptz[], %(until)s::timestamptz[]) AS u ORDER BY 1, 2
    ON CONFLICT (scope, key) DO UPDATE
   SET budget_id = EXCLUDED.budget_id, window_id = EXCLUDED.window_id,
       limit_id = EXCLUDED.limit_id, reason = EXCLUDED.reason,
       noted_at = EXCLUDED.noted_at, until = EXCLUDED.until,
       amount = CASE WHEN n.window_id = EXCLUDED.window_id
                     THEN least(n.amount, EXCLUDED.amount) ELSE EXCLUDED.amount END
 WHERE n.until <= EXCLUDED.until
"""
NOTED = (
    "scope", "key", "budget_id", "window_id", "limit_id", "amount", "reason", "noted_at", "until",
)  # fmt: skip
# No lock. Index: that of the budget.
COUNT_JOBS = """
SELECT b.id AS budget_id, (SELECT count(*)::int FROM (
       SELECT FROM governance_noroom n WHERE n.budget_id = b.id AND n.scope = 'job'
          AND n.until > %(at)s LIMIT %(limit)s) few) AS jobs
  FROM unnest(%(budgets)s::bigint[]) AS b(id)
"""
DROP = """
WITH gone AS (
  SELECT n.id FROM governance_noroom n {of} ORDER BY n.scope, n.key FOR UPDATE OF n{skip})
DELETE FROM governance_noroom d USING gone WHERE d.id = gone.id RETURNING d.scope, d.key
"""
# A note that another is at is being dropped, or waits for nothing that is held here: who notes
# holds the window.
DROP_OF_WINDOWS = DROP.format(
    of="JOIN governance_budgetwindow w ON w.id = n.window_id"
    " JOIN governance_budget b ON b.id = n.budget_id WHERE n.window_id = ANY(%s::bigint[])"
    " AND (b.cap IS NULL OR w.held + w.spent + n.amount <= b.cap)",
    skip=" SKIP LOCKED",
)
DROP_OF_BUDGET = DROP.format(of="WHERE n.budget_id = %s", skip="")
# A freed call makes room under what bounds the open ones alone: a rate is waited for.
DROP_OF_LIMITS = DROP.format(
    of="JOIN governance_limit l ON l.id = n.limit_id WHERE n.limit_id = ANY(%s::bigint[])"
    " AND (l.open_calls IS NOT NULL OR NOT %s)",
    skip=" SKIP LOCKED",
)
DROP_ALL = DROP.format(of="", skip="")
DROP_ENDED = DROP.format(of="WHERE n.until <= clock_timestamp()", skip=" SKIP LOCKED")

#: Who is told, after the commit, for which scopes there may be room again.
wakers: list[Callable[[Sequence[tuple[str, str]]], None]] = []


@dataclass(frozen=True)
class _Full:
    """A budget that has no room for a call."""

    scope: str
    key: str
    budget_id: int
    window_id: int
    ends_at: datetime | None
    #: What it has no room for.
    amount: Decimal
    #: Whether next to nothing is left, for any call.
    empty: bool


#: What is noted of each scope and key: by which budget, until when.
Notes = dict[tuple[str, str], tuple[_Full, datetime]]


def note(*, decision: RouteDecision, scopes: Scopes, by_scope: bool) -> datetime | None:
    """Note what has no room for the calls of a refused decision; return until when, None: it has.

    The budgets are judged anew, under their locks. A window's end ends the note too.

    :param scopes: what its job counts as, whatever the model.
    :param by_scope: whether workers are kept from the job by a note on its scopes.
    """
    amounts = _amounts(decision)
    if not amounts:
        return None
    scopes = scopes + scopes_of_models(amounts)
    [clock] = sql.pipeline(sql.Statement(READ_CLOCK))[0]
    at, params = clock["now"], windows(scopes, clock["now"])
    *_, room = sql.pipeline(
        sql.Statement(OPEN_WINDOWS, params),
        sql.Statement(LOCK_WINDOWS, params),
        sql.Statement(LOCK_BUDGETS, params),
        sql.Statement(READ_ROOM, params),
    )
    room = [row for row in room if row["id"] is not None and row["cap"] is not None]
    amount = min(amounts.values())
    full = [
        _full(row, amount)
        for row in room
        if row["scope"] not in OF_MODEL and row["used"] + amount > row["cap"]
    ]
    notes: Notes = {}
    if full:
        notes = _notes(full, decision.task_id, by_scope, at)
    elif of_models := _full_of_models(room, amounts):
        notes = _notes_of_models(of_models, decision, at)
    if not notes:
        return None
    _write(
        NoRoom(
            scope=scope,
            key=key,
            budget_id=budget.budget_id,
            window_id=budget.window_id,
            amount=budget.amount,
            reason=BudgetExhausted.reason,
            noted_at=at,
            until=until,
        )
        for (scope, key), (budget, until) in notes.items()
    )
    return max(until for _, until in notes.values())


def _full(row: sql.Row, amount: Decimal) -> _Full:
    return _Full(
        scope=row["scope"],
        key=row["key"],
        budget_id=row["budget_id"],
        window_id=row["id"],
        ends_at=row["ends_at"],
        amount=amount,
        empty=row["cap"] - row["used"] <= row["cap"] * LEFT_MIN,
    )


def _amounts(decision: RouteDecision) -> dict[str, Decimal]:
    """Return what a call of each model would have held that was refused for want of room."""
    if decision.reason != BudgetExhausted.reason:
        return {}
    over = [line for line in decision.considered if line["outcome"] == "over_budget"]
    return {f"{line['provider']}/{line['model']}": Decimal(line["amount"]) for line in over}


def _full_of_models(room: list[sql.Row], amounts: dict[str, Decimal]) -> list[_Full]:
    """Return of each model the budget that has no room for it the longest; none: one model has."""
    found = []
    for model, amount in amounts.items():
        full = [
            _full(row, amount)
            for row in room
            if applies(row, model) and row["used"] + amount > row["cap"]
        ]
        if not full:
            return []
        found.append(max(full, key=_end_of))
    return found


def _end_of(full: _Full) -> datetime:
    return full.ends_at or datetime.max.replace(tzinfo=UTC)


def _notes_of_models(full: list[_Full], decision: RouteDecision, at: datetime) -> Notes:
    """Return what to note where it is the models that have no room, each by a budget of its own.

    The job is noted, and where many are, or next to nothing is left, for a while its job type,
    whose jobs may use the same models. Of several models one may have room at any time, and a note
    rests on one budget: so it is believed no longer than a while.
    """
    first = min(full, key=_end_of)
    until = first.ends_at or at + timedelta(seconds=WITHOUT_END_SECONDS)
    believed = min(until, at + timedelta(seconds=BELIEVED_SECONDS))
    job = (Budget.Scope.JOB.value, decision.task_id)
    notes: Notes = {job: (first, until if len(full) == 1 else believed)}
    if first.empty or _many_jobs([first.budget_id], at):
        notes[Budget.Scope.JOB_TYPE.value, decision.job_type] = (first, believed)
    return notes


def _notes(full: list[_Full], task_id: str, by_scope: bool, at: datetime) -> Notes:
    """Return what to note of each scope: by which budget, until when."""
    notes: Notes = {}

    def add(scope: str, key: str, budget: _Full, until: datetime) -> None:
        if (scope, key) not in notes or notes[scope, key][1] < until:
            notes[scope, key] = (budget, until)

    many = _many_jobs([budget.budget_id for budget in full if not budget.empty], at)
    for budget in full:
        until = budget.ends_at or at + timedelta(seconds=WITHOUT_END_SECONDS)
        if budget.empty:
            add(budget.scope, budget.key, budget, until)
        if not budget.empty or not by_scope:
            add(Budget.Scope.JOB, task_id, budget, until)
        if budget.budget_id in many:
            believed = at + timedelta(seconds=BELIEVED_SECONDS)
            add(budget.scope, budget.key, budget, min(until, believed))
    return notes


def _many_jobs(budgets: list[int], at: datetime) -> set[int]:
    """Return the budgets by which many jobs are noted, each by itself."""
    if not budgets:
        return set()
    counted = {"budgets": budgets, "at": at, "limit": JOBS_MAX}
    [rows] = sql.pipeline(sql.Statement(COUNT_JOBS, counted))
    return {row["budget_id"] for row in rows if row["jobs"] >= JOBS_MAX}


def _write(notes: Iterable[NoRoom]) -> None:
    rows = list(notes)
    columns = {name: [getattr(row, name) for row in rows] for name in NOTED}
    sql.pipeline(sql.Statement(NOTE, columns))


def note_of_limits(*, decision: RouteDecision, scopes: Scopes, by_scope: bool) -> int:
    """Note which scopes have no room by a limit, and return the seconds that the job itself waits.

    The meters are judged anew, and not locked: such a note is of seconds, and whoever frees an open
    call drops it. Limits of models are noted of no scope: the job waits by itself.

    :param scopes: what its job counts as, whatever the model.
    :param by_scope: as of `note`.
    """
    lines = [line for line in decision.considered if line.get("limits")]
    tokens = {f"{line['provider']}/{line['model']}": line["tokens"] for line in lines}
    meters, [clock] = sql.pipeline(
        read_meters(scopes + scopes_of_models(tokens)), sql.Statement(READ_CLOCK)
    )
    waits = []
    for model, count in tokens.items():
        full = over([row for row in meters if applies(row, model)], tokens=count)
        waits.append(max((each["after_seconds"] for each in full), default=0))
    seconds: int = min(waits, default=0)
    least = min(tokens.values(), default=0)
    at = clock["now"]
    notes = {
        (row["scope"], row["key"]): NoRoom(
            scope=row["scope"],
            key=row["key"],
            limit_id=row["limit_id"],
            amount=Decimal(0),
            reason=CallRateLimited.reason,
            noted_at=at,
            until=at + timedelta(seconds=max(each["after_seconds"] for each in full)),
        )
        for row in meters
        if row["scope"] not in OF_MODEL and (full := over([row], tokens=least))
    }
    if not seconds or not notes:
        return seconds
    _write(notes.values())
    return 0 if by_scope else seconds


def in_force() -> QuerySet[NoRoom]:
    """Return what has no room now, by scope and key."""
    rows = NoRoom.objects.filter(until__gt=Now()).select_related("budget", "limit")
    return rows.order_by("scope", "key")


def of_agent(*, agent: str, job_types: Sequence[str]) -> list[NoRoom]:
    """Return what has no room now of the scopes that an agent and its types of job fall under.

    Not of submitters and labels, which are others' names.
    """
    mine = (
        Q(scope=Budget.Scope.GLOBAL)
        | Q(scope=Budget.Scope.AGENT, key=agent)
        | Q(scope=Budget.Scope.JOB_TYPE, key__in=job_types)
    )
    return list(in_force().filter(mine))


def clear_of_windows(window_ids: Sequence[int]) -> sql.Statement:
    """Return the statement that drops the notes for which windows have room again.

    For who holds the windows; `cleared` takes its rows.
    """
    return sql.Statement(DROP_OF_WINDOWS, (list(window_ids),))


def clear_of_budget(budget_id: int) -> None:
    """Drop the notes of a budget that was changed: what it refused is asked again.

    For who holds the budget.
    """
    [rows] = sql.pipeline(sql.Statement(DROP_OF_BUDGET, (budget_id,)))
    cleared(rows)


def clear_of_limits(limit_ids: Sequence[int], *, freed: bool = False) -> None:
    """Drop the notes of limits: that were changed, or under which a call is open no more.

    :param freed: of those alone that bound what is open.
    """
    [rows] = sql.pipeline(sql.Statement(DROP_OF_LIMITS, (list(limit_ids), freed)))
    cleared(rows)


def clear_all() -> None:
    """Drop every note: what calls cost, or may use, is another from now on."""
    [rows] = sql.pipeline(sql.Statement(DROP_ALL))
    cleared(rows)


@transaction.atomic
def drop_ended() -> int:
    """Drop the notes whose time is over, and return how many there were."""
    [rows] = sql.pipeline(sql.Statement(DROP_ENDED))
    cleared(rows)
    return len(rows)


def cleared(rows: Iterable[sql.Row]) -> None:
    """Tell, once it is committed, who waits for the scopes whose notes were dropped."""
    scopes = [(row["scope"], row["key"]) for row in rows]
    for tell in wakers if scopes else ():
        transaction.on_commit(partial(tell, scopes), robust=True)
