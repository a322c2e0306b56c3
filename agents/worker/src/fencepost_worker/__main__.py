"""`python -m fencepost_worker`: run a worker of a control plane, or check whether one can run."""

import argparse
import json
import logging
import select
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from types import FrameType

from fencepost_worker import alone, durable
from fencepost_worker.adapters.command import ProgramMissing
from fencepost_worker.assembly import build
from fencepost_worker.checkup import check
from fencepost_worker.claim import ClaimUnreadable
from fencepost_worker.confinement import close_memory
from fencepost_worker.gateway.server import GatewayNotStarted
from fencepost_worker.heartbeats import HeartbeatsStopped
from fencepost_worker.loop import NotAuthorized, Worker
from fencepost_worker.options import Unusable, parse_options

log = logging.getLogger("fencepost_worker")

EXIT_UNUSABLE = 2
EXIT_NOT_AUTHORIZED = 3
#: The worker could not keep its leases any more, and finished what ran: start it again.
EXIT_STOPPED = 4

#: Ends of the wake-up pair, which the interpreter writes to and nobody closes.
_KEPT: list[socket.socket] = []


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command of the worker; return the exit code."""
    if not close_memory():
        log.warning("programs of this account can read the worker's memory: see --run-as")
    try:
        options = parse_options(argv)
    except Unusable as error:
        return _unusable(error)
    if options.command == "check":
        report, code = check(options)
        print(report)
        return code
    _log_as_json()
    return _stand_alone(options) if options.command == "gateway" else _run(options)


def _run(options: argparse.Namespace) -> int:
    """Run a worker until it is told to end; return the exit code."""
    try:
        lock = durable.FolderLock(options.data.resolve())
        worker = build(options)
    except (Unusable, ProgramMissing, durable.FolderBusy, OSError) as error:
        return _unusable(error)
    _obey_signals(worker, drain_seconds=options.drain_seconds)
    try:
        worker.run()
    except NotAuthorized as error:
        print(f"fencepost-worker: not authorized: {error}", file=sys.stderr)
        return EXIT_NOT_AUTHORIZED
    except GatewayNotStarted as error:
        return _unusable(error)
    except HeartbeatsStopped as error:
        print(f"fencepost-worker: the heartbeats stopped: {error}", file=sys.stderr)
        return EXIT_STOPPED
    except (durable.Unreadable, ClaimUnreadable) as error:
        return _unusable(f"the data folder is damaged: {error}")
    finally:
        lock.release()
    return 0


def _stand_alone(options: argparse.Namespace) -> int:
    """Run the gateway alone until it is told to end; return the exit code."""
    until = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: until.set())
    try:
        lock = durable.FolderLock(options.data.resolve())
    except (durable.FolderBusy, OSError) as error:
        return _unusable(error)
    try:
        return alone.serve(options, until=until, say=lambda line: print(line, flush=True))
    except (Unusable, GatewayNotStarted, OSError) as error:
        return _unusable(error)
    finally:
        lock.release()


def _unusable(why: object) -> int:
    print(f"fencepost-worker: {why}", file=sys.stderr)
    return EXIT_UNUSABLE


def _obey_signals(worker: Worker, *, drain_seconds: float) -> None:
    """Drain at SIGTERM and SIGINT; stop work after `drain_seconds`, or at the second signal."""
    # Neither end is ever closed: the interpreter writes for as long as the process lives.
    # Sockets and no pipe: they are what every system can wait for.
    reader, writer = socket.socketpair()
    writer.setblocking(False)

    def obey() -> None:
        reader.recv(1)
        worker.drain()
        select.select([reader], [], [], drain_seconds)
        worker.abort()

    # The interpreter writes at once, in whichever thread the signal arrives. A handler would wait
    # for the main thread, which may be waiting for a lock that only this signal would free.
    signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGTERM, _noted)
    signal.signal(signal.SIGINT, _noted)
    threading.Thread(target=obey, name="signals", daemon=True).start()
    _KEPT.append(writer)


def _noted(number: int, frame: FrameType | None) -> None:
    """Keep the interpreter from ending the process; the wake-up pipe has the signal already."""


class JsonLines(logging.Formatter):
    """One JSON object a line, with the members that the control plane's own log has."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        line = {
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def _log_as_json() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    log.addHandler(handler)
    log.setLevel(logging.INFO)


if __name__ == "__main__":
    sys.exit(main())
