"""Fixtures of a small installation: three agents, their tokens, a submitter, jobs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from agents.entry import Entry
from agents.principals import Principal, identify
from agents.transitions import credentials, principals
from jobs.models import Job
from tests import installed

TEST = {"actor": "user:test", "reason": "for a test"}


@pytest.fixture
def world(db: None) -> None:
    """An installation as `manage.py bootstrap` leaves it."""
    installed.put()


@pytest.fixture
def issue(world: None) -> Callable[..., str]:
    """Make a credential and return its token: `issue(agent="hermes", scopes=["read"])`."""

    def make(**named: Any) -> str:
        if "submitter" in named:
            principals.register_submitter(name=named["submitter"], **TEST)
        return credentials.create(**(TEST | named)).token

    return make


@pytest.fixture
def hermes_token(issue: Callable[..., str]) -> str:
    return issue(agent="hermes")


@pytest.fixture
def openclaw_token(issue: Callable[..., str]) -> str:
    return issue(agent="openclaw")


@pytest.fixture
def agent_zero_token(issue: Callable[..., str]) -> str:
    return issue(agent="agent_zero")


@pytest.fixture
def submitter_token(issue: Callable[..., str]) -> str:
    return issue(submitter="ops", scopes=["submit", "read", "control", "admit"])


@pytest.fixture
def hermes(hermes_token: str) -> Principal:
    return identify(token=hermes_token)


@pytest.fixture
def openclaw(openclaw_token: str) -> Principal:
    return identify(token=openclaw_token)


@pytest.fixture
def agent_zero(agent_zero_token: str) -> Principal:
    return identify(token=agent_zero_token)


@pytest.fixture
def submitter(submitter_token: str) -> Principal:
    return identify(token=submitter_token)


@pytest.fixture
def entry_of() -> Callable[..., Entry]:
    """`entry_of(hermes, "w1")`: an entry of the older contract, without a session."""

    def make(principal: Principal, worker_id: str = "worker-1", **session: Any) -> Entry:
        return Entry(principal, worker_id, **session)

    return make


@pytest.fixture
def make_job(submitter: Principal) -> Callable[..., Job]:
    """Take a task in and return its job: `make_job(task_type="rewrite", priority="high")`."""
    from jobs.transitions import intake

    numbers = itertools.count(1)

    def make(**over: Any) -> Job:
        envelope = {
            "task_id": f"task-{next(numbers)}",
            "source": "manual",
            "title": "A task of a test",
            "goal": "Show that the service keeps its word.",
            "task_type": "content_prep",
            "risk_tier": "low",
            "priority": "normal",
            "inputs": {},
            "output_required": False,
            "review_required": False,
            "execution_approval_required": False,
            "rollback_required": False,
        } | over
        if envelope["risk_tier"] == "high":
            envelope |= {"review_required": True, "execution_approval_required": True}
        [outcome] = intake(principal=submitter, envelopes=[envelope])
        if isinstance(outcome, Exception):
            raise outcome
        return Job.objects.get(task_id=envelope["task_id"])

    return make
