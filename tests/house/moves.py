"""Moves take keywords and lock in the open, and one of them writes a job's state."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

from tests.house.checkout import FACES, Checkout, Module, NothingToCheck, calls, made_in, parsed


@cache
def _reexported(source: str) -> frozenset[str]:
    return frozenset(
        alias.name
        for node in ast.walk(parsed(source))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    )


@cache
def _opens_a_transaction(source: str, name: str) -> bool:
    return bool({"transaction.atomic", "sql.move"} & _decorators(_named(source, name)))


@cache
def _serves_a_caller(source: str, name: str) -> bool:
    arguments = _named(source, name).args
    named = {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    return bool(named & {"entry", "principal", "caller"})


def _named(source: str, name: str) -> ast.FunctionDef:
    [*_, found] = (f for f in parsed(source).body if getattr(f, "name", "") == name)
    assert isinstance(found, ast.FunctionDef)
    return found


def _decorators(function: ast.FunctionDef) -> set[str]:
    return {ast.unparse(decorator) for decorator in function.decorator_list}


def transitions(checkout: Checkout) -> list[tuple[Module, str]]:
    """Return the public transitions.

    They are what opens a transaction of its own, and in the rooms of transitions what is exported
    and what a face calls on behalf of a caller.
    """
    moving = {module.path for module in checkout.moving()}
    rooms = {m.path.rpartition("/")[0]: m for m in checkout.moving() if "__init__" in m.path}
    called = {
        name
        for module in checkout.modules(lambda parts: bool(FACES & set(parts)))
        for name in made_in(module.source)
    }
    found = []
    for module in checkout.core():
        room = rooms.get(module.path.rpartition("/")[0])
        exported = _reexported(room.source) if room else frozenset()
        for node in module.tree.body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                name, source = node.name, module.source
                served = module.path in moving and _serves_a_caller(source, name)
                by_face = served and name in called
                if name in exported or by_face or _opens_a_transaction(source, name):
                    found.append((module, name))
    if not found:
        raise NothingToCheck
    return found


def transitions_take_keywords(checkout: Checkout) -> list[str]:
    """A call of a move names what it passes: two ids in the wrong order are both ids."""
    return [
        f"{module.path}:{node.lineno}: {name}"
        for module, name in transitions(checkout)
        for node in module.tree.body
        if isinstance(node, ast.FunctionDef) and node.name == name
        if node.args.posonlyargs or node.args.args or node.args.vararg or node.args.kwarg
    ]


@cache
def _state_writers(source: str) -> list[int]:
    """Return the lines that write the state of a job."""
    tree = parsed(source)
    own = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.name == "Job"
        for inner in ast.walk(node)
    }
    lines = []
    for node in ast.walk(tree):
        for target, value in _assigned(node):
            if isinstance(target, ast.Attribute) and target.attr == "state":
                owner = ast.unparse(target.value)
                of_a_job = re.search(r"(^|\.|_)job$", owner) or "Job.State" in ast.unparse(value)
                lines += [node.lineno] if of_a_job or (owner == "self" and id(node) in own) else []
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            sql = re.search(r"UPDATE jobs_job\b[^;]*?SET[^;]*?\bstate\b[^;]*?=", node.value)
            lines += [node.lineno] if sql else []
    for call in calls(tree, "update", "setattr"):
        named = {keyword.arg for keyword in call.keywords} | {
            argument.value for argument in call.args if isinstance(argument, ast.Constant)
        }
        whose = ast.unparse(call)
        if "state" in named and re.search(r"\bJob\.objects\b|\bjob,", whose):
            lines.append(call.lineno)
    return lines


def _assigned(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield each target of an assignment with its value."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            whole = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
            if whole and len(target.elts) == len(node.value.elts):
                yield from zip(target.elts, node.value.elts, strict=True)
            else:
                flat = target.elts if isinstance(target, ast.Tuple) else [target]
                yield from ((one, node.value) for one in flat)
    elif isinstance(node, ast.AugAssign | ast.AnnAssign) and node.value is not None:
        yield node.target, node.value


def one_writer_of_a_jobs_state(checkout: Checkout) -> list[str]:
    """The state of a job is written by `Job.move_to` alone."""
    found = [f"{m.path}:{line}" for m in checkout.modules() for line in _state_writers(m.source)]
    if not found:
        raise NothingToCheck
    own = [place for place in found if re.match(r"jobs/models(/\w+)?\.py:", place)]
    return [place for place in found if place not in own] + own[1:]


@cache
def _without(source: str, call: str, keyword: str) -> list[int]:
    return [
        found.lineno
        for found in calls(parsed(source), call)
        if not any(given.arg == keyword for given in found.keywords)
    ]


def row_locks_say_whether_they_block_children(checkout: Checkout) -> list[str]:
    """`FOR UPDATE` blocks the insert of any child row, `FOR NO KEY UPDATE` does not."""
    modules = checkout.modules()
    return [f"{m.path}:{n}" for m in modules for n in _without(m.source, "select_for_update",
                                                               "no_key")]  # fmt: skip


def hints_after_commit_cannot_fail_a_write(checkout: Checkout) -> list[str]:
    """What runs on commit is a hint: it must not turn a committed write into a 500."""
    modules = checkout.modules()
    return [f"{m.path}:{n}" for m in modules for n in _without(m.source, "on_commit", "robust")]


def advisory_locks(checkout: Checkout) -> dict[str, int]:
    """Return the class of each kind of advisory lock, by the constant that names it."""
    found = {
        f"{module.path}:{target.id}": node.value.value
        for module in checkout.core()
        for node in module.tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, int)
        for target in node.targets
        if isinstance(target, ast.Name) and re.search(r"LOCK(_CLASS)?$", target.id)
    }
    if not found:
        raise NothingToCheck
    return found


def advisory_locks_have_classes_of_their_own(checkout: Checkout) -> list[str]:
    """Two kinds of advisory lock with one class would block each other by their keys."""
    classes = list(advisory_locks(checkout).items())
    return [
        place for place, number in classes if [n for _, n in classes].count(number) > 1
    ] + _not_on_the_page(checkout, {number for _, number in classes})


def _not_on_the_page(checkout: Checkout, numbers: set[int]) -> list[str]:
    rows = re.findall(r"^\| (\d+) \|", checkout.text("docs/explanation/locking.md"), re.MULTILINE)
    return [f"docs/explanation/locking.md: class {n}" for n in numbers ^ {int(r) for r in rows}]
