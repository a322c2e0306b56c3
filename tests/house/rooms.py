"""Each module in its room, of its size, and naming nothing that stands above it."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from tests.house.checkout import APPS, Checkout, calls, importing, parsed, subject_to

DRAWERS = frozenset(
    {"utils", "util", "helpers", "helper", "misc", "common", "constants", "base", "services"}
)
LINES_MAX = 600
#: The project composes what the apps are made of, and names them.
PROJECT = re.compile(r"governance/(management/.*|settings|urls|apps|checks)\.?(py)?$")
ARROW = re.compile(r"(jobs|agents)(\.\w+)+|(jobs|agents)/.*|admin:(jobs|agents)_\w+")


def no_module_is_a_drawer(checkout: Checkout) -> list[str]:
    """A file has one responsibility that its name says."""
    stems = ((module.path, Path(module.path).stem) for module in checkout.modules())
    packages = {
        (module.path, part) for module in checkout.modules() for part in module.path.split("/")[:-1]
    }
    return sorted({path for path, name in (*stems, *packages) if name in DRAWERS})


def no_file_is_too_long(checkout: Checkout) -> list[str]:
    """A file of more than `LINES_MAX` lines holds two nouns."""
    modules = subject_to("no_file_is_too_long", [*checkout.modules(), *checkout.worker()])
    counted = [(module.path, module.source.count("\n")) for module in modules]
    return [f"{path}: {lines}" for path, lines in counted if lines > LINES_MAX]


@cache
def _arrows(source: str) -> list[str]:
    """Return the text constants that name something of an app, and the look-ups that would."""
    tree = parsed(source)
    looked_up = {
        id(argument)
        for call in calls(tree, "get_model", "get_app_config", "import_string", "import_module")
        for argument in call.args
    }
    return [
        f"{node.lineno}: {node.value}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and (ARROW.fullmatch(node.value) or (id(node) in looked_up and node.value in APPS))
    ]


def no_arrow_upward_by_a_string(checkout: Checkout) -> list[str]:
    """The ground does not name the apps that stand on it, by no kind of name."""
    ground = checkout.modules(lambda parts: parts[0] == "governance")
    return [
        f"{module.path}:{arrow}"
        for module in subject_to("no_arrow_upward_by_a_string", ground)
        if not PROJECT.match(module.path)
        for arrow in _arrows(module.source)
    ]


def the_worker_knows_only_the_api(checkout: Checkout) -> list[str]:
    """The worker runs on another machine: it has neither Django nor our server's packages."""
    theirs = r"(django|governance|jobs|psycopg|rest_framework|agents(?!\.(runtime|worker)\b))(\.|$)"
    return [f"{m.path}: {n}" for m in checkout.worker() for n in importing(m.source, theirs)]


def no_name_is_defined_twice(checkout: Checkout) -> list[str]:
    """The later function or class of a name takes the place of the first, without a word.

    Two branches that are brought together may each have made one. Registered functions, named `_`,
    overloads and the setters of a property are not meant.
    """
    modules = subject_to("no_name_is_defined_twice", [*checkout.modules(), *checkout.worker()])
    return [f"{m.path}:{twice}" for m in modules for twice in _defined_twice(m.source)]


@cache
def _defined_twice(source: str) -> list[str]:
    twice = []
    for scope in ast.walk(parsed(source)):
        if not isinstance(scope, ast.Module | ast.ClassDef):
            continue
        seen: set[str] = set()
        for node in scope.body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            if any(_beside(decorator) for decorator in node.decorator_list) or node.name == "_":
                continue
            if node.name in seen:
                twice.append(f"{node.lineno}: {node.name}")
            seen.add(node.name)
    return twice


def _beside(decorator: ast.expr) -> bool:
    """Return whether what it decorates stands beside another of its name."""
    name = decorator.attr if isinstance(decorator, ast.Attribute) else ast.unparse(decorator)
    return name in {"overload", "setter"}
