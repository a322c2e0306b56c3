"""The functions of a worker, by the type of job that each does."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, TypeAlias

from fencepost_worker.functions.contexts import AsyncContext, Context
from fencepost_worker.functions.jobs import Job

#: A job's result as a function returns it: a JSON object, or nothing to say.
Outcome: TypeAlias = Mapping[str, Any] | None
Function: TypeAlias = Callable[[Job, Context], Outcome]
AsyncFunction: TypeAlias = Callable[[Job, AsyncContext], Awaitable[Outcome]]


class Functions:
    """The registered functions. All are registered before the worker runs."""

    def __init__(self) -> None:
        self._by_type: dict[str, Function | AsyncFunction] = {}

    def __bool__(self) -> bool:
        return bool(self._by_type)

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_type)

    def add(self, task_type: str, function: Function | AsyncFunction) -> None:
        """Register a function for a type of job.

        :raises ValueError: the type has one already, or is no name of a type.
        """
        if not task_type or "," in task_type:
            raise ValueError(f"{task_type!r} is no type of job")
        if task_type in self._by_type:
            raise ValueError(f"{task_type} has a function already")
        self._by_type[task_type] = function

    def get(self, task_type: str) -> Function | AsyncFunction | None:
        """Return the function for a type of job, if it has one."""
        return self._by_type.get(task_type)

    @property
    def any_async(self) -> bool:
        """Return whether one of them is async."""
        return any(is_async(function) for function in self._by_type.values())


def is_async(function: Any) -> bool:
    """Return whether a call of the function is awaited."""
    call = getattr(function, "__call__", None)  # noqa: B004 - of an object, to be looked at
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
