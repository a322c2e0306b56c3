"""Routes before calls and settlements after them: an attempt's dealings with the control plane.

All of it blocks, and runs on the gateway's threads; each step is in the journal before it is taken.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from uuid_utils.compat import uuid7

from fencepost_worker import rules
from fencepost_worker.client import Answer, Call, ControlPlane, GaveUp, Problem, Refused
from fencepost_worker.gateway.attempts import GovernedAttempt
from fencepost_worker.gateway.marks import SENT, SETTLED, CallJournal, CallMarks
from fencepost_worker.identity import route_request_id
from fencepost_worker.lease import LeaseEnded
from fencepost_worker.timing import steady_now

log = logging.getLogger("fencepost_worker")

#: So many numbers are tried for a call, where the control plane knows of more calls than we do.
NUMBERS_TRIED = 8
#: A call begins this much before its time is over, or not at all.
MARGIN_SECONDS = 1.0
NUMBER_TAKEN = frozenset({"ROUTE_CONTENT_MISMATCH", "IDEMPOTENCY_KEY_REUSED"})
WRONG_NUMBER = "MODEL_RESERVATION_STATE_INVALID"


@dataclass(frozen=True)
class Routed:
    """A decision under which one call may be made. `begin_by` is on the steady clock.

    `started`: the attempt's execution was started before, so that the route is the call's start.
    """

    number: int
    route_request_id: str
    reservation_id: str
    provider: str
    model: str
    max_output_tokens: int | None = None
    begin_by: float = float("inf")
    started: bool = False


@dataclass(frozen=True)
class End:
    """How a call ended: `settled`, `failed` or `released`, and on what basis it is booked."""

    end: str
    basis: str
    usage: dict[str, Any] | None = None
    response_id: str | None = None
    error_code: str | None = None

    @property
    def costs(self) -> bool:
        """Return whether it may have cost something."""
        return self.basis != "none"

    def body(self) -> dict[str, Any]:
        """Return the members of its settlement."""
        members = {
            "end": self.end,
            "usage": self.usage,
            "provider_response_id": self.response_id and self.response_id[:200],
            "error_code": self.error_code and self.error_code[:80],
            "cost_basis": self.basis,
        }
        stated = {name: value for name, value in members.items() if value is not None}
        # A provider's words may be what no journal and no control plane takes.
        taken: dict[str, Any] = rules.mended(stated)[0]
        return taken


def not_sent(error_code: str, *, started: bool = True) -> End:
    """Return the end of a call that was routed, and of which nothing went to a provider."""
    return End("failed" if started else "released", "none", error_code=error_code)


class StartRefused(Exception):
    """The attempt's execution was not started; its first call was not made."""

    def __init__(self, why: Exception, routed: Routed) -> None:
        self.why = why
        self.routed = routed
        super().__init__(str(why))


