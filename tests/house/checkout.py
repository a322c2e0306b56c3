"""The product's sources as the rules of the house look at them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("governance", "agents", "jobs")
APPS = ("agents", "jobs")
#: The ground that decides and keeps. Its other rooms are faces, or the appliance of one machine.
GROUND = ("core", "money", "evidence", "relay")
#: What an app's packages and modules are when they decide nothing: they translate, or make what an
#: installation needs. Everything else in an app is core, also what is added tomorrow.
FACES = frozenset({"apps", "bootstrap", "console", "management", "operations", "web"})
#: Where moves are made.
MOVING = ("transitions", "executions")
#: Not the server's: the worker's own distribution, and Django's records of past schemas.
ELSEWHERE = frozenset({"runtime", "worker", "migrations"})

#: Rule -> path -> why that module may break it. One that need not any more is a fault by itself.
EXCEPTIONS: dict[str, dict[str, str]] = {
    "no_sleep_in_the_core": {
        "governance/core/idempotency.py": "a contended transaction is tried again after a moment",
    },
    "no_clock_but_the_databases": {
        "governance/relay/sinks/webhook.py": "a receiver judges the age of a try by its own clock",
    },
}


class NothingToCheck(AssertionError):
    """A rule has found nothing that it could look at."""


class Module(NamedTuple):
    """A module of the checkout: its path below the root, with slashes, and its text."""

    path: str
    source: str

    @property
    def tree(self) -> ast.Module:
        return parsed(self.source)

    @property
    def name(self) -> str:
        """Return the dotted name."""
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


class Checkout:
    """The product's sources below a root."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root
        self._modules = [
            Module(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))
            for package in PACKAGES
            for path in sorted((root / package).rglob("*.py"))
        ]

    def modules(self, wanted: Callable[[list[str]], bool] = lambda parts: True) -> list[Module]:
        """Return the server's modules whose path, split at the slashes, is wanted.

        :raises NothingToCheck: there are none.
        """
        found = [
            module
            for module in self._modules
            if not ELSEWHERE & set(parts := module.path.split("/")) and wanted(parts)
        ]
        if not found:
            raise NothingToCheck
        return found

    def core(self) -> list[Module]:
        """Return what decides: the rooms of the ground, and of the apps all but their faces."""
        return self.modules(_is_core)

    def moving(self) -> list[Module]:
        """Return the modules of transitions and executions."""
        return self.modules(lambda parts: parts[0] in APPS and _stem(parts[1]) in MOVING)

    def worker(self) -> list[Module]:
        """Return the modules of the worker's distribution."""
        found = [m for m in self._modules if {"runtime", "worker"} & set(m.path.split("/"))]
        if not found:
            raise NothingToCheck
        return found

    def text(self, path: str) -> str:
        """Return the text of a file that is no module.

        :raises NothingToCheck: there is none.
        """
        if not (self.root / path).is_file():
            raise NothingToCheck(path)
        return (self.root / path).read_text(encoding="utf-8")

    def reread(self, path: str) -> None:
        """Take up what has been written to one module since."""
        source = self.text(path)
        self._modules = [m._replace(source=source) if m.path == path else m for m in self._modules]


Rule = Callable[[Checkout], list[str]]


def _is_core(parts: list[str]) -> bool:
    if parts[0] == "governance":
        return parts[1] in GROUND
    return _stem(parts[1]) not in FACES and parts[1] != "__init__.py"


def _stem(part: str) -> str:
    return part.removesuffix(".py")


# More than there are modules: one too few, and a walk over all of them finds none again.
@lru_cache(maxsize=1200)
def parsed(source: str) -> ast.Module:
    return ast.parse(source)


def subject_to(rule: str, modules: Iterable[Module]) -> list[Module]:
    """Return the modules that the rule is held against."""
    free = EXCEPTIONS.get(rule, {}).keys()
    return [module for module in modules if module.path not in free]


def calls(tree: ast.AST, *names: str) -> Iterator[ast.Call]:
    """Yield the calls of functions or methods of these names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func
            if (isinstance(called, ast.Attribute) and called.attr in names) or (
                isinstance(called, ast.Name) and called.id in names
            ):
                yield node


def imported(tree: ast.AST) -> Iterator[str]:
    """Yield the dotted names of what is imported, modules and members alike."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def importing(source: str, pattern: str) -> list[str]:
    return sorted({name for name in imported(parsed(source)) if re.match(pattern, name)})


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@cache
def made_in(source: str) -> frozenset[str]:
    """Return the names of all that a module may make or raise: uses of a name but in `except`."""
    tree = parsed(source)
    caught = {
        id(inner)
        for node in ast.walk(tree)
        for outer in ([node.type] if isinstance(node, ast.ExceptHandler) and node.type else [])
        + (node.args[1:] if isinstance(node, ast.Call) and _is_isinstance(node) else [])
        for inner in ast.walk(outer)
    }
    names = set()
    for node in ast.walk(tree):
        if id(node) not in caught:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                names.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                names.add(node.attr)
    return frozenset(names)


def _is_isinstance(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id in {"isinstance", "issubclass"}
