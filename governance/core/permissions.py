"""What operators may do: a permission per kind of decision, and the ready groups that hold them.

A permission is declared beside the verbs and pages that need it.  All of them are rows of one
model's content type, which the settings name, whatever app declares them: who may do what is one
list, and the grants of an installation outlive every change of the code.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings

#: The groups of a new installation. Every one may look at all rows, the last one may do all.
VIEWER, OPERATOR, APPROVER, GOVERNOR = GROUPS = ("viewer", "operator", "approver", "governor")


@dataclass(frozen=True)
class Permission:
    """The right to one kind of decision.

    :param title: as Django's pages of users and groups show it: `Can stop a job`.
    :param groups: the ready groups that hold it, beside the governors.
    """

    codename: str
    title: str
    groups: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return what `User.has_perm` takes: `agents.stop_job`."""
        return f"{settings.PERMISSIONS_MODEL.partition('.')[0]}.{self.codename}"


_declared: dict[str, Permission] = {}


def register(*permissions: Permission) -> None:
    """Make permissions known, so that an installation has a row for each.

    :raises ValueError: another permission has the codename, or a group is none of the ready ones.
    """
    for permission in permissions:
        if unknown := set(permission.groups) - set(GROUPS):
            raise ValueError(f"{permission.codename}: no group {', '.join(sorted(unknown))}")
        if _declared.setdefault(permission.codename, permission) != permission:
            raise ValueError(f"the permission {permission.codename} is declared twice")


def declared() -> list[Permission]:
    """Return every permission, in the order in which they were made known."""
    return list(_declared.values())


def held_by(group: str) -> frozenset[str]:
    """Return the codenames that a ready group holds."""
    return frozenset(
        permission.codename
        for permission in _declared.values()
        if group == GOVERNOR or group in permission.groups
    )
