"""Limits of calls in the life of jobs: deferred at no cost, passed over, given out again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from governance.core import clock
from governance.core.errors import CallRateLimited
from governance.money import ledger, limiting, metering
from governance.money.limits import Limit, LimitHold, LimitMeter
from governance.money.models import Reservation
from governance.money.notes import NoRoom
from jobs import executions, transitions, wakeups
from jobs.models import Job, JobType, Lease
from jobs.transitions.sweeping import end_if_due
from tests.jobs.governed import MODEL, TEST, Governed
from tests.jobs.test_deferrals import defer_governed

pytestmark = pytest.mark.django_db

MakeJob = Callable[..., Job]
LABELS = {"team": "search"}


def limit(scope: str = "agent", key: str = "hermes", **bounds: Any) -> Limit:
    return limiting.set_limit(scope=scope, key=key, **bounds, **TEST)


def next_of(governed: Governed) -> list[str]:
    claimed = transitions.claim_next(entry=governed.entry, limit=9)
    return [answer.job.task_id for answer in claimed]


def call(governed: Governed, job: Job) -> None:
    governed.claim(job)
    assert governed.route(job).refusal is None


def refuse(governed: Governed, job: Job) -> Any:
    governed.claim(job)
    assert isinstance(governed.route(job).refusal, CallRateLimited)
    return defer_governed(governed, job)


def settle(governed: Governed, job: Job) -> None:
    executions.resolve_reservation(
        entry=governed.entry,
        binding=governed.binding(job),
        reservation_id=Reservation.objects.get(job_id=job.job_id).reservation_id,
        end="settled",
        usage={"input_tokens": 1000, "output_tokens": 1000},
    )


@pytest.mark.parametrize("bounds", [{"requests_per_minute": 1}, {"open_calls": 1}])
@pytest.mark.parametrize(
    ("scope", "key", "counted_for"),
    [
        ("global", "", ""),
        ("agent", "*", "hermes"),
        ("job_type", "content_prep", "content_prep"),
        ("submitter", "*", "ops"),
        ("label", "team=*", "team=search"),
    ],
)
def test_a_refused_call_is_deferred_at_no_cost_and_its_scope_noted_for_seconds(
    governed: Governed, make_job: MakeJob, scope: str, key: str, counted_for: str, bounds: Any
) -> None:
    row = limit(scope, key, **bounds)
    first, job, other = (make_job(labels=LABELS) for _ in range(3))
    call(governed, first)

    answer = refuse(governed, job)

    note = NoRoom.objects.get()
    assert answer.cause == "confirmed"
    assert (job.attempts_left, job.unconfirmed_deferrals) == (job.max_attempts, 0)
    assert (note.scope, note.key, note.cause, note.reason) == (
        scope, counted_for, row, "RATE_LIMITED",
    )  # fmt: skip
    most = 60 if "requests_per_minute" in bounds else metering.OPEN_WAIT_SECONDS
    assert timedelta(0) < note.until - note.noted_at <= timedelta(seconds=most)
    assert next_of(governed) == []
    assert Job.objects.get(pk=other.pk).attempt == 0


def test_a_freed_open_call_clears_the_note_and_wakes(
    governed: Governed,
    make_job: MakeJob,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: Any,
) -> None:
    limit(open_calls=1)
    first, job = make_job(), make_job()
    call(governed, first)
    refuse(governed, job)
    woken: list[int] = []
    monkeypatch.setattr(wakeups, "announce", woken.append)

    with django_capture_on_commit_callbacks(execute=True):
        settle(governed, first)

    assert governed.principal.id in woken
    assert next_of(governed) == [job.task_id]


def test_an_end_leaves_the_note_of_a_rate(governed: Governed, make_job: MakeJob) -> None:
    limit(requests_per_minute=1)
    first, job = make_job(), make_job()
    call(governed, first)
    refuse(governed, job)

    settle(governed, first)

    assert next_of(governed) == []


@pytest.mark.parametrize("how", ["change", "disable"])
def test_a_limit_that_is_changed_clears_its_notes(
    governed: Governed, make_job: MakeJob, how: str
) -> None:
    row = limit(requests_per_minute=1)
    first, job = make_job(), make_job()
    call(governed, first)
    refuse(governed, job)

    if how == "change":
        limiting.change_limit(limit_id=row.pk, bounds={"requests_per_minute": 9}, **TEST)
    else:
        limiting.switch_limit(limit_id=row.pk, enabled=False, **TEST)

    assert next_of(governed) == [job.task_id]


def test_a_limit_of_a_model_makes_its_job_wait_alone(governed: Governed, make_job: MakeJob) -> None:
    limit("model", "/".join(MODEL), requests_per_minute=1)
    first, job, other = make_job(), make_job(), make_job()
    call(governed, first)

    refuse(governed, job)

    assert not NoRoom.objects.exists()
    assert timedelta(0) < job.available_at - job.state_since <= timedelta(seconds=60)
    assert next_of(governed) == [other.task_id]


def test_a_job_of_a_type_that_need_not_use_a_model_waits_by_itself(
    governed: Governed, make_job: MakeJob
) -> None:
    JobType.objects.update(model_use="allowed")
    limit(requests_per_minute=1)
    first, job = make_job(), make_job()
    call(governed, first)

    refuse(governed, job)

    assert timedelta(0) < job.available_at - job.state_since <= timedelta(seconds=60)


def test_room_that_came_meanwhile_is_noted_nowhere(governed: Governed, make_job: MakeJob) -> None:
    limit(open_calls=1)
    first, job = make_job(), make_job()
    call(governed, first)
    governed.claim(job)
    governed.route(job)
    settle(governed, first)

    defer_governed(governed, job)

    assert not NoRoom.objects.exists()
    assert next_of(governed) == [job.task_id]


def test_a_lost_attempt_leaves_no_call_open(governed: Governed, make_job: MakeJob) -> None:
    limit(open_calls=1)
    job = make_job()
    call(governed, job)
    Lease.objects.filter(job=job).update(expires_at=job.created_at)

    end_if_due(task_id=job.task_id)

    assert not LimitHold.objects.exists()
    assert list(ledger.verify()) == []


@pytest.mark.parametrize(
    ("scope", "key", "counted_for"),
    [("submitter", "ops", ""), ("label", "team=*", "team=search")],
)
def test_a_new_limit_of_what_jobs_say_counts_what_is_open(
    governed: Governed, make_job: MakeJob, scope: str, key: str, counted_for: str
) -> None:
    call(governed, make_job(labels=LABELS))

    limit(scope, key, open_calls=1)

    assert LimitHold.objects.get().meter.counted_for == counted_for
    job = make_job(labels=LABELS)
    governed.claim(job)
    assert isinstance(governed.route(job).refusal, CallRateLimited)


def test_the_answer_names_the_limit_and_when_to_come_again(
    governed: Governed, make_job: MakeJob
) -> None:
    limit(requests_per_minute=1)
    first, job = make_job(), make_job()
    call(governed, first)
    governed.claim(job)

    refusal = governed.route(job).refusal

    assert (refusal.code, refusal.reason, refusal.retry) == (
        "RESOURCE_EXHAUSTED", "RATE_LIMITED", "defer",
    )  # fmt: skip
    assert refusal.current["limit"]["key"] == "hermes"


def test_the_console_shows_limits_and_what_has_no_room(
    governed: Governed, make_job: MakeJob, as_: Callable[..., Client]
) -> None:
    row = limit(open_calls=1)
    first, job = make_job(), make_job()
    call(governed, first)
    refuse(governed, job)
    client = as_("governor")

    shown = client.get(reverse("admin:governance_limit_change", args=(row.pk,)))
    overview = client.get(reverse("admin:index"))
    listed = client.get(reverse("admin:governance_limit_changelist"))

    assert "all: 1" in shown.content.decode()
    assert "limit of agent hermes" in listed.content.decode()
    assert "Change that limit" in overview.content.decode()


def test_meters_are_there_once_for_each_key(governed: Governed, make_job: MakeJob) -> None:
    limit(key="*", requests_per_minute=9)
    for _ in range(2):
        call(governed, make_job())

    [meter] = LimitMeter.objects.all()
    assert meter.counted_for == "hermes"
    assert meter.requests_until > clock.now()
