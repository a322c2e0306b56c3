"""The files of the embedded server: made once, and told at each start who may connect and where."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from governance.local import placement
from governance.local.folder import FolderUnusable, ServerFailed, VersionMismatch, is_root
from governance.local.placement import MAJOR_VERSION, binaries
from governance.local.rendezvous import (
    DATABASE,
    OWNER,
    ROLE,
    SOCKET_PATH,
    STOP_SECONDS_MAX,
    SUPERUSER,
    until,
)

#: Bytes of a socket's path on Linux, and those that PostgreSQL adds to the folder's.
SOCKET_PATH_MAX = 107
SOCKET_NAME = "/.s.PGSQL.5432"
CONNECTIONS_MAX = 200
#: The number of a process that cannot exist.
NO_PID = str(2**31 - 1)


@dataclass
class Cluster:
    """The database cluster in `home / "data"`. A throwaway one is not durable."""

    home: Path
    throwaway: bool

    @property
    def data(self) -> Path:
        """Return the cluster's folder, PostgreSQL's `PGDATA`."""
        return self.home / "data"

    def prepare(self) -> None:
        """Make the cluster if there is none, and write the settings of this start."""
        if not self.data.is_dir():
            self._make()
        found = (self.data / "PG_VERSION").read_text().strip()
        if found != MAJOR_VERSION:
            raise VersionMismatch(
                f"The database in {self.home} was made by PostgreSQL {found}, "
                f"this installation has {MAJOR_VERSION}: dump it there and "
                "restore it here."
            )
        if self.data.stat().st_uid != placement.server_user().pw_uid:
            raise FolderUnusable(f"The database in {self.home} belongs to another user.")
        self._end_leftover()
        self._configure()

    def _make(self) -> None:
        """Make the cluster aside and move it into place: a killed attempt leaves nothing half."""
        draft = self.home / "data.draft"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        self._give(draft)
        command = [
            binaries() / "initdb",
            "-D",
            draft,
            "-U",
            SUPERUSER,
            "--auth=peer",
            "--encoding=UTF8",
            "--locale=C",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            "--no-instructions",
            "-c",
            f"max_connections={CONNECTIONS_MAX}",
            *(["--no-sync"] if self.throwaway else []),
        ]
        done = self._call(command)
        if done.returncode:
            raise ServerFailed(f"PostgreSQL cannot make its files: {last_line(done.stderr)}")
        self._bootstrap(draft)
        draft.rename(self.data)

    def _bootstrap(self, cluster: Path) -> None:
        """Make role and database while nobody can connect, in single-user mode."""
        for statement in (
            f"CREATE ROLE {ROLE} LOGIN",
            f"CREATE DATABASE {DATABASE} OWNER {ROLE} TEMPLATE template0",
        ):
            done = self._call(
                [binaries() / "postgres", "--single", "-j", "-D", cluster, "template1"],
                input_text=statement + "\n\n",
            )
            if done.returncode or "ERROR" in done.stderr:
                raise ServerFailed(f"PostgreSQL cannot make its database: {last_line(done.stderr)}")

    def _call(
        self, command: list[object], *, input_text: str = ""
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(part) for part in command],
            input=input_text,
            text=True,
            capture_output=True,
            cwd="/",
            check=False,
            **placement.as_server_user(),  # type: ignore[call-overload]
        )

    def _give(self, path: Path) -> None:
        if is_root():
            account = placement.server_user()
            os.chown(path, account.pw_uid, account.pw_gid)

    def _end_leftover(self) -> None:
        """Deal with `postmaster.pid` of a server whose own postmaster process was killed.

        A server that still runs is stopped, to be started again by this one.  After a
        SIGKILL the number may by now belong to any other process, which would keep PostgreSQL
        from starting; then only the number is made void, since by the rest of the file PostgreSQL
        notices backends that outlived their server.
        """
        note = self.data / "postmaster.pid"
        try:
            first, *rest = note.read_text().splitlines()
            pid = int(first)
        except (FileNotFoundError, ValueError):
            return
        if not _is_postgres(pid, self.data):
            self._write(note.name, [NO_PID, *rest])
            return
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGINT)
        if not until(lambda: not _is_postgres(pid, self.data), seconds=STOP_SECONDS_MAX):
            raise ServerFailed(f"A former PostgreSQL (process {pid}) does not stop.")

    def _configure(self) -> None:
        """Say who may connect, and where. A person's own `postgresql.conf` stays as it is."""
        me = placement.account(os.geteuid()).pw_name
        self._write("pg_hba.conf", ["local all all peer map=fencepost"])
        roles = (ROLE, OWNER, SUPERUSER)
        self._write("pg_ident.conf", [f'fencepost "{me}" {role}' for role in roles])
        (self.home / SOCKET_PATH).write_text(str(self._make_socket_folder()))

    def settings(self, socket: Path) -> dict[str, str]:
        """Return the settings that are not up to `postgresql.conf`."""
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(socket),
            "unix_socket_permissions": "0700",
            "logging_collector": "off",
        }
        if self.throwaway:
            settings |= {
                "fsync": "off",
                "synchronous_commit": "off",
                "full_page_writes": "off",
                "max_wal_size": "4GB",
                # Its snapshots would keep old row versions, and its statistics change plans.
                "autovacuum": "off",
            }
        return settings

    def _write(self, name: str, lines: list[str]) -> None:
        path = self.data / name
        path.write_text("\n".join([*lines, ""]))
        path.chmod(0o600)
        self._give(path)

    def _make_socket_folder(self) -> Path:
        """Return a folder of mode 0700 whose path fits into a socket's address."""
        folder = self.home / "socket"
        plain = re.fullmatch(r"[\w./+-]+", str(folder))
        if not plain or len(os.fsencode(f"{folder}{SOCKET_NAME}")) > SOCKET_PATH_MAX:
            folder = Path(tempfile.mkdtemp(prefix="fencepost-", dir="/tmp"))
        folder.mkdir(mode=0o700, exist_ok=True)
        folder.chmod(0o700)
        self._give(folder)
        return folder


def _is_postgres(pid: int, data: Path) -> bool:
    """Tell whether process `pid` is a PostgreSQL server, as far as the machine says."""
    command = Path(f"/proc/{pid}/cmdline")
    if Path("/proc/self").exists():
        try:
            words = command.read_bytes().split(b"\0")
        except OSError:
            return False
        return os.path.basename(words[0]) == b"postgres" and os.fsencode(data) in words
    listed = subprocess.run(
        ["ps", "-p", str(pid), "-o", "command="],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    return "postgres" in listed and str(data) in listed


def last_line(text: str) -> str:
    """Return the last thing that PostgreSQL said, what was fatal before all else."""
    lines = [line.strip() for line in text.splitlines() if "FATAL" in line] or text.split("\n")
    lines = [line.strip() for line in lines if line.strip()]
    return lines[-1] if lines else "it gave no reason."
