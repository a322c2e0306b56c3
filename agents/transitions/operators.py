"""Operators: people with a console account in one of the ready groups."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import transaction
from django.utils.crypto import get_random_string

from agents.models import Fleet
from governance.core import audit, clock
from governance.core.errors import InvalidTransition, NotFound
from governance.core.permissions import GROUPS
from governance.core.reasons import required

PASSWORD_CHARS = 24


@dataclass(frozen=True)
class Operator:
    """A new account, or one with a new password, which is not to be had again."""

    username: str
    group: str
    password: str


@transaction.atomic
def create(*, username: str, group: str, actor: str, reason: str) -> Operator:
    """Make a console account with a random password in one of the operator groups.

    :raises NotFound: there is no such group.
    :raises InvalidTransition: there is such a user already.
    """
    reason = required(reason)
    fleet = Fleet.objects.select_for_update(no_key=True).get()
    role = Group.objects.filter(name=group).first()
    if role is None:
        raise NotFound(f"There is no group {group}.")
    users = get_user_model().objects
    if users.filter(username=username).exists():
        raise InvalidTransition(f"There is a user {username} already.")
    password = get_random_string(PASSWORD_CHARS)
    user = users.create_user(username, password=password, is_staff=True)
    user.groups.add(role)
    _record(fleet, "operator.created", username, group, actor, reason)
    return Operator(username, group, password)


@transaction.atomic
def reset_password(*, username: str, actor: str, reason: str) -> Operator:
    """Give an operator a new random password.

    :raises NotFound: there is no such operator.
    """
    reason = required(reason)
    fleet = Fleet.objects.select_for_update(no_key=True).get()
    user = get_user_model().objects.filter(username=username, is_staff=True).first()
    if user is None:
        raise NotFound(f"There is no operator {username}.")
    password = get_random_string(PASSWORD_CHARS)
    user.set_password(password)
    user.save(update_fields=["password"])
    group = ", ".join(user.groups.values_list("name", flat=True))
    _record(fleet, "operator.password_reset", username, group, actor, reason)
    return Operator(username, group, password)


@transaction.atomic
def reset_second_factor(*, username: str, actor: str, reason: str) -> Operator:
    """Take the second factor of an operator away, who lost it; the next sign-in sets up a new one.

    :raises NotFound: there is no such operator.
    :raises InvalidTransition: the installation knows no second factor.
    """
    reason = required(reason)
    fleet = Fleet.objects.select_for_update(no_key=True).get()
    user = get_user_model().objects.filter(username=username, is_staff=True).first()
    if user is None:
        raise NotFound(f"There is no operator {username}.")
    if not apps.is_installed("allauth.mfa"):
        raise InvalidTransition("There is no second factor here: FENCEPOST_TOTP is not set.")
    factors = apps.get_model("mfa", "Authenticator").objects  # type: ignore[misc]
    factors.filter(user=user).delete()
    group = ", ".join(user.groups.values_list("name", flat=True))
    _record(fleet, "operator.second_factor_reset", username, group, actor, reason)
    return Operator(username, group, password="")


@transaction.atomic
def place(*, username: str, groups: Set[str], actor: str, reason: str) -> None:
    """Put a user into exactly these of the ready groups; without any, the console is closed.

    :raises NotFound: there is no such user.
    """
    reason = required(reason)
    fleet = Fleet.objects.select_for_update(no_key=True).get()
    user = get_user_model().objects.filter(username=username).first()
    if user is None:
        raise NotFound(f"There is no user {username}.")
    had = set(user.groups.filter(name__in=GROUPS).values_list("name", flat=True))
    if had == groups and user.is_staff == bool(groups):
        return
    user.groups.remove(*Group.objects.filter(name__in=had - groups))
    user.groups.add(*Group.objects.filter(name__in=groups & set(GROUPS)))
    user.is_staff = bool(groups)
    user.save(update_fields=["is_staff"])
    _record(fleet, "operator.placed", username, ", ".join(sorted(groups)), actor, reason)


@transaction.atomic
def begin_export(*, export_id: str, model: str, form: str, query: str, actor: str) -> None:
    """Note that somebody takes a list along, before its first row leaves.

    :param query: the filter, as the list's address says it.
    """
    details: dict[str, Any] = {"export_id": export_id, "list": model, "form": form, "filter": query}
    _note_export("export.begun", actor, details)


@transaction.atomic
def end_export(
    *, export_id: str, model: str, form: str, query: str, actor: str, rows: int, whole: bool
) -> None:
    """Note how many rows have left, and whether these were all that the filter named."""
    details: dict[str, Any] = {"export_id": export_id, "list": model, "form": form, "filter": query}
    _note_export("export.ended", actor, details | {"rows": rows, "whole": whole})


def _note_export(action: str, actor: str, details: dict[str, Any]) -> None:
    fleet = Fleet.objects.select_for_update(no_key=True).get()
    audit.record(fleet, action=action, actor=actor, at=clock.now(), details=details)


def _record(fleet: Fleet, action: str, username: str, group: str, actor: str, reason: str) -> None:
    audit.record(
        fleet,
        action=action,
        actor=actor,
        at=clock.now(),
        reason=reason,
        after={"username": username, "group": group},
    )
