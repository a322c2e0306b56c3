"""The files by which users of an embedded server and its postmaster find each other.

In the server's home: `users.lock`, held shared by whoever needs the server; `start.lock`, by who
starts it; `keeper.lock`, by the postmaster at work; `socket.path`, where the server listens.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from governance.local.folder import FolderUnusable
from governance.local.placement import binaries

DATABASE = "fencepost"
#: The service's role, which owns nothing; the owner of database and tables is for migrations; the
#: superuser is for tests and for repair.
ROLE = "fencepost"
OWNER = "fencepost_owner"
SUPERUSER = "postgres"
#: Crash recovery of a large installation is part of a start.
START_SECONDS_MAX = 120.0
STOP_SECONDS_MAX = 60
POLL_SECONDS = 0.05
USERS_LOCK = "users.lock"
START_LOCK = "start.lock"
#: Named as in the first release, whose postmaster may be at work while a newer one is started.
POSTMASTER_LOCK = "keeper.lock"
SOCKET_PATH = "socket.path"
#: Says that database and tables are the owner's.
SPLIT_MARK = "roles.split"


def open_lock(path: Path) -> int:
    """Return a descriptor of the lock file, made if absent.

    :raises FolderUnusable: it cannot be opened.
    """
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise FolderUnusable(f"{path} cannot be opened: {error.strerror}.") from error


def lock(descriptor: int, how: int) -> bool:
    """Take the lock; false where it is taken and `how` does not wait."""
    try:
        fcntl.flock(descriptor, how)
    except BlockingIOError:
        return False
    return True


def is_kept(home: Path) -> bool:
    """Tell whether the home's postmaster is at work."""
    try:
        descriptor = os.open(home / POSTMASTER_LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not lock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    finally:
        os.close(descriptor)


def socket_of(home: Path) -> Path:
    """Return the folder of the socket on which the server of `home` listens."""
    return Path((home / SOCKET_PATH).read_text())


def dsn_of(socket: Path, role: str) -> str:
    """Return the address of the database, for a role of its server."""
    return f"postgresql://{role}@/{DATABASE}?host={quote(str(socket), safe='')}"


def answers(socket: Path) -> bool:
    """Tell whether the server that listens there accepts connections."""
    command = [str(binaries() / "pg_isready"), "-q", "-h", str(socket), "-d", DATABASE, "-U", ROLE]
    return subprocess.run(command, check=False).returncode == 0


def until(condition: Callable[[], bool], *, seconds: float) -> bool:
    """Wait for `condition` for at most `seconds`; tell whether it came true."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True
