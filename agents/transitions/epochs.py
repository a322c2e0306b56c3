"""The dispatcher epoch: who holds an older one must activate again before it acts."""

from __future__ import annotations

import uuid
from uuid import UUID

from django.db import transaction

from agents import barrier
from agents.models import Fleet
from governance.core import audit, clock
from governance.core.reasons import required


@transaction.atomic
def rotate(*, actor: str, reason: str, details: dict[str, object] | None = None) -> UUID:
    """Give the control plane a new epoch and return it.

    Holds the gates of all agents: no write under the old epoch commits after this has.
    """
    reason = required(reason)
    barrier.hold()
    fleet = Fleet.objects.select_for_update(no_key=True).get()
    before = fleet.dispatcher_epoch
    fleet.dispatcher_epoch, fleet.epoch_rotated_at = uuid.uuid4(), clock.now()
    fleet.save(update_fields=["dispatcher_epoch", "epoch_rotated_at"])
    audit.record(
        fleet,
        action="epoch.rotated",
        actor=actor,
        at=fleet.epoch_rotated_at,
        reason=reason,
        before={"dispatcher_epoch": str(before)},
        after={"dispatcher_epoch": str(fleet.dispatcher_epoch)},
        details=details,
        rows=[fleet],
    )
    return fleet.dispatcher_epoch
