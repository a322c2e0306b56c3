"""Agents and submitters are entered into the books."""

from __future__ import annotations

from django.contrib.auth import get_user_model
from django.db import transaction

from agents.models import Agent, RiskTier, Submitter
from governance import audit, clock
from governance.errors import NotFound


@transaction.atomic
def register_agent(
    *, name: str, actor: str, reason: str, max_risk_tier: str = RiskTier.MEDIUM
) -> Agent:
    """Enter an agent; one that is there already is returned as it is."""
    now = clock.now()
    agent, made = Agent.objects.get_or_create(
        name=name, defaults={"max_risk_tier": max_risk_tier, "created_at": now}
    )
    if made:
        audit.record(
            agent,
            action="agent.registered",
            actor=actor,
            at=now,
            reason=reason,
            after={"max_risk_tier": str(max_risk_tier)},
        )
    return agent


@transaction.atomic
def register_submitter(*, name: str, actor: str, reason: str, owner: str = "") -> Submitter:
    """Enter a submitter; one that is there already is returned as it is.

    :param owner: username of the person who answers for it; may not approve its high risks.
    :raises NotFound: there is no such user.
    """
    user = None
    if owner:
        user = get_user_model().objects.filter(username=owner).first()
        if user is None:
            raise NotFound(f"There is no user {owner}.")
    now = clock.now()
    submitter, made = Submitter.objects.get_or_create(
        name=name, defaults={"owner": user, "created_at": now}
    )
    if made:
        audit.record(
            submitter,
            action="submitter.registered",
            actor=actor,
            at=now,
            reason=reason,
            after={"owner": owner},
        )
    return submitter
