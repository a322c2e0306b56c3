"""Attempts that call models: what the gateway must know of one, and what it says afterwards."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fencepost_worker.claim import Job
from fencepost_worker.client import Problem
from fencepost_worker.executor import Grant
from fencepost_worker.lease import Lease

#: So many calls of an attempt may be open at a time where its claim says nothing.
OPEN_CALLS_MAX = 8
#: Obtains permit and start for the reservation of an attempt's first call, and marks durably that
#: its effect begins. It may raise `NoRoom`, `Refused`, `GaveUp` and `LeaseEnded`.
Starter = Callable[[str], Grant]


@dataclass(frozen=True)
class GovernedAttempt:
    """One attempt whose program may call models.

    :param models: the claim's `models[]`: what the policy allows, in order.
    :param effects: `external`: its execution is started before the program runs; `model_only`: it
        is started with the first call, by `starter`.
    :param folder: where the journal of its calls is durable.
    """

    job: Job
    lease: Lease
    external_request_id: str
    folder: Path
    models: tuple[Mapping[str, Any], ...] = ()
    effects: str = "external"
    starter: Starter | None = None
    open_calls_max: int = OPEN_CALLS_MAX

    @property
    def binding(self) -> dict[str, Any]:
        """Return the members that every governed call of the attempt names."""
        return self.job.claim.binding(self.external_request_id)


@dataclass(frozen=True)
class ProviderRefusal:
    """A refusal of a provider as it was answered: what trips the breaker, or is waited for."""

    provider: str
    model: str
    status: int
    after_seconds: float | None = None


@dataclass(frozen=True)
class Spent:
    """What became of an attempt's model calls.

    `calls`: routed and ended; `open`: not booked yet, their journal sends them at the next start.
    `at_a_cost`: of those that ended, how many did not end at basis `none`. `usage` sums what was
    settled, by counter of the wire. `refusals`: of the control plane, oldest first; `no_room` is
    the last of them for want of room, if no call was made since.
    """

    calls: int = 0
    open: int = 0
    at_a_cost: int = 0
    usage: Mapping[str, int] = field(default_factory=dict)
    refusals: tuple[Problem, ...] = ()
    no_room: Problem | None = None
    provider_refusals: tuple[ProviderRefusal, ...] = ()
