"""Decide which model a call may use, and reserve its upper bound."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.utils import IntegrityError
from uuid_utils.compat import uuid7

from governance.core import digests, sql
from governance.core.clock import READ_CLOCK
from governance.core.errors import (
    BindingMismatch,
    BudgetExhausted,
    Contention,
    DomainError,
    FieldFault,
    InvalidArgument,
    ModelNotAllowed,
    ModelReservationStateInvalid,
    ModelUnpriced,
    NoModelInForce,
    RouteContentMismatch,
)
from governance.money.budgets import (
    HOLD,
    LOCK_WINDOWS,
    OPEN_WINDOWS,
    READ_ROOM,
    scopes_of,
    warn,
    windows,
)
from governance.money.floors import held_tokens, too_large
from governance.money.models import CURRENCY, Reservation, ReservationHold, RouteDecision
from governance.money.pricing import (
    TOKENS_MAX,
    PriceList,
    PriceUnusable,
    Terms,
    document_of_first_rates,
    is_term,
    text_of,
)

REQUIREMENTS_MAX = 20

State = Reservation.State
#: The refusals that become decisions; a repeated request is answered from the stored one.
REFUSALS: dict[str, type[DomainError]] = {
    refusal.reason: refusal for refusal in (ModelNotAllowed, ModelUnpriced, BudgetExhausted)
}

# The decision that was stored for this request. Index: the unique one.
READ_STORED = (
    f"SELECT {sql.select_list(RouteDecision, 'd')}, {sql.select_list(Reservation, 'r')},"
    " m.provider, m.name AS model_name FROM governance_routedecision d"
    " LEFT JOIN governance_reservation r ON r.decision_id = d.decision_id"
    " LEFT JOIN governance_languagemodel m ON m.id = d.model_id WHERE d.route_request_id = %s"
)
# The calls of this attempt before this one. Index: the unique one on (execution, call).
READ_EARLIER = (
    "SELECT d.call, d.model_id, r.state FROM governance_routedecision d"
    " LEFT JOIN governance_reservation r ON r.decision_id = d.decision_id"
    " WHERE d.external_request_id = %s AND d.call < %s"
)
# A price of the first release has no document: it is what its columns and tiers say.
PRICE_COLUMNS = (
    "p.id AS price_id, p.version, p.document::text, CASE WHEN p.document IS NULL THEN"
    " json_build_array(p.call_rate::text, json_build_array(0, p.input_rate::text,"
    " p.output_rate::text, p.cached_input_rate::text, p.reasoning_rate::text),"
    " (SELECT coalesce(json_agg(json_build_array(t.above_input_tokens,"
    " t.input_rate::text, t.output_rate::text, t.cached_input_rate::text, t.reasoning_rate::text)"
    " ORDER BY t.above_input_tokens), '[]') FROM governance_pricetier t"
    " WHERE t.price_id = p.id))::text END AS first_rates"
)
# The one policy for an agent, a job type and a tier: the most specific of those that fit. In the
# braces stand what names these three: parameters, or columns of the statement around it.
POLICY = (
    "SELECT id FROM governance_routepolicy WHERE retired_at IS NULL"
    "  AND agent IN ('', {agent}) AND job_type IN ('', {job_type})"
    "  AND risk_tier IN ('', {risk_tier})"
    "  ORDER BY (agent <> '')::int + (job_type <> '')::int + (risk_tier <> '')::int DESC,"
    "  agent DESC, job_type DESC LIMIT 1"
)
# The models that a policy allows and that are enabled, in order, as JSON text: what a claim tells
# of them. Braces as of `POLICY`.
ALLOWED_MODELS = (
    "(SELECT coalesce(json_agg(json_build_object('position', l.position, 'provider', m.provider,"
    f" 'model', m.name) ORDER BY l.position), '[]')::text FROM ({POLICY}) o"
    " JOIN governance_routepolicymodel l ON l.policy_id = o.id"
    " JOIN governance_languagemodel m ON m.id = l.model_id AND m.enabled)"
)
# The allowed models in order, each with the price in force. Parameters: agent, job type, tier.
READ_CANDIDATES = (
    "SELECT l.policy_id, l.position, m.id AS model_id, m.provider, m.name, m.enabled,"
    f" m.capabilities::text, m.context_tokens_max, m.output_tokens_max, {PRICE_COLUMNS}"
    f" FROM ({POLICY.format(agent='%s', job_type='%s', risk_tier='%s')}) y"
    " JOIN governance_routepolicymodel l ON l.policy_id = y.id"
    " JOIN governance_languagemodel m ON m.id = l.model_id"
    " LEFT JOIN LATERAL (SELECT * FROM governance_price WHERE model_id = m.id"
    "  AND starts_at <= clock_timestamp() AND (ends_at IS NULL OR ends_at > clock_timestamp())"
    "  ORDER BY (source = 'override') DESC, starts_at DESC LIMIT 1) p ON true"
    " ORDER BY l.position"
)


@dataclass(frozen=True, kw_only=True)
class RouteRequest:
    """One model call that an attempt asks for.

    :param estimated_input_tokens: 0: what the request takes is not stated.
    :param max_output_tokens: 0: the request states no limit.
    :param request_bytes: bytes of its text, where they are known.
    :param requirements: capabilities that the model must have, and terms of the price (`Terms`).
    :raises InvalidArgument: a token count or a requirement is not valid.
    """

    external_request_id: str
    route_request_id: str
    task_id: str
    job_id: UUID
    attempt: int
    fencing_token: int
    agent: str
    job_type: str
    risk_tier: str
    runtime: str
    estimated_input_tokens: int = 0
    max_output_tokens: int = 0
    request_bytes: int | None = None
    requirements: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        faults = [
            FieldFault(f"/{name}", f"an integer from 0 to {TOKENS_MAX}")
            for name in ("estimated_input_tokens", "max_output_tokens", "request_bytes")
            if (count := getattr(self, name)) is not None or name != "request_bytes"
            if type(count) is not int or not 0 <= count <= TOKENS_MAX
        ]
        if len(self.requirements) > REQUIREMENTS_MAX or not all(
            isinstance(each, str) and 0 < len(each) <= 60 for each in self.requirements
        ):
            faults.append(FieldFault("/requirements", f"up to {REQUIREMENTS_MAX} short names"))
        if faults:
            raise InvalidArgument(errors=faults)
        Terms.read(self.requirements)

    @cached_property
    def terms(self) -> Terms:
        """Return what the requirements say that changes what the call may cost."""
        return Terms.read(self.requirements)

    @cached_property
    def capabilities(self) -> frozenset[str]:
        """Return the requirements that a model must be able to meet."""
        return frozenset(each for each in self.requirements if not is_term(each))

    @property
    def call(self) -> int:
        """Return which call of its attempt this is, counted from 1.

        :raises BindingMismatch: `route_request_id` is not one of this attempt.
        """
        try:
            return digests.call_number(
                external_request_id=self.external_request_id,
                route_request_id=self.route_request_id,
            )
        except ValueError as error:
            raise BindingMismatch(str(error)) from error

    @property
    def content_sha256(self) -> str:
        """Return the digest of all that must be equal when the request is repeated."""
        content = asdict(self) | {
            "job_id": str(self.job_id),
            "requirements": sorted(set(self.requirements)),
        }
        # A restore raises the tokens of running attempts; the call is still the same.
        del content["fencing_token"]
        # A request of before there were bytes is the same as one without.
        if self.request_bytes is None:
            del content["request_bytes"]
        return digests.sha256_hex(digests.canonical(content))

    @property
    def scopes(self) -> dict[str, str]:
        """Return the key of this call in each scope that a budget may have."""
        return scopes_of(agent=self.agent, job_type=self.job_type, task_id=self.task_id)


@dataclass(frozen=True)
class Routed:
    """A decision and what it reserved. `replayed`: it had been made before.

    `begin_within_seconds` is how long the call may take to begin, where who asks says so; it is of
    the moment, and no part of the decision.
    """

    decision: RouteDecision
    reservation: Reservation | None
    provider: str
    model: str
    replayed: bool = False
    begin_within_seconds: int | None = None

    @property
    def refusal(self) -> DomainError | None:
        """Return the refusal to answer with once the decision is committed, or None."""
        if self.decision.decision == RouteDecision.Decision.ISSUED:
            return None
        return _refusal(self.decision.reason, self.decision.considered, self.decision.decided_at)

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
                "reservation": reservation
                and {
                    "reservation_id": str(reservation.reservation_id),
                    "state": reservation.state,
                    "amount": text_of(reservation.amount),
                    "currency": reservation.currency,
                },
            },
        }


@dataclass
class Candidate:
    """An allowed model at its position, and what became of it for one request."""

    policy_id: int
    position: int
    model_id: int
    provider: str
    name: str
    price: PriceList | None
    outcome: str = "not_needed"
    amount: Decimal | None = None
    #: What the call is held at.
    input_tokens: int = 0
    output_tokens: int = 0
    over: list[dict[str, Any]] = field(default_factory=list)

    def line(self) -> dict[str, Any]:
        """Return the candidate's line of `considered`."""
        return {
            "position": self.position,
            "provider": self.provider,
            "model": self.name,
            "outcome": self.outcome,
            "price_version": self.price.version if self.price else None,
            "amount": None if self.amount is None else text_of(self.amount),
            "over": self.over,
        }


