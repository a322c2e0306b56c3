"""What must be there before anybody can act: the fleet's row, three agents, four groups."""

from __future__ import annotations

from django.contrib.auth.models import Group, Permission
from django.db import transaction

from agents.models import Fleet, RiskTier
from agents.permissions import GROUPS, VERBS
from agents.transitions.principals import register_agent
from governance.core import audit, clock

ACTOR = "system:bootstrap"
REASON = "Part of every installation."
#: The named agents of a new installation and the highest risk tier that each may be given.
AGENTS = {
    "hermes": RiskTier.MEDIUM,
    "openclaw": RiskTier.MEDIUM,
    "agent_zero": RiskTier.HIGH,
}
#: The apps whose rows every group may look at.
VIEWED_APPS = ("governance", "agents", "jobs")


@transaction.atomic
def install() -> None:
    """Make what is missing of fleet, agents and groups; what is there stays as it is.

    `jobs.bootstrap.install` does this and adds the job types: commands and tests call that one.
    """
    now = clock.now()
    fleet, made = Fleet.objects.get_or_create(pk=1, defaults={"epoch_rotated_at": now})
    if made:
        epoch = {"dispatcher_epoch": str(fleet.dispatcher_epoch)}
        audit.record(
            fleet, action="fleet.installed", actor=ACTOR, at=now, reason=REASON, after=epoch
        )
    for name, tier in AGENTS.items():
        register_agent(name=name, max_risk_tier=tier, actor=ACTOR, reason=REASON)
    _install_groups()


def _install_groups() -> None:
    """Give each ready group its verbs. What an installation added to a group stays."""
    views = Permission.objects.filter(
        content_type__app_label__in=VIEWED_APPS, codename__startswith="view_"
    ).exclude(codename__in=VERBS)
    verbs = {
        verb.codename: verb
        for verb in Permission.objects.filter(content_type__app_label="agents", codename__in=VERBS)
    }
    for name, granted in GROUPS.items():
        group, _ = Group.objects.get_or_create(name=name)
        group.permissions.add(*views, *(verbs[codename] for codename in sorted(granted)))
