"""What must be there before a task can be taken in: agents, job types, sources."""

from __future__ import annotations

from django.db import transaction

from agents import bootstrap as agents_bootstrap
from agents.models import Agent
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
        JobType.objects.get_or_create(name=name, defaults={"agent_id": agents[agent]})
    for name in SOURCES:
        Source.objects.get_or_create(name=name)