@transaction.atomic
def reserve(*, request: RouteRequest, started: bool = False) -> Routed:
    """Decide which model the call may use and hold its upper bound in every budget, or in none.

    The first allowed model that is enabled, priced, capable, did not fail in an earlier call of
    this attempt, and fits every budget.  A refusal is a decision too: it is stored and returned,
    and the caller answers `refusal` after the commit.

    :param started: the attempt's execution was started before, so that the call is in doubt
        from its beginning.
    :raises BindingMismatch: `route_request_id` is not of this attempt.
    :raises RouteContentMismatch: the request was decided with other content.
    :raises ModelReservationStateInvalid: the call before this one has not ended.
    :raises Contention: a rival changed what was read; the same request may be sent again.
    """
    call = request.call
    stored, earlier, rows, [clock] = sql.pipeline(
        sql.Statement(READ_STORED, (request.route_request_id,)),
        sql.Statement(READ_EARLIER, (request.external_request_id, call)),
        sql.Statement(READ_CANDIDATES, (request.agent, request.job_type, request.risk_tier)),
        sql.Statement(READ_CLOCK),
    )
    if stored:
        return _replayed(stored[0], request)
    failed = _failed_before(earlier, call)
    candidates = [_judged(row, request, failed, clock["now"]) for row in rows]
    room: list[sql.Row] = []
    if any(candidate.amount is not None for candidate in candidates):
        params = windows(request.scopes, clock["now"])
        _, _, room = sql.pipeline(
            sql.Statement(OPEN_WINDOWS, params),
            sql.Statement(LOCK_WINDOWS, params),
            sql.Statement(READ_ROOM, params),
        )
        # A budget that was made since the windows were opened counts from the next call on.
        room = [row for row in room if row["id"] is not None]
    chosen = _choose(candidates, room)
    routed = _written(request, candidates, chosen, room, at=clock["now"], started=started)
    if chosen is not None:
        warn(room, chosen.amount or Decimal(0), at=clock["now"])
    return routed


