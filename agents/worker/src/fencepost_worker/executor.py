"""Runs the effect of an attempt at most once, under authority, and keeps what came of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from fencepost_worker.claim import Job
from fencepost_worker.client import GaveUp
from fencepost_worker.exchange import (
    AlreadyStarted,
    Exchange,
    ExternalAgentExchange,
    Request,
    Result,
    Stage,
)
from fencepost_worker.lease import Lease
from fencepost_worker.timing import steady_now


class OutcomeUnknown(Exception):
    """The effect began and what came of it is not known; it is never begun again."""


@dataclass(frozen=True)
class Grant:
    """The authority to begin an effect. `deadline` is exclusive, on the steady clock.

    `environment`: the variables by which the effect calls models, where it may.
    """

    deadline: float = float("inf")
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        """Return whether it is too late to begin."""
        return steady_now() >= self.deadline


class Authority(Protocol):
    """Obtains the control plane's leave for an effect; see `governed.ControlPlaneAuthority`."""

    @property
    def always(self) -> bool:
        """Return whether effects need it whatever the type of the job is."""
        ...

    def comes_first(self, job: Job) -> bool:
        """Return whether the effect of the job needs a grant before it begins."""
        ...

    def obtain(self, exchange: Exchange, job: Job, *, lease: Lease) -> Grant:
        """Return the grant, or raise `Refused`, `GaveUp` or `LeaseEnded`."""
        ...


#: Carries out the effect of a request. It may raise `OutcomeUnknown`.
Invoke = Callable[..., Result]


class ExternalAgentExecutor:
    """Takes one attempt's effect from request to result."""

    def __init__(
        self, *, exchange: ExternalAgentExchange, authority: Authority | None = None
    ) -> None:
        """Make an executor. Without an `authority` effects are local and need no permit."""
        self._exchange = exchange
        self._authority = authority

    @property
    def needs_permits(self) -> bool:
        """Return whether effects need a permit, whatever the type of the job is."""
        return self._authority is not None and self._authority.always

    def open(self, job: Job, *, runtime: str, attempt: int) -> Exchange:
        """Return the exchange of this attempt."""
        return self._exchange.open(Request.of(job, runtime=runtime, attempt=attempt))

    def execute(
        self, job: Job, *, attempt: int, runtime: str, lease: Lease, invoke: Invoke
    ) -> Result:
        """Return the result of this attempt's effect: the recorded one, or that of running it now.

        :raises OutcomeUnknown: it began before, or it began now and its result was lost.
        :raises LeaseEnded: authority ended before it began.
        :raises Refused: the control plane refused it; it did not begin.
        """
        exchange = self.open(job, runtime=runtime, attempt=attempt)
        known = replayed(exchange)
        if known is not None:
            return known
        lease.wait_while_paused()
        grant = Grant()
        if self._authority is not None and self._authority.comes_first(job):
            try:
                grant = self._authority.obtain(exchange, job, lease=lease)
            except GaveUp as error:
                return exchange.record(_not_started(exchange.request, str(error)))
        return self._run(exchange, lease=lease, grant=grant, invoke=invoke)

    def _run(self, exchange: Exchange, *, lease: Lease, grant: Grant, invoke: Invoke) -> Result:
        try:
            exchange.begin()
        except AlreadyStarted as error:
            raise OutcomeUnknown("the effect began before") from error
        # The mark took a disk's time; authority may have ended while it was written.
        if grant.over or lease.ended is not None:
            return exchange.record(_not_started(exchange.request, "the time to begin was over"))
        return exchange.record(invoke(exchange.request, lease=lease, grant=grant))


def replayed(exchange: Exchange) -> Result | None:
    """Return what an earlier process left of this effect, or None when it never began.

    :raises OutcomeUnknown: it began, and left no result.
    """
    if exchange.stage is Stage.ANSWERED:
        return exchange.result()
    if exchange.stage is Stage.STARTED:
        raise OutcomeUnknown("the worker was lost while the effect was under way")
    if exchange.asked_to_start:
        # The control plane was asked to start, but the mark that precedes the effect is missing.
        return exchange.record(
            _not_started(exchange.request, "the worker was lost before it began")
        )
    return None


def _not_started(request: Request, message: str) -> Result:
    return Result.failed(
        request, code="NOT_STARTED", message=message, retryable=True, outcome="not_started"
    )
