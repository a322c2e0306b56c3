"""Runs a program: request JSON on its standard input, result JSON from its standard output.

The program works in a folder of its own, `$FENCEPOST_WORKSPACE`, leaves files that it lists in its
result in `$FENCEPOST_ARTIFACTS`, and may write `$FENCEPOST_PROGRESS`, a small JSON object that the
heartbeats carry.
"""

import logging
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from fencepost_worker import durable, processes, rules
from fencepost_worker.adapters import RuntimeAdapter
from fencepost_worker.confinement import Confinement, loopback_direct
from fencepost_worker.exchange import (
    MAX_ANSWER_BYTES,
    Request,
    Result,
    ResultRefused,
    ResultTooLarge,
)
from fencepost_worker.executor import ExternalAgentExecutor, Grant, OutcomeUnknown
from fencepost_worker.lease import Ended, Lease
from fencepost_worker.model_access import ModelAccess
from fencepost_worker.workspace import ArtifactRefused, Workspace, Workspaces

log = logging.getLogger("fencepost_worker")

LAUNCHER = Path(__file__).with_name("launcher.py")
STDERR_TAIL_BYTES = 4000
MAX_PROGRESS_BYTES = 16 * 1024
READ_BYTES = 64 * 1024
#: From the polite signal to the other one. Without authority there is no grace.
STOP_GRACE_SECONDS = 5.0
READER_GRACE_SECONDS = 2.0


class ProgramMissing(Exception):
    """The program of the command runtime cannot be run."""


def resolved_program(argv: Sequence[str]) -> list[str]:
    """Return the command with absolute paths, since it will run in another folder.

    :raises ProgramMissing: there is no such program.
    """
    if not argv:
        raise ProgramMissing("the command runtime needs a program after --")
    program = shutil.which(argv[0])
    if program is None:
        raise ProgramMissing(f"{argv[0]} is not a program")
    # The name itself is kept and no link followed: a virtual environment's python is a link.
    return [os.path.abspath(program)] + [
        os.path.abspath(word) if os.path.exists(word) else word for word in argv[1:]
    ]