def dry_run(
    *,
    agent: str,
    job_type: str,
    risk_tier: str,
    estimated_input_tokens: int,
    max_output_tokens: int,
    requirements: Sequence[str] = (),
    task_id: str = "",
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
    )
    rows, [clock] = sql.pipeline(
        sql.Statement(READ_CANDIDATES, (agent, job_type, risk_tier)), sql.Statement(READ_CLOCK)
    )
    candidates = [_judged(row, request, frozenset(), clock["now"]) for row in rows]
    [room] = sql.pipeline(sql.Statement(READ_ROOM, windows(request.scopes, clock["now"])))
    chosen = _choose(candidates, room)
    return {
        "decision": "issued" if chosen else "refused",
        "reason": None if chosen else _reason(candidates),
        "provider": chosen and chosen.provider,
        "model": chosen and chosen.name,
        "amount": chosen and text_of(chosen.amount or Decimal(0)),
        "policy_id": candidates[0].policy_id if candidates else None,
        "considered": [candidate.line() for candidate in candidates],
    }


def _replayed(row: sql.Row, request: RouteRequest) -> Routed:
    decision = sql.build(RouteDecision, row, "d")
    if decision.content_sha256 != request.content_sha256:
        raise RouteContentMismatch(current={"decision_id": str(decision.decision_id)})
    held = sql.build(Reservation, row, "r") if row["r_reservation_id"] else None
    return Routed(decision, held, row["provider"] or "", row["model_name"] or "", replayed=True)


