"""Read the books: what budgets have left, what a job cost, and whether every counter is right."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from governance.core import clock, sql
from governance.core.errors import InvalidArgument
from governance.core.isolation import of_a_row
from governance.money import rollups
from governance.money.adjustments import WRONG_ADJUSTMENTS
from governance.money.formulas import PROVEN, Formulas, formulas_of, joins_of
from governance.money.metering import WRONG_HOLDS
from governance.money.models import Budget, Reservation, Resolution, RouteDecision
from governance.money.openings import wrong_openings
from governance.money.policies import PRICE_COLUMNS, price_list
from governance.money.pricing import (
    NAMED,
    PriceList,
    PriceUnusable,
    Terms,
    Usage,
    text_of,
    window_of,
)
from governance.money.published import COUNTERS
from governance.money.reservations import digest_of_end, unknown_cost
from governance.money.scopes import is_each
from governance.money.unreserved import cost_of, digest_of_dispute, digest_of_report

BARS_MAX = 500
ROWS_PER_FETCH = 1000

#: Windows of one budget for each that are looked at for the fullest, the newest of them.
WINDOWS_PER_BUDGET = 1000

# Every statement below is one snapshot, so that calls that run meanwhile are seen whole.
# Index: budget_window_newest_idx, so that the costs are bounded however many jobs had a window.
READ_BARS = (
    'SELECT b.id AS budget_id, b.scope, b.key, b."window" AS kind, b.cap, b.soft_cap,'
    " k.starts_at, k.ends_at, w.counted_for, coalesce(w.held, 0) AS held,"
    " coalesce(w.spent, 0) AS spent FROM governance_budget b"
    " JOIN unnest(%s::text[], %s::timestamptz[], %s::timestamptz[])"
    '  AS k(kind, starts_at, ends_at) ON k.kind = b."window"'
    " LEFT JOIN LATERAL (SELECT counted_for, held, spent"
    "   FROM governance_budgetwindow WHERE budget_id = b.id AND kind = k.kind"
    "    AND starts_at = k.starts_at ORDER BY budget_id, kind, starts_at, id DESC LIMIT %s) w"
    "  ON true"
    " WHERE b.enabled"
    f" ORDER BY array_position(ARRAY{list(Budget.Scope.values)}, b.scope::text), b.id,"
    " w.held + w.spent DESC NULLS LAST LIMIT %s"
)
# The windows of now that have come to a bound and are still there. Index: budget_window_told_idx.
BOUNDED = (
    "FROM governance_budgetwindow w JOIN governance_budget b ON b.id = w.budget_id AND b.enabled"
    " WHERE (w.warned_at IS NOT NULL OR w.exhausted_at IS NOT NULL)"
    " AND (w.ends_at IS NULL OR w.ends_at > statement_timestamp())"
    " AND (w.held + w.spent >= b.cap OR w.held + w.spent > b.soft_cap)"
)
READ_BOUNDED = (
    'SELECT b.id AS budget_id, b.scope, b.key, b."window" AS kind, b.cap, b.soft_cap,'
    " w.starts_at, w.ends_at, w.counted_for, w.held, w.spent,"
    f" coalesce(w.exhausted_at, w.warned_at) AS since {BOUNDED} ORDER BY since, w.id LIMIT %s"
)
COUNT_BOUNDED = f"SELECT count(*) AS n FROM (SELECT {BOUNDED} LIMIT %s) AS found"
# Indexes: resolution_flagged_idx and reservation_doubt_idx.
COUNT_OVERRUNS = (
    "SELECT count(*) AS n FROM (SELECT FROM governance_resolution WHERE overrun"
    " AND resolved_at >= statement_timestamp() - make_interval(days => %s) LIMIT %s) AS found"
)
COUNT_AGED_DOUBTS = (
    "SELECT count(*) AS n FROM (SELECT FROM governance_reservation r"
    " JOIN governance_agedreservation a ON a.reservation_id = r.reservation_id"
    " WHERE r.state = 'in_doubt' LIMIT %s) AS found"
)
WINDOW_COUNTERS = (
    "SELECT w.id, w.held, w.spent,"
    " coalesce(sum(r.amount) FILTER (WHERE e.reservation_id IS NULL), 0) AS held_in_rows,"
    " coalesce(sum(e.cost), 0) + coalesce((SELECT sum(o.spent) FROM governance_budgetopening o"
    "  WHERE o.window_id = w.id), 0) + coalesce((SELECT sum(a.amount)"
    "  FROM governance_adjustmentposting p JOIN governance_adjustment a"
    "   ON a.adjustment_id = p.adjustment_id WHERE p.window_id = w.id), 0)"
    " + coalesce((SELECT sum(u.cost) FROM governance_unreservedposting p"
    "  JOIN governance_unreserveduse u ON u.use_id = p.use_id WHERE p.window_id = w.id), 0)"
    " AS spent_in_rows, w.starts_at, w.ends_at,"
    " min(r.reserved_at) AS first_held, max(r.reserved_at) AS last_held"
    " FROM governance_budgetwindow w"
    " LEFT JOIN governance_reservationhold h ON h.window_id = w.id"
    " LEFT JOIN governance_reservation r ON r.reservation_id = h.reservation_id"
    " LEFT JOIN governance_resolution e ON e.reservation_id = r.reservation_id"
    " GROUP BY w.id ORDER BY w.id"
)
STATES = (
    "SELECT r.reservation_id, r.state, e.ended_as FROM governance_reservation r"
    " LEFT JOIN governance_resolution e ON e.reservation_id = r.reservation_id"
    " WHERE CASE WHEN r.state IN ('held', 'in_doubt') THEN e.ended_as IS NOT NULL"
    " ELSE e.ended_as IS DISTINCT FROM r.state END ORDER BY r.reservation_id"
)
PAIRS = (
    "SELECT d.decision_id, d.decision, r.reservation_id FROM governance_routedecision d"
    " LEFT JOIN governance_reservation r ON r.decision_id = d.decision_id"
    " WHERE (d.decision = 'issued') <> (r.reservation_id IS NOT NULL) ORDER BY d.decision_id"
)
#: What a reservation repeats of its decision, by the names there.
REPEATED = {
    name: name
    for name in ("route_request_id", "external_request_id", "task_id", "job_id", "attempt", "agent")
} | {"reserved_at": "decided_at"}
REPEATS = (
    "SELECT r.reservation_id,"
    f" {', '.join(f'r.{name}::text AS {name}' for name in REPEATED)},"
    f" {', '.join(f'd.{name}::text AS d_{name}' for name in REPEATED.values())}"
    " FROM governance_reservation r"
    " JOIN governance_routedecision d ON d.decision_id = r.decision_id"
    f" WHERE ({', '.join(f'r.{name}' for name in REPEATED)}) IS DISTINCT FROM"
    f" ({', '.join(f'd.{name}' for name in REPEATED.values())}) ORDER BY r.reservation_id"
)
# Ends that keep what was sent. They are few: it was odd, or more than the model can do.
KEPT = (
    "SELECT e.reservation_id, e.ended_as, e.cost_basis, e.provider_response_id, e.error_code,"
    " e.content_sha256, e.usage_sent::text FROM governance_resolution e"
    " WHERE e.usage_sent IS NOT NULL ORDER BY e.reservation_id"
)
AMOUNTS = (
    "SELECT r.reservation_id, r.amount, r.reserved_at, d.requirements::text,"
    " d.request_bytes, d.estimated_input_tokens, d.max_output_tokens,"
    " e.cost, e.cost_basis, e.cost_split::text,"
    f" {', '.join(f'e.{name}' for name in (*COUNTERS, *NAMED))},"
    f" {PRICE_COLUMNS} FROM governance_reservation r"
    " JOIN governance_routedecision d ON d.decision_id = r.decision_id"
    " JOIN governance_price p ON p.id = d.price_id"
    " LEFT JOIN governance_resolution e ON e.reservation_id = r.reservation_id"
)
USED_PRICES = (
    f"SELECT {PRICE_COLUMNS} FROM governance_price p"
    " WHERE p.id IN (SELECT price_id FROM governance_routedecision)"
)
UNRESERVED = (
    "SELECT u.use_id, u.cost, u.cost_split::text, u.recorded_at, u.usage_odd,"
    " u.usage_sent::text, u.reservation_id, u.content_sha256, v.dispute_id,"
    f" {', '.join(f'u.{name}' for name in (*COUNTERS, *NAMED))}, {PRICE_COLUMNS}"
    " FROM governance_unreserveduse u LEFT JOIN governance_price p ON p.id = u.price_id"
    " LEFT JOIN governance_disputeverdict v ON v.use_id = u.use_id ORDER BY u.use_id"
)


@dataclass(frozen=True)
class BudgetBar:
    """A budget in its current window. `key` is who is counted, `level` is ok, warned or full.

    `each`: it is one of a budget that counts each by itself.
    """

    budget_id: int
    scope: str
    key: str
    window: str
    starts_at: datetime
    ends_at: datetime | None
    held: Decimal
    spent: Decimal
    cap: Decimal | None
    soft_cap: Decimal | None
    each: bool = False

    @property
    def used(self) -> Decimal:
        return self.held + self.spent

    @property
    def level(self) -> str:
        if self.cap is not None and self.used >= self.cap:
            return "full"
        if self.soft_cap is not None and self.used > self.soft_cap:
            return "warned"
        return "ok"

    @property
    def percent(self) -> int | None:
        """Return the used part of the cap in whole percent, which may pass 100; None without."""
        if self.cap is None:
            return None
        return int(100 * self.used / self.cap) if self.cap else 100


@dataclass(frozen=True)
class Difference:
    """Something that the rows contradict. `subject` names the row."""

    check: str
    subject: str
    expected: str
    found: str


def budget_bars() -> list[BudgetBar]:
    """Return the enabled budgets with their current windows, the fullest of each budget first.

    Of a budget for each, those of its newest `WINDOWS_PER_BUDGET`; `BARS_MAX` in all.
    """
    [rows] = sql.pipeline(_bars(clock.now()))
    return [_bar(row) for row in rows]


def _bars(now: datetime) -> sql.Statement:
    kinds = list(Budget.Window.values)
    bounds = [window_of(kind, now) for kind in kinds]
    starts, ends = [start for start, _ in bounds], [end for _, end in bounds]
    return sql.Statement(READ_BARS, (kinds, starts, ends, WINDOWS_PER_BUDGET, BARS_MAX))


def _bar(row: sql.Row) -> BudgetBar:
    return BudgetBar(
        row["budget_id"],
        row["scope"],
        row["counted_for"] or row["key"],
        row["kind"],
        row["starts_at"],
        row["ends_at"],
        row["held"],
        row["spent"],
        row["cap"],
        row["soft_cap"],
        each=is_each(row["scope"], row["key"]),
    )


@dataclass(frozen=True)
class Bounds:
    """How many budgets are at a bound now, how many calls broke theirs, and what is in doubt."""

    budgets: int
    overruns: int
    aged_doubts: int


def bounded_budgets(limit: int) -> list[tuple[BudgetBar, datetime]]:
    """Return the budgets at their cap or above their soft cap, each with since when; oldest first.

    Those of which it was told in this window: a cap that is lowered is come to at the next call.
    """
    [rows] = sql.pipeline(sql.Statement(READ_BOUNDED, (limit,)))
    return [(_bar(row), row["since"]) for row in rows]


def count_bounds(*, overrun_days: int, up_to: int) -> Bounds:
    """Count `bounded_budgets`, `overruns` and `aged_doubts`, each no further than `up_to`."""
    [bounded], [dearer], [aged] = sql.pipeline(
        sql.Statement(COUNT_BOUNDED, (up_to,)),
        sql.Statement(COUNT_OVERRUNS, (overrun_days, up_to)),
        sql.Statement(COUNT_AGED_DOUBTS, (up_to,)),
    )
    return Bounds(bounded["n"], dearer["n"], aged["n"])


def overruns(*, days: int) -> QuerySet[Resolution]:
    """Return the ends of calls of the last days that cost more than was held, oldest first.

    Index: resolution_flagged_idx.
    """
    since = Now() - timedelta(days=days)
    return Resolution.objects.filter(overrun=True, resolved_at__gte=since).order_by("resolved_at")


def aged_doubts() -> QuerySet[Reservation]:
    """Return the reservations that are in doubt and that were told of as such, oldest first.

    Index: reservation_doubt_idx.
    """
    in_doubt = Reservation.objects.filter(state=Reservation.State.IN_DOUBT, aged__isnull=False)
    return in_doubt.order_by("reserved_at")


def money_of_job(*, job_id: UUID) -> QuerySet[RouteDecision]:
    """Return the decisions of a job in order, each with its model, reservation and resolution.

    Index: route_decision_job_idx.
    """
    related = ("model", "price", "reservation__resolution")
    return (
        RouteDecision.objects.filter(job_id=job_id)
        .select_related(*related)
        .order_by("attempt", "call", "decided_at")
    )


def verify() -> Iterator[Difference]:
    """Recompute every counter, state and amount from the rows, and yield what differs.

    Takes no locks and as long as it needs; calls that run meanwhile are seen whole or not at all.
    """
    with unbounded():
        for row in read_rows(WINDOW_COUNTERS):
            yield from _wrong_counters(row)
        for row in read_rows(wrong_openings()):
            expected, found = text_of(row["spent_in_rows"]), text_of(row["spent"])
            yield Difference("budget_opening.spent", f"budget window {row['id']}", expected, found)
        for row in read_rows(WRONG_ADJUSTMENTS):
            yield Difference(
                "adjustment.postings",
                f"adjustment {row['adjustment_id']}",
                f"windows {row['expected']}",
                f"windows {row['found']}",
            )
        for row in read_rows(WRONG_HOLDS):
            subject = f"limit meter {row['meter_id']}"
            yield Difference("limit_hold.open", subject, "an open call", str(row["reservation_id"]))
        for row in read_rows(STATES):
            subject = f"reservation {row['reservation_id']}"
            yield Difference("reservation.state", subject, row["ended_as"] or "open", row["state"])
        for row in read_rows(PAIRS):
            expected = "a reservation" if row["decision"] == "issued" else "no reservation"
            found = str(row["reservation_id"] or "none")
            subject = f"decision {row['decision_id']}"
            yield Difference("decision.reservation", subject, expected, found)
        for row in read_rows(REPEATS):
            yield from _wrong_repeats(row)
        for row in read_rows(KEPT):
            yield from _wrong_kept(row)
        for row in read_rows(_amounts()):
            yield from _judged("reservation", row["reservation_id"], _wrong_amounts, row)
        for row in read_rows(UNRESERVED):
            yield from _judged("unreserved use", row["use_id"], _wrong_unreserved, row)
        yield from _wrong_hours()


def _wrong_hours() -> Iterator[Difference]:
    """Compare the sums by hour, where they are final, with the ledger."""
    statement = rollups.wrong_hours()
    if statement is None:
        return
    for row in read_rows(statement.sql, statement.params):
        subject = f"{row['hour']:%Y-%m-%dT%HZ} {row['agent']} {row['job_type']} {row['model']}"
        expected, found = row["expected"] or "no row", row["found"] or "no row"
        yield Difference("spend_hour.sums", f"hour {subject}".rstrip(), expected, found)


@contextmanager
def unbounded() -> Iterator[None]:
    """Open a transaction whose statements take as long as they need."""
    with transaction.atomic(), sql.bounded_instants():
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout = 0")
        yield


def _amounts() -> str:
    """Return the SQL of the calls whose amounts the database cannot add up, or found wrong.

    By most prices amounts are sums of products; the library computes the others one by one.
    """
    formulas: dict[int, Formulas] = {}
    for row in read_rows(USED_PRICES):
        price = price_list(row)
        try:
            found = formulas_of(price.stored)
        except Exception as error:
            # Its calls say so, each by itself.
            if not (of_a_row(error) or isinstance(error, PriceUnusable)):
                raise
            continue
        if found is not None:
            formulas[price.price_id] = found
    return AMOUNTS + joins_of(formulas) + f" WHERE {PROVEN} IS NOT TRUE ORDER BY r.reservation_id"


def _judged(
    kind: str, key: Any, judge: Callable[[sql.Row], Iterator[Difference]], row: sql.Row
) -> list[Difference]:
    """Return what is wrong with a row's amounts, or that they cannot even be judged."""
    try:
        return list(judge(row))
    except Exception as error:
        # Counts that none can have are told of as well.
        if not (of_a_row(error) or isinstance(error, InvalidArgument)):
            raise
        check = f"{kind.replace(' ', '_')}.readable"
        return [Difference(check, f"{kind} {key}", "amounts", type(error).__name__)]


