"""Book what is reported and was not reserved: without an open call, or beyond what was booked.

Nothing that a worker reports as used is free, and nothing is booked twice: only the excess over
what the attempt's calls were booked at becomes a row, priced at the route's price, else at the
dearest that the policy allows.  Source: money, rules 2 and 4.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from uuid_utils.compat import uuid7

from governance.core import digests, sql
from governance.core.clock import READ_CLOCK
from governance.money.budgets import SHARE_MONEY, lock_room
from governance.money.disputes import DisputedUse
from governance.money.excesses import beyond, most_of, within
from governance.money.models import Resolution
from governance.money.policies import PRICE_COLUMNS, READ_CANDIDATES, price_list
from governance.money.postings import post
from governance.money.pricing import (
    NAMED,
    OddUsage,
    PriceList,
    PriceUnusable,
    Terms,
    Usage,
    countable,
    text_of,
)
from governance.money.published import COUNTERS
from governance.money.scopes import keyed_of_use
from governance.money.uses import UnreservedPosting, UnreservedUse

# The calls of an attempt with what each was booked at. The caller has locked the job, as everybody
# does who changes these rows. Index: reservation_execution_idx.
READ_CALLS = (
    "SELECT r.reservation_id, r.state, d.model_id, d.estimated_input_tokens, d.max_output_tokens,"
    " d.request_bytes, m.context_tokens_max, m.output_tokens_max,"
    f" d.requirements::text, e.cost_basis, {', '.join(f'e.{name}' for name in COUNTERS)},"
    f" {PRICE_COLUMNS} FROM governance_reservation r"
    " JOIN governance_routedecision d ON d.decision_id = r.decision_id"
    " JOIN governance_price p ON p.id = d.price_id"
    " JOIN governance_languagemodel m ON m.id = d.model_id"
    " LEFT JOIN governance_resolution e ON e.reservation_id = r.reservation_id"
    " WHERE r.external_request_id = %s ORDER BY d.call"
)
# What was booked beside them. Index: the unique one.
READ_UNRESERVED = (
    f"SELECT u.reservation_id, u.content_sha256, {', '.join(f'u.{name}' for name in COUNTERS)}"
    " FROM governance_unreserveduse u WHERE u.external_request_id = %s"
)
# What was reported of them and is in dispute, or dismissed: it is known, and not reported again.
# Index: disputed_use_execution_idx.
READ_DISPUTED = (
    "SELECT coalesce(x.resolution_id, u.reservation_id) AS reservation_id, x.counts::text"
    " FROM governance_disputeduse x LEFT JOIN governance_unreserveduse u ON u.use_id = x.use_id"
    " LEFT JOIN governance_disputeverdict v ON v.dispute_id = x.dispute_id"
    " WHERE x.external_request_id = %s AND v.verdict IS DISTINCT FROM 'accepted'"
)
#: What the event of a use says of it as it stands in the row.
STATED = ("task_id", "attempt", "agent", "job_type", "model_id", "price_id", "content_sha256")
#: What is inside the input, and inside the output.
OF_INPUT = tuple(
    name for name in COUNTERS if name.endswith("_tokens") and not name.startswith(("out", "reas"))
)
OF_OUTPUT = ("output_tokens", "reasoning_tokens", "output_audio_tokens")


@dataclass(frozen=True, kw_only=True)
class Reported:
    """A report of usage that no open reservation takes.

    :param reservation_id: the ended reservation that it is about; None: it is about all calls of
        the attempt together.
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

    @property
    def content_sha256(self) -> str:
        """Return the digest by which the same report is known again."""
        return digest_of_report(self.usage.stated, reservation_id=self.reservation_id)


def digest_of_report(stated: Mapping[str, Any], *, reservation_id: UUID | None) -> str:
    """Return the digest of a report. :param stated: its usage, as `Usage.stated` has it."""
    content = {
        "usage": stated,
        "reservation_id": reservation_id and str(reservation_id),
    }
    return digests.sha256_hex(digests.canonical(content))


def digest_of_dispute(dispute_id: object) -> str:
    """Return the digest of what is booked since a governor accepted a dispute."""
    return digests.sha256_hex(digests.canonical({"dispute_id": str(dispute_id)}))