def _failed_before(earlier: list[sql.Row], call: int) -> frozenset[int]:
    """Return the models that failed in earlier calls of the attempt: a fallback is another one.

    :raises ModelReservationStateInvalid: the call before is missing or still open.
    """
    previous = [row for row in earlier if row["call"] == call - 1]
    if call > 1 and not previous:
        raise ModelReservationStateInvalid(f"Call {call - 1} of this attempt was not made.")
    if previous and previous[0]["state"] in Reservation.OPEN:
        raise ModelReservationStateInvalid(
            f"Call {call - 1} of this attempt has not ended.",
            current={"state": previous[0]["state"]},
        )
    return frozenset(row["model_id"] for row in earlier if row["state"] == State.FAILED)


def _judged(row: sql.Row, request: RouteRequest, failed: frozenset[int], at: datetime) -> Candidate:
    """Return an allowed model with what keeps it from this request; an `amount` if nothing does."""
    price = price_list(row) if row["price_id"] else None
    found = Candidate(
        row["policy_id"], row["position"], row["model_id"], row["provider"], row["name"], price
    )
    found.input_tokens, found.output_tokens = held_tokens(
        row,
        stated=request.estimated_input_tokens,
        limit=request.max_output_tokens,
        request_bytes=request.request_bytes,
        price=price,
        at=at,
    )
    if not row["enabled"]:
        found.outcome = "disabled"
    elif row["model_id"] in failed:
        found.outcome = "failed_before"
    elif not request.capabilities <= set(json.loads(row["capabilities"])):
        found.outcome = "incapable"
    elif not found.input_tokens:
        found.outcome = "limit_unknown"
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


def _choose(candidates: list[Candidate], room: list[sql.Row]) -> Candidate | None:
    """Return the first usable model whose amount fits every budget."""
    for candidate in candidates:
        if candidate.amount is None:
            continue
        candidate.over = [
            {
                "scope": row["scope"],
                "window": row["kind"],
                "ends_at": row["ends_at"] and row["ends_at"].isoformat(),
            }
            for row in room
            if row["cap"] is not None and row["used"] + candidate.amount > row["cap"]
        ]
        candidate.outcome = "over_budget" if candidate.over else "chosen"
        if not candidate.over:
            return candidate
    return None


def _reason(candidates: list[Candidate]) -> str:
    outcomes = {candidate.outcome for candidate in candidates}
    if "over_budget" in outcomes:
        return BudgetExhausted.reason
    return ModelUnpriced.reason if "unpriced" in outcomes else ModelNotAllowed.reason


def _refusal(reason: str, considered: list[dict[str, Any]], at: datetime) -> DomainError:
    # The caller's request has nothing to do with it where all that is allowed is turned off.
    if reason == ModelNotAllowed.reason and all(
        line["outcome"] == "disabled" for line in considered
    ):
        return NoModelInForce()
    if reason == ModelNotAllowed.reason and any(
        line["outcome"] == "limit_unknown" for line in considered
    ):
        return ModelNotAllowed(
            "The context limit of an allowed model is not known: state request_bytes or"
            " estimated_input_tokens."
        )
    over = [each for line in considered for each in line["over"]]
    if not over:
        return REFUSALS[reason]()
    ends = [each["ends_at"] for each in over]
    seconds = None
    if None not in ends:
        seconds = int((max(map(datetime.fromisoformat, ends)) - at).total_seconds()) + 1
    full = [{"scope": each["scope"], "window": each["window"]} for each in over]
    return REFUSALS[reason](after_seconds=seconds, current={"budgets": full})


def _written(
    request: RouteRequest,
    candidates: list[Candidate],
    chosen: Candidate | None,
    room: list[sql.Row],
    *,
    at: datetime,
    started: bool,
) -> Routed:
    """Write the decision and, where a model was chosen, the reservation in all its windows."""
    decision = _decision(request, candidates, chosen, at)
    if chosen is None:
        _insert(sql.insert([decision]))
        return Routed(decision, None, "", "")
    reservation = _reservation(request, decision, chosen, at, started)
    held_in = [row["id"] for row in room]
    writes = [sql.insert([decision]), sql.insert([reservation])]
    if held_in:
        writes.append(
            sql.insert([ReservationHold(reservation=reservation, window_id=w) for w in held_in])
        )
    held, *_ = _insert(
        sql.Statement(HOLD, (reservation.amount, held_in, reservation.amount)), *writes
    )
    if len(held) != len(held_in):
        # A cap was lowered between the two statements.
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
        reason="" if chosen else _reason(candidates),
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


def price_list(row: sql.Row) -> PriceList:
    """Return the price whose `PRICE_COLUMNS` are in `row`."""
    document = row["document"] or document_of_first_rates(row["first_rates"])
    return PriceList(row["price_id"], row["version"], document)
