"""Scratch databases beside the run's own, and the test process at work on one of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from django.contrib.contenttypes.models import ContentType
from django.db import connection, connections

from jobs import wakeups
from tests import children


@contextmanager
def scratch_database(name: str) -> Iterator[str]:
    """Make an empty database for the block, and give its name."""
    name = f"{name}_{os.getpid()}"
    _on_the_server(f"DROP DATABASE IF EXISTS {name}", f"CREATE DATABASE {name}")
    try:
        yield name
    finally:
        _on_the_server(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def at_work_on(name: str) -> Iterator[None]:
    """Let this process, in all its threads, use another database in the block."""
    settings = connection.settings_dict
    usual = settings["NAME"]
    _let_go()
    settings["NAME"] = name
    try:
        yield
    finally:
        _let_go()
        settings["NAME"] = usual


def address_of(name: str) -> str:
    """Return the address of a database on the server of the run."""
    usual = connection.settings_dict["NAME"]
    return children.environment()["FENCEPOST_DSN"].replace(f"/{usual}?", f"/{name}?")


def _let_go() -> None:
    wakeups.close()
    connections.close_all()
    ContentType.objects.clear_cache()


def _on_the_server(*statements: str) -> None:
    with connection._nodb_cursor() as cursor:  # type: ignore[attr-defined]
        for statement in statements:
            cursor.execute(statement)
