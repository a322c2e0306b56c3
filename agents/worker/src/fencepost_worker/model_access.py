"""Model access: the work of an attempt calls models through the gateway, and nobody else does.

The gateway knows calls; what they come to for the attempt - that it is deferred, that a key is
refused - is judged here, and kept before the result is.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from fencepost_worker.claim import Claim, Job
from fencepost_worker.client import DEFER, ControlPlane, GaveUp, Problem, Refused
from fencepost_worker.exchange import Exchange, Result
from fencepost_worker.gateway.attempts import GovernedAttempt, ProviderRefusal, Spent
from fencepost_worker.gateway.recovery import recover
from fencepost_worker.lease import Lease
from fencepost_worker.uploads import Postponed

if TYPE_CHECKING:
    from fencepost_worker.gateway.server import Gateway
    from fencepost_worker.governed import ControlPlaneAuthority

log = logging.getLogger("fencepost_worker")

#: What is under way when the worker is told to stop at once has so long to be booked.
ABORT_SECONDS = 5.0
UNBOOKED = "a model call is not booked yet"
#: By these a provider says that it takes no call of ours, whatever the job is.
NO_KEY_STATUSES = frozenset({401, 402, 403})
QUOTA_STATUS = 429
KEY_REFUSED, QUOTA_REACHED = "PROVIDER_REFUSES_US", "PROVIDER_QUOTA"
#: After which an attempt comes again that found a provider's quota used up, or its key refused.
QUOTA_SECONDS, KEY_SECONDS = 60.0, 600.0


class ModelAccess:
    """Lets the work of attempts call models."""

    def __init__(
        self, *, gateway: Gateway, plane: ControlPlane, authority: ControlPlaneAuthority
    ) -> None:
        self._gateway = gateway
        self._plane = plane
        self._authority = authority
        self._closing = threading.Event()
        self._closed = threading.Lock()

    def variables(self, key: str) -> dict[str, str]:
        """Return the variables by which SDKs find the gateway once it listens, with this key."""
        return self._gateway.variables(key)

    def start(self) -> None:
        """Begin to listen.

        :raises GatewayNotStarted: it could not.
        """
        self._gateway.start()

    def close(self) -> None:
        """Stop listening; what is not booked is kept for the next start."""
        with self._closed:
            if not self._closing.is_set():
                self._closing.set()
                self._gateway.close()

    def abort(self) -> None:
        """Book what can be booked soon, and close."""
        closer = threading.Timer(ABORT_SECONDS, self.close)
        closer.daemon = True
        closer.start()

    def during(
        self,
        job: Job,
        exchange: Exchange,
        *,
        lease: Lease,
        work: Callable[[Mapping[str, str]], Result],
    ) -> Result:
        """Return the result of the work, which may call models while it lasts.

        Every call of it is booked when this returns, whatever the work came to.

        :param work: gets the variables by which calls are made; none where none may be.
        :raises Postponed: a call could not be booked; what is known is kept for the next start.
        """
        if not job.claim.calls_models:
            return work({})
        admitted = self._gateway.admit(attempt_of(job, exchange, lease, self._authority))
        try:
            result = work(admitted.environment)
        except Exception as error:
            if admitted.end(_why(lease)).open:
                raise Postponed(UNBOOKED) from error
            raise
        spent = admitted.end(_why(lease))
        result = exchange.record(judged(exchange, job.claim, result, spent))
        if spent.open:
            raise Postponed(UNBOOKED)
        return result

    def book(self, job: Job, exchange: Exchange) -> None:
        """Book the calls that an earlier process has left open.

        :raises Postponed: one could not be booked now.
        """
        binding = job.claim.binding(exchange.request.external_request_id)
        try:
            # Whether the lease lasts is nothing to them: what was spent was spent.
            left = recover(
                exchange.calls_folder,
                self._plane,
                binding,
                wait=lambda seconds: not self._closing.wait(seconds),
            )
        except (GaveUp, Refused) as error:
            raise Postponed(UNBOOKED) from error
        if left.open:
            raise Postponed(UNBOOKED)


def attempt_of(
    job: Job, exchange: Exchange, lease: Lease, authority: ControlPlaneAuthority
) -> GovernedAttempt:
    """Return what the gateway must know of an attempt."""
    claim = job.claim
    options: dict[str, Any] = {}
    if claim.open_calls_max is not None:
        options["open_calls_max"] = claim.open_calls_max
    if claim.only_models:
        options["starter"] = authority.starter(exchange, job, lease=lease)
    return GovernedAttempt(
        job=job,
        lease=lease,
        external_request_id=exchange.request.external_request_id,
        folder=exchange.calls_folder,
        models=claim.models,
        effects="model_only" if claim.only_models else "external",
        **options,
    )


def judged(exchange: Exchange, claim: Claim, result: Result, spent: Spent) -> Result:
    """Return the result of an attempt as its model calls let it stand.

    Work that failed where a call found no room did not fail by itself: the attempt is deferred,
    which is kept before the result is.  So is work that says it succeeded without the call that
    its type demands.  Source: money, rule 9.
    """
    problem = want_of_room(spent)
    if problem is None or result.document["escalate"] is not None:
        return result
    uncalled = claim.needs_models and not spent.at_a_cost and not result.document["no_model_reason"]
    if result.outcome == "succeeded" and not uncalled:
        return result
    exchange.note_no_room(problem)
    if result.outcome != "succeeded":
        return result
    return Result.failed(
        exchange.request, code=problem.reason, message=problem.detail, retryable=True
    )


def want_of_room(spent: Spent) -> Problem | None:
    """Return what left no room for an attempt's calls: the plane, or else a provider."""
    if spent.no_room is not None:
        return spent.no_room
    refusals = spent.provider_refusals
    refused = next((each for each in refusals if each.status in NO_KEY_STATUSES), None)
    if refused is not None:
        return _of_provider(refused, KEY_REFUSED, KEY_SECONDS)
    waits = [each for each in refusals if each.status == QUOTA_STATUS]
    return _of_provider(waits[-1], QUOTA_REACHED, QUOTA_SECONDS) if waits else None


def refuses_all(problem: Problem) -> bool:
    """Return whether a provider refuses whatever job it is asked for."""
    return problem.reason == KEY_REFUSED


def _why(lease: Lease) -> str:
    return lease.ended.value if lease.ended else "the program has ended"


def _of_provider(refusal: ProviderRefusal, reason: str, seconds: float) -> Problem:
    return Problem(
        status=refusal.status,
        code="RESOURCE_EXHAUSTED",
        reason=reason,
        detail=f"{refusal.provider} answered {refusal.status} to a call of {refusal.model}",
        rule=DEFER,
        effect="none",
        after_seconds=refusal.after_seconds or seconds,
    )