@dataclass(frozen=True)
class Unreserved:
    """A use that was booked, with the windows that it was posted to."""

    use: UnreservedUse
    windows: Sequence[int]
    #: What was reported beyond what the model can do.
    dispute: DisputedUse | None = None

    def event(self) -> dict[str, Any]:
        """Return `action` and `after` of the audit event that the caller chains to its job."""
        use = self.use
        return {
            "action": "ledger.unreserved",
            "after": {
                "use_id": str(use.use_id),
                "external_request_id": use.external_request_id,
                "reservation_id": use.reservation_id and str(use.reservation_id),
                **{name: getattr(use, name) for name in STATED},
                "cost": None if use.cost is None else text_of(use.cost),
                "cost_basis": use.cost_basis,
                "flags": use.flags,
                "counts": {name: n for name in COUNTERS if (n := getattr(use, name))},
                **{name: getattr(use, name) or None for name in NAMED},
                "recorded_at": use.recorded_at.isoformat(timespec="microseconds"),
                "windows": list(self.windows),
            },
        }


@sql.part
def book(*, reported: Reported, actor: str) -> Unreserved | None:
    """Book the excess of a report over what its calls were booked at, in every budget that applies.

    Returns None where there is none, or where the same report was booked before.
    """
    calls, before, doubted, candidates, [clock] = sql.pipeline(
        sql.Statement(READ_CALLS, (reported.external_request_id,)),
        sql.Statement(READ_UNRESERVED, (reported.external_request_id,)),
        sql.Statement(READ_DISPUTED, (reported.external_request_id,)),
        sql.Statement(READ_CANDIDATES, (reported.agent, reported.job_type, reported.risk_tier)),
        sql.Statement(READ_CLOCK),
    )
    if any(row["content_sha256"] == reported.content_sha256 for row in before):
        return None
    usage = reported.usage
    counted = countable(usage.sent) if isinstance(usage, OddUsage) else usage
    excess = None
    if counted is not None:
        known = [*before, *map(_counted, doubted)]
        excess = beyond(counted, booked(calls, known, reservation_id=reported.reservation_id))
        if excess is None:
            return None
    priced = [row for row in calls if reported.reservation_id in (None, row["reservation_id"])]
    priced = priced or [row for row in candidates if row["price_id"]]
    use, dispute = _booking(reported, excess, priced, actor=actor, at=clock["now"])
    return post_use(use, at=clock["now"], dispute=dispute)


def excess_of(*, external_request_id: str, usage: Usage) -> Usage | None:
    """Return what a report of all calls of an attempt says beyond those that have ended."""
    calls, before, doubted = sql.pipeline(
        sql.Statement(READ_CALLS, (external_request_id,)),
        sql.Statement(READ_UNRESERVED, (external_request_id,)),
        sql.Statement(READ_DISPUTED, (external_request_id,)),
    )
    return beyond(usage, booked(calls, [*before, *map(_counted, doubted)]))


def _counted(row: sql.Row) -> sql.Row:
    """Return what is in dispute as a row of what was booked."""
    counts = json.loads(row["counts"])
    return {name: counts.get(name, 0) for name in COUNTERS} | {
        "reservation_id": row["reservation_id"]
    }


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
    terms = Terms.read(json.loads(row["requirements"]))
    input_tokens = row["estimated_input_tokens"]
    if row["request_bytes"] is not None:
        input_tokens = min(input_tokens, terms.contents.input_of(row["request_bytes"]))
    most: dict[str, int] = {name: input_tokens for name in OF_INPUT}
    most |= {name: row["max_output_tokens"] for name in OF_OUTPUT}
    return most | {"searches": terms.searches}


def cost_of(
    price: PriceList, usage: Usage, *, at: datetime
) -> tuple[Decimal, dict[str, str] | None]:
    """Return what a usage costs by a price, and that by counter where all of it has a rate.

    What has none is booked at the most that so many tokens can cost.

    :raises PriceUnusable: nothing can be computed from the price.
    """
    found = price.cost(usage, at=at)
    if not found.unpriced:
        return found.total, {name: text_of(part) for name, part in found.split.items()}
    bound = price.upper_bound(
        input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, at=at
    )
    return max(found.total, bound), None


