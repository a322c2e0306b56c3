"""Money that is in doubt for long is told of, once, by the sweeper; and calls dearer than held."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import call_command
from django.db import transaction

from governance.core.models import AuditEvent, Fact
from governance.money import ledger
from governance.money.models import AgedReservation, Reservation
from jobs import executions
from jobs.executions import doubts
from jobs.models import Execution, Job
from jobs.transitions import Failures
from jobs.transitions.sweeping import end_if_due
from tests.jobs.governed import Governed, governed  # noqa: F401
from tests.work import expire_lease

pytestmark = pytest.mark.django_db
AGED = "dev.fencepost.reservation.in_doubt_aged"


@pytest.fixture
def lost(
    governed: Governed,  # noqa: F811
    make_job: Callable[..., Job],
) -> Callable[[], Execution]:
    """Start an execution whose worker is lost, so that nobody knows what it cost."""

    def made() -> Execution:
        job = make_job(task_type="content_prep")
        execution = governed.begin(job)
        expire_lease(job)
        assert end_if_due(task_id=job.task_id) == "lease_expired"
        return execution

    return made


def tell() -> int:
    return executions.tell_aged(failures=Failures())


def facts() -> list[Fact]:
    return list(Fact.objects.filter(type=AGED).order_by("id"))


def test_what_is_in_doubt_for_long_is_told_once(
    lost: Callable[[], Execution], settings: Any
) -> None:
    execution = lost()
    assert tell() == 0

    settings.IN_DOUBT_AGED_SECONDS = 0
    assert [tell(), tell()] == [1, 0]

    [fact] = facts()
    reservation = Reservation.objects.get()
    execution.job.refresh_from_db()
    assert fact.stream == execution.job.audit_subject
    assert fact.data["reservation_id"] == str(reservation.reservation_id)
    assert fact.data["amount"] == "0.003"
    assert fact.data["attempt"] == 1
    event = AuditEvent.objects.get(action="reservation.in_doubt_aged")
    assert (event.subject, event.actor) == (execution.job.audit_subject, "system:sweeper")
    assert reservation.state == "in_doubt"


def test_a_running_attempt_may_yet_report(
    governed: Governed,  # noqa: F811
    make_job: Callable[..., Job],
    settings: Any,
) -> None:
    settings.IN_DOUBT_AGED_SECONDS = 0
    job = make_job(task_type="content_prep")
    governed.begin(job)
    reservation = Reservation.objects.get()
    assert reservation.state == "in_doubt"

    assert tell() == 0
    # Also where it was found before it ran.
    told = doubts.tell_if_aged(reservation_id=reservation.pk, task_id=job.task_id)
    assert (told, facts()) == (False, [])


def test_what_was_reconciled_meanwhile_is_not_told(
    governed: Governed,  # noqa: F811
    lost: Callable[[], Execution],
    settings: Any,
) -> None:
    settings.IN_DOUBT_AGED_SECONDS = 0
    execution, reservation = lost(), Reservation.objects.get()
    ledger.resolve(
        end=ledger.End(reservation_id=reservation.pk, ended_as="settled"), actor="user:anna"
    )

    task_id = execution.job.task_id
    assert doubts.tell_if_aged(reservation_id=reservation.pk, task_id=task_id) is False
    assert tell() == 0
    assert facts() == []


def test_one_that_fails_rests_and_the_others_are_told(
    lost: Callable[[], Execution], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.IN_DOUBT_AGED_SECONDS = 0
    bad, good = lost(), lost()
    spoilt = bad.job.task_id

    def failing(*, task_id: str, **named: Any) -> bool:
        if task_id == spoilt:
            raise ValueError("a row that cannot be read")
        return told(task_id=task_id, **named)

    told = doubts.tell_if_aged
    monkeypatch.setattr(doubts, "tell_if_aged", failing)
    failures = Failures()

    assert executions.tell_aged(failures=failures, limit=1) == 0
    # It takes no place of others while it rests.
    assert executions.tell_aged(failures=failures, limit=1) == 1
    assert [fact.stream for fact in facts()] == [good.job.audit_subject]
    assert failures.resting() == [spoilt]


def test_the_sweeper_tells_it_and_the_inbox_has_it(
    lost: Callable[[], Execution], settings: Any, as_: Any
) -> None:
    settings.IN_DOUBT_AGED_SECONDS = 0
    execution = lost()

    call_command("sweep", "--once", "--prune-interval", "0", "--seal-interval", "0")

    assert len(facts()) == 1
    assert ledger.count_bounds(overrun_days=7, up_to=10).aged_doubts == 1
    page = as_("governor").get("/admin/inbox/").content.decode()
    assert "Money in doubt for long" in page
    assert f"{execution.job.task_id}: attempt 1" in page


@pytest.mark.django_db(transaction=True)
def test_two_sweepers_tell_it_once(
    governed: Governed,  # noqa: F811
    lost: Callable[[], Execution],
    settings: Any,
    on_other_connection: Any,
) -> None:
    settings.IN_DOUBT_AGED_SECONDS = 0
    lost()

    with transaction.atomic():
        [row] = Reservation.objects.values("reservation_id", "task_id")
        assert doubts.tell_if_aged(**row) is True
        # The job is held: the other leaves it.
        assert on_other_connection(doubts.tell_if_aged, **row) is False
    assert on_other_connection(doubts.tell_if_aged, **row) is False

    assert len(facts()) == AgedReservation.objects.count() == 1


def test_a_call_dearer_than_held_is_told_on_its_jobs_stream(
    governed: Governed,  # noqa: F811
    make_job: Callable[..., Job],
) -> None:
    execution = governed.begin(make_job(task_type="content_prep"))
    plain = governed.begin(make_job(task_type="content_prep"))

    governed.result(execution, usage={"input_tokens": 1000, "output_tokens": 9000})
    governed.result(plain)

    [fact] = Fact.objects.filter(type="dev.fencepost.ledger.overrun")
    assert fact.stream == execution.job.audit_subject
    assert fact.data | {"held": "0.003", "actual": "0.019", "over": "0.016"} == fact.data
    event = AuditEvent.objects.get(action="ledger.overrun")
    assert event.subject == execution.job.audit_subject
