"""What decides knows no face, no clock but the database's, and waits for nobody."""

from __future__ import annotations

import ast
import re
from functools import cache

from tests.house.checkout import Checkout, calls, imported, importing, parsed, subject_to


@cache
def _sleeps(source: str) -> bool:
    tree = parsed(source)
    return any(True for _ in calls(tree, "sleep")) or "time.sleep" in set(imported(tree))


def no_sleep_in_the_core(checkout: Checkout) -> list[str]:
    """Waiting is for who calls; a transaction that sleeps holds its locks."""
    modules = subject_to("no_sleep_in_the_core", checkout.core())
    return [module.path for module in modules if _sleeps(module.source)]


@cache
def _clocks(source: str) -> list[int]:
    clocks = {"timezone.now", "datetime.now", "datetime.utcnow", "date.today", "time.time"}
    read = calls(parsed(source), "now", "utcnow", "today", "time")
    return [call.lineno for call in read if ast.unparse(call.func) in clocks]


def no_clock_but_the_databases(checkout: Checkout) -> list[str]:
    """Time is read in the database, after the lock."""
    modules = subject_to("no_clock_but_the_databases", checkout.core())
    return [f"{m.path}:{line}" for m in modules for line in _clocks(m.source)]


def no_face_in_the_core(checkout: Checkout) -> list[str]:
    """What decides knows neither HTTP nor a page."""
    faces = (
        r"(rest_framework|drf_spectacular|django\.http|django\.shortcuts|django\.views|django\.urls"
        r"|django\.contrib\.admin|django\.template)(\.|$)"
    )
    return [f"{m.path}: {n}" for m in checkout.core() for n in importing(m.source, faces)]


def no_signal_in_the_core(checkout: Checkout) -> list[str]:
    """What follows from a move stands in the move."""
    signals = r"django\.(dispatch|db\.models\.signals|db\.backends\.signals|core\.signals)(\.|$)"
    return [f"{m.path}: {n}" for m in checkout.core() for n in importing(m.source, signals)]


@cache
def _statuses(source: str) -> list[int]:
    """Return the lines that state an HTTP status: by name, or as the first of a tuple."""
    lines = []
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.keyword) and node.arg in {"status", "status_code"}:
            lines += [node.value.lineno] if _is_status(node.value) else []
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            named = any(re.search(r"\bstatus(_code)?$", ast.unparse(t).lower()) for t in targets)
            counted = isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "int"
            if named and (counted or (node.value is not None and _is_status(node.value))):
                lines.append(node.lineno)
        elif isinstance(node, ast.Tuple) and len(node.elts) == 2 and _is_status(node.elts[0]):
            lines += [] if isinstance(node.elts[1], ast.Constant) else [node.lineno]
    return lines


def _is_status(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Constant) and type(node.value) is int and 200 <= node.value <= 599
    ) or "HTTPStatus" in ast.unparse(node)


def no_http_status_in_a_transition(checkout: Checkout) -> list[str]:
    """A move returns what has become of the row; the face knows which status that is."""
    modules = subject_to("no_http_status_in_a_transition", checkout.moving())
    found = [f"{m.path}:{line}" for m in modules for line in _statuses(m.source)]
    return found + [f"{m.path}: {n}" for m in modules for n in importing(m.source, r"http(\.|$)")]


@cache
def _ill_named_actions(source: str) -> list[str]:
    form = r"[a-z]+(_[a-z]+)*\.[a-z]+(_[a-z]+)*"
    return [
        f"{keyword.value.lineno}: {keyword.value.value}"
        for node in ast.walk(parsed(source))
        if isinstance(node, ast.Call) and not ast.unparse(node.func).endswith("add_argument")
        for keyword in node.keywords
        if keyword.arg == "action"
        and isinstance(keyword.value, ast.Constant)
        and isinstance(keyword.value.value, str)
        and not re.fullmatch(form, keyword.value.value)
    ]


def audit_actions_are_a_noun_and_what_happened(checkout: Checkout) -> list[str]:
    """An audit action reads `job.claimed`."""
    return [f"{m.path}:{fault}" for m in checkout.core() for fault in _ill_named_actions(m.source)]
