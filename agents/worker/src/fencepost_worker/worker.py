"""The worker as a library: functions of one's own process do the jobs of an agent.

    from fencepost_worker import Defer, Worker

    worker = Worker.from_env()

    @worker.job("summary")
    async def summary(job, ctx):
        ...
        return {"summary": text}

    worker.run(concurrency=4)

It is the same worker that runs programs: claims, leases, journal, permits, the gateway of models,
uploads and reports are its code.
"""

from __future__ import annotations

import logging
import os
import threading
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar, overload

from fencepost_worker import durable, loop
from fencepost_worker.adapters.function import FunctionAdapter
from fencepost_worker.assembly import build
from fencepost_worker.confinement import close_memory
from fencepost_worker.functions.registry import AsyncFunction, Function, Functions
from fencepost_worker.options import OPTIONS, Unusable, merged_options
from fencepost_worker.signals import obeyed_signals

log = logging.getLogger("fencepost_worker")

A = TypeVar("A", bound=AsyncFunction)
F = TypeVar("F", bound=Function)


class Registration(Protocol):
    """What registers the function below it, and returns it as it is."""

    @overload
    def __call__(self, function: A, /) -> A: ...

    @overload
    def __call__(self, function: F, /) -> F: ...


class Worker:
    """Does the jobs of one agent with functions. Nothing is read or reached before `run`."""

    def __init__(
        self,
        *,
        url: str = "",
        agent: str = "",
        data: str | Path = "",
        token: str = "",
        token_file: str | Path = "",
        config: str | Path = "",
        environ: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        """Make a worker.

        :param url: base address of the control plane.
        :param agent: whose jobs they are.
        :param data: folder for the journal, workspaces and artifacts; kept over restarts, and one
            worker's only.
        :param token: the agent's; or `token_file`, read again when the token is rejected.
        :param config: a TOML file with options and the providers of models.
        :param environ: where options are looked for that are not given; default nowhere.
        :param options: further options of `fencepost-worker run` by their names with underscores,
            as `cell_id`, `lease_seconds`, `governed` or `no_uploads`.
        :raises TypeError: one is no option.
        """
        if unknown := sorted(options.keys() - {option.name for option in OPTIONS}):
            raise TypeError(f"not an option of a worker: {', '.join(unknown)}")
        named = {"url": url, "agent": agent, "token": token}
        paths = {"data": data, "token_file": token_file, "config": config}
        given = named | {name: Path(path) for name, path in paths.items() if path}
        self._given = {name: value for name, value in given.items() if value} | options
        self._environ = {} if environ is None else environ
        self._functions = Functions()
        self._lock = threading.Lock()
        self._running: loop.Worker | None = None

    @classmethod
    def from_env(cls) -> Worker:
        """Return a worker of the environment's options: FENCEPOST_URL, FENCEPOST_TOKEN or
        FENCEPOST_TOKEN_FILE, FENCEPOST_AGENT, FENCEPOST_DATA, FENCEPOST_CONFIG.
        """
        return cls(environ=os.environ)

    def job(self, task_type: str) -> Registration:
        """Register the function below for the jobs of a type: `@worker.job("summary")`.

        It gets the `Job` and a `Context`, or an `AsyncContext` where it is `async`, and returns
        the job's result, a JSON object, or None. It raises `Defer`, `Fail` or `Escalate` to end the
        attempt otherwise; any other exception ends it as failed, to be tried again.

        Async functions share one event loop; each plain function has a thread of its own.

        :raises ValueError: the type has a function already, or is no name of a type.
        """

        def register(function: Any, /) -> Any:
            self._functions.add(task_type, function)
            return function

        return register

    def run(
        self, *, concurrency: int | None = None, once: bool = False, max_jobs: int | None = None
    ) -> None:
        """Claim jobs of the registered types and do them, until told to end.

        SIGTERM and SIGINT drain it, where this is the main thread; `drain` does from elsewhere.
        What an earlier process left open is reported first.

        :param concurrency: so many jobs at a time; default what the file says, or one.
        :param once: end when there is no work.
        :param max_jobs: end after so many jobs.
        :raises Unusable: an option is missing or wrong, or nothing is registered.
        :raises NotAuthorized: the control plane refuses this worker for good.
        """
        options = self._options(concurrency=concurrency, once=once, max_jobs=max_jobs)
        try:
            held = durable.FolderLock(options.data.resolve())
        except (durable.FolderBusy, OSError) as error:
            raise Unusable(str(error)) from error
        try:
            running = build(options, functions=self._functions)
            if running.calls_models and not close_memory():
                log.warning("other processes of this account can read this one's memory")
            try:
                self._run(running, drain_seconds=options.drain_seconds)
            finally:
                running.close()
        finally:
            held.release()

    def drain(self) -> None:
        """Take no more jobs; finish those that run, then let `run` return."""
        with self._lock:
            running = self._running
        if running is not None:
            running.drain()

    def abort(self) -> None:
        """Stop what runs and let `run` return soon; what could not be reported is kept."""
        with self._lock:
            running = self._running
        if running is not None:
            running.abort()

    def _run(self, running: loop.Worker, *, drain_seconds: float) -> None:
        with self._lock:
            if self._running is not None:
                raise Unusable("the worker runs already")
            self._running = running
        try:
            with obeyed_signals(running, drain_seconds=drain_seconds):
                running.run()
        finally:
            with self._lock:
                self._running = None

    def _options(self, *, concurrency: int | None, once: bool, max_jobs: int | None) -> Namespace:
        if not self._functions:
            raise Unusable("no function is registered: write @worker.job(TYPE) before one")
        given = dict(self._given)
        if concurrency is not None:
            given["concurrency"] = concurrency
        if max_jobs is not None:
            given["max_jobs"] = max_jobs
        if once:
            given["once"] = True
        options = merged_options(given, environ=self._environ)
        options.runtime = FunctionAdapter.runtime
        options.task_types = ",".join(self._functions)
        return options
