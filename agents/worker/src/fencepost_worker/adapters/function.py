"""Runs a function of this process: the `function` runtime, whose face is `fencepost_worker.Worker`.

Leases, journal, permits, model calls and uploads are those of every runtime. What a program writes
to files, a function tells its context; what a program says by its exit, a function raises.
"""

from __future__ import annotations

import contextvars
import logging
import os
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from fencepost_worker import rules
from fencepost_worker.adapters import RuntimeAdapter, result_of
from fencepost_worker.adapters.command import program_environment
from fencepost_worker.asking import DEFERRED_BY_WORK, unserved
from fencepost_worker.claim import Job as ClaimedJob
from fencepost_worker.client import DEFER, NoRoom, Problem
from fencepost_worker.confinement import Confinement, loopback_direct
from fencepost_worker.exchange import TOLD_APART, Exchange, Request, Result, ResultRefused
from fencepost_worker.executor import ExternalAgentExecutor, Grant, OutcomeUnknown
from fencepost_worker.functions import variables
from fencepost_worker.functions.contexts import AsyncContext, Content, Context, Place
from fencepost_worker.functions.jobs import Job, Skills
from fencepost_worker.functions.outcomes import Defer, Escalate, Fail
from fencepost_worker.functions.recorded import Recorded
from fencepost_worker.functions.registry import Functions, is_async
from fencepost_worker.functions.runs import LoopThread, Run, TaskRun, ThreadRun
from fencepost_worker.lease import Ended, Lease
from fencepost_worker.model_access import ModelAccess
from fencepost_worker.uploads import Undelivered, Uploads
from fencepost_worker.workspace import ArtifactRefused, Workspaces

log = logging.getLogger("fencepost_worker")

#: From the word that an attempt is over to the complaint that its function goes on; and, when the
#: worker is told to end, to the end without it.
STOP_GRACE_SECONDS = 5.0
RAISED = "FUNCTION_RAISED"
NO_PROVIDERS = "models cannot be called: this worker has no [providers.NAME] in its --config file"
NO_MODEL_USE = "models cannot be called: the job's type has model_use none"
NO_FUNCTION = "this worker has no function for the type"
#: In the place of a key, for who asks outside of an attempt.
NO_KEY = "outside-of-an-attempt"


