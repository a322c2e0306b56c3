"""`hold_until` keeps a queued job from being claimed, beside `available_at`, and is seen."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.urls import reverse

from agents.entry import Entry
from governance.core import clock
from governance.core.errors import InvalidTransition
from governance.core.fields import INSTANT_MAX
from jobs import transitions, waiting
from jobs.models import Job
from tests import plans
from tests.client import Api
from tests.evidence import refused
from tests.work import ANNA, make_available, pass_time


def hold(job: Job, **over: float) -> Job:
    """Put a job on hold, by row: `hold(job, hours=1)`."""
    until = clock.now() + timedelta(**over or {"hours": 1})
    Job.objects.filter(pk=job.pk).update(hold_until=until)
    job.refresh_from_db()
    return job


class TestAJobOnHold:
    def test_is_not_claimed_by_its_id_and_tells_when_it_may_be(
        self, make_job: Any, worker: Entry
    ) -> None:
        job = hold(make_job())

        with refused(InvalidTransition, job) as refusal:
            transitions.claim(entry=worker, task_id=job.task_id, owner="hermes")

        assert refusal.value.current["hold_until"] == f"{job.hold_until:%Y-%m-%dT%H:%M:%S.%fZ}"
        assert refusal.value.after_seconds is not None
        assert 3590 <= refusal.value.after_seconds <= 3601

    def test_is_passed_over_by_claims_of_the_next(self, make_job: Any, worker: Entry) -> None:
        hold(make_job(priority="urgent"))
        free = make_job()

        outcomes = transitions.claim_next(entry=worker, limit=5)

        assert [outcome.job.task_id for outcome in outcomes] == [free.task_id]

    def test_may_be_claimed_when_the_hold_has_passed(self, make_job: Any, worker: Entry) -> None:
        job = hold(make_job(), seconds=-1)

        [outcome] = transitions.claim_next(entry=worker, limit=5)

        job.refresh_from_db()
        assert (outcome.job.task_id, job.state, job.hold_until) == (job.task_id, "active", None)

    def test_is_still_not_available_where_it_was_not_before(
        self, make_job: Any, worker: Entry
    ) -> None:
        later = clock.now() + timedelta(hours=2)
        job = hold(make_job(available_at=later), hours=1)

        with refused(InvalidTransition, job) as refusal:
            transitions.claim(entry=worker, task_id=job.task_id, owner="hermes")

        assert refusal.value.after_seconds is not None
        assert refusal.value.after_seconds > 7000
        assert job.claimable_at == later

    def test_wakes_nobody_when_it_is_queued(
        self, make_job: Any, monkeypatch: pytest.MonkeyPatch,
        django_capture_on_commit_callbacks: Any,
    ) -> None:  # fmt: skip
        woken: list[int] = []
        monkeypatch.setattr("jobs.wakeups.announce", woken.append)
        job = hold(make_job(execution_approval_required=True))

        with django_capture_on_commit_callbacks(execute=True):
            transitions.approve(task_id=job.task_id, **ANNA)

        job.refresh_from_db()
        assert (job.state, woken) == ("queued", [])
        assert job.on_hold(at=clock.now())

    def test_keeps_its_hold_while_it_waits_for_an_approval_again(self, make_job: Any) -> None:
        job = make_job(execution_approval_required=True)
        transitions.approve(task_id=job.task_id, **ANNA)
        until = hold(job).hold_until

        transitions.withdraw_approval(task_id=job.task_id, **ANNA)
        job.refresh_from_db()
        assert (job.state, job.hold_until) == ("held", until)

        transitions.stop(task_id=job.task_id, **ANNA)
        job.refresh_from_db()
        assert (job.state, job.hold_until) == ("stopped", None)

    def test_does_not_make_its_queue_look_old(self, make_job: Any) -> None:
        job = make_job()
        make_available(job)
        hold(job)

        [queue] = [queue for queue in waiting.queues() if queue.agent == "hermes"]

        assert (queue.depth, queue.oldest_seconds) == (1, None)


@pytest.mark.parametrize(
    "values",
    [
        {"state": "active", "attempt": 1, "fencing_token": 1},
        {"hold_until": INSTANT_MAX},
        {"hold_until": datetime(1969, 12, 31, 23, 59, tzinfo=UTC)},
    ],
)
def test_the_database_takes_no_hold_that_means_nothing(
    make_job: Any, values: dict[str, Any]
) -> None:
    job = hold(make_job())

    with (
        pytest.raises(IntegrityError, match="job_hold_ends_while_unclaimed"),
        transaction.atomic(),
    ):
        Job.objects.filter(pk=job.pk).update(**values)


def test_the_order_of_claims_is_that_of_the_index(make_job: Any) -> None:
    """What jobs on hold there are is not walked: the index ends the range before them."""
    for number in range(20):
        make_job(task_id=f"t-{number}")
    statement = (
        f"SELECT id FROM jobs_job c WHERE agent_id = 1 AND state = 'queued' AND NOT paused"
        f" AND priority = 1 AND {Job.CLAIMABLE_AT.format('c')} <= statement_timestamp()"
        f" ORDER BY {Job.CLAIMABLE_AT.format('c')}, id"
    )

    plan = plans.plan_of((statement, None), disabled=("seqscan", "sort", "bitmapscan"))

    [scan] = [node for node in plans.nodes(plan) if "Index Name" in node]
    assert scan["Index Name"] == "job_claim_idx"
    assert "GREATEST" in scan["Index Cond"]
    assert not plans.sorted_tables(plan)


class TestTheApi:
    def test_shows_the_end_of_a_hold(self, make_job: Any, hermes_token: str) -> None:
        free, held = make_job(), hold(make_job())
        api = Api(hermes_token)

        shown = [api.get(f"/v1/jobs/{job.task_id}").json()["hold_until"] for job in (free, held)]

        assert shown == [None, f"{held.hold_until:%Y-%m-%dT%H:%M:%S.%fZ}"]

    @pytest.mark.parametrize(("on_hold", "found"), [("true", {1}), ("false", {0, 2})])
    def test_lists_what_is_on_hold_or_is_not(
        self, make_job: Any, hermes_token: str, on_hold: str, found: set[int]
    ) -> None:
        jobs = [make_job(), hold(make_job()), hold(make_job(), seconds=-1)]

        page = Api(hermes_token).get(f"/v1/jobs?on_hold={on_hold}").json()

        assert {row["task_id"] for row in page["results"]} == {jobs[n].task_id for n in found}


class TestTheConsole:
    def test_says_until_when_a_job_is_on_hold(self, as_: Any, make_job: Any) -> None:
        job = hold(make_job(execution_approval_required=True))
        client, words = as_("viewer"), f"on hold until {job.hold_until:%Y-%m-%d %H:%M:%SZ}"
        pages = [
            reverse("admin:jobs_job_changelist"),
            reverse("admin:jobs_job_change", args=(job.pk,)),
            reverse("admin:jobs_job_live", args=(job.pk,)),
            reverse("admin:console_inbox"),
        ]

        assert [words in client.get(page).content.decode() for page in pages] == [True] * 4

        pass_time(job, "hold_until")
        assert not any("on hold until" in client.get(page).content.decode() for page in pages)

    def test_lists_what_is_on_hold_by_an_index(self, as_: Any, make_job: Any) -> None:
        free, held = make_job(), hold(make_job())
        hold(free, seconds=-1)

        with plans.sent() as statements:
            page = as_("viewer").get(reverse("admin:jobs_job_changelist"), {"on_hold": "yes"})

        assert [row.task_id for row in page.context["cl"].result_list] == [held.task_id]
        [listing] = [s for s in statements if "hold_until" in s[0] and "LIMIT 51" in s[0]]
        plan = plans.plan_of(listing, disabled=("seqscan", "sort", "bitmapscan"))
        assert "job_hold_idx" in {node.get("Index Name") for node in plans.nodes(plan)}


def test_a_hold_is_over_at_its_end() -> None:
    now = datetime(2026, 12, 1, 12, tzinfo=UTC)

    assert Job(available_at=now, hold_until=now + timedelta(seconds=1)).on_hold(at=now)
    assert not Job(available_at=now, hold_until=now).on_hold(at=now)
