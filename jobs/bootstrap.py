"""What must be there before a task can be taken in: agents, job types, sources."""

from __future__ import annotations

from django.db import transaction

from agents import bootstrap as agents_bootstrap
from agents.models import Agent
from governance.core import audit, clock
from jobs.models import JobType, Source

#: Which agent does which kind of task, where an installation does not say otherwise.
JOB_TYPES = {
    "classification": "openclaw",
    "rewrite": "openclaw",
    "content_prep": "hermes",
    "artifact_production": "hermes",
    "skill_extraction": "hermes",
    "healthcheck": "hermes",
    "implementation": "agent_zero",
}
SOURCES = (
    "manual",
    "webhook",
    "github_action",
    "scheduled",
    "discord",
    "landing_page",
    "proof",
)


@transaction.atomic
def install() -> None:
    """Make what is missing of an installation; what is there stays as it is."""
    agents_bootstrap.install()
    agents = dict(Agent.objects.values_list("name", "pk"))
    for name, agent in JOB_TYPES.items():
        _state(*JobType.objects.get_or_create(name=name, defaults={"agent_id": agents[agent]}))
    for name in SOURCES:
        _state(*Source.objects.get_or_create(name=name))


def _state(row: JobType | Source, made: bool) -> None:
    """Say on the chain of a row that was made what it is."""
    if not made:
        return
    kind = "job_type" if isinstance(row, JobType) else "source"
    audit.record(
        row,
        action=f"{kind}.installed",
        actor=agents_bootstrap.ACTOR,
        at=clock.now(),
        reason=agents_bootstrap.REASON,
        rows=[row],
    )
