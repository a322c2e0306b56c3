"""Every list of the console can be read by its indexes, whatever the table has grown to."""

from __future__ import annotations

from typing import Any

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


ASIDE = ("seqscan", "sort", "incremental_sort", "bitmapscan")


def test_no_page_reads_a_big_table_from_end_to_end_and_no_list_sorts_one(
    as_: Any, make_job: Any, claim: Any
) -> None:
    # Of two rows any plan is as good. What is shown is what the indexes allow.
    claim(make_job(task_id="fill-77"))
    make_job(task_id="fill-1234", execution_approval_required=True)
    client, read, sorts = as_("governor"), {}, {}

    for path in paths("fill-"):
        with plans.sent() as statements:
            assert client.get(path).status_code == 200
        for statement in statements:
            plan = plans.plan_of(statement, disabled=ASIDE)
            if whole := plans.read_whole(plan) & BIG:
                read[path, statement[0][:300]] = whole
            ordered = plans.sorted_tables(plan) & BIG
            if ordered and path.partition("?")[0] in lists():
                sorts[path, statement[0][:300]] = ordered

    assert read == {}
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
