"""What agents have in hand and may be given, as told by the app that keeps the jobs.

This app knows no jobs. `jobs` provides the answers when Django starts (`JobsConfig.ready`).
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any, Protocol, TypedDict


class ModelNamedOut(TypedDict):
    """A model that a policy allows, and over which calls of it are made."""

    provider: str
    model: str
    api: str


class JobTypeOut(TypedDict):
    """A kind of task that the agent is given.

    `models`: those that a policy allows to some task of the type, whatever its risk tier.

    `uses_model` is `model_use` as workers of the first release know it: whether it is `required`.
    """

    task_type: str
    runtime: str
    model_use: str
    effects: str
    models: list[ModelNamedOut]
    uses_model: bool
    lease_seconds: int
    attempt_timeout_seconds: int | None
    max_attempts: int
    max_attempts_ceiling: int
    inputs_schema: dict[str, Any]


class Workload(Protocol):
    """The questions that this app asks about jobs."""

    def active_leases(self, *, agent_ids: Collection[int]) -> dict[int, int]:
        """Return how many jobs of each agent are running; agents without any may be missing."""

    def beats(self, *, agent_ids: Collection[int]) -> list[tuple[int, int, datetime]]:
        """Return agent, session and when it last renewed a lease, for each that holds leases."""

    def effects_until(self, *, agent_id: int) -> datetime | None:
        """Return until when an effect that the agent has started may still act.

        None where none may. Exclusive: nobody begins at that instant or after it.
        """

    def revoke_permits(self, *, session_pk: int, at: datetime) -> int:
        """Revoke the permits that a session has not spent, and return how many there were.

        For who holds the gate of the session's agent, so that no start is under way.
        """

    def job_types(self, *, agent_id: int) -> list[JobTypeOut]:
        """Return the kinds of task that the agent is given, with their limits."""

    def limits(self) -> dict[str, int]:
        """Return the bounds of the calls that workers make."""


_provided: list[Workload] = []


def provide(workload: Workload) -> None:
    """Let `workload` answer from now on."""
    _provided[:] = [workload]


def ask() -> Workload:
    """Return who answers."""
    return _provided[0]


def active_leases(agent_id: int) -> int:
    """Return how many jobs of the agent are running."""
    return ask().active_leases(agent_ids=[agent_id]).get(agent_id, 0)


def effects_until(agent_id: int) -> datetime | None:
    """Return until when an effect that the agent has started may still act; None: none may."""
    return ask().effects_until(agent_id=agent_id)
