"""Every list of the console can be read by its indexes, whatever the table has grown to."""

from __future__ import annotations

from typing import Any

import pytest

from tests import plans
from tests.benchmarks.console import LIST_QUERIES_MAX, MEDIAN_MS_MAX, faults_of, lists, paths

#: Tables that grow with the work; the others hold what people have set up.
BIG = {
    "agents_session",
    "governance_auditevent",
    "governance_bulkitem",
    "governance_bulkrun",
    "governance_fact",
    "governance_idempotencyrecord",
    "governance_reservation",
    "governance_resolution",
    "governance_routedecision",
    "jobs_approval",
    "jobs_attempt",
    "jobs_execution",
    "jobs_job",
    "jobs_reflection",
    "jobs_review",
    "jobs_task",
    "jobs_upload",
}


@pytest.fixture
def of_pages(as_: Any, make_job: Any, claim: Any) -> dict[str, list[plans.Sent]]:
    """The statements of every page that the benchmark measures."""
    claim(make_job(task_id="fill-77"))
    make_job(task_id="fill-1234", execution_approval_required=True)
    client, found = as_("governor"), {}
    for path in paths("fill-"):
        client.get(path)
        with plans.sent() as statements:
            assert client.get(path).status_code == 200
        found[path] = statements
    return found


def test_no_page_has_to_read_a_big_table_from_end_to_end(of_pages: Any) -> None:
    # Of two rows any plan is as good. What is shown is that an index would serve.
    read = {
        (path, statement[0][:300]): whole
        for path, statements in of_pages.items()
        for statement in statements
        if (whole := plans.read_whole(plans.plan_of(statement, disabled=("seqscan",))) & BIG)
    }

    assert read == {}


def test_no_list_has_to_sort_a_big_table(of_pages: Any) -> None:
    disabled = ("seqscan", "sort", "bitmapscan", "incremental_sort")
    sorts = {
        (path, statement[0][:200]): tables
        for path, statements in of_pages.items()
        if path.partition("?")[0] in lists()
        for statement in statements
        if (tables := plans.sorted_tables(plans.plan_of(statement, disabled=disabled)) & BIG)
    }

    assert sorts == {}


def test_the_measure_would_see_a_table_that_is_read_and_one_that_is_sorted(world: None) -> None:
    by_reason = ("SELECT id FROM governance_auditevent ORDER BY reason", None)

    assert plans.read_whole(plans.plan_of(by_reason, disabled=("seqscan",))) & BIG
    assert plans.sorted_tables(plans.plan_of(by_reason, disabled=("sort",))) & BIG


def test_a_bar_that_is_broken_is_told() -> None:
    page = {"median_ms": MEDIAN_MS_MAX, "queries": LIST_QUERIES_MAX, "sequential_scans": []}

    assert faults_of(page, is_list=True) == []
    assert faults_of(page | {"queries": LIST_QUERIES_MAX + 1}, is_list=False) == []
    assert faults_of(
        page
        | {
            "median_ms": MEDIAN_MS_MAX + 1,
            "queries": LIST_QUERIES_MAX + 1,
            "sequential_scans": ["jobs_job"],
        },
        is_list=True,
    ) == [
        "median of 301 ms, at most 300",
        "13 queries, at most 12",
        "reads jobs_job from end to end",
    ]