class CommandAdapter(RuntimeAdapter):
    """The `command` runtime."""

    runtime = "command"

    def __init__(
        self,
        *,
        executor: ExternalAgentExecutor,
        workspaces: Workspaces,
        program: Sequence[str],
        confinement: Confinement | None = None,
        models: ModelAccess | None = None,
        stop_grace_s: float = STOP_GRACE_SECONDS,
    ) -> None:
        """Make an adapter.

        :param confinement: what the program is given of this process; default the list alone.
        :raises ProgramMissing: there is no such program.
        """
        super().__init__(executor=executor, models=models)
        self._workspaces = workspaces
        self._program = resolved_program(program)
        self._confinement = confinement or Confinement()
        self._stop_grace_s = stop_grace_s
        self._programs: dict[tuple[str, int], Program] = {}

    def invoke(self, request: Request, *, lease: Lease, grant: Grant) -> Result:
        """Run the program once; see `RuntimeAdapter.invoke`."""
        workspace = self._workspaces.open(task_id=request.task_id, attempt=request.attempt)
        program = Program(
            self._program,
            request=request,
            workspace=workspace,
            environment=program_environment(self._confinement, request, workspace, grant),
            account=self._confinement.launched_as,
        )
        self._programs[request.task_id, request.attempt] = program
        code = program.wait(lease, stop_grace_s=self._stop_grace_s)
        if code is None:
            ended = lease.ended
            raise OutcomeUnknown(f"the program was stopped: {ended.value if ended else 'unknown'}")
        return self._result(request, workspace, program, code)

    def progress(self, *, task_id: str, attempt: int) -> dict[str, Any] | None:
        """Return what the program last wrote to its progress file.

        :raises NotStrict: it is no JSON object, or too large.
        """
        workspace = self._workspaces.of(task_id=task_id, attempt=attempt)
        try:
            content = workspace.read(workspace.progress.name, max_bytes=MAX_PROGRESS_BYTES + 1)
        except ArtifactRefused:
            return None
        if len(content) > MAX_PROGRESS_BYTES:
            raise rules.NotStrict(rules.Fault("", f"more than {MAX_PROGRESS_BYTES} bytes"))
        # Between being emptied and written again there is nothing in it.
        document = rules.read(content) if content else None
        if document is not None and not isinstance(document, dict):
            raise rules.NotStrict(rules.Fault("", "not a JSON object"))
        return document

    def tell(self, *, task_id: str, attempt: int, line: str) -> None:
        """Say the line after what the program wrote to standard error, and in its log file."""
        if (program := self._programs.get((task_id, attempt))) is not None:
            program.say(line)
        self._workspaces.of(task_id=task_id, attempt=attempt).note(line)

    def kept_artifact(self, sha256: str) -> Path | None:
        """Return where the artifact of this checksum is kept."""
        return self._workspaces.path_of(sha256)

    def recover(self, *, task_id: str, attempt: int) -> None:
        """Kill the program that a lost worker process left behind, with its whole group."""
        record = self._workspaces.of(task_id=task_id, attempt=attempt).process
        left = durable.read_document(record)
        if left is not None and processes.started_ticks(left["pid"]) == left["started"] is not None:
            log.warning("killing a program that outlived its worker: pid %s", left["pid"])
            processes.kill(left["pid"])

    def discard(self, *, task_id: str, attempt: int) -> None:
        """Remove the attempt's workspace."""
        self._programs.pop((task_id, attempt), None)
        self._workspaces.discard(task_id=task_id, attempt=attempt)

    def _result(
        self, request: Request, workspace: Workspace, program: "Program", code: int
    ) -> Result:
        if program.overflowed:
            return Result.failed(
                request,
                code="OUTPUT_TOO_LARGE",
                message=f"the program wrote more than {MAX_ANSWER_BYTES} bytes",
                retryable=False,
            )
        try:
            result = self._read(request, workspace, program.output)
            if code != 0 and result.outcome == "succeeded":
                raise ResultRefused("the program failed and says that it succeeded")
            kept = self._workspaces.keep(workspace, result.document["artifacts"])
            return Result.of(request, result.document | {"artifacts": kept})
        except ArtifactRefused as error:
            return Result.failed(
                request, code="ARTIFACT_REFUSED", message=str(error), retryable=False
            )
        except ResultRefused as error:
            if code == 0:
                return Result.failed(request, code=error.code, message=str(error), retryable=False)
        message = program.errors or f"the program ended with {code} and said nothing"
        return Result.failed(request, code=_exit_name(code), message=message, retryable=True)

    def _read(self, request: Request, workspace: Workspace, output: bytes) -> Result:
        """Return the result that the program wrote; too large for a request, it is an artifact."""
        try:
            document = rules.read(output)
        except rules.NotStrict as error:
            fault = error.fault.detail
            raise ResultRefused(f"standard output is not one JSON document: {fault}") from error
        try:
            return Result.of(request, document)
        except ResultTooLarge as error:
            name = workspace.leave("result.json", rules.encoded(error.document["result"]))
            document = error.told_by(name)
            document["artifacts"] = [
                *document["artifacts"],
                {"name": name, "media_type": "application/json"},
            ]
            return Result.of(request, document)


