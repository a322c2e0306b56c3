"""Live executions: a governor's recorded word, with an end, per agent and runtime."""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction

from agents.models import Agent
from governance.core import audit, clock
from governance.core.errors import FieldFault, InvalidArgument, InvalidTransition, NotFound
from governance.core.reasons import required
from jobs.models import LiveAuthorization

AUTHORIZED_SECONDS_MAX = 90 * 24 * 3600


@transaction.atomic
def authorize_live(
    *, agent: str, runtime: str, actor: str, reason: str, valid_seconds: int
) -> LiveAuthorization:
    """Let an agent execute live under a runtime for `valid_seconds` (90 days at most).

    :raises NotFound: there is no such agent.
    """
    reason = required(reason)
    if not 0 < valid_seconds <= AUTHORIZED_SECONDS_MAX or not runtime:
        fault = FieldFault("/valid_seconds", f"1 to {AUTHORIZED_SECONDS_MAX}")
        raise InvalidArgument("An authorization names a runtime and ends.", errors=[fault])
    head = Agent.objects.select_for_update(no_key=True).filter(name=agent).first()
    if head is None:
        raise NotFound("There is no such agent.")
    now = clock.now()
    grant = LiveAuthorization.objects.create(
        agent=head,
        runtime=runtime,
        granted_by=actor,
        granted_at=now,
        reason=reason,
        ends_at=now + timedelta(seconds=valid_seconds),
    )
    granted = {"runtime": runtime, "ends_at": grant.ends_at.isoformat()}
    audit.record(
        head,
        action="live_execution.authorized",
        actor=actor,
        at=now,
        reason=reason,
        after=granted,
        rows=[grant],
    )
    return grant


@transaction.atomic
def revoke_live(*, authorization_id: int, actor: str, reason: str) -> LiveAuthorization:
    """Take an authorization back at once; starts after this are refused.

    :raises NotFound: there is none.
    :raises InvalidTransition: it was revoked already.
    """
    reason = required(reason)
    found = LiveAuthorization.objects.filter(pk=authorization_id)
    agent_id = found.values_list("agent_id", flat=True).first()
    if agent_id is None:
        raise NotFound("There is no such authorization.")
    head = Agent.objects.select_for_update(no_key=True).get(pk=agent_id)
    grant = found.select_for_update(no_key=True).get()
    if refusal := revoked(grant):
        raise refusal
    grant.revoked_at, grant.revoked_by, grant.revoke_reason = clock.now(), actor, reason
    grant.save(update_fields=["revoked_at", "revoked_by", "revoke_reason"])
    audit.record(
        head,
        action="live_execution.revoked",
        actor=actor,
        at=grant.revoked_at,
        reason=reason,
        before={"runtime": grant.runtime, "ends_at": grant.ends_at.isoformat()},
        rows=[grant],
    )
    return grant


def revoked(grant: LiveAuthorization) -> InvalidTransition | None:
    """Return why an authorization cannot be revoked; None where it has not been."""
    if grant.revoked_at is None:
        return None
    return InvalidTransition("The authorization was revoked already.")
