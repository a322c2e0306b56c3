"""Child processes that never outlive their parent.

A watchdog, a small process of its own session, knows the children by their numbers and reads from
a pipe whose other end only the parent has.  When the parent is gone, also by SIGKILL, the pipe
ends, and the watchdog ends the children.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

#: What a process gets between SIGTERM and SIGKILL.
GRACE_SECONDS = 12.0
POLL_SECONDS = 0.05
#: A child that ends more often than this within a minute stays down.
RESTARTS_MAX = 5
RESTARTS_WINDOW_SECONDS = 60.0


class KeepsFailing(Exception):
    """A child was restarted too often. The message is one line, for a person."""


@dataclass
class Child:
    """A process that is to run for as long as its parent."""

    name: str
    command: list[str]
    log: Path
    process: subprocess.Popen[bytes]
    started: list[float] = field(default_factory=list)


@dataclass
class Children:
    """The children of this process. Each leads a session: a Ctrl-C is the parent's to handle."""

    folder: Path
    logs: Path
    environment: dict[str, str]
    _all: list[Child] = field(default_factory=list)
    _watchdog: subprocess.Popen[bytes] | None = None

    def start(self, name: str, command: list[str]) -> Child:
        """Start a child that logs to `NAME.log`."""
        log = self.logs / f"{name}.log"
        child = Child(name, command, log, self._spawn(command, log), [time.monotonic()])
        self._all.append(child)
        return child

    def restart_ended(self) -> list[Child]:
        """Start those again that have ended, and return them.

        :raises KeepsFailing: one of them ended too often.
        """
        ended = [child for child in self._all if child.process.poll() is not None]
        for child in ended:
            # What it has left behind, the workers of a killed gunicorn, still holds its port.
            _signal(child.process.pid, signal.SIGKILL)
            self._tell(f"-{child.process.pid}")
            since = time.monotonic() - RESTARTS_WINDOW_SECONDS
            child.started = [at for at in child.started if at > since] + [time.monotonic()]
            if len(child.started) > RESTARTS_MAX:
                raise KeepsFailing(f"{child.name} keeps ending; its log is {child.log}.")
            child.process = self._spawn(child.command, child.log)
        return ended

    def stop(self) -> None:
        """Stop all and return when they are gone; last the first started, which the others use."""
        self._end(self._all[1:])
        self._end(self._all[:1])
        self._all.clear()
        if self._watchdog is not None and self._watchdog.stdin is not None:
            with suppress(BrokenPipeError):
                self._watchdog.stdin.close()
            self._watchdog.wait()
            self._watchdog = None

    def _end(self, children: list[Child]) -> None:
        for child in children:
            _signal(child.process.pid, signal.SIGTERM)
        until = time.monotonic() + GRACE_SECONDS
        for child in children:
            with suppress(subprocess.TimeoutExpired):
                child.process.wait(timeout=max(0.0, until - time.monotonic()))
            # Also where it ended by itself: what it started goes with it.
            _signal(child.process.pid, signal.SIGKILL)
            child.process.wait()
            self._tell(f"-{child.process.pid}")

    def _spawn(self, command: list[str], log: Path) -> subprocess.Popen[bytes]:
        if self._watchdog is None:
            self._watchdog = subprocess.Popen(
                [sys.executable, "-I", str(Path(__file__).resolve())],
                stdin=subprocess.PIPE,
                cwd="/",
                start_new_session=True,
            )
        with log.open("ab") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.folder,
                env=self.environment,
                start_new_session=True,
            )
        self._tell(f"+{process.pid}")
        return process

    def _tell(self, line: str) -> None:
        if self._watchdog is not None and self._watchdog.stdin is not None:
            # A killed watchdog is no reason to stop; only the parent's own SIGKILL is unguarded.
            with suppress(BrokenPipeError):
                self._watchdog.stdin.write(f"{line}\n".encode())
                self._watchdog.stdin.flush()


def _signal(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _watch() -> None:
    """Read `+number` and `-number` until the parent is gone, then end who is left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
    for group in groups:
        _signal(group, signal.SIGTERM)
    until = time.monotonic() + GRACE_SECONDS
    while any(map(_exists, groups)) and time.monotonic() < until:
        time.sleep(POLL_SECONDS)
    for group in groups:
        _signal(group, signal.SIGKILL)


def _exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


if __name__ == "__main__":
    _watch()
