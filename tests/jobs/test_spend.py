"""What a submitter's jobs have cost, as `GET /v1/spend` sums it up."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from governance.core import clock, sql
from governance.money import ledger
from governance.money.models import Resolution
from governance.money.pricing import Usage
from jobs.models import Job
from jobs.spend import sums as spend
from tests import plans
from tests.client import Api, refused
from tests.money import LARGE, catalogue_of_two, request

pytestmark = pytest.mark.django_db
SUBMITTER = "submitter:ops"
USAGE = Usage(input_tokens=100, output_tokens=50)
BIG = {"governance_resolution", "governance_reservation", "governance_routedecision", "jobs_job"}


@pytest.fixture
def call(make_job: Callable[..., Job]) -> Callable[..., Resolution]:
    """Make a call of a job, settled at a day: `call(day="2026-11-03")`."""
    catalogue_of_two()

    def made(
        *,
        job: Job | None = None,
        number: int = 1,
        day: str = "",
        end: str = "settled",
        usage: Usage | None = USAGE,
        **over: Any,
    ) -> Resolution:
        job = job or make_job(**over)
        routed = ledger.reserve(
            request=request(
                task_id=job.task_id,
                job_id=job.job_id,
                job_type=job.job_type.name,
                call=number,
            )
        )
        assert routed.reservation is not None
        wanted = ledger.End(
            reservation_id=routed.reservation.reservation_id,
            ended_as=end,
            usage=None if end == "released" else usage,
        )
        resolution = ledger.resolve(end=wanted, actor="agent:hermes").resolution
        if day:
            settle_at(resolution, datetime.fromisoformat(f"{day}T12:00:00+00:00"))
        return resolution

    return made


def settle_at(resolution: Resolution, at: datetime) -> None:
    """Say that the call was settled then, past the trigger that keeps such rows."""
    sql.pipeline(
        sql.Statement("SET LOCAL session_replication_role = replica"),
        sql.Statement(
            "UPDATE governance_resolution SET resolved_at = %s WHERE reservation_id = %s",
            (at, resolution.pk),
        ),
        sql.Statement("SET LOCAL session_replication_role = origin"),
    )


def groups(found: spend.Spend) -> list[tuple[str | None, int]]:
    return [(group.group, group.calls) for group in found.groups]


# --- The query


def test_by_default_the_days_of_this_month_are_summed(call: Callable[..., Resolution]) -> None:
    today = clock.now().date()
    first = call()
    job = Job.objects.get(job_id=first.reservation.job_id)
    call(job=job, number=2)
    long_ago = call()
    settle_at(
        long_ago,
        datetime.combine(today.replace(day=1), datetime.min.time(), UTC)
        - timedelta(microseconds=1),
    )

    found = spend.read_spend(submitter=SUBMITTER)

    assert groups(found) == [(today.isoformat(), 2)]
    assert found.total == first.cost * 2 == found.groups[0].cost > 0
    assert (found.groups[0].input_tokens, found.groups[0].output_tokens) == (200, 100)


def test_both_days_of_a_range_belong_to_it(call: Callable[..., Resolution]) -> None:
    for day in ("2026-10-31", "2026-11-01", "2026-11-03", "2026-11-04"):
        call(day=day)

    found = spend.read_spend(
        submitter=SUBMITTER,
        since=datetime(2026, 11, 1).date(),
        until=datetime(2026, 11, 3).date(),
    )

    assert groups(found) == [("2026-11-01", 1), ("2026-11-03", 1)]


def test_a_month_is_what_one_end_of_the_range_says(call: Callable[..., Resolution]) -> None:
    for day in ("2026-02-01", "2026-02-28", "2026-03-01"):
        call(day=day)

    since = spend.read_spend(submitter=SUBMITTER, since=datetime(2026, 2, 5).date())
    until = spend.read_spend(submitter=SUBMITTER, until=datetime(2026, 2, 27).date())

    assert groups(since) == [("2026-02-28", 1)]
    assert groups(until) == [("2026-02-01", 1)]


def test_a_call_that_was_released_is_none_and_one_without_usage_is(
    call: Callable[..., Resolution],
) -> None:
    call(end="released")
    call(end="failed", usage=None)

    found = spend.read_spend(submitter=SUBMITTER)

    assert [group.calls for group in found.groups] == [1]
    assert found.groups[0].input_tokens == found.groups[0].output_tokens == 0
    assert found.total == Resolution.objects.get(ended_as="failed").cost > 0


def test_model_type_and_label_group_the_dearest_first(call: Callable[..., Resolution]) -> None:
    call(task_type="rewrite", labels={"team": "search"})
    call(task_type="content_prep", labels={"team": "ads"})
    call(task_type="content_prep", labels=["team"])

    def by(group_by: str) -> list[tuple[str | None, int]]:
        return groups(spend.read_spend(submitter=SUBMITTER, group_by=group_by))

    assert by("model") == [("/".join(LARGE), 3)]
    assert by("job_type") == [("content_prep", 2), ("rewrite", 1)]
    assert by("label:team") == [("ads", 1), ("search", 1), (None, 1)]
    assert by("label:%s'; --") == [(None, 3)]


def test_nothing_of_another_submitter_is_counted(call: Callable[..., Resolution]) -> None:
    call()

    found = spend.read_spend(submitter="submitter:another")

    assert (found.total, found.groups, found.truncated) == (0, [], False)


def test_more_groups_than_an_answer_has_are_told_and_counted(
    call: Callable[..., Resolution], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spend, "GROUPS_MAX", 1)
    costs = [call(task_type=name).cost for name in ("rewrite", "content_prep", "rewrite")]

    found = spend.read_spend(submitter=SUBMITTER, group_by="job_type")

    assert groups(found) == [("rewrite", 2)]
    assert (found.total, found.truncated) == (sum(costs), True)


def test_the_plan_reads_no_table_from_end_to_end(call: Callable[..., Resolution]) -> None:
    call()

    for group_by in ("day", "model", "job_type", "label:team"):
        with plans.sent() as statements:
            spend.read_spend(submitter=SUBMITTER, group_by=group_by)
        [read] = [one for one in statements if "governance_resolution" in one[0]]
        assert plans.read_whole(plans.plan_of(read, disabled=("seqscan",))) & BIG == set()


# --- The call


def test_the_answer_says_amounts_as_text(
    call: Callable[..., Resolution], submitter_token: str
) -> None:
    resolution = call()

    answer = Api(submitter_token).get("/v1/spend")

    cost = str(resolution.cost.normalize())
    assert answer.status_code == 200
    assert answer.json() == {
        "currency": "USD",
        "total": cost,
        "results": [
            {
                "group": clock.now().date().isoformat(),
                "cost": cost,
                "input_tokens": 100,
                "output_tokens": 50,
                "calls": 1,
            }
        ],
        "truncated": False,
    }
    assert Decimal(cost) == Decimal("0.002")


def test_an_agent_has_no_jobs_of_its_own(issue: Callable[..., str]) -> None:
    answer = Api(issue(agent="hermes", scopes=["read"])).get("/v1/spend")

    assert refused(answer) == (403, "PERMISSION_DENIED")


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("from=2026-11-31", "/from"),
        ("from=20261130", "/from"),
        ("from=2026-W48-1", "/from"),
        ("from=", "/from"),
        ("to=0001-01-01", "/to"),
        ("to=9999-12-31", "/to"),
        ("from=2026-11-02&to=2026-11-01", "/to"),
        ("from=2025-11-01&to=2026-11-02", "/to"),
        ("group_by=", "/group_by"),
        ("group_by=agent", "/group_by"),
        ("group_by=label:", "/group_by"),
        ("group_by=label:" + "k" * 201, "/group_by"),
        ("group_by=label:%00", "/group_by"),
    ],
)
def test_what_cannot_be_meant_is_refused(query: str, pointer: str, submitter_token: str) -> None:
    answer = Api(submitter_token).get(f"/v1/spend?{query}")

    assert answer.status_code == 400
    assert [fault["pointer"] for fault in answer.json()["errors"]] == [pointer]


def test_a_leap_year_is_within_the_longest_range(submitter_token: str) -> None:
    assert Api(submitter_token).get("/v1/spend?from=2024-01-01&to=2024-12-31").status_code == 200


def test_too_many_calls_are_not_summed_up(
    call: Callable[..., Resolution], submitter_token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spend, "CALLS_MAX", 1)
    call()
    assert Api(submitter_token).get("/v1/spend").status_code == 200

    call()

    assert refused(Api(submitter_token).get("/v1/spend"))[0] == 400
