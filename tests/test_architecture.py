"""The rules of the house that a program can check."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

import agents.transitions
import jobs.executions
import jobs.transitions
from agents import entry
from governance.core import idempotency
from governance.evidence import checkpoints
from governance.relay import relay
from jobs.transitions import facts

ROOT = Path(__file__).resolve().parent.parent
APPS = ("governance", "agents", "jobs")
WORKER = "agents/worker/"
DRAWERS = {"utils", "util", "helpers", "helper", "misc", "common", "constants", "base", "services"}
CORE = re.compile(
    r"(agents|jobs)/(models|queries|entry|guard|principals|backoff)\.py$"
    r"|jobs/(models|executions)/|(agents|jobs)/transitions/|governance/(core|money|evidence|relay(?!/sinks))/"
)


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def modules(*packages: str) -> Iterator[tuple[str, ast.Module]]:
    """Yield path and syntax tree of every module of ours, but migrations."""
    for package in packages:
        place = ROOT / package
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            if "migrations" not in path.parts:
                yield str(path.relative_to(ROOT)), parsed(path)


def server_modules() -> Iterator[tuple[str, ast.Module]]:
    return ((p, tree) for p, tree in modules(*APPS) if not p.startswith(WORKER))


def core_modules() -> Iterator[tuple[str, ast.Module]]:
    """What decides: models, moves, queries, and the ground that they stand on."""
    return ((path, tree) for path, tree in server_modules() if CORE.match(path))


def calls(tree: ast.AST, name: str) -> Iterator[ast.Call]:
    """Yield the calls of a function or method of that name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func
            if (isinstance(called, ast.Attribute) and called.attr == name) or (
                isinstance(called, ast.Name) and called.id == name
            ):
                yield node


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def moves() -> Iterator[tuple[str, Callable[..., object]]]:
    for package in (jobs.transitions, jobs.executions, agents.transitions):
        for path in sorted(Path(package.__path__[0]).glob("*.py")):
            module = __import__(f"{package.__name__}.{path.stem}", fromlist=["*"])
            for name, found in vars(module).items():
                if (
                    inspect.isfunction(found)
                    and found.__module__ == module.__name__
                    and hasattr(found, "__wrapped__")
                    and not name.startswith("_")
                ):
                    yield f"{module.__name__}.{name}", found


@pytest.mark.parametrize(("name", "move"), list(moves()))
def test_a_move_takes_keywords_and_names_them(name: str, move: Callable[..., object]) -> None:
    kinds = {p.kind for p in inspect.signature(move).parameters.values()}
    assert kinds <= {inspect.Parameter.KEYWORD_ONLY}


def test_the_state_of_a_job_is_written_in_one_place() -> None:
    writers = []
    for path, tree in modules("jobs"):
        for node in ast.walk(tree):
            targets = node.targets if isinstance(node, ast.Assign) else []
            if isinstance(node, ast.AugAssign | ast.AnnAssign):
                targets = [node.target]
            flat = [e for t in targets for e in (t.elts if isinstance(t, ast.Tuple) else [t])]
            writers += [
                f"{path}:{node.lineno}"
                for target in flat
                if isinstance(target, ast.Attribute)
                and target.attr == "state"
                and ast.unparse(target.value) in {"self", "job", "locked.job"}
            ]
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                sql = re.search(r"UPDATE jobs_job\b[^;]*?SET[^;]*?\bstate =", node.value)
                writers += [f"{path}:{node.lineno}"] if sql else []
        for call in calls(tree, "update"):
            if any(keyword.arg == "state" for keyword in call.keywords):
                assert "Job.objects" not in ast.unparse(call.func), f"{path}:{call.lineno}"
    assert [path.split(":")[0] for path in writers] == ["jobs/models/jobs.py"], writers


def test_every_admin_action_needs_a_permission() -> None:
    without = [
        f"{path}:{node.lineno}"
        for path, tree in modules(*APPS)
        for node in ast.walk(tree)
        for decorator in getattr(node, "decorator_list", [])
        if ast.unparse(decorator).startswith("admin.action")
        and not any(keyword.arg == "permissions" for keyword in getattr(decorator, "keywords", []))
    ]
    assert without == []


def test_the_core_reads_no_clock_but_the_database() -> None:
    found = [
        f"{path}:{call.lineno}"
        for path, tree in core_modules()
        for name in ("now", "utcnow", "today", "time")
        for call in calls(tree, name)
        if ast.unparse(call.func)
        in {"timezone.now", "datetime.now", "datetime.utcnow", "date.today", "time.time"}
    ]
    assert found == []


def test_the_core_knows_no_door() -> None:
    doors = r"(rest_framework|django\.contrib\.admin|django\.http|django\.shortcuts)(\.|$)"
    found = [
        f"{path}: {name}"
        for path, tree in core_modules()
        for name in imported(tree)
        if re.match(doors, name)
    ]
    assert found == []


def test_the_worker_knows_only_the_api() -> None:
    foreign = {"django", "rest_framework", "psycopg", "governance", "agents", "jobs"}
    sources = list(modules(WORKER))
    assert sources
    assert [
        f"{path}: {name}"
        for path, tree in sources
        for name in imported(tree)
        if name.split(".")[0] in foreign
    ] == []


def test_no_module_is_a_drawer() -> None:
    found = [path for path, _ in modules(*APPS) if Path(path).stem in DRAWERS]
    assert found == []


def test_every_row_lock_says_whether_it_blocks_children() -> None:
    found = [
        f"{path}:{call.lineno}"
        for path, tree in server_modules()
        for call in calls(tree, "select_for_update")
        if not any(keyword.arg == "no_key" for keyword in call.keywords)
    ]
    assert found == []


def test_no_signal_carries_logic() -> None:
    found = [
        f"{path}: {name}"
        for path, tree in core_modules()
        for name in imported(tree)
        if name.startswith(("django.dispatch", "django.db.models.signals"))
    ]
    assert found == []


def test_a_hint_after_commit_cannot_fail_a_committed_write() -> None:
    found = [
        f"{path}:{call.lineno}"
        for path, tree in server_modules()
        for call in calls(tree, "on_commit")
        if not any(keyword.arg == "robust" for keyword in call.keywords)
    ]
    assert found == []


def test_an_audit_action_is_a_noun_and_what_happened_to_it() -> None:
    found = [
        f"{path}:{keyword.value.lineno}: {keyword.value.value}"
        for path, tree in core_modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and not ast.unparse(node.func).endswith("add_argument")
        for keyword in node.keywords
        if keyword.arg == "action"
        and isinstance(keyword.value, ast.Constant)
        and isinstance(keyword.value.value, str)
        and not re.fullmatch(r"[a-z]+(_[a-z]+)*\.[a-z]+(_[a-z]+)*", keyword.value.value)
    ]
    assert found == []


def test_each_kind_of_advisory_lock_has_a_class_of_its_own() -> None:
    classes = [
        entry.AGENT_LOCK,
        idempotency.LOCK_CLASS,
        checkpoints.LOCK_CLASS,
        relay.LOCK_CLASS,
        facts.LOCK_CLASS,
    ]
    assert len(set(classes)) == len(classes)


def test_the_core_does_not_sleep() -> None:
    found = {path for path, tree in core_modules() for _ in calls(tree, "sleep")}
    # A contended transaction is tried again after a moment.
    assert found == {"governance/core/idempotency.py"}