class Desk:
    """Asks for the routes of one attempt, one at a time, and settles its calls."""

    def __init__(
        self,
        attempt: GovernedAttempt,
        *,
        plane: ControlPlane,
        journal: CallJournal,
        carry_on: Callable[[float], bool],
    ) -> None:
        self._attempt = attempt
        self._plane = plane
        self._journal = journal
        self._carry_on = carry_on
        self._next = 1 + max(map(_number_used, journal.calls.values()), default=0)
        self._started = attempt.starter is None

    def route(self, needs: dict[str, Any], *, lost_usage: dict[str, int]) -> Routed:
        """Return the decision for a call; the attempt's first one starts its execution.

        :raises Refused: the control plane decided against it.
        :raises GaveUp: the lease ended before an answer came.
        :raises StartRefused: it has a route, and may not begin.
        """
        routed = self._route(needs, lost_usage)
        if self._started or routed.started or self._attempt.starter is None:
            return routed
        try:
            grant = self._attempt.starter(routed.reservation_id)
        except (Refused, GaveUp, LeaseEnded) as error:
            self.settle(routed, not_sent("NOT_STARTED", started=isinstance(error, GaveUp)))
            raise StartRefused(error, routed) from error
        self._started = True
        return replace(routed, begin_by=min(routed.begin_by, grant.deadline))

    def settle(self, routed: Routed, end: End) -> Answer | None:
        """Tell the control plane how a call ended, until it has answered.

        :returns: its answer; None where it refused what was told.
        :raises GaveUp: the gateway closes; the journal keeps what is to be told.
        """
        call = settlement(routed.reservation_id, end, binding=self._attempt.binding)
        self._journal.settled(routed.number, call)
        return tell(self._journal, routed.number, call, plane=self._plane, carry_on=self._carry_on)

    def _route(self, needs: dict[str, Any], lost_usage: dict[str, int]) -> Routed:
        for _ in range(NUMBERS_TRIED):
            request_id = route_request_id(self._attempt.external_request_id, call=self._next)
            body = self._attempt.binding | needs | {"route_request_id": request_id}
            call = Call("POST", "/v1/routes", body, key=str(uuid7()))
            number = self._journal.begin(route=call, lost_usage=lost_usage)
            try:
                answer = self._plane.deliver(call, wait=self._attempt.lease.carry_on)
            except Refused as error:
                self._journal.done(number)
                if self._renumbered(error.problem):
                    continue
                raise
            routed = routed_of(number, request_id, answer)
            if isinstance(routed, Problem):
                self._journal.done(number)
                raise Refused(routed)
            self._next += 1
            return routed
        raise GaveUp("no free number was found for a call")

    def _renumbered(self, problem: Problem) -> bool:
        """Take the next free number, if the control plane says that ours is not."""
        following = problem.current.get("next_call")
        if problem.reason in NUMBER_TAKEN:
            self._next += 1
        elif problem.reason == WRONG_NUMBER and type(following) is int and following >= 1:
            self._next = following
        else:
            return False
        return True


def routed_of(number: int, request_id: str, answer: Answer) -> Routed | Problem:
    """Return what a route's answer says: the decision, or the refusal that it is."""
    body = answer.body
    reservation = body.get("reservation")
    if body.get("decision") != "issued" or not isinstance(reservation, dict):
        return Problem.decided(body.get("reason"), status=answer.status)
    within, limit = body.get("begin_within_seconds"), body.get("max_output_tokens")
    begin_by = float("inf")
    if isinstance(within, (int, float)):
        begin_by = answer.requested_at + within - min(MARGIN_SECONDS, within / 2)
    return Routed(
        number=number,
        route_request_id=request_id,
        reservation_id=str(reservation.get("reservation_id", "")),
        provider=str(body.get("provider") or ""),
        model=str(body.get("model") or ""),
        max_output_tokens=limit if type(limit) is int and limit > 0 else None,
        begin_by=begin_by,
        started=within is not None,
    )


def settlement(reservation_id: str, end: End, *, binding: dict[str, Any]) -> Call:
    """Return the call, with a key of its own, that says how a model call of an attempt ended."""
    path = f"/v1/reservations/{reservation_id}/resolve"
    return Call("POST", path, binding | end.body(), key=str(uuid7()))


def tell(
    journal: CallJournal,
    number: int,
    call: Call,
    *,
    plane: ControlPlane,
    carry_on: Callable[[float], bool],
) -> Answer | None:
    """Send a settlement until it is answered, and mark that it was; see `Desk.settle`."""
    try:
        answer = plane.report(call, wait=carry_on)
    except Refused as error:
        log.warning("the end of a model call was refused: %s", error)
        answer = None
    journal.done(number)
    return answer


def _number_used(marks: CallMarks) -> int:
    """Return which call of its attempt it was; 0 where it got no route, and no number."""
    if SENT not in marks.marks and SETTLED not in marks.marks:
        return 0
    request_id = str((marks.route.body or {})["route_request_id"])
    last = request_id.rpartition(":")[2]
    return int(last) if last.isdigit() else 1


def too_late(routed: Routed) -> bool:
    """Return whether a call's time to begin is over."""
    return steady_now() >= routed.begin_by
