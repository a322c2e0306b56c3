"""Maintenance inhibits: no new work for an agent or the fleet, while what runs goes on."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from agents import barrier
from agents.models import Agent, Fleet, MaintenanceInhibit
from governance.core import audit, clock
from governance.core.errors import FieldFault, InvalidArgument, InvalidTransition, NotFound
from governance.core.reasons import required


@transaction.atomic
def inhibit(
    *,
    actor: str,
    reason: str,
    agent: str = "",
    owner: str = "",
    starts_at: datetime | None = None,
    ends_at: datetime | None = None,
) -> MaintenanceInhibit:
    """Stop new work of one agent, or of the whole fleet, until `ends_at` or until lifted.

    Returns when no claim that was admitted before can commit any more.

    :param owner: who answers for the maintenance; by default who acts.
    :raises NotFound: there is no such agent.
    :raises InvalidArgument: it would end before it starts, or in the past.
    """
    reason = required(reason)
    held = barrier.hold([agent] if agent else None)
    head = held[0] if agent else Fleet.objects.select_for_update(no_key=True).get()
    now = clock.now()
    begins = starts_at or now
    if ends_at is not None and ends_at <= max(begins, now):
        fault = FieldFault("/ends_at", "not after the start")
        raise InvalidArgument("An inhibit ends after it starts.", errors=[fault])
    row = MaintenanceInhibit.objects.create(
        agent=held[0] if agent else None,
        owner=owner or actor,
        reason=reason,
        starts_at=begins,
        ends_at=ends_at,
    )
    audit.record(
        head,
        action="inhibit.set",
        actor=actor,
        at=now,
        reason=reason,
        after=_audited(row),
        rows=[row],
    )
    return row


@transaction.atomic
def lift(*, inhibit_id: int, actor: str, reason: str) -> MaintenanceInhibit:
    """End an inhibit now.

    :raises NotFound: there is no such inhibit.
    :raises InvalidTransition: it was lifted already.
    """
    reason = required(reason)
    found = MaintenanceInhibit.objects.filter(pk=inhibit_id).first()
    if found is None:
        raise NotFound("There is no such inhibit.")
    head: Agent | Fleet
    if found.agent_id is not None:
        head = Agent.objects.select_for_update(no_key=True).get(pk=found.agent_id)
    else:
        head = Fleet.objects.select_for_update(no_key=True).get()
    # Read again: whoever lifted it in the meantime held the same head.
    row = MaintenanceInhibit.objects.select_for_update(no_key=True, of=("self",)).get(pk=found.pk)
    if refusal := liftable(row):
        raise refusal
    row.lifted_at, row.lifted_by, row.lift_reason = clock.now(), actor, reason
    row.save(update_fields=["lifted_at", "lifted_by", "lift_reason"])
    audit.record(
        head,
        action="inhibit.lifted",
        actor=actor,
        at=row.lifted_at,
        reason=reason,
        before=_audited(row),
        rows=[row],
    )
    return row


def liftable(inhibit: MaintenanceInhibit) -> InvalidTransition | None:
    """Return why an inhibit cannot be lifted; None where it is not lifted yet."""
    return InvalidTransition("It is lifted already.") if inhibit.lifted_at else None


def _audited(row: MaintenanceInhibit) -> dict[str, object]:
    return {
        "inhibit_id": row.pk,
        "owner": row.owner,
        "starts_at": row.starts_at.isoformat(),
        "ends_at": row.ends_at.isoformat() if row.ends_at else None,
    }
