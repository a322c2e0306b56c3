"""What the database does for a page: its statements as they were sent, and their plans."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from django.db import connection, transaction

from governance.core import sql

READS = ("SELECT", "WITH", "(")
Sent = tuple[str, Any]


@contextmanager
def sent() -> Iterator[list[Sent]]:
    """Collect the reading statements of the block with their parameters."""
    found: list[Sent] = []

    def note(statement: str, params: Any) -> None:
        if statement.lstrip().upper().startswith(READS):
            found.append((statement, params))

    def through_django(execute: Any, statement: str, params: Any, many: bool, context: Any) -> Any:
        note(statement, params)
        return execute(statement, params, many, context)

    def through_pipeline(*statements: sql.Statement) -> Any:
        for statement in statements:
            note(statement.sql, statement.params or None)
        return pipeline(*statements)

    pipeline = sql.pipeline
    with (
        patch.object(sql, "pipeline", through_pipeline),
        connection.execute_wrapper(through_django),
    ):
        yield found


def plan_of(statement: Sent, *, disabled: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the root node of the plan.

    :param disabled: what the planner shall avoid where it can: `seqscan`, `sort` ... With that a
        plan of a few rows shows what an index allows, whatever the statistics say.
    """
    text, params = statement
    with transaction.atomic(), connection.cursor() as cursor:
        for method in disabled:
            cursor.execute(f"SET LOCAL enable_{method} = off")
        cursor.execute(f"EXPLAIN (FORMAT JSON) {text}", params)
        [plan] = cursor.fetchone()[0]
        for method in disabled:
            cursor.execute(f"SET LOCAL enable_{method} = on")
    root: dict[str, Any] = plan["Plan"]
    return root


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a node and all below it."""
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes(below)


def subplan(plan: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the node of a plan that is called so, as `CTE picked`."""
    return next(node for node in nodes(plan) if node.get("Subplan Name") == name)


def read_whole(plan: dict[str, Any]) -> set[str]:
    """Return the tables that the plan reads from end to end."""
    return {node["Relation Name"] for node in nodes(plan) if node["Node Type"] == "Seq Scan"}


def sorted_tables(plan: dict[str, Any]) -> set[str]:
    """Return the tables whose rows the plan sorts before it has limited them."""
    found: set[str] = set()
    for node in nodes(plan):
        if node["Node Type"] in {"Sort", "Incremental Sort"}:
            found |= set(_unlimited(node))
    return found


def _unlimited(node: dict[str, Any]) -> Iterator[str]:
    if node["Node Type"] == "Limit":
        return
    if "Relation Name" in node:
        yield node["Relation Name"]
    for below in node.get("Plans", ()):
        yield from _unlimited(below)
