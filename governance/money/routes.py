"""Decide which model a call may use, and reserve its upper bound."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db.utils import IntegrityError
from uuid_utils.compat import uuid7

from governance.core import sql
from governance.core.clock import READ_CLOCK
from governance.core.errors import (
    BudgetExhausted,
    Contention,
    DomainError,
    ModelReservationStateInvalid,
    RouteContentMismatch,
)
from governance.money.budgets import (
    HOLD,
    LARGEST_HOLDS,
    READ_ROOM,
    SHARE_MONEY,
    tell,
    windows,
)
from governance.money.fitting import (
    BACK_BEFORE_LIMITS,
    READ_BY_MODEL,
    Candidate,
    applies,
    fit,
)
from governance.money.floors import held_tokens, too_large
from governance.money.metering import READ_LIMITED, let_through, lock_meters, read_meters
from governance.money.models import CURRENCY, Reservation, ReservationHold, RouteDecision
from governance.money.policies import READ_CANDIDATES, price_list
from governance.money.pricing import PriceUnusable, text_of
from governance.money.refusals import fullest, reason_of, refusal_of, told_budget
from governance.money.requests import RouteRequest
from governance.money.scopes import scopes_of_models

State = Reservation.State
# The decision that stands for this request: the one that was issued, else the newest refusal.
# Index: route_decision_call_idx.
READ_STORED = (
    f"SELECT {sql.select_list(RouteDecision, 'd')}, {sql.select_list(Reservation, 'r')},"
    " m.provider, m.name AS model_name FROM governance_routedecision d"
    " LEFT JOIN governance_reservation r ON r.decision_id = d.decision_id"
    " LEFT JOIN governance_languagemodel m ON m.id = d.model_id"
    " WHERE d.external_request_id = %s AND d.call = %s"
    " ORDER BY (d.decision = 'issued') DESC, d.decided_at DESC, d.decision_id DESC LIMIT 1"
)
# The calls of this attempt. Index: route_decision_call_idx.
READ_CALLS = (
    "SELECT d.call, d.model_id, d.decision, d.fallback_of, r.state FROM governance_routedecision d"
    " LEFT JOIN governance_reservation r ON r.decision_id = d.decision_id"
    " WHERE d.external_request_id = %s"
)
#: What the event of a decision says of it as it stands in the row, beside what it lists.
STATED = (
    *("task_id", "agent", "job_type", "risk_tier", "runtime"),
    *("price_id", "request_bytes", "requirements"),
)


@dataclass(frozen=True)
class Routed:
    """A decision and what it reserved. `replayed`: its row was there before.

    `holds` are, of a refusal for want of room, the reservations that hold most in the full budget.
    `begin_within_seconds` is how long the call may take to begin, where who asks says so; it is of
    the moment, and no part of the decision.
    """

    decision: RouteDecision
    reservation: Reservation | None
    provider: str
    model: str
    replayed: bool = False
    begin_within_seconds: int | None = None
    candidates: tuple[Candidate, ...] = ()
    holds: tuple[sql.Row, ...] = ()
    at: datetime | None = None

    @property
    def refusal(self) -> DomainError | None:
        """Return the refusal to answer with once the decision is committed, or None."""
        if self.decision.decision == RouteDecision.Decision.ISSUED:
            return None
        considered = self.decision.considered
        if self.candidates:
            # What a refusal of before says of room is not true any more.
            considered = [candidate.line() for candidate in self.candidates]
        at = self.at or self.decision.decided_at
        refusal = refusal_of(self.decision.reason, considered, at)
        if isinstance(refusal, BudgetExhausted) and (full := fullest(self.candidates)):
            refusal.current |= {
                "budget": told_budget(full),
                "largest_holds": [
                    {
                        "reservation_id": str(row["reservation_id"]),
                        "task_id": row["task_id"],
                        "amount": text_of(row["amount"]),
                    }
                    for row in self.holds
                ],
            }
        return refusal

    def event(self) -> dict[str, Any]:
        """Return `action` and `after` of the audit event that the caller chains to its job."""
        decision, reservation = self.decision, self.reservation
        return {
            "action": f"route.{decision.decision}",
            "after": {
                "route_request_id": decision.route_request_id,
                "decision": decision.decision,
                "decision_id": str(decision.decision_id),
                "reason": decision.reason or None,
                "provider": self.provider or None,
                "model": self.model or None,
                "price_version": decision.price_version or None,
                "position": decision.position,
                "policy_id": decision.policy_id,
                "estimated_input_tokens": decision.estimated_input_tokens,
                "max_output_tokens": decision.max_output_tokens,
                "content_sha256": decision.content_sha256,
                **{name: getattr(decision, name) for name in STATED},
                "decided_at": decision.decided_at.isoformat(timespec="microseconds"),
                "reservation": reservation
                and {
                    "reservation_id": str(reservation.reservation_id),
                    "state": reservation.state,
                    "amount": text_of(reservation.amount),
                    "currency": reservation.currency,
                },
            },
        }


@sql.part
def reserve(*, request: RouteRequest, started: bool = False) -> Routed:
    """Decide which model the call may use and hold its upper bound in every budget, or in none.

    The model that is wanted, else the first allowed one, that speaks the request's API, is enabled,
    priced, capable, did not fail in a call that this one is in place of, and fits every budget.  A
    refusal is a decision too: it is stored and returned,
    and the caller answers `refusal` after the commit.  It does not use the request up: asked again
    it is decided again, and is another row where its reason, or what is asked for, is another.

    :param started: the attempt's execution was started before, so that the call is in doubt
        from its beginning.
    :raises BindingMismatch: `route_request_id` is not of this attempt.
    :raises RouteContentMismatch: the request was issued with other content.
    :raises ModelReservationStateInvalid: a number before this one is still free, or as many calls
        of the attempt are open as may be.
    :raises Contention: a rival changed what was read; the same request may be sent again.
    """
    call = request.call
    _, stored, calls, rows, [clock], [budgets], [limits] = sql.pipeline(
        SHARE_MONEY,
        sql.Statement(READ_STORED, (request.external_request_id, call)),
        sql.Statement(READ_CALLS, (request.external_request_id,)),
        sql.Statement(READ_CANDIDATES, (request.agent, request.job_type, request.risk_tier)),
        sql.Statement(READ_CLOCK),
        sql.Statement(READ_BY_MODEL),
        sql.Statement(READ_LIMITED),
    )
    before = sql.build(RouteDecision, stored[0], "d") if stored else None
    if before is not None and before.decision == RouteDecision.Decision.ISSUED:
        return _replayed(stored[0], before, request)
    _need_free(calls, call, open_calls_max=request.open_calls_max)
    failed = _failed_before(calls, request)
    candidates = _all_judged(rows, request, failed, clock["now"])
    given = _given(request, candidates, at=clock["now"], **budgets, **limits)
    if given is None:
        return _refused(request, candidates, before, at=clock["now"])
    return _written(request, candidates, given, at=clock["now"], started=started)


@dataclass(frozen=True)
class _Given:
    """The model that a call gets, and the locked windows and meters that it falls under."""

    chosen: Candidate
    room: list[sql.Row]
    meters: list[sql.Row]


def _given(
    request: RouteRequest,
    candidates: list[Candidate],
    *,
    at: datetime,
    by_model: bool,
    limited: bool,
) -> _Given | None:
    """Return the first model that every budget and every limit has room for; None: there is none.

    Of budgets it is told before any limit is locked, which are the last.
    """
    rest = [candidate for candidate in candidates if candidate.amount is not None]
    while rest:
        chosen, room = fit(
            rest, request.scopes, at=at, by_model=by_model, limited=limited, choose=_choose
        )
        if chosen is None:
            tell(room, at=at, refused={row["id"] for each in rest for row in each.full})
            return None
        held = chosen.amount or Decimal(0)
        tell([row | {"used": row["used"] + held} for row in room], at=at, holding=held)
        if not limited:
            return _Given(chosen, room, [])
        meters = lock_meters(request.scopes + scopes_of_models([chosen.label]))
        if chosen.fits(meters):
            return _Given(chosen, room, meters)
        sql.pipeline(BACK_BEFORE_LIMITS)
        rest = rest[rest.index(chosen) + 1 :]
    return None


def dry_run(
    *,
    agent: str,
    job_type: str,
    risk_tier: str,
    estimated_input_tokens: int,
    max_output_tokens: int,
    requirements: Sequence[str] = (),
    task_id: str = "",
    submitter: str = "",
    labels: Sequence[str] = (),
) -> dict[str, Any]:
    """Return what `reserve` would decide now, and why, without writing anything.

    Keys: `decision`, `reason`, `provider`, `model`, `amount`, `policy_id`, `considered`.
    """
    request = RouteRequest(
        external_request_id="",
        route_request_id="",
        task_id=task_id,
        job_id=UUID(int=0),
        attempt=1,
        fencing_token=1,
        agent=agent,
        job_type=job_type,
        risk_tier=risk_tier,
        runtime="",
        estimated_input_tokens=estimated_input_tokens,
        max_output_tokens=max_output_tokens,
        requirements=tuple(requirements),
        submitter=submitter,
        labels=tuple(labels),
    )
    rows, [clock] = sql.pipeline(
        sql.Statement(READ_CANDIDATES, (agent, job_type, risk_tier)), sql.Statement(READ_CLOCK)
    )
    candidates = _all_judged(rows, request, frozenset(), clock["now"])
    scopes = request.scopes + scopes_of_models(each.label for each in candidates)
    room, meters = sql.pipeline(
        sql.Statement(READ_ROOM, windows(scopes, clock["now"])), read_meters(scopes)
    )
    rest = candidates
    while (chosen := _choose(rest, room)) is not None and not chosen.fits(meters):
        rest = rest[rest.index(chosen) + 1 :]
    return {
        "decision": "issued" if chosen else "refused",
        "reason": None if chosen else reason_of(candidates),
        "provider": chosen and chosen.provider,
        "model": chosen and chosen.name,
        "amount": chosen and text_of(chosen.amount or Decimal(0)),
        "policy_id": candidates[0].policy_id if candidates else None,
        "considered": [candidate.line() for candidate in candidates],
    }


def _replayed(row: sql.Row, decision: RouteDecision, request: RouteRequest) -> Routed:
    if decision.content_sha256 != request.content_sha256:
        raise RouteContentMismatch(current={"decision_id": str(decision.decision_id)})
    held = sql.build(Reservation, row, "r") if row["r_reservation_id"] else None
    return Routed(decision, held, row["provider"] or "", row["model_name"] or "", replayed=True)


def _need_free(calls: list[sql.Row], call: int, *, open_calls_max: int) -> None:
    """Refuse a number that is not the next free one, or a call more than may be open at a time.

    One that was refused is free, and may be left free. Source: contract, section 5.

    :raises ModelReservationStateInvalid: with the next free number, or the calls that are open.
    """
    if call > 1 and all(row["call"] != call - 1 for row in calls):
        issued = [row["call"] for row in calls if row["decision"] == "issued"]
        raise ModelReservationStateInvalid(
            f"Call {call - 1} of this attempt was not made.",
            current={"next_call": max(issued, default=0) + 1},
        )
    still_open = sum(row["state"] in Reservation.OPEN for row in calls)
    if still_open >= open_calls_max:
        raise ModelReservationStateInvalid(
            f"{still_open} calls of this attempt are open, as many as its job type allows.",
            current={"open_calls": still_open, "open_calls_max": open_calls_max},
        )


def _failed_before(calls: list[sql.Row], request: RouteRequest) -> frozenset[int]:
    """Return the models that failed in the calls that this one is in place of.

    Older workers, which name no API, do not say which those are: all that failed before.

    :raises ModelReservationStateInvalid: the call that it is in place of has not failed.
    """
    failed = {row["call"]: row for row in calls if row["state"] == State.FAILED}
    before = request.fallback_call
    if before is None and not request.api:
        return frozenset(row["model_id"] for n, row in failed.items() if n < request.call)
    chain: set[int] = set()
    while before is not None:
        if before not in failed or before >= request.call:
            raise ModelReservationStateInvalid(f"Call {before} of this attempt has not failed.")
        chain.add(failed[before]["model_id"])
        before = failed[before]["fallback_of"]
    return frozenset(chain)


def _ordered(rows: list[sql.Row], request: RouteRequest) -> list[sql.Row]:
    """Return the allowed models in the order in which they are tried: what is wanted first."""
    if not request.wanted_model:
        return rows
    return sorted(rows, key=lambda row: not _is_wanted(row, request))


def _is_wanted(row: sql.Row, request: RouteRequest) -> bool:
    return request.wanted_model in (row["name"], f"{row['provider']}/{row['name']}")


def _all_judged(
    rows: list[sql.Row], request: RouteRequest, failed: frozenset[int], at: datetime
) -> list[Candidate]:
    """Return the allowed models in the order in which they are tried, each judged."""
    ordered = _ordered(rows, request)
    home = _home(ordered, request)
    return [_judged(row, request, failed, at, home=home) for row in ordered]


def _home(ordered: list[sql.Row], request: RouteRequest) -> str | None:
    """Return the provider that a request has to stay with; None: it may go to any.

    A request with state at a provider stays with the wanted model's. Where the policy does not have
    that model nobody knows whose the state is, unless one provider has all models of the API.
    """
    if not request.terms.contents.at_provider:
        return None
    if ordered and _is_wanted(ordered[0], request):
        return str(ordered[0]["provider"])
    serving = {str(row["provider"]) for row in ordered if request.api in ("", row["api"])}
    return serving.pop() if len(serving) == 1 else ""


def _judged(
    row: sql.Row,
    request: RouteRequest,
    failed: frozenset[int],
    at: datetime,
    *,
    home: str | None = None,
) -> Candidate:
    """Return an allowed model with what keeps it from this request; an `amount` if nothing does."""
    price = price_list(row) if row["price_id"] else None
    found = Candidate(
        row["policy_id"], row["position"], row["model_id"], row["provider"], row["name"], price
    )
    found.input_tokens, found.output_tokens = held_tokens(row, request, price=price, at=at)
    if request.api not in ("", row["api"]):
        found.outcome = "other_api"
    elif home not in (None, row["provider"]):
        found.outcome = "other_provider"
    elif not row["enabled"]:
        found.outcome = "disabled"
    elif row["model_id"] in failed:
        found.outcome = "failed_before"
    elif not request.capabilities <= set(json.loads(row["capabilities"])):
        found.outcome = "incapable"
    elif not found.input_tokens:
        by_reference = request.terms.contents.by_reference
        found.outcome = "reference_unbounded" if by_reference else "limit_unknown"
    elif too_large(row, stated=request.estimated_input_tokens, limit=request.max_output_tokens):
        found.outcome = "too_large"
    elif (amount := _amount(found, request, at)) is None:
        found.outcome = "unpriced"
    else:
        found.amount = amount
    return found


def _amount(found: Candidate, request: RouteRequest, at: datetime) -> Decimal | None:
    """Return what is to be held for the call; None where it is not known what it may cost."""
    price = found.price
    if price is None:
        return None
    try:
        if price.unpriced(request.terms, at):
            return None
        return price.upper_bound(
            input_tokens=found.input_tokens,
            output_tokens=found.output_tokens,
            at=at,
            terms=request.terms,
        )
    except PriceUnusable:
        return None


def _choose(candidates: Sequence[Candidate], room: list[sql.Row]) -> Candidate | None:
    """Return the first usable model whose amount fits every budget."""
    for candidate in candidates:
        if candidate.amount is None:
            continue
        candidate.full = [
            row
            for row in room
            if row["cap"] is not None and row["used"] + candidate.amount > row["cap"]
            if applies(row, candidate.label)
        ]
        candidate.over = [
            {
                "scope": row["scope"],
                "window": row["kind"],
                "ends_at": row["ends_at"] and row["ends_at"].isoformat(),
            }
            for row in candidate.full
        ]
        candidate.outcome = "over_budget" if candidate.over else "chosen"
        if not candidate.over:
            return candidate
    return None


def _refused(
    request: RouteRequest,
    candidates: list[Candidate],
    before: RouteDecision | None,
    *,
    at: datetime,
) -> Routed:
    """Write a refusal, unless the newest one of this request says the same, and return it."""
    decision = _decision(request, candidates, None, at)
    same = before is not None and (before.reason, before.content_sha256) == (
        decision.reason,
        decision.content_sha256,
    )
    writes = [] if same else [sql.insert([decision])]
    full = fullest(candidates)
    reads = [] if full is None else [sql.Statement(LARGEST_HOLDS, (full["id"],))]
    found = _insert(*writes, *reads) if writes or reads else []
    return Routed(
        before if same and before is not None else decision,
        None,
        "",
        "",
        replayed=same,
        candidates=tuple(candidates),
        holds=tuple(found[-1]) if reads else (),
        at=at,
    )


def _written(
    request: RouteRequest,
    candidates: list[Candidate],
    given: _Given,
    *,
    at: datetime,
    started: bool,
) -> Routed:
    """Write the decision and the reservation in all its windows, and meter the call."""
    chosen, room = given.chosen, given.room
    decision = _decision(request, candidates, chosen, at)
    reservation = _reservation(request, decision, chosen, at, started)
    held_in = [row["id"] for row in room]
    writes = [sql.insert([decision]), sql.insert([reservation])]
    if held_in:
        writes.append(
            sql.insert([ReservationHold(reservation=reservation, window_id=w) for w in held_in])
        )
    writes += let_through(
        given.meters, reservation_id=reservation.reservation_id, tokens=chosen.tokens
    )
    held, *_ = _insert(
        sql.Statement(HOLD, (reservation.amount, held_in, reservation.amount)), *writes
    )
    if len(held) != len(held_in):
        # A process of an earlier release lowered a cap between the two statements.
        raise Contention(after_seconds=1)
    return Routed(decision, reservation, chosen.provider, chosen.name)


def _decision(
    request: RouteRequest, candidates: list[Candidate], chosen: Candidate | None, at: datetime
) -> RouteDecision:
    return RouteDecision(
        decision_id=uuid7(),
        route_request_id=request.route_request_id,
        external_request_id=request.external_request_id,
        call=request.call,
        fallback_of=request.fallback_call,
        task_id=request.task_id,
        job_id=request.job_id,
        attempt=request.attempt,
        fencing_token=request.fencing_token,
        agent=request.agent,
        job_type=request.job_type,
        risk_tier=request.risk_tier,
        runtime=request.runtime,
        estimated_input_tokens=chosen.input_tokens if chosen else request.estimated_input_tokens,
        max_output_tokens=chosen.output_tokens if chosen else request.max_output_tokens,
        request_bytes=request.request_bytes,
        requirements=sorted(set(request.requirements)),
        content_sha256=request.content_sha256,
        decision="issued" if chosen else "refused",
        reason="" if chosen else reason_of(candidates),
        policy_id=candidates[0].policy_id if candidates else None,
        position=chosen.position if chosen else None,
        model_id=chosen.model_id if chosen else None,
        price_id=chosen.price.price_id if chosen and chosen.price else None,
        price_version=chosen.price.version if chosen and chosen.price else "",
        considered=[candidate.line() for candidate in candidates],
        decided_at=at,
    )


def _reservation(
    request: RouteRequest,
    decision: RouteDecision,
    chosen: Candidate,
    at: datetime,
    started: bool,
) -> Reservation:
    return Reservation(
        reservation_id=uuid7(),
        decision=decision,
        route_request_id=request.route_request_id,
        external_request_id=request.external_request_id,
        task_id=request.task_id,
        job_id=request.job_id,
        attempt=request.attempt,
        fencing_token=request.fencing_token,
        agent=request.agent,
        amount=chosen.amount,
        currency=CURRENCY,
        state=State.IN_DOUBT if started else State.HELD,
        reserved_at=at,
    )


def _insert(*statements: sql.Statement) -> list[list[sql.Row]]:
    try:
        return sql.pipeline(*statements)
    except IntegrityError as error:
        # A rival decided the same request first: asked again, it is answered with that decision.
        if sql.sqlstate(error) != "23505":
            raise
        raise Contention(after_seconds=1) from error
