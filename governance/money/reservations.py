"""End reservations, each once: settled, released or failed.

An end is a value (`End`), whoever brings it: the worker that resolves its call, the result of an
execution, a person who reconciles it, or the attempt that is over.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction

from governance.core import digests, sql
from governance.core.clock import READ_CLOCK
from governance.core.errors import (
    BindingMismatch,
    DomainError,
    FieldFault,
    InvalidArgument,
    ModelReservationStateInvalid,
    NotFound,
)
from governance.money import room
from governance.money.budgets import SHARE_MONEY
from governance.money.counting import count
from governance.money.disputes import DisputedUse
from governance.money.excesses import most_of, within
from governance.money.metering import free
from governance.money.models import Reservation, Resolution
from governance.money.policies import PRICE_COLUMNS, price_list
from governance.money.postings import post
from governance.money.pricing import (
    NAMED,
    OddUsage,
    PriceList,
    PriceUnusable,
    Terms,
    Usage,
    estimate_of,
    text_of,
)
from governance.money.published import COUNTERS
from governance.money.unreserved import disputed

State = Reservation.State

# Locks: the reservations, in id order.
LOCK_RESERVATIONS = (
    "SELECT reservation_id FROM governance_reservation WHERE reservation_id = ANY(%s::uuid[])"
    " ORDER BY reservation_id FOR NO KEY UPDATE"
)
READ_RESERVATIONS = (
    f"SELECT {sql.select_list(Reservation, 'r')}, {PRICE_COLUMNS}, d.requirements::text,"
    " m.provider || '/' || m.name AS model, m.context_tokens_max, m.output_tokens_max,"
    " d.model_id, d.job_type, d.request_bytes, d.estimated_input_tokens, d.max_output_tokens,"
    " ARRAY(SELECT h.window_id FROM governance_reservationhold h"
    "  WHERE h.reservation_id = r.reservation_id) AS windows,"
    " EXISTS (SELECT FROM governance_limithold h"
    "  WHERE h.reservation_id = r.reservation_id) AS metered"
    " FROM governance_reservation r"
    " JOIN governance_routedecision d ON d.decision_id = r.decision_id"
    " LEFT JOIN governance_languagemodel m ON m.id = d.model_id"
    " JOIN governance_price p ON p.id = d.price_id WHERE r.reservation_id = ANY(%s::uuid[])"
)
READ_RESOLUTIONS = (
    f"SELECT {sql.select_list(Resolution, 'e')} FROM governance_resolution e"
    " WHERE e.reservation_id = ANY(%s::uuid[])"
)
END_RESERVATIONS = (
    "UPDATE governance_reservation r SET state = u.state"
    " FROM unnest(%s::uuid[], %s::text[]) AS u(id, state) WHERE r.reservation_id = u.id"
)
# Index: reservation_execution_idx.
MARK_IN_DOUBT = (
    "UPDATE governance_reservation SET state = 'in_doubt'"
    " WHERE external_request_id = ANY(%s::text[]) AND state = 'held' RETURNING reservation_id"
)
# Index: reservation_open_idx.
READ_OPEN = (
    "SELECT r.reservation_id, r.job_id, r.attempt, r.external_request_id, r.state"
    " FROM governance_reservation r JOIN unnest(%s::uuid[], %s::int[]) AS q(job_id, attempt)"
    " ON q.job_id = r.job_id AND q.attempt = r.attempt"
    " WHERE r.state IN ('held', 'in_doubt') ORDER BY r.reservation_id"
)


@dataclass(frozen=True, kw_only=True)
class End:
    """The end of a reservation.

    :param ended_as: `settled`: the call was made; it costs its usage, or the estimate where there
        is none or an odd one, and more than was held is recorded in full and flagged. `failed`:
        the provider refused it or broke it off. `released`: it was never started, and costs
        nothing.
    :param external_request_id: where given, the reservation must be one of this execution.
    :param cost_basis: for `failed`: `none` where nothing was billed, `estimate` where that
        is not known (the default), `usage` or `actual` where usage is given. With usage, `estimate`
        says that nobody counted it: it is what was seen, and is booked as that.
    :param reason: why, where a person or the service says so and not the call's own worker.
    :raises InvalidArgument: the parts contradict each other.
    """

    reservation_id: UUID
    ended_as: str
    external_request_id: str = ""
    usage: Usage | OddUsage | None = None
    provider_response_id: str = ""
    error_code: str = ""
    cost_basis: str | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        basis = self.cost_basis
        if self.ended_as == State.RELEASED:
            allowed = {None, "none"} if self.usage is None else set()
        elif self.usage is not None:
            # Of an odd one too: what the worker says of it fits the usage that it meant to report.
            allowed = {None, "usage", "actual", "estimate"}
        elif self.ended_as == State.FAILED:
            allowed = {None, "estimate", "none"}
        else:
            allowed = {None, "estimate"}
        if basis not in allowed:
            detail = f"does not fit {self.ended_as} {'with' if self.usage else 'without'} usage"
            raise InvalidArgument(errors=[FieldFault("/cost_basis", detail)])

    @property
    def basis(self) -> str:
        if self.ended_as == State.RELEASED:
            return Resolution.Basis.NONE
        if isinstance(self.usage, Usage):
            estimated = self.cost_basis == Resolution.Basis.ESTIMATE
            return Resolution.Basis.ESTIMATE if estimated else Resolution.Basis.USAGE
        if isinstance(self.usage, OddUsage):
            return Resolution.Basis.ESTIMATE
        return self.cost_basis or Resolution.Basis.ESTIMATE

    @property
    def content_sha256(self) -> str:
        """Return the digest of all that must be equal when the end is repeated."""
        stated = self.usage and self.usage.stated
        beside = (self.provider_response_id, self.error_code)
        return digest_of_end(self.ended_as, stated, *beside, self.basis)


def digest_of_end(
    ended_as: str, stated: Any, provider_response_id: str, error_code: str, basis: str
) -> str:
    """Return the digest by which the same end is known again. :param stated: its usage, or None."""
    content = {
        "end": str(ended_as),
        "usage": stated,
        "provider_response_id": provider_response_id,
        "error_code": error_code,
        "cost_basis": str(basis),
    }
    return digests.sha256_hex(digests.canonical(content))


#: What the event of an end says of it as it stands in the row, beside what it costs.
STATED = ("provider_response_id", "error_code", "content_sha256", "resolved_by", "reason")


@dataclass(frozen=True)
class Resolved:
    """A reservation that has ended. `outcome` is `recorded` or `already_recorded`."""

    outcome: str
    reservation: Reservation
    resolution: Resolution
    #: What was reported beyond what its model can do.
    dispute: DisputedUse | None = None

    def event(self) -> dict[str, Any]:
        """Return `action` and `after` of the audit event that the caller chains to its job."""
        return {
            "action": f"reservation.{self.resolution.ended_as}",
            "after": {
                "state": self.resolution.ended_as,
                "actual": text_of(self.resolution.cost),
                "overrun": self.resolution.overrun,
                "usage_missing": self.resolution.usage_missing,
                "usage_odd": self.resolution.usage_odd,
                "disputed": self.resolution.disputed,
                "reservation_id": str(self.reservation.reservation_id),
                "cost_basis": self.resolution.cost_basis,
                **{name: getattr(self.resolution, name) for name in STATED},
                "resolved_at": self.resolution.resolved_at.isoformat(timespec="microseconds"),
                "usage": {name: getattr(self.resolution, name) for name in COUNTERS}
                | {name: getattr(self.resolution, name) or None for name in NAMED},
            },
        }


def resolve(*, end: End, actor: str) -> Resolved:
    """End one reservation.

    :raises NotFound: no such reservation.
    :raises BindingMismatch: it belongs to another execution.
    :raises ModelReservationStateInvalid: it has ended in another way, or may have happened.
    """
    [answer] = resolve_all(ends=[end], actor=actor)
    if isinstance(answer, DomainError):
        raise answer
    return answer


@sql.part
def resolve_all(*, ends: Sequence[End], actor: str) -> list[Resolved | DomainError]:
    """End a set of reservations and return, in their order, what became of each."""
    ids = [end.reservation_id for end in ends]
    _, _, rows, resolutions, [clock] = sql.pipeline(
        sql.Statement(LOCK_RESERVATIONS, (ids,)),
        # Before what holds is read: a budget that is made meanwhile holds what is open.
        SHARE_MONEY,
        sql.Statement(READ_RESERVATIONS, (ids,)),
        sql.Statement(READ_RESOLUTIONS, (ids,)),
        sql.Statement(READ_CLOCK),
    )
    found = {row["r_reservation_id"]: row for row in rows}
    ended = {row["e_reservation_id"]: sql.build(Resolution, row, "e") for row in resolutions}
    answers: list[Resolved | DomainError] = []
    fresh: list[Resolved] = []
    for end in ends:
        try:
            answer = _resolved(end, found.get(end.reservation_id), ended, actor, clock["now"])
        except DomainError as refusal:
            answers.append(refusal)
            continue
        if answer.outcome == "recorded":
            fresh.append(answer)
            # The same end twice in one set is a repetition as well.
            ended[end.reservation_id] = answer.resolution
        answers.append(answer)
    if fresh:
        windows = {r["r_reservation_id"]: r["windows"] for r in rows}
        _post(fresh, windows, at=clock["now"])
        _free([each for each in fresh if found[each.resolution.pk]["metered"]])
        counted = [(found[each.resolution.pk]["model"], each.resolution) for each in fresh]
        transaction.on_commit(partial(count, counted), robust=True)
    return answers


def end_open(
    *,
    attempts: Sequence[tuple[UUID, int]],
    actor: str,
    reason: str,
    booked: Collection[str] = (),
    booked_reason: str = "",
) -> list[Resolved]:
    """Release what `(job_id, attempt)` pairs still hold for calls that were never started.

    Reservations in doubt stay as they are, but for those of the executions `booked`: these fail
    at the estimate, for `booked_reason`.
    """
    [rows] = sql.pipeline(open_reservations(attempts=attempts))
    ends = [
        End(reservation_id=row["reservation_id"], ended_as=State.RELEASED, reason=reason)
        if row["state"] == State.HELD
        else End(reservation_id=row["reservation_id"], ended_as=State.FAILED, reason=booked_reason)
        for row in rows
        if row["state"] == State.HELD or row["external_request_id"] in booked
    ]
    if not ends:
        return []
    answers = resolve_all(ends=ends, actor=actor)
    return [answer for answer in answers if isinstance(answer, Resolved)]


def open_reservations(*, attempts: Sequence[tuple[UUID, int]]) -> sql.Statement:
    """Return the statement that reads the open reservations of `(job_id, attempt)` pairs.

    Its rows: `reservation_id, job_id, attempt, external_request_id, state`.
    """
    return sql.Statement(READ_OPEN, ([job for job, _ in attempts], [n for _, n in attempts]))


def mark_in_doubt(*, external_request_ids: Iterable[str]) -> sql.Statement:
    """Return the statement that puts what executions hold in doubt: they are being started."""
    return sql.Statement(MARK_IN_DOUBT, (list(external_request_ids),))


def _resolved(
    end: End,
    row: sql.Row | None,
    ended: dict[UUID, Resolution],
    actor: str,
    at: datetime,
) -> Resolved:
    """Judge one end against the locked reservation and return it, unsaved.

    :raises NotFound: no such reservation.
    :raises BindingMismatch: it belongs to another execution.
    :raises ModelReservationStateInvalid: it has ended otherwise, or was started and is released.
    """
    if row is None:
        raise NotFound("There is no such reservation.")
    reservation = sql.build(Reservation, row, "r")
    if end.external_request_id not in ("", reservation.external_request_id):
        raise BindingMismatch("The reservation belongs to another execution.")
    if (stored := ended.get(end.reservation_id)) is not None:
        if stored.content_sha256 != end.content_sha256:
            raise ModelReservationStateInvalid(current={"state": stored.ended_as})
        reservation.state = stored.ended_as
        return Resolved("already_recorded", reservation, stored)
    if end.ended_as == State.RELEASED and reservation.state == State.IN_DOUBT:
        raise ModelReservationStateInvalid(
            "The call may have happened: report its result, or let an operator reconcile it.",
            current={"state": reservation.state},
        )
    settled = _settled(end, reservation, row)
    reservation.state = end.ended_as
    estimated = settled.basis == Resolution.Basis.ESTIMATE
    resolution = Resolution(
        reservation=reservation,
        ended_as=end.ended_as,
        cost=settled.cost,
        cost_basis=settled.basis,
        **settled.counted,
        cost_split=settled.split,
        overrun=settled.cost > reservation.amount,
        usage_missing=estimated,
        usage_odd=estimated and end.usage is not None and settled.split is None,
        disputed=settled.disputed is not None,
        usage_sent=settled.sent,
        provider_response_id=end.provider_response_id,
        error_code=end.error_code,
        content_sha256=end.content_sha256,
        resolved_by=actor,
        reason=end.reason,
        resolved_at=at,
    )
    dispute = None
    if settled.disputed is not None:
        dispute = _dispute(settled.disputed, resolution, row, actor=actor, at=at)
    return Resolved("recorded", reservation, resolution, dispute)


def _dispute(
    rest: Usage, resolution: Resolution, row: sql.Row, *, actor: str, at: datetime
) -> DisputedUse:
    """Return what was reported of a call beyond what its model can do, unsaved."""
    reservation = resolution.reservation
    return disputed(
        rest,
        price_list(row),
        at=at,
        resolution=resolution,
        external_request_id=reservation.external_request_id,
        task_id=reservation.task_id,
        job_id=reservation.job_id,
        attempt=reservation.attempt,
        agent=reservation.agent,
        job_type=row["job_type"],
        model_id=row["model_id"],
        recorded_by=actor,
    )


@dataclass(frozen=True)
class _Settled:
    """What a call costs, and the columns of its resolution that say why."""

    cost: Decimal
    basis: str
    counted: dict[str, Any] = field(default_factory=dict)
    split: dict[str, str] | None = None
    sent: Any = None
    disputed: Usage | None = None


def _settled(end: End, reservation: Reservation, row: sql.Row) -> _Settled:
    """Return the cost of an end: by its usage, else the estimate, and nothing of nothing.

    Usage that nothing can be computed from is an unknown call (`estimate_of`); one that names what
    has no rate costs what was held, and no less than what could be computed.  What nobody counted
    and somebody saw costs that, and is an estimate.  What is more than the model can do is
    disputed, and costs nothing until somebody accepts it.  Source: money, rule 4.
    """
    held, usage = reservation.amount, end.usage
    if end.basis == Resolution.Basis.NONE:
        return _Settled(Decimal(0), end.basis)
    terms, price = Terms.read(json.loads(row["requirements"])), price_list(row)
    unknown = partial(unknown_cost, row, price, terms, held=held, at=reservation.reserved_at)
    if not isinstance(usage, Usage):
        sent = usage.sent if isinstance(usage, OddUsage) else None
        return _Settled(unknown(), Resolution.Basis.ESTIMATE, sent=sent)
    stated = (row["estimated_input_tokens"], row["max_output_tokens"])
    part, rest = within(usage, **most_of(row, held=stated))
    try:
        found = price.cost(part, at=reservation.reserved_at, terms=terms)
    except PriceUnusable:
        return _Settled(unknown(), Resolution.Basis.ESTIMATE, sent=usage.stated)
    split, sent = None, usage.stated
    cost, basis = max(held, found.total), Resolution.Basis.ESTIMATE
    if not found.unpriced:
        split = {name: text_of(amount) for name, amount in found.split.items()}
        cost, basis = found.total, Resolution.Basis(end.basis)
        sent = usage.stated if rest else None
    return _Settled(cost, basis, columns_of(part), split, sent, rest)


def unknown_cost(
    row: sql.Row, price: PriceList, terms: Terms, *, held: Decimal, at: datetime
) -> Decimal:
    """Return what a call is booked at that nobody has counted; `row` has what its route says."""
    return estimate_of(
        price,
        held=held,
        request_bytes=row["request_bytes"],
        input_tokens=row["estimated_input_tokens"],
        output_tokens=row["max_output_tokens"],
        at=at,
        terms=terms,
    )


def columns_of(usage: Usage) -> dict[str, Any]:
    """Return a usage as the columns of a resolution."""
    return usage.counts | usage.texts


def _free(ended: list[Resolved]) -> None:
    """Let calls that have ended go from their limits: after budgets, whose rows come before."""
    if ended:
        limits = free({each.resolution.pk: _used_tokens(each.resolution) for each in ended})
        room.clear_of_limits(limits, freed=True)


def _used_tokens(end: Resolution) -> int | None:
    """Return the tokens that a call has used; None where nobody counted them."""
    if end.cost_basis == Resolution.Basis.NONE:
        return 0
    if end.input_tokens is None:
        return None
    return end.input_tokens + (end.output_tokens or 0)


def _post(fresh: list[Resolved], windows: dict[UUID, list[int]], *, at: datetime) -> None:
    """Save the ends, and move what they held to what they cost, in the windows that held it."""
    disputes = [each.dispute for each in fresh if each.dispute is not None]
    freed: defaultdict[int, Decimal] = defaultdict(Decimal)
    cost: defaultdict[int, Decimal] = defaultdict(Decimal)
    for each in fresh:
        for window in windows[each.reservation.reservation_id]:
            freed[window] += each.reservation.amount
            cost[window] += each.resolution.cost
    post(
        {window: (freed[window], cost[window]) for window in freed},
        sql.insert([each.resolution for each in fresh]),
        *([sql.insert(disputes)] if disputes else []),
        sql.Statement(
            END_RESERVATIONS,
            (
                [each.reservation.reservation_id for each in fresh],
                [str(each.reservation.state) for each in fresh],
            ),
        ),
        at=at,
    )
