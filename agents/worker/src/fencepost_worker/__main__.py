"""`python -m fencepost_worker`: run one worker against a control plane."""

import argparse
import json
import logging
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from uuid_utils.compat import uuid7

from fencepost_worker import durable, processes
from fencepost_worker.adapters import RuntimeAdapter
from fencepost_worker.adapters.command import CommandAdapter, ProgramMissing
from fencepost_worker.adapters.http import SILENCE_TIMEOUT_SECONDS, Endpoint, HttpAdapter
from fencepost_worker.adapters.openai import OpenAIAdapter
from fencepost_worker.claim import ClaimUnreadable
from fencepost_worker.client import ControlPlane, Session
from fencepost_worker.envelopes import KeyRing, read_keys
from fencepost_worker.exchange import ExternalAgentExchange
from fencepost_worker.executor import Authority, ExternalAgentExecutor
from fencepost_worker.governed import ControlPlaneAuthority, ModelNeeds
from fencepost_worker.heartbeats import HeartbeatsStopped
from fencepost_worker.journal import Journal
from fencepost_worker.loop import NotAuthorized, Plan, Worker
from fencepost_worker.network import CertificatesUnusable, Network
from fencepost_worker.redaction import Secrets
from fencepost_worker.session import ActivatedSession
from fencepost_worker.uploads import Uploads
from fencepost_worker.workspace import Workspaces

log = logging.getLogger("fencepost_worker")

EXIT_UNUSABLE = 2
EXIT_NOT_AUTHORIZED = 3
#: The worker could not keep its leases any more, and finished what ran: start it again.
EXIT_STOPPED = 4
MAX_WORKER_ID_CHARS = 120


#: Ends of the wake-up pair, which the interpreter writes to and nobody closes.
_KEPT: list[socket.socket] = []


class Unusable(Exception):
    """The options do not make a worker; the message is one line for a person."""


