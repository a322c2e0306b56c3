"""What must be there before anybody can act: the fleet's row, agents, permissions, groups."""

from __future__ import annotations

from django.apps import apps
from django.conf import settings
from django.contrib.auth.models import Group, Permission
from django.contrib.contenttypes.models import ContentType
from django.db import transaction

from agents.models import Fleet, RiskTier
from agents.transitions.principals import register_agent
from governance.core import audit, clock, permissions

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
    """Make what is missing of fleet, agents, permissions and groups; what is there stays as it is.

    `jobs.bootstrap.install` does this and adds the job types: commands and tests call that one.
    """
    now = clock.now()
    fleet, made = Fleet.objects.get_or_create(pk=1, defaults={"epoch_rotated_at": now})
    if made:
        epoch = {"dispatcher_epoch": str(fleet.dispatcher_epoch)}
        audit.record(
            fleet,
            action="fleet.installed",
            actor=ACTOR,
            at=now,
            reason=REASON,
            after=epoch,
            rows=[fleet],
        )
    for name, tier in AGENTS.items():
        register_agent(name=name, max_risk_tier=tier, actor=ACTOR, reason=REASON)
    _install_groups(install_permissions())


def install_permissions() -> dict[str, Permission]:
    """Make the permissions that are declared and missing; return the declared ones by codename.

    What is there keeps its title, and whoever was granted it.
    """
    content_type = ContentType.objects.get_for_model(apps.get_model(settings.PERMISSIONS_MODEL))
    declared = permissions.declared()
    Permission.objects.bulk_create(
        [
            Permission(content_type=content_type, codename=one.codename, name=one.title)
            for one in declared
        ],
        ignore_conflicts=True,
    )
    rows = Permission.objects.filter(
        content_type=content_type, codename__in=[one.codename for one in declared]
    )
    return {row.codename: row for row in rows}


def _install_groups(rows: dict[str, Permission]) -> None:
    """Give each ready group its permissions. What an installation added to a group stays."""
    views = Permission.objects.filter(
        content_type__app_label__in=VIEWED_APPS, codename__startswith="view_"
    ).exclude(codename__in=rows)
    for name in permissions.GROUPS:
        group, _ = Group.objects.get_or_create(name=name)
        held = sorted(permissions.held_by(name))
        group.permissions.add(*views, *(rows[codename] for codename in held))