class Program:
    """A running program with its process group."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        request: Request,
        workspace: Workspace,
        environment: dict[str, str],
        account: str,
    ) -> None:
        """Start it, and write down what was started before anything else.

        :param account: as whom it runs, as the launcher takes it.
        """
        command = [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid()), account, *argv]
        self._process = subprocess.Popen(
            command,
            cwd=workspace.folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **processes.own_group(),
        )
        self.output = b""
        self.overflowed = False
        self._error_tail = b""
        self._error_lock = threading.Lock()
        self._suspended = False
        self._exited = threading.Event()
        self._wake: Callable[[], None] = lambda: None
        pid = self._process.pid
        process = {"pid": pid, "started": processes.started_ticks(pid)}
        durable.replace(workspace.process, durable.encode(process))
        streams = self._process
        assert streams.stdin and streams.stdout and streams.stderr
        self._threads = [
            _thread(self._feed, streams.stdin, durable.encode(request.document)),
            _thread(self._read_output, streams.stdout),
            _thread(self._read_errors, streams.stderr),
            _thread(self._await_exit),
        ]

    @property
    def errors(self) -> str:
        """Return the end of what it wrote to standard error."""
        return self._error_tail.decode(errors="replace").strip()

    def say(self, line: str) -> None:
        """Add a line of the worker's own to what the program wrote to standard error."""
        self._keep_error(f"\nfencepost: {line}\n".encode(errors="replace"))

    def wait(self, lease: Lease, *, stop_grace_s: float) -> int | None:
        """Wait for the program under the lease, pausing it as told.

        :returns: its exit code, negative for a signal; None when it was stopped because the lease
            ended.
        """
        self._wake = lease.poke
        while not self._over():
            lease.wait(lambda: self._over() or lease.paused != self._suspended)
            if self._over():
                break
            if lease.ended is not None:
                self._stop(grace_s=stop_grace_s if lease.ended is not Ended.EXPIRED else 0.0)
                self._reap()
                return None
            self._suspended = lease.paused
            change = processes.suspend if self._suspended else processes.resume
            change(self._process.pid)
        return self._reap()

    def _over(self) -> bool:
        return self._exited.is_set() or self.overflowed

    def _stop(self, *, grace_s: float) -> None:
        if grace_s > 0:
            processes.ask_to_end(self._process.pid)
            self._exited.wait(grace_s)

    def _reap(self) -> int:
        # The group's id stays taken until the program is reaped, so this hits nobody else.
        processes.kill(self._process.pid)
        self._exited.wait()
        code = self._process.wait()
        for thread in self._threads:
            thread.join(READER_GRACE_SECONDS)
        return code

    def _await_exit(self) -> None:
        processes.await_exit(self._process)
        self._exited.set()
        self._wake()

    def _feed(self, stream: IO[bytes], content: bytes) -> None:
        # A program that does not read its input is free not to.
        try:
            with stream:
                stream.write(content)
        except BrokenPipeError:
            log.debug("the program did not read its request")

    def _read_output(self, stream: IO[bytes]) -> None:
        with stream:
            while chunk := os.read(stream.fileno(), READ_BYTES):
                self.output += chunk
                if len(self.output) > MAX_ANSWER_BYTES:
                    self.overflowed = True
                    self._wake()
                    return

    def _read_errors(self, stream: IO[bytes]) -> None:
        with stream:
            while chunk := os.read(stream.fileno(), READ_BYTES):
                self._keep_error(chunk)

    def _keep_error(self, content: bytes) -> None:
        with self._error_lock:
            self._error_tail = (self._error_tail + content)[-STDERR_TAIL_BYTES:]


def _thread(target: Callable[..., None], *args: Any) -> threading.Thread:
    thread = threading.Thread(target=target, args=args, daemon=True)
    thread.start()
    return thread


def program_environment(
    confinement: Confinement, request: Request, workspace: Workspace, grant: Grant
) -> dict[str, str]:
    """Return a program's variables: those it inherits, the promised ones, and its models'."""
    inherited = confinement.environment()
    if grant.environment:
        inherited |= {**grant.environment} | loopback_direct(inherited)
    return inherited | {
        "FENCEPOST_TASK_ID": request.task_id,
        "FENCEPOST_ATTEMPT": str(request.attempt),
        "FENCEPOST_EXTERNAL_REQUEST_ID": request.external_request_id,
        "FENCEPOST_WORKSPACE": str(workspace.folder),
        "FENCEPOST_ARTIFACTS": str(workspace.artifacts),
        "FENCEPOST_PROGRESS": str(workspace.progress),
    }


def _exit_name(code: int) -> str:
    return f"PROGRAM_EXIT_{code}" if code >= 0 else f"PROGRAM_SIGNAL_{-code}"
