"""Which names a budget or a policy may have: what the apps above know of agents and job types."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from governance.core.errors import FieldFault

_known: dict[str, Callable[[str], bool]] = {}


def know(scope: str, exists: Callable[[str], bool]) -> None:
    """Let the names of a scope be checked: `exists` tells whether there is one of that name."""
    _known[scope] = exists


def unknown(scope: str, name: str, *, field: str) -> Iterator[FieldFault]:
    """Yield what is wrong with a name, under the name of its field: nobody bears it.

    A scope whose names nobody knows takes any: a job may have its budget before it comes.
    """
    exists = _known.get(scope)
    if exists is not None and not exists(name):
        yield FieldFault(f"/{field}", f"There is no {scope.replace('_', ' ')} {name}.")
