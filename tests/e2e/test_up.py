"""`manage.py up` as a newcomer runs it: in a fresh data folder, killed, started again."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest
from django.core.management.base import CommandError
from filelock import FileLock

from governance.management.commands import up

# Each starts servers; a loaded machine takes its time.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ROOT = Path(up.__file__).resolve().parents[3]
NOTICE_SECONDS = 90.0


class Installation:
    """A data folder and a port, and what is run on them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("FENCEPOST_", "DJANGO_", "PYTEST_", "DATABASE_", "PYTHONPATH"))
        } | {"FENCEPOST_DATA": str(folder), "PYTHONUNBUFFERED": "1"}

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "manage.py", "up", "--port", str(self.port), *arguments]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `up` to its end."""
        return subprocess.run(
            self.command(*arguments),
            capture_output=True,
            text=True,
            cwd=ROOT,
            env=self.environment,
            timeout=240,
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start `up` and return when it serves."""
        process = subprocess.Popen(
            self.command(*arguments),
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=self.environment,
        )
        assert process.stdout
        told = []
        for line in process.stdout:
            told.append(line)
            if "Ctrl-C" in line:
                return process
        raise AssertionError("".join(told))

    def ready(self) -> httpx2.Response:
        # Longer than a request waits for a connection to a database that is away.
        return httpx2.get(f"{self.url}/readyz", timeout=30, trust_env=False)

    def processes(self) -> set[int]:
        """Return all living processes that were started, at whatever remove, for the folder."""
        mark = f"FENCEPOST_DATA={self.folder}".encode()
        found = set()
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                if mark in (entry / "environ").read_bytes().split(b"\0") and state != "Z":
                    found.add(int(entry.name))
        return found

    def kill_all(self) -> bool:
        """Kill all that lives; true when nothing did. Who is killed later may restart others."""
        living = self.processes()
        for pid in living:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not living

    def is_quiet(self) -> bool:
        return not self.processes()


def eventually(condition: Callable[[], bool]) -> bool:
    until = time.monotonic() + NOTICE_SECONDS
    while not (met := condition()) and time.monotonic() < until:
        time.sleep(0.1)
    return met


@pytest.fixture
def installation(data_folder: Path) -> Iterator[Installation]:
    made = Installation(data_folder)
    yield made
    assert eventually(made.kill_all)


@pytest.fixture
def made_before(installation: Installation) -> Installation:
    """An installation that was made, used and stopped before, once in the run: a copy of it."""
    above = Path(os.environ["FENCEPOST_TEST_RUN"]) / "made"
    with FileLock(f"{above}.lock"):
        if not above.exists():
            made = Installation(above.with_name("making") / "data")
            made.folder.parent.mkdir(mode=0o711)
            done = made.run("--once", "--no-workers", "--no-examples")
            assert done.returncode == 0, done.stdout + done.stderr
            assert made.is_quiet()
            made.folder.parent.rename(above)
    subprocess.run(["cp", "-a", str(above / "data"), str(installation.folder)], check=True)
    return installation


def is_one_line(done: subprocess.CompletedProcess[str]) -> bool:
    return done.returncode != 0 and len(done.stderr.strip().splitlines()) == 1


def test_the_examples_arrive_and_a_second_run_changes_nothing(installation):
    first = installation.run("--once")
    assert first.returncode == 0, first.stdout + first.stderr
    assert "example-ticket-classification: completed" in first.stdout
    assert "example-parcel-data-contract: review_required" in first.stdout
    assert "example-release-notes: completed" in first.stdout
    assert "example-duration-parser: held" in first.stdout
    assert re.search(r"password \S{20,}", first.stdout)
    assert f"{installation.url}/admin/" in first.stdout
    assert installation.is_quiet()

    second = installation.run("--once")
    assert second.returncode == 0, second.stdout + second.stderr
    assert "password" not in second.stdout
    assert "example-ticket-classification: completed" in second.stdout
    # They are as the first run left them: seen once, in the state in which they arrived.
    assert "queued" not in second.stdout
    assert installation.is_quiet()


def test_it_serves_alone_from_its_folder_until_ctrl_c(made_before):
    process = made_before.start("--no-examples")
    assert made_before.ready().json()["status"] == "ready"

    other = Installation(made_before.folder).run("--once")
    assert is_one_line(other), other.stderr
    assert "already runs" in other.stderr
    assert made_before.ready().status_code == 200

    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=NOTICE_SECONDS) == 0
    process.stdout.close()
    assert made_before.is_quiet()


def test_everything_dies_with_it_when_it_is_killed_and_the_next_start_works(made_before):
    process = made_before.start("--no-examples")
    process.kill()
    process.communicate()
    assert eventually(made_before.is_quiet)

    again = made_before.run("--once", "--no-workers")
    assert again.returncode == 0, again.stdout + again.stderr


def test_the_next_start_works_after_everything_was_killed_at_once(made_before):
    process = made_before.start("--no-workers", "--no-examples")
    assert eventually(made_before.kill_all)
    process.communicate()

    again = made_before.run("--once", "--no-workers", "--no-examples")
    assert again.returncode == 0, again.stdout + again.stderr
    assert made_before.is_quiet()


def test_a_killed_database_comes_back_and_the_service_goes_on(made_before):
    process = made_before.start("--no-workers", "--no-examples")
    note = made_before.folder / "postgres/data/postmaster.pid"
    killed = int(note.read_text().splitlines()[0])
    os.kill(killed, signal.SIGKILL)

    def another_is_there() -> bool:
        # It may be back before anybody has seen it gone.
        lines = note.read_text().splitlines() if note.exists() else []
        return bool(lines) and int(lines[0]) != killed

    assert eventually(another_is_there)
    assert eventually(lambda: made_before.ready().status_code == 200)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=NOTICE_SECONDS) == 0
    process.stdout.close()


def test_a_busy_port_is_told_in_one_line(installation):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", installation.port))
        taken.listen()
        done = installation.run("--once")
    assert is_one_line(done), done.stderr
    assert f"Port {installation.port} cannot be used" in done.stderr


def test_a_word_for_a_port_is_told_in_one_line(installation):
    installation.port = "x"
    done = installation.run("--once")
    assert is_one_line(done), done.stderr
    assert "'x' is no port number" in done.stderr


def test_an_unusable_data_folder_is_told_in_one_line(installation):
    installation.folder.write_text("not a folder")
    done = installation.run("--once")
    assert is_one_line(done), done.stderr
    assert "cannot be used" in done.stderr


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("postgresql://nobody@127.0.0.1:1/none", "cannot be reached"),
        ("mysql://localhost/none", "not valid"),
    ],
)
def test_an_unusable_database_address_is_told_in_one_line(installation, address, told):
    installation.environment["DATABASE_URL"] = address
    done = installation.run("--once")
    assert is_one_line(done), done.stderr
    assert told in done.stderr


@pytest.mark.django_db
def test_a_database_that_is_too_old_is_told(monkeypatch):
    up.check_database()
    monkeypatch.setattr(up, "POSTGRESQL_MIN", 99)
    with pytest.raises(CommandError, match="PostgreSQL 99 or newer is needed; DATABASE_URL has"):
        up.check_database()
