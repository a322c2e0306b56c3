"""The service works without owning its tables: on a database of one's own, by `split_roles`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from urllib.parse import quote

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from tests import children

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(180)]
DATABASE = f"split_{os.getpid()}"
OWNER, SERVICE = f"owns_{os.getpid()}", f"serves_{os.getpid()}"


def address(role: str, database: str = DATABASE) -> str:
    host = quote(connection.settings_dict["HOST"], safe="")
    return f"postgresql://{role}@/{database}?host={host}"


def as_superuser(*statements: str, database: str = DATABASE) -> None:
    dsn = address(connection.settings_dict["USER"], database)
    with psycopg.connect(dsn, autocommit=True) as at:
        for statement in statements:
            at.execute(statement)  # type: ignore[arg-type]


def manage(*command: str, **addresses: str) -> str:
    """Run a management command as a user does who has a database of his own."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith("FENCEPOST_DSN")}
    done = subprocess.run(
        [sys.executable, str(children.MANAGE), *command],
        env=environ | {"DJANGO_SETTINGS_MODULE": "governance.settings"} | addresses,
        cwd=children.MANAGE.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.fixture
def owned(peers: None) -> Iterator[None]:
    """A database whose tables belong to `OWNER`, made as the first release made it."""
    as_superuser(f"CREATE ROLE {OWNER} LOGIN CREATEROLE", database="postgres")
    as_superuser(f"CREATE DATABASE {DATABASE} OWNER {OWNER}", database="postgres")
    yield
    as_superuser(f"DROP DATABASE {DATABASE} WITH (FORCE)", database="postgres")
    as_superuser(f"DROP ROLE IF EXISTS {SERVICE}", f"DROP ROLE {OWNER}", database="postgres")


@pytest.fixture
def peers() -> Iterator[None]:
    """Let whoever runs the tests connect as any role of the run's server."""
    with psycopg.connect(address(connection.settings_dict["USER"], "postgres")) as at:
        [(folder,)] = at.execute("SHOW data_directory").fetchall()
    path = os.path.join(folder, "pg_ident.conf")
    with open(path) as file:
        before = file.read()
    user = before.split('"')[1]
    with open(path, "a") as file:
        file.write(f'fencepost "{user}" {OWNER}\nfencepost "{user}" {SERVICE}\n')
    as_superuser("SELECT pg_reload_conf()", database="postgres")
    yield
    with open(path, "w") as file:
        file.write(before)
    as_superuser("SELECT pg_reload_conf()", database="postgres")


def test_a_database_of_ones_own_is_split_and_then_migrated_and_served(owned: None) -> None:
    alone = {"DATABASE_URL": address(OWNER)}
    assert "GRANT" in manage("split_roles", "--service", SERVICE, **alone)
    manage("split_roles", "--service", SERVICE, "--run", **alone)

    # What the owner makes from now on is granted by itself.
    split = {"DATABASE_URL": address(SERVICE), "DATABASE_OWNER_URL": address(OWNER)}
    manage("migrate", "--verbosity", "0", **split)
    manage("bootstrap", **split)
    manage("verify_audit", **split)
    denied = pytest.raises(psycopg.errors.InsufficientPrivilege)
    with psycopg.connect(address(SERVICE)) as at, denied:
        at.execute("ALTER TABLE governance_auditevent DISABLE TRIGGER USER")
    # It may be run again.
    manage("split_roles", "--service", SERVICE, "--run", **split)


def test_an_owner_that_serves_is_no_deployment() -> None:
    with pytest.raises(CommandError, match=r"governance\.E006"):
        call_command("check", "--deploy", "--database", "default", "--fail-level", "ERROR")


def test_it_says_what_it_cannot_do() -> None:
    with pytest.raises(CommandError, match="name another role"):
        call_command("split_roles", "--service", connection.settings_dict["USER"])
    with pytest.raises(CommandError, match="cannot be read"):
        call_command("split_roles", "--service", "x", "--run", "--password-file", "absent")