class FunctionAdapter(RuntimeAdapter):
    """The `function` runtime."""

    runtime = "function"

    def __init__(
        self,
        *,
        executor: ExternalAgentExecutor,
        workspaces: Workspaces,
        functions: Functions,
        skills: Skills,
        uploads: Uploads | None = None,
        confinement: Confinement | None = None,
        models: ModelAccess | None = None,
        stop_grace_s: float = STOP_GRACE_SECONDS,
    ) -> None:
        """Make an adapter.

        :param uploads: takes artifacts to the store while a function runs; without it they stay.
        :param confinement: what child processes of functions are given; default the list alone.
        """
        super().__init__(executor=executor, models=models)
        self._workspaces = workspaces
        self._functions = functions
        self._skills = skills
        self._uploads = uploads
        self._confinement = confinement or Confinement()
        self._stop_grace_s = stop_grace_s
        self._jobs: dict[tuple[str, int], ClaimedJob] = {}
        self._recorded: dict[tuple[str, int], Recorded] = {}
        self._runs: set[Run] = set()
        self._lock = threading.Lock()
        self._loop: LoopThread | None = None
        self._at_close = ExitStack()

    def start(self) -> None:
        """Begin to serve the functions; see `RuntimeAdapter.start`."""
        super().start()
        if self._functions.any_async:
            self._loop = LoopThread()
            self._loop.start()
            self._at_close.callback(self._loop.close)
        if self._models is not None:
            self._at_close.enter_context(variables.closed_by_default(self._outside(self._models)))

    def close(self) -> None:
        """End what `start` began."""
        self._at_close.close()
        super().close()

    def abort(self) -> None:
        """End it soon: a function that does not end is left behind."""
        super().abort()
        leaving = threading.Timer(self._stop_grace_s, self._leave_all)
        leaving.daemon = True
        leaving.start()

    def execute(self, job: ClaimedJob, *, attempt: int, lease: Lease) -> Result:
        """Return the result of this attempt; see `RuntimeAdapter.execute`.

        :raises NoRoom: no function is registered for the type of the job.
        """
        if self._functions.get(job.task["task_type"]) is None:
            raise NoRoom(unserved(NO_FUNCTION))
        key = (job.claim.task_id, attempt)
        self._jobs[key] = job
        try:
            return super().execute(job, attempt=attempt, lease=lease)
        finally:
            del self._jobs[key]

    def invoke(self, request: Request, *, lease: Lease, grant: Grant) -> Result:
        """Call the function once; see `RuntimeAdapter.invoke`."""
        key = (request.task_id, request.attempt)
        job = self._jobs[key]
        recorded = Recorded(external_request_id=request.external_request_id)
        self._recorded[key] = recorded
        run = self._begin(
            Job.of(request, job.claim, skills=self._skills.of(job.task["task_type"])),
            self._place(job, request, recorded, lease=lease, grant=grant),
        )
        with self._lock:
            self._runs.add(run)
        try:
            self._await(run, request, lease=lease)
        finally:
            with self._lock:
                self._runs.discard(run)
        exchange = self.exchange(job, attempt=request.attempt)
        return self._result(run, exchange, recorded, lease=lease)

    def progress(self, *, task_id: str, attempt: int) -> dict[str, Any] | None:
        """Return what the function last told."""
        recorded = self._recorded.get((task_id, attempt))
        return None if recorded is None else recorded.progress

    def kept_artifact(self, sha256: str) -> Path | None:
        """Return where the artifact of this checksum is kept."""
        return self._workspaces.path_of(sha256)

    def discard(self, *, task_id: str, attempt: int) -> None:
        """Remove the attempt's workspace."""
        self._recorded.pop((task_id, attempt), None)
        self._workspaces.discard(task_id=task_id, attempt=attempt)

    # The run --------------------------------------------------------------------------------

    def _place(
        self, job: ClaimedJob, request: Request, recorded: Recorded, *, lease: Lease, grant: Grant
    ) -> Place:
        workspace = self._workspaces.open(task_id=request.task_id, attempt=request.attempt)
        no_models = ""
        if not grant.environment:
            no_models = NO_PROVIDERS if self._models is None else NO_MODEL_USE
        return Place(
            lease=lease,
            recorded=recorded,
            workspace=workspace.folder,
            environment=program_environment(self._confinement, request, workspace, grant),
            models=grant.environment,
            no_models=no_models,
            keep=self._keep,
            store=self._store(job, request, lease),
        )

    def _keep(self, name: str, content: Content, media_type: str) -> dict[str, Any]:
        source = content if isinstance(content, bytes) else Path(content)
        return self._workspaces.keep_content(name, source, media_type)

    def _store(
        self, job: ClaimedJob, request: Request, lease: Lease
    ) -> Callable[[int, dict[str, Any]], dict[str, Any]] | None:
        uploads = self._uploads
        if uploads is None:
            return None
        exchange = self.exchange(job, attempt=request.attempt)

        def store(number: int, described: dict[str, Any]) -> dict[str, Any]:
            return uploads.store(
                job.claim,
                described,
                number=number,
                path=self._workspaces.path_of(described["sha256"]),
                exchange=exchange,
                lease=lease,
            )

        return store

    def _begin(self, job: Job, place: Place) -> Run:
        function: Any = self._functions.get(job.task_type)
        context = contextvars.copy_context()
        context.run(variables.assume, place.models and _seen(place))
        on_over = place.lease.poke
        if not is_async(function):
            return ThreadRun(
                partial(function, job, Context(place)), context=context, on_over=on_over
            )
        assert self._loop is not None, "it was started with an async function"
        return TaskRun(
            partial(function, job, AsyncContext(place)),
            loop=self._loop.loop,
            context=context,
            on_over=on_over,
        )

    def _await(self, run: Run, request: Request, *, lease: Lease) -> None:
        """Wait until the function has ended; told that the attempt is over, it should end soon."""
        lease.wait(run.over.is_set)
        if run.over.is_set():
            return
        run.cancel()
        if not run.over.wait(self._stop_grace_s):
            log.warning(
                "%s attempt %s is over, and its function goes on: nothing but its own"
                " ctx.check() can end it",
                request.task_id,
                request.attempt,
            )
            run.over.wait()

    def _leave_all(self) -> None:
        with self._lock:
            runs = list(self._runs)
        for run in runs:
            run.leave()

    def _outside(self, models: ModelAccess) -> Mapping[str, str]:
        """Return the variables by which nobody calls models outside of an attempt."""
        return models.variables(NO_KEY) | loopback_direct(os.environ)

    # The result -----------------------------------------------------------------------------

    def _result(self, run: Run, exchange: Exchange, recorded: Recorded, *, lease: Lease) -> Result:
        """Return what the function came to.

        :raises OutcomeUnknown: it was stopped, or nobody wants to hear of it.
        """
        ended = lease.ended
        unheard = ended in (Ended.STOPPED, Ended.LOST)
        if run.left or unheard or (ended is not None and run.error is not None):
            raise OutcomeUnknown(f"the function was stopped: {ended.value if ended else 'left'}")
        try:
            if run.error is not None:
                return _of_error(run.error, exchange, recorded)
            return self._of_value(run.value, exchange.request, recorded)
        except ResultRefused as error:
            return Result.failed(
                exchange.request, code=error.code, message=str(error), retryable=False
            )

    def _of_value(self, value: Any, request: Request, recorded: Recorded) -> Result:
        """Return the result of a function that returned.

        :raises ResultRefused: what it returned is no JSON object; says where.
        """
        result = {} if value is None else value
        if not isinstance(result, Mapping):
            raise ResultRefused(f"the function returned a {type(value).__name__} and no dict")
        result = dict(result)
        if (fault := rules.fault_of(result)) is not None:
            raise ResultRefused(f"the function's result: {fault}")
        document = request.binding | {"outcome": "succeeded", "result": result}
        return result_of(request, document | recorded.members, self._workspaces)


