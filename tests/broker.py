"""A real RabbitMQ server of the test run's own, to be started, killed, frozen and restarted."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError

SERVERS = "/usr/lib/rabbitmq/lib"
START_SECONDS_MAX = 50.0
POLL_SECONDS = 0.2


def installed_server() -> Path | None:
    """Return the script that starts the installed server."""
    scripts = sorted(Path(SERVERS).glob("rabbitmq_server-*/sbin/rabbitmq-server"))
    return scripts[-1] if scripts and shutil.which("epmd") else None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Broker:
    """One node in a folder of its own; all that it starts is in its own process groups."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self._dist_port, self._epmd_port = free_port(), free_port(), free_port()
        self._epmd: subprocess.Popen[bytes] | None = None
        self._server: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/%2F"

    def start(self) -> None:
        """Start the node, or start it again on what it has kept, and wait until it serves."""
        script = installed_server()
        assert script is not None
        if self._epmd is None:
            self._epmd = self._spawn("epmd", "-port", str(self._epmd_port))
        self._server = self._spawn(str(script))
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self._serves():
            assert self._server.poll() is None, (self.folder / "log").read_text()[-2000:]
            assert time.monotonic() < deadline, "the broker did not start in time"
            time.sleep(POLL_SECONDS)

    def kill(self) -> None:
        """SIGKILL the node."""
        self._signal(self._server, signal.SIGKILL)

    def freeze(self) -> None:
        """Let the node hang with its connections open."""
        assert self._server is not None
        os.killpg(self._server.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._server is not None
        os.killpg(self._server.pid, signal.SIGCONT)

    def close(self) -> None:
        self._signal(self._server, signal.SIGKILL)
        self._signal(self._epmd, signal.SIGKILL)

    @contextlib.contextmanager
    def channel(self) -> Iterator[BlockingChannel]:
        connection = pika.BlockingConnection(pika.URLParameters(self.url))
        try:
            yield connection.channel()
        finally:
            with contextlib.suppress(AMQPError):
                connection.close()

    def bodies(self, queue: str) -> list[bytes]:
        """Take everything that is in the queue, in its order."""
        found = []
        with self.channel() as channel:
            while True:
                method, _, body = channel.basic_get(queue, auto_ack=True)
                if method is None:
                    return found
                found.append(body)

    def _serves(self) -> bool:
        try:
            with self.channel():
                return True
        except (AMQPError, OSError):
            return False

    def _spawn(self, *command: str) -> subprocess.Popen[bytes]:
        named = {
            "HOME": self.folder,
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": self._epmd_port,
            "RABBITMQ_NODENAME": f"test{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": self.port,
            "RABBITMQ_DIST_PORT": self._dist_port,
            "RABBITMQ_MNESIA_BASE": self.folder / "mnesia",
            "RABBITMQ_LOG_BASE": self.folder,
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_ENABLED_PLUGINS_FILE": self.folder / "plugins",
            "RABBITMQ_CONFIG_FILE": self.folder / "none",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1",
        }
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                command,
                env=os.environ | {name: str(value) for name, value in named.items()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _signal(self, process: subprocess.Popen[bytes] | None, number: int) -> None:
        if process is not None and process.poll() is None:
            os.killpg(process.pid, number)
            process.wait(timeout=10)