def _wrong_unreserved(row: sql.Row) -> Iterator[Difference]:
    """Compute what was booked of a use by the price that it was booked by, and its digest."""
    subject = f"unreserved use {row['use_id']}"
    sent, stored = json.loads(row["usage_sent"]), row["content_sha256"]
    stated = {"sent": sent} if row["usage_odd"] else sent
    if row["dispute_id"] is None:
        digest = digest_of_report(stated, reservation_id=row["reservation_id"])
    else:
        digest = digest_of_dispute(row["dispute_id"])
    if digest != stored:
        yield Difference("unreserved_use.content_sha256", subject, digest, stored)
    if row["price_id"] is not None:
        yield from _wrong_cost_of_use(row, subject)


def _wrong_cost_of_use(row: sql.Row, subject: str) -> Iterator[Difference]:
    price = price_list(row)
    usage = Usage(**{name: row[name] for name in (*COUNTERS, *NAMED)})
    try:
        cost, _ = cost_of(price, usage, at=row["recorded_at"])
    except PriceUnusable as fault:
        yield Difference("price.document", f"price {price.price_id}", "usable", str(fault))
        return
    if row["cost"] != cost:
        yield Difference("unreserved_use.cost", subject, text_of(cost), text_of(row["cost"]))
    yield from _wrong_split("unreserved_use", row, subject)