def parse_options(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(prog="fencepost-worker", description=__doc__)
    add = parser.add_argument
    add("--url", required=True, help="base address of the control plane")
    add("--token", default=os.environ.get("FENCEPOST_TOKEN", ""), help="or FENCEPOST_TOKEN")
    add("--token-file", type=Path, help="read again when the control plane rejects the token")
    add("--agent", required=True)
    add("--runtime", choices=["command", "http", "openai"], default="command")
    add("--data", type=Path, required=True, help="folder for the journal, workspaces, artifacts")
    add("--worker-id", default="", help="by default made once and kept in the data folder")
    add("--lease-seconds", type=int, default=900)
    add("--wait-seconds", type=int, default=5, help="how long a poll for work may take")
    add("--task-types", default="", help="comma separated; default: all of the agent's")
    add("--concurrency", type=int, default=1, help="jobs at a time")
    add("--no-uploads", action="store_true", help="leave artifacts in the data folder")
    add("--once", action="store_true", help="end when there is no work")
    add("--max-jobs", type=int, help="end after so many jobs")
    add("--drain-seconds", type=float, default=60.0, help="what running jobs get after SIGTERM")
    add("--ca", type=Path, help="authorities (PEM) to trust beside those of the system")
    add("--cert", type=Path, help="our certificate (PEM) for who asks for one")
    add("--key", type=Path, help="its private key, where it is in a file of its own")
    add("--trusted-keys", type=Path, help="trust the keys in this file and no others")
    add("--cell-id", default="", help="activate a session of this cell; governed work always does")
    add("--governed", action="store_true", help="ask for a permit before a program is run, too")
    add("--mode", choices=["mock", "live"], default="mock", help="of governed executions")
    add("--endpoint", default="", help="http: the agent's address; openai: the chat completions'")
    add("--api-key-file", type=Path, help="key of the endpoint, read for each request")
    add("--silence-seconds", type=float, default=SILENCE_TIMEOUT_SECONDS)
    add("--max-output-tokens", type=int, default=1024)
    add("--no-stream", action="store_true", help="openai: ask for the answer in one piece")
    add("program", nargs="*", help="after --: the program of the command runtime")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a worker until it is told to end; return the exit code."""
    options = parse_options(argv)
    _log_as_json()
    try:
        lock = durable.FolderLock(options.data.resolve())
        worker = build(options)
    except (Unusable, ProgramMissing, durable.FolderBusy, OSError) as error:
        print(f"fencepost-worker: {error}", file=sys.stderr)
        return EXIT_UNUSABLE
    _obey_signals(worker, drain_seconds=options.drain_seconds)
    try:
        worker.run()
    except NotAuthorized as error:
        print(f"fencepost-worker: not authorized: {error}", file=sys.stderr)
        return EXIT_NOT_AUTHORIZED
    except HeartbeatsStopped as error:
        print(f"fencepost-worker: the heartbeats stopped: {error}", file=sys.stderr)
        return EXIT_STOPPED
    except (durable.Unreadable, ClaimUnreadable) as error:
        print(f"fencepost-worker: the data folder is damaged: {error}", file=sys.stderr)
        return EXIT_UNUSABLE
    finally:
        lock.release()
    return 0


def build(options: argparse.Namespace) -> Worker:
    """Put a worker together.

    :raises Unusable: the options contradict each other or lack something.
    """
    data = options.data.resolve()
    if bool(options.token) == bool(options.token_file):
        raise Unusable("one of --token and --token-file is needed")
    if options.concurrency < 1:
        raise Unusable("--concurrency must be at least 1")
    try:
        network = Network(ca=options.ca, cert=options.cert, key=options.key)
    except CertificatesUnusable as error:
        raise Unusable(str(error)) from error
    for shortcoming in processes.shortcomings():
        log.warning("on this system: %s", shortcoming)
    plane = ControlPlane(url=options.url, session=_session(options, data=data), network=network)
    return Worker(
        plane=plane,
        journal=Journal(data / "journal"),
        adapter=_adapter(options, data=data, plane=plane, network=network),
        keys=KeyRing(plane=plane, pinned=_pinned_keys(options.trusted_keys)),
        uploads=Uploads(plane=plane, network=network) if _may_upload(options) else None,
        secrets=_secrets(options),
        plan=Plan(
            agent=options.agent,
            lease_seconds=options.lease_seconds,
            task_types=tuple(name for name in options.task_types.split(",") if name),
            wait_seconds=options.wait_seconds,
            concurrency=options.concurrency,
            max_jobs=options.max_jobs,
            until_empty=options.once,
        ),
    )


def _secrets(options: argparse.Namespace) -> Secrets:
    files = [path for path in (options.token_file, options.api_key_file) if path is not None]
    return Secrets([options.token or ""], files=files)


def _session(options: argparse.Namespace, *, data: Path) -> Session:
    worker_id = options.worker_id or _stable_worker_id(data, options.agent)
    if not _has_session(options):
        return Session(worker_id=worker_id, token=options.token, token_file=options.token_file)
    return ActivatedSession(
        worker_id=worker_id,
        agent=options.agent,
        cell_id=options.cell_id or worker_id,
        runtime=options.runtime,
        path=data / "session.json",
        token=options.token,
        token_file=options.token_file,
    )


def _has_session(options: argparse.Namespace) -> bool:
    return bool(options.cell_id) or _is_governed(options)


def _may_upload(options: argparse.Namespace) -> bool:
    """Return whether artifacts leave the data folder: grants are for activated sessions only."""
    return _has_session(options) and not options.no_uploads


def _is_governed(options: argparse.Namespace) -> bool:
    """Return whether effects need permits: those that leave this machine always do."""
    return options.governed or options.runtime != "command"


def _adapter(
    options: argparse.Namespace, *, data: Path, plane: ControlPlane, network: Network
) -> RuntimeAdapter:
    executor = ExternalAgentExecutor(
        exchange=ExternalAgentExchange(data / "exchange"),
        authority=_authority(options, plane=plane),
    )
    if options.runtime == "command":
        return CommandAdapter(
            executor=executor, workspaces=Workspaces(data), program=options.program
        )
    if not options.endpoint:
        raise Unusable(f"the {options.runtime} runtime needs --endpoint")
    endpoint = Endpoint(
        url=options.endpoint,
        key_file=options.api_key_file,
        silence_s=options.silence_seconds,
        network=network,
    )
    if options.runtime == "http":
        return HttpAdapter(executor=executor, endpoint=endpoint)
    return OpenAIAdapter(
        executor=executor,
        endpoint=endpoint,
        max_output_tokens=options.max_output_tokens,
        stream=not options.no_stream,
    )


def _authority(options: argparse.Namespace, *, plane: ControlPlane) -> Authority | None:
    if not _is_governed(options):
        return None
    needs = ModelNeeds(options.max_output_tokens) if options.runtime == "openai" else None
    return ControlPlaneAuthority(plane=plane, mode=options.mode, model_needs=needs)


def _pinned_keys(path: Path | None) -> dict[str, Ed25519PublicKey] | None:
    if path is None:
        return None
    try:
        return read_keys(durable.read_document(path) or {})
    except (ValueError, durable.Unreadable) as error:
        raise Unusable(f"--trusted-keys: {error}") from error


def _stable_worker_id(data: Path, agent: str) -> str:
    """Return a name that is the same after a restart: claims are replayed under it."""
    path = data / "worker-id"
    if not path.exists():
        name = f"{agent}@{socket.gethostname()[:60]}-{uuid7().hex[-8:]}"
        durable.replace(path, name[-MAX_WORKER_ID_CHARS:].encode())
    return path.read_text()


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
