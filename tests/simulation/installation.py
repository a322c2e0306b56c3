"""An installation of its own, every part of which can be killed: database, web, sweeper, relay."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import psycopg
from django.conf import settings
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command
from django.db import connection, connections

from governance.local import embedded
from jobs import wakeups
from tests.children import MANAGE, environment

START_SECONDS_MAX = 60.0
POLL_SECONDS = 0.05
THREADS = 8


class Database:
    """A durable server: what it has acknowledged survives a SIGKILL of its first process."""

    name = "database"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server = embedded.hold(folder)
        self.kills = 0

    def kill(self) -> None:
        """SIGKILL the postmaster; whoever keeps the server starts it again."""
        note = self.folder / "postgres/data/postmaster.pid"
        os.kill(int(note.read_text().splitlines()[0]), signal.SIGKILL)
        self.kills += 1

    def start(self) -> None:
        """Wait until it answers again."""
        give_up = time.monotonic() + START_SECONDS_MAX
        while not self._answers():
            assert time.monotonic() < give_up, self.log[-2000:]
            time.sleep(POLL_SECONDS)

    @property
    def log(self) -> str:
        return (self.folder / "postgres/log").read_text(errors="replace")

    def _answers(self) -> bool:
        try:
            with psycopg.connect(self.server.superuser_dsn, autocommit=True) as raw:
                return raw.execute("SELECT 1").fetchone() is not None
        except psycopg.OperationalError:
            return False


@contextmanager
def a_database_of_its_own(folder: Path) -> Iterator[Database]:
    """Move the connections of this process to a new, durable server, and back at the end.

    The server of the test run serves other tests as well, and is none to be killed.
    """
    kept, made = dict(connection.settings_dict), Database(folder)
    dsn = made.server.superuser_dsn
    _leave()
    connection.settings_dict.update(
        embedded.django_database(dsn, session_settings=settings.SESSION_SETTINGS)
    )
    try:
        call_command("migrate", verbosity=0)
        yield made
    finally:
        _leave()
        connection.settings_dict.update(kept)
        made.server.release()


def _leave() -> None:
    """Let go of the database, and of what is remembered of its rows."""
    wakeups.close()
    connections.close_all()
    ContentType.objects.clear_cache()


class Daemon:
    """A process in a group of its own, started again after each of its deaths."""

    def __init__(self, name: str, command: list[str], *, log: Path, **over: str) -> None:
        self.name, self.command, self.log, self.over = name, command, log, over
        self.kills = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command, env=environment(**self.over), cwd=MANAGE.parent,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def kill(self) -> None:
        """SIGKILL all its processes at once, in the middle of whatever they do."""
        assert self._process is not None
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(timeout=30)
        self.kills += 1


def manage(name: str, *arguments: str, log: Path, **over: str) -> Daemon:
    """Return `manage.py NAME ...` as a process to be killed."""
    over = {"DJANGO_SETTINGS_MODULE": "governance.settings"} | over
    return Daemon(name, [sys.executable, str(MANAGE), name, *arguments], log=log, **over)


class Service(Daemon):
    """gunicorn with one process of `THREADS` threads, on a port that it keeps over its deaths."""

    def __init__(self, log: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "gunicorn", "-c", "python:governance.gunicorn_conf"]
        super().__init__(
            "web",
            [*command, "governance.wsgi"],
            log=log,
            DJANGO_SETTINGS_MODULE="governance.settings",
            FENCEPOST_BIND=f"127.0.0.1:{port}",
            FENCEPOST_URL=self.url,
            FENCEPOST_THREADS=str(THREADS),
            WEB_CONCURRENCY="1",
        )

    def start(self) -> None:
        """Start it and wait until it is ready."""
        super().start()
        give_up = time.monotonic() + START_SECONDS_MAX
        while not self._answers():
            assert time.monotonic() < give_up, self.log.read_text()[-2000:]
            time.sleep(POLL_SECONDS)

    def _answers(self) -> bool:
        try:
            return httpx2.get(f"{self.url}/readyz", timeout=5, trust_env=False).is_success
        except httpx2.TransportError:
            return False
