"""The postmaster: a process that starts the server of one home and stops it after its last user.

It is the server's parent and waits for the exclusive lock on `users.lock`, which it gets when the
last user is gone, however that happened; then it stops the server and ends.  So nobody has to tidy
up, a SIGKILL of all users included, and a command never stops a server that another one uses.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

if __name__ == "__main__":
    # Started by its path and isolated (`-I`), it finds only what the environment has installed.
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from governance.local import placement
from governance.local.cluster import Cluster, last_line
from governance.local.folder import EmbeddedError, ServerFailed
from governance.local.placement import binaries
from governance.local.rendezvous import (
    POSTMASTER_LOCK,
    START_SECONDS_MAX,
    USERS_LOCK,
    answers,
    lock,
    open_lock,
    socket_of,
    until,
)

#: Backends of a killed server take a moment to notice; until then a new one does not start.
START_TRIES_MAX = 20
START_PAUSE_SECONDS = 0.25
#: A server that dies more often than this within a minute stays down, and the postmaster with it.
RESTARTS_MAX = 5


@dataclass
class Postmaster:
    """The parent of the server of one home, for as long as somebody uses it."""

    home: Path
    throwaway: bool
    server: subprocess.Popen[bytes] | None = None
    stopping: bool = False

    @cached_property
    def cluster(self) -> Cluster:
        """Return the files of the server."""
        return Cluster(self.home, self.throwaway)

    def run(self) -> None:
        """Start the server, report it on stdout, and keep it up until the last user is gone."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: self.stop())
        mine = open_lock(self.home / POSTMASTER_LOCK)
        if not lock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB):
            raise ServerFailed("Another postmaster is at work.")
        self.cluster.prepare()
        self.start()
        print("ready", flush=True)
        _silence_stdout()
        threading.Thread(target=self.wait_for_the_last_user, daemon=True).start()
        self.supervise()
        if (socket := socket_of(self.home)).parent != self.home:
            shutil.rmtree(socket, ignore_errors=True)
        if self.throwaway:
            shutil.rmtree(self.home, ignore_errors=True)

    def wait_for_the_last_user(self) -> None:
        """Wait until nobody holds the server any more, and stop it."""
        # Never unlocked: who comes now waits until this process is gone.
        lock(open_lock(self.home / USERS_LOCK), fcntl.LOCK_EX)
        self.stop()

    def stop(self) -> None:
        """Tell the server to end, open transactions undone; a throwaway one at once."""
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
            logged = log.read_bytes()[before:].decode(errors="replace")
            if "shared memory" not in logged and "lock file" not in logged:
                break
            time.sleep(START_PAUSE_SECONDS)
        raise ServerFailed(f"PostgreSQL does not start: {last_line(logged)}")

    def spawn(self) -> subprocess.Popen[bytes]:
        """Return the server's process, just started, which writes into the home's log."""
        settings = self.cluster.settings(socket_of(self.home))
        options = [word for name in settings for word in ("-c", f"{name}={settings[name]}")]
        with (self.home / "log").open("ab") as log:
            return subprocess.Popen(
                [str(binaries() / "postgres"), "-D", str(self.cluster.data), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                **placement.as_server_user(),  # type: ignore[call-overload]
            )

    def comes_up(self, server: subprocess.Popen[bytes]) -> bool:
        """Wait until the server answers, or has ended and will not."""
        socket = socket_of(self.home)
        until(lambda: server.poll() is not None or answers(socket), seconds=START_SECONDS_MAX)
        return server.poll() is None


def _silence_stdout() -> None:
    """Let go of the starter's pipe: it may end before this process does."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    os.close(nothing)


def main() -> int:
    """Keep the server of the home that the command line names; return the exit status."""
    parser = argparse.ArgumentParser(description="Keep an embedded PostgreSQL. Started by others.")
    parser.add_argument("home", type=Path)
    parser.add_argument("--throwaway", action="store_true")
    arguments = parser.parse_args()
    # In the background, in a session of its own: no Ctrl-C meant for its starter reaches it.
    if os.fork():
        os._exit(0)
    os.setsid()
    try:
        Postmaster(arguments.home, arguments.throwaway).run()
    except EmbeddedError as error:
        print(type(error).__name__, error, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
