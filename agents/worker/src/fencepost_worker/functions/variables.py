"""The variables of an attempt, seen in `os.environ` by the code of its function and by no other.

The SDKs of providers read address and key from the environment, which is the process's; attempts
that run beside each other have a key each. So a look-up is answered by the context that it is made
in: that of a function's own thread or task, and of the tasks that it starts. A thread that a
function starts by itself, and a child process without an environment of its own, see what the
process has, which lets nobody through.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

NONE: Mapping[str, str] = MappingProxyType({})

_of_attempt: ContextVar[Mapping[str, str]] = ContextVar("fencepost_variables", default=NONE)


class AttemptEnviron(os._Environ[str]):
    """The process's environment, with the variables of the context before its own."""

    def __getitem__(self, name: str) -> str:
        """Return a variable: the attempt's, or else the process's."""
        value = _of_attempt.get().get(name)
        return super().__getitem__(name) if value is None else value


def assume(variables: Mapping[str, str]) -> None:
    """Let the current context have these variables, from now on."""
    _of_attempt.set(variables)


@contextmanager
def closed_by_default(variables: Mapping[str, str]) -> Iterator[None]:
    """Let attempts have variables of their own, and all other code of the process these.

    What the process had before comes back at the end.
    """
    # The object stays the same: others hold it by other names.
    os.environ.__class__ = AttemptEnviron
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
