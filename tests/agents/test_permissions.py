"""Permissions of verbs: made as groups are, and never taken from who holds them."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.apps.registry import Apps
from django.contrib.auth.models import Group, Permission, User
from django.core.management import call_command

from agents import bootstrap
from agents.apps import add_permissions
from governance.core import permissions

NEW = permissions.Permission("play_toys", "Can play with toys", (permissions.OPERATOR,))


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permissions, "_declared", permissions._declared | {NEW.codename: NEW})


def rows() -> Any:
    return Permission.objects.filter(codename=NEW.codename)


def test_a_new_permission_is_made_by_migrate_and_given_to_its_groups_by_bootstrap(
    world: None, declared: None
) -> None:
    operators = Group.objects.get(name="operator").permissions
    assert not rows().exists()

    call_command("migrate", verbosity=0)

    [row] = rows()
    assert (row.name, row.content_type.natural_key()) == (NEW.title, ("agents", "fleet"))
    assert not operators.filter(pk=row.pk).exists()

    bootstrap.install()
    bootstrap.install()

    assert rows().count() == 1
    assert [group.name for group in Group.objects.filter(permissions=row).order_by("name")] == [
        "governor",
        "operator",
    ]


def test_a_permission_that_is_there_stays_with_who_holds_it(world: None) -> None:
    row = Permission.objects.get(codename="stop_job")
    Permission.objects.filter(pk=row.pk).update(name="Can halt a job")
    user = User.objects.create_user("anna")
    user.user_permissions.add(row)

    bootstrap.install()

    row.refresh_from_db()
    assert row.name == "Can halt a job"
    assert User.objects.get(pk=user.pk).has_perm("agents.stop_job")


def test_no_migration_follows_from_a_new_permission(db: None, declared: None) -> None:
    out = StringIO()

    call_command("makemigrations", check=True, dry_run=True, stdout=out)

    assert "No changes detected" in out.getvalue()


def test_nothing_is_made_before_there_are_tables_for_it(db: None, declared: None) -> None:
    add_permissions(apps=Apps())

    assert not rows().exists()