def _booking(
    reported: Reported, excess: Usage | None, priced: list[sql.Row], *, actor: str, at: datetime
) -> tuple[UnreservedUse, DisputedUse | None]:
    """Return the row of a use, unsaved, at the dearest of the prices that may apply.

    No report books more than a call of its model can have: the rest is disputed.
    """
    found = None if excess is None else _dearest(excess, priced, at=at)
    if found is None:
        return _use(reported, _Part(excess or Usage(0)), actor=actor, at=at), None
    use = _use(reported, found, actor=actor, at=at)
    if found.rest is None:
        return use, None
    whose = ("external_request_id", "task_id", "job_id", "attempt", "agent", "job_type")
    dispute = disputed(
        found.rest,
        price_list(found.row),
        at=at,
        use=use,
        model_id=use.model_id,
        recorded_by=actor,
        **{name: getattr(use, name) for name in whose},
    )
    return use, dispute


def _use(reported: Reported, part: _Part, *, actor: str, at: datetime) -> UnreservedUse:
    odd, row = isinstance(reported.usage, OddUsage), part.row
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
        **part.usage.counts,
        **part.usage.texts,
        cost=part.cost,
        cost_basis=(
            Resolution.Basis.ESTIMATE if part.split is None or odd else Resolution.Basis.USAGE
        ),
        cost_split=part.split,
        usage_odd=odd,
        disputed=part.rest is not None,
        usage_sent=reported.usage.sent
        if isinstance(reported.usage, OddUsage)
        else (reported.usage.stated),
        content_sha256=reported.content_sha256,
        recorded_by=actor,
        recorded_at=at,
    )


@dataclass(frozen=True)
class _Part:
    """The part of a usage that a call of one model can have, and what it costs there.

    :param split: that by counter, where all of it has a rate.
    :param row: the model and its price; empty where nobody knows them.
    """

    usage: Usage
    cost: Decimal | None = None
    split: dict[str, str] | None = None
    row: sql.Row = field(default_factory=dict)
    rest: Usage | None = None


def _dearest(usage: Usage, priced: list[sql.Row], *, at: datetime) -> _Part | None:
    found = []
    for row in priced:
        part, rest = within(usage, **most_of(row))
        try:
            cost, split = cost_of(price_list(row), part, at=at)
        except PriceUnusable:
            continue
        found.append((cost, _Part(part, cost, split, row, rest)))
    return max(found, key=lambda each: each[0])[1] if found else None


def disputed(rest: Usage, price: PriceList, *, at: datetime, **row: Any) -> DisputedUse:
    """Return the row, unsaved, of what was reported beyond what a model can do.

    :param row: its columns that say whose it is, and beside which booking.
    """
    try:
        cost, _ = cost_of(price, rest, at=at)
    except PriceUnusable:
        cost = None
    return DisputedUse(
        dispute_id=uuid7(),
        price_id=price.price_id,
        counts=rest.stated,
        cost=cost,
        recorded_at=at,
        **row,
    )


def post_use(use: UnreservedUse, *, at: datetime, dispute: DisputedUse | None = None) -> Unreserved:
    """Save a use and count it in the windows of that instant; the truth is never refused.

    :param dispute: what was reported beyond it, which is counted nowhere.
    """
    if use.cost is None:
        sql.pipeline(sql.insert([use]), *([sql.insert([dispute])] if dispute else []))
        return Unreserved(use, [], dispute)
    scopes = keyed_of_use(
        agent=use.agent,
        job_type=use.job_type,
        task_id=use.task_id,
        job_id=use.job_id,
        model_id=use.model_id,
    )
    ids = [row["id"] for row in lock_room(scopes, at, SHARE_MONEY)]
    writes = [sql.insert([use]), *([sql.insert([dispute])] if dispute else [])]
    if ids:
        writes.append(sql.insert([UnreservedPosting(use=use, window_id=each) for each in ids]))
    post(dict.fromkeys(ids, (Decimal(0), use.cost)), *writes, at=at)
    return Unreserved(use, sorted(ids), dispute)