def _wrong_counters(row: sql.Row) -> Iterator[Difference]:
    for counter in ("held", "spent"):
        expected, found = row[f"{counter}_in_rows"], row[counter]
        if expected != found:
            subject = f"budget window {row['id']}"
            yield Difference(f"budget_window.{counter}", subject, text_of(expected), text_of(found))
    yield from _wrong_bounds(row)


def _wrong_bounds(row: sql.Row) -> Iterator[Difference]:
    """Find a window that was moved off the calls that it holds: another counts from nothing."""
    subject, first = f"budget window {row['id']}", row["first_held"]
    if first is not None and first < row["starts_at"]:
        expected, found = f"at most {first.isoformat()}", row["starts_at"].isoformat()
        yield Difference("budget_window.starts_at", subject, expected, found)
    if first is not None and row["ends_at"] is not None and row["last_held"] >= row["ends_at"]:
        expected, found = f"above {row['last_held'].isoformat()}", row["ends_at"].isoformat()
        yield Difference("budget_window.ends_at", subject, expected, found)


def _wrong_repeats(row: sql.Row) -> Iterator[Difference]:
    """Say what a reservation says otherwise than its decision."""
    for name, decided in REPEATED.items():
        if row[name] != row[f"d_{decided}"]:
            subject = f"reservation {row['reservation_id']}"
            yield Difference(f"reservation.{name}", subject, row[f"d_{decided}"], row[name])


