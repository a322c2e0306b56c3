"""Runs: a function under way, in a thread of its own or as a task of the worker's event loop."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable
from typing import Any

#: Until the event loop has ended what was left on it.
CLOSE_SECONDS = 5.0


class Exited(Exception):
    """A function asked for the end of the process, which is not its to end."""


class Run:
    """A function under way. `over` is set once, when it has ended or is waited for no more."""

    def __init__(self, *, on_over: Callable[[], None]) -> None:
        self._on_over = on_over
        self._lock = threading.Lock()
        self.over = threading.Event()
        self.left = False
        self.value: Any = None
        self.error: BaseException | None = None

    def cancel(self) -> None:
        """Ask it to end; a thread cannot be asked."""
        return None

    def leave(self) -> None:
        """Wait for it no more."""
        self._end(left=True)

    def finish(self, *, value: Any = None, error: BaseException | None = None) -> None:
        """Note what it came to."""
        self._end(value=value, error=error)

    def _end(
        self, *, value: Any = None, error: BaseException | None = None, left: bool = False
    ) -> None:
        with self._lock:
            if self.over.is_set():
                return
            self.value, self.error, self.left = value, error, left
            self.over.set()
        self._on_over()


class ThreadRun(Run):
    """A plain function, in a thread that does not keep the process alive."""

    def __init__(
        self,
        work: Callable[[], Any],
        *,
        context: contextvars.Context,
        on_over: Callable[[], None],
    ) -> None:
        """Begin it at once."""
        super().__init__(on_over=on_over)
        self._work = work
        threading.Thread(
            target=context.run, args=(self._run,), name="function", daemon=True
        ).start()

    def _run(self) -> None:
        try:
            value = self._work()
        except BaseException as error:  # the thread's edge: whatever it is, it is the function's
            self.finish(error=error)
        else:
            self.finish(value=value)


class TaskRun(Run):
    """An async function, as a task of the event loop."""

    def __init__(
        self,
        work: Callable[[], Awaitable[Any]],
        *,
        loop: asyncio.AbstractEventLoop,
        context: contextvars.Context,
        on_over: Callable[[], None],
    ) -> None:
        """Begin it at once."""
        super().__init__(on_over=on_over)
        self._work = work
        self._loop = loop
        self._task: asyncio.Task[Any] | None = None
        loop.call_soon_threadsafe(self._begin, context=context)

    def cancel(self) -> None:
        """Cancel the task."""
        self._loop.call_soon_threadsafe(self._cancel)

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._run())
        self._task.add_done_callback(self._done)

    async def _run(self) -> Any:
        try:
            return await self._work()
        except (KeyboardInterrupt, SystemExit) as error:
            # It would end the loop, and with it the attempts of others.
            raise Exited(f"{type(error).__name__}: {error}") from error

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _done(self, task: asyncio.Task[Any]) -> None:
        if task.cancelled():
            self.finish(error=asyncio.CancelledError())
        elif (error := task.exception()) is not None:
            self.finish(error=error)
        else:
            self.finish(value=task.result())


class LoopThread:
    """One event loop for all async functions of a worker, so that they can share clients."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="functions", daemon=True)

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def close(self) -> None:
        """End what is left on the loop, and the loop."""
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            # A task that blocks the loop keeps it: its thread dies with the process.
            self._thread.join(CLOSE_SECONDS)

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            left = asyncio.all_tasks(self.loop)
            for task in left:
                task.cancel()
            if left:
                # A task that does not end when it is cancelled is left to the process's end.
                self.loop.run_until_complete(asyncio.wait(left, timeout=CLOSE_SECONDS / 2))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        finally:
            self.loop.close()
