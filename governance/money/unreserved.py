"""Book what is reported and was not reserved: without an open call, or beyond what was booked.

Nothing that a worker reports as used is free, and nothing is booked twice: only the excess over
what the attempt's calls were booked at becomes a row, priced at the route's price, else at the
dearest that the policy allows.  Source: money, rules 2 and 4.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db import transaction
from uuid_utils.compat import uuid7

from governance.core import digests, sql
from governance.core.clock import READ_CLOCK
from governance.money.budgets import (
    LOCK_WINDOWS,
    OPEN_WINDOWS,
    READ_ROOM,
    SHARE_MONEY,
    windows,
)
from governance.money.models import Resolution
from governance.money.postings import post
from governance.money.pricing import (
    NAMED,
    OddUsage,
    PriceList,
    PriceUnusable,
    Terms,
    Usage,
    countable,
    input_of,
    text_of,
)
from governance.money.published import COUNTERS
from governance.money.routes import PRICE_COLUMNS, READ_CANDIDATES, price_list
from governance.money.scopes import Scopes, scopes_of
from governance.money.uses import UnreservedPosting, UnreservedUse

# The calls of an attempt with what each was booked at. The caller has locked the job, as everybody
# does who changes these rows. Index: reservation_execution_idx.
READ_CALLS = (
    "SELECT r.reservation_id, r.state, d.model_id, d.estimated_input_tokens, d.max_output_tokens,"
    " d.request_bytes, m.provider, m.name,"
    f" d.requirements::text, e.cost_basis, {', '.join(f'e.{name}' for name in COUNTERS)},"
    f" {PRICE_COLUMNS} FROM governance_reservation r"
    " JOIN governance_routedecision d ON d.decision_id = r.decision_id"
    " JOIN governance_languagemodel m ON m.id = d.model_id"
    " JOIN governance_price p ON p.id = d.price_id"
    " LEFT JOIN governance_resolution e ON e.reservation_id = r.reservation_id"
    " WHERE r.external_request_id = %s ORDER BY d.call"
)
# What was booked beside them. Index: the unique one.
READ_UNRESERVED = (
    f"SELECT u.reservation_id, u.content_sha256, {', '.join(f'u.{name}' for name in COUNTERS)}"
    " FROM governance_unreserveduse u WHERE u.external_request_id = %s"
)
#: What is inside the input, and inside the output.
OF_INPUT = tuple(
    name for name in COUNTERS if name.endswith("_tokens") and not name.startswith(("out", "reas"))
)
#: What a use costs, whether all of it has a rate, and the row of the model by whose price.
Found = tuple[Decimal, bool, sql.Row]
OF_OUTPUT = ("output_tokens", "reasoning_tokens", "output_audio_tokens")


@dataclass(frozen=True, kw_only=True)
class Reported:
    """A report of usage that no open reservation takes.

    :param reservation_id: the ended reservation that it is about; None: it is about all calls of
        the attempt together.
    :param submitter: and the labels: as of `RouteRequest`.
    """

    external_request_id: str
    task_id: str
    job_id: UUID
    attempt: int
    agent: str
    job_type: str
    risk_tier: str
    usage: Usage | OddUsage
    reservation_id: UUID | None = None
    submitter: str = ""
    labels: tuple[str, ...] = ()

    @property
    def content_sha256(self) -> str:
        """Return the digest by which the same report is known again."""
        content = {
            "usage": self.usage.stated,
            "reservation_id": self.reservation_id and str(self.reservation_id),
        }
        return digests.sha256_hex(digests.canonical(content))


@dataclass(frozen=True)
class Unreserved:
    """A use that was booked."""

    use: UnreservedUse

    def event(self) -> dict[str, Any]:
        """Return `action` and `after` of the audit event that the caller chains to its job."""
        use = self.use
        return {
            "action": "ledger.unreserved",
            "after": {
                "use_id": str(use.use_id),
                "external_request_id": use.external_request_id,
                "reservation_id": use.reservation_id and str(use.reservation_id),
                "cost": None if use.cost is None else text_of(use.cost),
                "cost_basis": use.cost_basis,
                "flags": use.flags,
                "counts": {name: n for name in COUNTERS if (n := getattr(use, name))},
            },
        }


@transaction.atomic
def book(*, reported: Reported, actor: str) -> Unreserved | None:
    """Book the excess of a report over what its calls were booked at, in every budget that applies.

    Returns None where there is none, or where the same report was booked before.
    """
    calls, before, candidates, [clock] = sql.pipeline(
        sql.Statement(READ_CALLS, (reported.external_request_id,)),
        sql.Statement(READ_UNRESERVED, (reported.external_request_id,)),
        sql.Statement(READ_CANDIDATES, (reported.agent, reported.job_type, reported.risk_tier)),
        sql.Statement(READ_CLOCK),
    )
    if any(row["content_sha256"] == reported.content_sha256 for row in before):
        return None
    usage = reported.usage
    counted = countable(usage.sent) if isinstance(usage, OddUsage) else usage
    excess = None
    if counted is not None:
        excess = beyond(counted, booked(calls, before, reservation_id=reported.reservation_id))
        if excess is None:
            return None
    priced = [row for row in calls if reported.reservation_id in (None, row["reservation_id"])]
    priced = priced or [row for row in candidates if row["price_id"]]
    found = None if excess is None else _dearest(excess, priced, at=clock["now"])
    use = _use(reported, excess, found, actor=actor, at=clock["now"])
    _post(use, _scopes(reported, found), at=clock["now"])
    return Unreserved(use)


def excess_of(*, external_request_id: str, usage: Usage) -> Usage | None:
    """Return what a report of all calls of an attempt says beyond those that have ended."""
    calls, before = sql.pipeline(
        sql.Statement(READ_CALLS, (external_request_id,)),
        sql.Statement(READ_UNRESERVED, (external_request_id,)),
    )
    return beyond(usage, booked(calls, before))


def booked(
    calls: Iterable[sql.Row], unreserved: Iterable[sql.Row], *, reservation_id: UUID | None = None
) -> dict[str, int]:
    """Return by counter what was booked for calls, or for the one call that is named.

    What was booked of all calls together may have been of that one.
    One that ended without a count is booked at the most that it may have used, of every kind.
    """
    total: defaultdict[str, int] = defaultdict(int)
    for row in calls:
        if reservation_id in (None, row["reservation_id"]):
            for name, count in _booked_at(row).items():
                total[name] += count
    for row in unreserved:
        if reservation_id is None or row["reservation_id"] in (None, reservation_id):
            for name in COUNTERS:
                total[name] += row[name]
    return total


def _booked_at(row: sql.Row) -> dict[str, int]:
    if row["cost_basis"] in (None, Resolution.Basis.NONE):
        return {}
    if row["input_tokens"] is not None:
        return {name: row[name] or 0 for name in COUNTERS}
    input_tokens = row["estimated_input_tokens"]
    if row["request_bytes"] is not None:
        input_tokens = min(input_tokens, input_of(row["request_bytes"]))
    most: dict[str, int] = {name: input_tokens for name in OF_INPUT}
    most |= {name: row["max_output_tokens"] for name in OF_OUTPUT}
    return most | {"searches": Terms.read(json.loads(row["requirements"])).searches}


def beyond(usage: Usage, booked: Mapping[str, int]) -> Usage | None:
    """Return the part of a usage that was not booked, by counter; None where there is none.

    A kind that may be dearer than its whole takes its whole with it; one that is cheaper stays
    inside.
    """
    left = {name: max(0, count - booked.get(name, 0)) for name, count in usage.counts.items()}
    left["cache_write_tokens"] = max(left["cache_write_tokens"], left["cache_write_1h_tokens"])
    left["input_tokens"] = max(
        left["input_tokens"], left["cache_write_tokens"], left["input_audio_tokens"]
    )
    left["output_tokens"] = max(left["output_tokens"], left["output_audio_tokens"])
    left["cached_input_tokens"] = min(
        left["cached_input_tokens"], left["input_tokens"] - left["cache_write_tokens"]
    )
    left["cached_audio_tokens"] = min(
        left["cached_audio_tokens"], left["input_audio_tokens"], left["cached_input_tokens"]
    )
    left["reasoning_tokens"] = min(left["reasoning_tokens"], left["output_tokens"])
    if not any(left.values()):
        return None
    named: dict[str, Any] = {name: getattr(usage, name) for name in NAMED}
    return Usage(**{**left, **named}, output_stated=usage.output_stated)


def cost_of(price: PriceList, usage: Usage, *, at: datetime) -> tuple[Decimal, bool]:
    """Return what a usage costs by a price, and whether all of it has a rate.

    What has none is booked at the most that so many tokens can cost.

    :raises PriceUnusable: nothing can be computed from the price.
    """
    found = price.cost(usage, at=at)
    if not found.unpriced:
        return found.total, True
    bound = price.upper_bound(
        input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, at=at
    )
    return max(found.total, bound), False


def _scopes(reported: Reported, found: Found | None) -> Scopes:
    return scopes_of(
        agent=reported.agent,
        job_type=reported.job_type,
        task_id=reported.task_id,
        submitter=reported.submitter,
        labels=reported.labels,
        model=f"{found[2]['provider']}/{found[2]['name']}" if found else "",
    )


def _use(
    reported: Reported, excess: Usage | None, found: Found | None, *, actor: str, at: datetime
) -> UnreservedUse:
    """Return the row of a use, unsaved, at the dearest of the prices that may apply."""
    odd = isinstance(reported.usage, OddUsage)
    cost, whole, row = found or (None, False, {})
    counted = excess or Usage(0)
    return UnreservedUse(
        use_id=uuid7(),
        external_request_id=reported.external_request_id,
        task_id=reported.task_id,
        job_id=reported.job_id,
        attempt=reported.attempt,
        agent=reported.agent,
        job_type=reported.job_type,
        reservation_id=reported.reservation_id,
        model_id=row.get("model_id"),
        price_id=row.get("price_id"),
        **counted.counts,
        **{name: getattr(counted, name) for name in NAMED},
        cost=cost,
        cost_basis=Resolution.Basis.USAGE if whole and not odd else Resolution.Basis.ESTIMATE,
        usage_odd=odd,
        usage_sent=reported.usage.sent
        if isinstance(reported.usage, OddUsage)
        else (reported.usage.stated),
        content_sha256=reported.content_sha256,
        recorded_by=actor,
        recorded_at=at,
    )


def _dearest(usage: Usage, priced: list[sql.Row], *, at: datetime) -> Found | None:
    found = []
    for row in priced:
        try:
            found.append((*cost_of(price_list(row), usage, at=at), row))
        except PriceUnusable:
            continue
    return max(found, key=lambda each: each[0]) if found else None


def _post(use: UnreservedUse, scopes: Scopes, *, at: datetime) -> None:
    """Save a use and count it in the windows of that instant; the truth is never refused."""
    if use.cost is None:
        sql.pipeline(sql.insert([use]))
        return
    params = windows(scopes, at)
    _, _, _, room = sql.pipeline(
        SHARE_MONEY,
        sql.Statement(OPEN_WINDOWS, params),
        sql.Statement(LOCK_WINDOWS, params),
        sql.Statement(READ_ROOM, params),
    )
    ids = [row["id"] for row in room if row["id"] is not None]
    writes = [sql.insert([use])]
    if ids:
        writes.append(sql.insert([UnreservedPosting(use=use, window_id=each) for each in ids]))
    post(dict.fromkeys(ids, (Decimal(0), use.cost)), *writes, at=at)