def _wrong_kept(row: sql.Row) -> Iterator[Difference]:
    """Compute the digest of an end from what was sent, as a count or as something odd."""
    sent = json.loads(row["usage_sent"])
    beside = (row["provider_response_id"], row["error_code"])
    digests = {
        digest_of_end(row["ended_as"], stated, *beside, basis)
        # What was counted may have been booked as an estimate.
        for basis in (row["cost_basis"], Resolution.Basis.USAGE)
        for stated in (sent, {"sent": sent})
    }
    if row["content_sha256"] not in digests:
        subject, found = f"reservation {row['reservation_id']}", row["content_sha256"]
        yield Difference("resolution.content_sha256", subject, min(digests), found)


def _wrong_amounts(row: sql.Row) -> Iterator[Difference]:
    """Compute what was held and what it cost by the price of that time, whatever is listed now."""
    price, subject = price_list(row), f"reservation {row['reservation_id']}"
    at, terms = row["reserved_at"], Terms.read(json.loads(row["requirements"]))
    try:
        bound = price.upper_bound(
            input_tokens=row["estimated_input_tokens"],
            output_tokens=row["max_output_tokens"],
            at=at,
            terms=terms,
        )
        if row["amount"] != bound:
            yield Difference("reservation.amount", subject, text_of(bound), text_of(row["amount"]))
        if row["cost"] is not None:
            yield from _wrong_cost(row, price, terms, subject)
    except PriceUnusable as fault:
        yield Difference("price.document", f"price {price.price_id}", "usable", str(fault))


