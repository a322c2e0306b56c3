"""The whole service on one machine: its processes, their addresses, how they start and stop."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import httpx2

from governance.local.processes import Child, Children

HOST = "127.0.0.1"
START_SECONDS_MAX = 60.0
#: What the stand-in for a provider of models is to a worker.
PROVIDERS = """\
[providers.{name}]
api = "openai"
base_url = "{url}"
"""
#: How long a worker may go on with what it has begun when everything stops.
DRAIN_SECONDS = 5


class ServiceFailed(Exception):
    """The service cannot run here. The message is one line, for a person."""


class Interrupted(Exception):
    """Ctrl-C, SIGTERM, or the terminal has gone."""


class Service:
    """One run of the whole service, from the data folder `folder` and the checkout `source`.

    Nobody else serves from that folder until `stop`, which ends all that was started.

    :param worker_source: the folder that the worker's package is imported from.
    """

    def __init__(self, *, folder: Path, source: Path, worker_source: Path, port: int) -> None:
        self.folder = folder
        self.source = source
        self.worker_source = worker_source
        self.port = port
        self.url = f"http://{HOST}:{port}"
        self.logs = folder / "logs"
        # Never through a proxy: it is this machine.
        self.http = httpx2.Client(base_url=self.url, timeout=30, trust_env=False)
        self._stopping = threading.Event()
        self._children: Children | None = None

    def obey_signals(self) -> None:
        """Let Ctrl-C, SIGTERM and the end of the terminal raise `Interrupted` at the next wait."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: self._stopping.set())

    def take_folder(self) -> None:
        """Be the only one who serves from the data folder, until this process ends.

        :raises ServiceFailed: somebody does already.
        """
        self._lock = os.open(self.folder / "up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ServiceFailed(
                f"Fencepost already runs from the data folder {self.folder}."
            ) from None

    def check_port(self) -> None:
        """See whether the port is free.

        :raises ServiceFailed: somebody listens there, or this user may not.
        """
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, self.port))
            except OSError as error:
                raise ServiceFailed(
                    f"Port {self.port} cannot be used: {error.strerror}. Choose another with PORT=."
                ) from error

    def wait(self, seconds: float) -> list[Child]:
        """Wait, start again the children that have ended, and return them.

        :raises Interrupted: it is time to stop.
        :raises KeepsFailing: a child ends again and again.
        """
        if self._stopping.wait(seconds):
            raise Interrupted
        return self._children.restart_ended() if self._children is not None else []

    def start_web(self) -> None:
        """Start the web process and return when it answers.

        :raises ServiceFailed: it does not within `START_SECONDS_MAX`.
        """
        self.logs.mkdir(mode=0o700, exist_ok=True)
        self._children = Children(self.source, self.logs, self._environment())
        self.start("web", "-m", "gunicorn", "-c", "python:governance.gunicorn_conf",
                   "governance.wsgi")  # fmt: skip
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            with suppress(httpx2.TransportError):
                if self.http.get("/healthz").status_code == 200:
                    return
            self.wait(0.1)
        raise ServiceFailed(f"The service does not answer; its log is {self.logs / 'web.log'}.")

    def start(self, name: str, *arguments: str) -> None:
        """Start a child of Python that logs to `NAME.log`. Needs `start_web` before it."""
        assert self._children is not None
        self._children.start(name, [sys.executable, *arguments])

    def start_standin(self, name: str, *options: str) -> Path:
        """Start what stands in for a provider of models of that name.

        :param options: of `python -m fencepost_worker.testing`.
        :return: the file that names it to a worker.
        """
        port = free_port()
        self.start("standin", "-m", "fencepost_worker.testing", "--port", str(port), *options)
        path = self.folder / "workers" / "providers.toml"
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.write_text(PROVIDERS.format(name=name, url=f"http://{HOST}:{port}/v1"))
        return path

    def start_worker(self, name: str, *, agent: str, token_file: Path, options: list[str]) -> None:
        """Start a worker of an agent, which keeps its journal below `workers/NAME`."""
        self.start(
            f"worker-{name}",
            *("-m", "fencepost_worker", "run"),
            *("--url", self.url),
            *("--agent", agent),
            *("--token-file", str(token_file)),
            *("--data", str(self.folder / "workers" / name)),
            *("--drain-seconds", str(DRAIN_SECONDS)),
            *options,
        )

    def stop(self) -> None:
        """End everything that was started, and return when it is gone."""
        self.http.close()
        if self._children is not None:
            self._children.stop()

    def _environment(self) -> dict[str, str]:
        # The worker of this checkout is the one that runs, whichever else is installed.
        found_first = [str(self.worker_source), os.environ.get("PYTHONPATH", "")]
        return os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, found_first)),
            "FENCEPOST_DATA": str(self.folder),
            "FENCEPOST_URL": self.url,
            "PROMETHEUS_MULTIPROC_DIR": str(self.folder / "metrics"),
            "FENCEPOST_BIND": f"{HOST}:{self.port}",
            "NO_PROXY": f"{HOST},localhost",
            "PYTHONUNBUFFERED": "1",
        }


def free_port() -> int:
    """Return a port of this machine on which nobody listens."""
    with socket.create_server((HOST, 0)) as probe:
        return int(probe.getsockname()[1])
