"""What is required is used, and what is used is required."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
WORKER = ROOT / "agents" / "worker"
OURS = {"governance", "agents", "jobs", "fencepost_worker"}
#: Django loads applications and middleware by name; the embedded server is a wheel of programs.
NAMING = ("governance/settings.py", "governance/local/placement.py")
#: A module's name, or a class's with its module: `axes`, `csp.middleware.CSPMiddleware`.
BY_NAME = re.compile(r"[a-z_0-9]+(\.\w+)*")


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def required(project: Path) -> set[str]:
    description = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    return {canonical(re.split(r"[^\w.-]", line)[0]) for line in description["dependencies"]}


def sources(project: Path) -> Iterator[ast.Module]:
    """Yield the product's modules, or those of the worker."""
    packages = (
        [WORKER] if project == WORKER else [ROOT / app for app in ("governance", "agents", "jobs")]
    )
    for package in packages:
        for path in sorted(package.rglob("*.py")):
            if project == WORKER or WORKER not in path.parents:
                yield ast.parse(path.read_text())


def imported(project: Path) -> set[str]:
    found = set()
    for tree in sources(project):
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.partition(".")[0])
    return found - sys.stdlib_module_names - OURS


def named() -> set[str]:
    """Return the packages that are loaded, or found, by name."""
    return {
        node.value.partition(".")[0]
        for module in NAMING
        for node in ast.walk(ast.parse((ROOT / module).read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and BY_NAME.fullmatch(node.value)
    }


@pytest.mark.parametrize("project", [ROOT, WORKER], ids=["control plane", "worker"])
def test_what_is_imported_is_required(project: Path) -> None:
    providers = metadata.packages_distributions()
    missing = {
        name
        for name in imported(project)
        if not {canonical(found) for found in providers[name]} & required(project)
    }
    assert missing == set()


@pytest.mark.parametrize("project", [ROOT, WORKER], ids=["control plane", "worker"])
def test_what_is_required_is_used(project: Path) -> None:
    modules = defaultdict(set)
    for module, providers in metadata.packages_distributions().items():
        for provider in providers:
            modules[canonical(provider)].add(module)
    # The gateway's server takes the parser that is there.
    used = imported(project) | (named() if project == ROOT else {"httptools"})
    assert {name for name in required(project) if not modules[name] & used} == set()
