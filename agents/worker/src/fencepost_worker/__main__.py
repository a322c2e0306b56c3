"""`python -m fencepost_worker`: run a worker of a control plane, or check whether one can run."""

import argparse
import json
import logging
import signal
import sys
import threading
from collections.abc import Sequence
from datetime import UTC, datetime

from fencepost_worker import alone, durable
from fencepost_worker.adapters.command import ProgramMissing
from fencepost_worker.assembly import build
from fencepost_worker.checkup import check
from fencepost_worker.claim import ClaimUnreadable
from fencepost_worker.confinement import close_memory
from fencepost_worker.gateway.server import GatewayNotStarted
from fencepost_worker.heartbeats import HeartbeatsStopped
from fencepost_worker.loop import NotAuthorized
from fencepost_worker.options import Unusable, parse_options
from fencepost_worker.signals import obeyed_signals

log = logging.getLogger("fencepost_worker")

EXIT_UNUSABLE = 2
EXIT_NOT_AUTHORIZED = 3
#: The worker could not keep its leases any more, and finished what ran: start it again.
EXIT_STOPPED = 4


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
    try:
        with obeyed_signals(worker, drain_seconds=options.drain_seconds):
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
