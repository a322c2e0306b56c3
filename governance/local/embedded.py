"""The embedded PostgreSQL: made, started, shared and stopped without system packages.

Whoever needs the server holds a shared lock on `users.lock` for as long as it lives, and the
server runs for as long as anybody does (`postmaster`).  It listens on a socket in a folder of mode
0700 and asks the kernel who is calling (`peer`).
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from governance.local import postmaster, roles
from governance.local.folder import EmbeddedError, ServerFailed, data_folder, usable
from governance.local.placement import home_of
from governance.local.rendezvous import (
    DATABASE,
    OWNER,
    ROLE,
    SPLIT_MARK,
    START_LOCK,
    START_SECONDS_MAX,
    STOP_SECONDS_MAX,
    SUPERUSER,
    USERS_LOCK,
    answers,
    dsn_of,
    is_kept,
    lock,
    open_lock,
    socket_of,
    until,
)

#: How long a request waits for a connection of its process's pool.
POOL_WAIT_SECONDS = 5.0
#: psycopg prepares what has run so often; out of reach for what was not asked to be prepared.
PREPARE_UNASKED_AFTER = 1_000_000_000
#: Stands for "no server": connecting to it fails and says so.
ABSENT_DSN = f"postgresql://{ROLE}@/{DATABASE}?host=/nonexistent"


@dataclass
class Server:
    """A hold on the server of one data folder. It serves at least until `release`."""

    home: Path
    socket: Path
    _users: int = field(repr=False)

    @property
    def dsn(self) -> str:
        """Return the address for the service, whose role owns nothing."""
        return dsn_of(self.socket, ROLE)

    @property
    def owner_dsn(self) -> str:
        """Return the address for migrations: the role that owns the database and its tables."""
        return dsn_of(self.socket, OWNER)

    @property
    def superuser_dsn(self) -> str:
        """Return the address for tests and repair: the superuser."""
        return dsn_of(self.socket, SUPERUSER)

    def release(self) -> None:
        """Give the hold up. If it was the last one, return when the server has stopped."""
        if self._users < 0:
            return
        last = lock(self._users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(self._users)
        self._users = -1
        if last:
            until(lambda: not is_kept(self.home), seconds=STOP_SECONDS_MAX)


def hold(folder: Path, *, throwaway: bool = False) -> Server:
    """Start the server of `folder`, or join it where it runs already.

    :param folder: the data folder of the installation; made if absent.
    :param throwaway: for tests: not durable, and removed with all its data at the end.
    :raises EmbeddedError: what its subclasses say.
    """
    home = home_of(usable(folder))
    # Blocks while a postmaster is stopping the server; the next one is started from scratch.
    users = open_lock(home / USERS_LOCK)
    lock(users, fcntl.LOCK_SH)
    start = open_lock(home / START_LOCK)
    try:
        lock(start, fcntl.LOCK_EX)
        socket = _serve(home, throwaway=throwaway)
        _split_roles(home, socket)
    except BaseException:
        os.close(users)
        raise
    finally:
        os.close(start)
    return Server(home, socket, users)


def provide() -> Server | None:
    """See to it that this process and its children have a database, and return the hold on it.

    None where the environment names one already.

    :raises EmbeddedError: see `hold`.
    """
    if os.environ.get("FENCEPOST_DSN") or os.environ.get("DATABASE_URL"):
        return None
    server = hold(data_folder())
    os.environ["FENCEPOST_DSN"] = server.dsn
    os.environ["FENCEPOST_OWNER_DSN"] = server.owner_dsn
    # The lock's descriptor is the hold: it stays open until the process ends.
    return server


def running_dsn(folder: Path, *, role: str = ROLE) -> str | None:
    """Return the address of the server of `folder` if it runs, without taking a hold."""
    home = folder / "postgres"
    try:
        return dsn_of(socket_of(home), role) if is_kept(home) else None
    except OSError:
        return None


def django_database(
    dsn: str, *, session_settings: dict[str, str], pool_max: int = 0
) -> dict[str, Any]:
    """Return the entry of Django's `DATABASES` for a `postgresql://` address.

    :param session_settings: PostgreSQL settings of every connection.
    :param pool_max: connections of a process's pool; 0 opens one per thread instead.
    :raises EmbeddedError: the address is none of PostgreSQL's.
    """
    try:
        parts = {name: str(value) for name, value in conninfo_to_dict(dsn).items()}
    except psycopg.ProgrammingError:
        # Not libpq's reason: it repeats the address, and with it the password.
        raise EmbeddedError(
            "The database's address is not valid: postgresql://user:password@host:5432/database "
            "is expected."
        ) from None
    options: dict[str, Any] = {
        "options": " ".join(f"-c {name}={value}" for name, value in session_settings.items()),
        "application_name": "fencepost",
        # Without a number Django never prepares a statement, whoever asks for it. What is not
        # asked for (`governance.core.sql` does) stays unprepared, however often it runs.
        "prepare_threshold": PREPARE_UNASKED_AFTER,
    }
    if pool_max:
        options["pool"] = {"min_size": 1, "max_size": pool_max, "timeout": POOL_WAIT_SECONDS}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.pop("dbname", DATABASE),
        "USER": parts.pop("user", ""),
        "PASSWORD": parts.pop("password", ""),
        "HOST": parts.pop("host", ""),
        "PORT": parts.pop("port", ""),
        "ATOMIC_REQUESTS": False,
        "CONN_MAX_AGE": 0,
        "OPTIONS": options | parts,
    }


def _serve(home: Path, *, throwaway: bool) -> Path:
    """See to it that a postmaster is at work and its server answers; return the socket's folder.

    :raises EmbeddedError: it does not within `START_SECONDS_MAX`, or for the postmaster's reason.
    """

    def serving() -> bool:
        # Asked again each time: a postmaster that was just killed holds its lock for a moment.
        if not is_kept(home):
            _start_postmaster(home, throwaway=throwaway)
        # And once more: the server of one that died meanwhile answers, and nobody would end it.
        return answers(socket_of(home)) and is_kept(home)

    if not until(serving, seconds=START_SECONDS_MAX):
        raise ServerFailed(f"PostgreSQL does not answer; its log is {home / 'log'}.")
    return socket_of(home)


def _split_roles(home: Path, socket: Path) -> None:
    """Give database and tables to their owner, once; also those of an older data folder.

    :raises ServerFailed: the server does not let it.
    """
    mark = home / SPLIT_MARK
    if mark.exists():
        return
    try:
        with psycopg.connect(dsn_of(socket, SUPERUSER)) as connection:
            for statement in roles.split(owner=OWNER, service=ROLE, database=DATABASE):
                connection.execute(statement)
    except psycopg.Error as error:
        raise ServerFailed(f"The database's roles cannot be split: {error}") from error
    mark.touch()


def _start_postmaster(home: Path, *, throwaway: bool) -> None:
    """Start the postmaster and return when it has started the server.

    :raises EmbeddedError: what the postmaster reports.
    """
    command = [sys.executable, "-I", str(Path(postmaster.__file__).resolve()), str(home)]
    done = subprocess.run(
        command + (["--throwaway"] if throwaway else []),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        cwd="/",
        text=True,
        check=False,
    )
    # The pipe ends when the postmaster has let go of it, by then in the background.
    kind, _, message = done.stdout.rstrip("\n").partition(" ")
    if kind != "ready":
        kinds = {known.__name__: known for known in EmbeddedError.__subclasses__()}
        raise kinds.get(kind, ServerFailed)(
            message or "PostgreSQL's postmaster ended unexpectedly."
        )