def _seen(place: Place) -> dict[str, str]:
    """Return the variables of an attempt that its function sees before those of the process."""
    return {**place.models} | loopback_direct(os.environ)


def _of_error(error: BaseException, exchange: Exchange, recorded: Recorded) -> Result:
    """Return the result of a function that raised, while its attempt lasted."""
    request = exchange.request
    members = recorded.members
    beside = {name: members[name] for name in TOLD_APART if name in members}
    if isinstance(error, Escalate):
        escalation = {"reason": error.question or "a person is asked"}
        if error.notify_to:
            escalation["notify_to"] = error.notify_to
        document = request.binding | {"outcome": "succeeded", "escalate": escalation}
        return Result.of(request, document | members)
    if isinstance(error, Defer):
        # Durable before the result is, as all that an attempt is deferred for.
        exchange.note_no_room(_put_off(error))
        code, message, retryable = DEFERRED_BY_WORK, error.reason, True
    elif isinstance(error, Fail):
        code, message, retryable = error.code, error.message, error.retryable
    elif isinstance(error, ArtifactRefused):
        code, message, retryable = "ARTIFACT_REFUSED", str(error), False
    elif isinstance(error, Undelivered):
        code, message, retryable = "UPLOAD_FAILED", str(error), error.retryable
    else:
        code, message, retryable = RAISED, _trace(error), True
    return Result.failed(request, code=code, message=message, retryable=retryable, **beside)


def _put_off(error: Defer) -> Problem:
    return Problem(
        status=0,
        code="UNAVAILABLE",
        reason=DEFERRED_BY_WORK,
        detail=error.reason,
        rule=DEFER,
        effect="none",
        after_seconds=float(error.retry_after),
    )


def _trace(error: BaseException) -> str:
    """Return the traceback without the frames of the worker's own."""
    own = str(Path(__file__).parent.parent)
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not frame.filename.startswith(own)]
    lines = traceback.format_list(theirs) + traceback.format_exception_only(error)
    return "".join(lines).strip()
