"""Jobs whose risk tier is above their agent's highest: nobody gets them, and people see them."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from agents.entry import Entry
from agents.principals import Principal
from agents.transitions.principals import Settings, configure_agent
from governance.core.errors import AdmissionClosed, RiskNotAllowed
from jobs import transitions, waiting
from jobs.models import Job
from tests import plans
from tests.evidence import refused, untouched
from tests.work import ANNA, close, pass_time


def allow(agent: Principal, tier: str) -> None:
    """Set the highest risk tier of the agent."""
    configure_agent(name=agent.name, settings=Settings(max_risk_tier=tier), **ANNA)


class TestARiskAboveTheAgentsHighest:
    """Intake takes no such task: the agent's tier was lowered after the job had come in."""

    @pytest.fixture
    def risky(self, agent_zero: Principal, high_risk: Any) -> Job:
        job: Job = high_risk()
        transitions.approve(task_id=job.task_id, **ANNA)
        job.refresh_from_db()
        allow(agent_zero, "medium")
        return job

    @pytest.fixture
    def zero(self, agent_zero: Principal) -> Entry:
        return Entry(agent_zero, "zero-1")

    def test_is_refused(self, risky: Job, zero: Entry) -> None:
        with refused(RiskNotAllowed, risky) as refusal:
            transitions.claim(entry=zero, task_id=risky.task_id, owner="agent_zero")

        assert refusal.value.current == {"risk_tier": "high", "max_risk_tier": "medium"}
        assert (refusal.value.status, refusal.value.retry) == (403, "stop")

    def test_is_passed_over_and_what_is_allowed_is_claimed(
        self, risky: Job, zero: Entry, make_job: Any
    ) -> None:
        medium = make_job(task_type="implementation", risk_tier="medium")
        low = make_job(task_type="implementation", risk_tier="low")

        with untouched(risky):
            taken = transitions.claim_next(entry=zero, limit=10)

        assert {outcome.job.task_id for outcome in taken} == {medium.task_id, low.task_id}

    def test_is_claimed_once_it_is_allowed_again(self, risky: Job, zero: Entry) -> None:
        allow(zero.principal, "high")

        [taken] = transitions.claim_next(entry=zero, limit=1)

        assert taken.job.task_id == risky.task_id

    def test_is_judged_after_admission_and_before_the_approval(
        self, risky: Job, zero: Entry
    ) -> None:
        pass_time(risky, "approval_valid_until")
        with refused(RiskNotAllowed, risky):
            transitions.claim(entry=zero, task_id=risky.task_id, owner="agent_zero")

        close("agent_zero")
        with refused(AdmissionClosed, risky):
            transitions.claim(entry=zero, task_id=risky.task_id, owner="agent_zero")

    def test_stands_in_the_inbox_until_it_is_allowed_again(
        self, risky: Job, zero: Entry, make_job: Any, high_risk: Any, as_: Any
    ) -> None:
        make_job(task_type="implementation", risk_tier="medium")
        allow(zero.principal, "high")
        high_risk()  # held: it stands there for its approval
        allow(zero.principal, "medium")
        inbox = reverse("admin:console_inbox")

        page = as_("viewer").get(inbox).content.decode()
        assert page.count("agent_zero is allowed medium at most") == 1
        assert [job.task_id for job in waiting.jobs_above_risk(10)] == [risky.task_id]
        assert waiting.count_waiting(up_to=10)["above_risk"] == 1

        allow(zero.principal, "high")
        assert "is allowed medium at most" not in as_("viewer").get(inbox).content.decode()
        assert waiting.count_waiting(up_to=10)["above_risk"] == 0

    def test_is_found_oldest_first_and_no_further_than_asked_by_an_index(
        self, risky: Job, zero: Entry, make_job: Any
    ) -> None:
        for n in range(3):
            make_job(task_type="implementation", risk_tier="medium", task_id=f"medium-{n}")
        make_job(task_type="implementation", risk_tier="low")
        allow(zero.principal, "low")

        found = [job.task_id for job in waiting.jobs_above_risk(3)]
        assert found == [risky.task_id, "medium-0", "medium-1"]
        assert waiting.count_waiting(up_to=3)["above_risk"] == 3
        plan = plans.plan_of(
            (waiting.ABOVE_RISK, {"limit": 3}), disabled=("seqscan", "sort", "bitmapscan")
        )
        assert "job_risk_idx" in {node.get("Index Name") for node in plans.nodes(plan)}
        assert "jobs_job" not in plans.sorted_tables(plan) | plans.read_whole(plan)