def _wrong_cost(row: sql.Row, price: PriceList, terms: Terms, subject: str) -> Iterator[Difference]:
    cost, at = Decimal(0), row["reserved_at"]
    # An estimate that has its split is of usage that nobody counted: it costs that.
    if row["cost_basis"] == "estimate" and row["cost_split"] is None:
        cost = (
            row["amount"]
            if row["input_tokens"] is not None
            else unknown_cost(row, price, terms, held=row["amount"], at=at)
        )
    if row["cost_basis"] != "none" and row["input_tokens"] is not None:
        counted: dict[str, Any] = {name: row[name] or 0 for name in COUNTERS}
        counted |= {name: row[name] for name in NAMED}
        found = price.cost(Usage(**counted), at=at, terms=terms)
        # An estimate is never below what was counted.
        cost = max(cost, found.total)
    if row["cost"] != cost:
        yield Difference("resolution.cost", subject, text_of(cost), text_of(row["cost"]))
    yield from _wrong_split("resolution", row, subject)


def _wrong_split(check: str, row: sql.Row, subject: str) -> Iterator[Difference]:
    """Add up the parts of a cost by counter, where they are kept."""
    if row["cost_split"] is not None:
        parts = sum(map(Decimal, json.loads(row["cost_split"]).values()), Decimal(0))
        if parts != row["cost"]:
            expected, found = text_of(row["cost"]), text_of(parts)
            yield Difference(f"{check}.cost_split", subject, expected, found)


def read_rows(statement: str, params: Any = None) -> Iterator[sql.Row]:
    """Yield the rows of a statement through a cursor of the server, in constant memory."""
    with connection.chunked_cursor() as cursor:
        cursor.execute(statement, params)
        batch = cursor.fetchmany(ROWS_PER_FETCH)
        # A server-side cursor describes its columns once it has fetched.
        names = [column.name for column in cursor.description]
        while batch:
            for values in batch:
                yield dict(zip(names, values, strict=True))
            batch = cursor.fetchmany(ROWS_PER_FETCH)
