"""Operators: people with a console account in one of the ready groups."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import transaction
from django.utils.crypto import get_random_string

from agents.models import Fleet
from agents.reasons import required
from governance import audit, clock
from governance.errors import InvalidTransition, NotFound

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


def _record(fleet: Fleet, action: str, username: str, group: str, actor: str, reason: str) -> None:
    audit.record(
        fleet,
        action=action,
        actor=actor,
        at=clock.now(),
        reason=reason,
        after={"username": username, "group": group},
    )
