"""The real web service as a process that can be killed, on the database of the test."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx

from tests.children import MANAGE, environment

START_SECONDS_MAX = 60.0
POLL_SECONDS = 0.05
THREADS = 8


class Service:
    """gunicorn with one process of `THREADS` threads, on a port that it keeps over its deaths."""

    def __init__(self, log: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = log
        self.kills = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        over = {
            "DJANGO_SETTINGS_MODULE": "governance.settings",
            "FENCEPOST_BIND": f"127.0.0.1:{self.port}",
            "FENCEPOST_URL": self.url,
            "FENCEPOST_THREADS": str(THREADS),
            "WEB_CONCURRENCY": "1",
        }
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "gunicorn", "-c", "python:governance.gunicorn_conf",
                 "governance.wsgi"],
                env=environment(**over), cwd=MANAGE.parent, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        give_up = time.monotonic() + START_SECONDS_MAX
        while not self._answers():
            assert time.monotonic() < give_up, self.log.read_text()[-2000:]
            time.sleep(POLL_SECONDS)

    def kill(self) -> None:
        """SIGKILL all its processes at once, in the middle of whatever they do."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(timeout=30)
        self.kills += 1

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz", timeout=5, trust_env=False).is_success
        except httpx.TransportError:
            return False
