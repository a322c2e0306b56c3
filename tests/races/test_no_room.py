"""Notes of no room that meet the room: none is left over from before it was made."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from agents.entry import Entry
from governance.core.errors import BudgetExhausted
from governance.money import catalogue, room
from governance.money.notes import NoRoom
from jobs import executions, transitions
from jobs.models import Job
from tests.jobs.governed import TEST, Governed

pytestmark = pytest.mark.django_db(transaction=True)

CALL = Decimal("0.003")


def set_cap(amount: Decimal) -> Any:
    return catalogue.set_budget(scope="agent", key="hermes", window="day", cap=amount, **TEST)


def defer_of(governed: Governed, job: Job) -> Callable[[], Any]:
    binding = governed.binding(job)
    return lambda: transitions.defer(
        entry=governed.entry,
        task_id=binding.task_id,
        attempt=binding.attempt,
        fencing_token=binding.fencing_token,
        reason="No room.",
        retry_after_seconds=60,
    )


def release_of(governed: Governed, job: Job, routed: Any) -> Callable[[], Any]:
    binding = governed.binding(job)
    return lambda: executions.resolve_reservation(
        entry=governed.entry,
        binding=binding,
        reservation_id=routed.reservation.reservation_id,
        end="released",
    )


def refused(governed: Governed, job: Job) -> Job:
    """Claim a job and have its route refused."""
    governed.claim(job)
    assert isinstance(governed.route(job).refusal, BudgetExhausted)
    return job


@pytest.fixture
def empty(governed: Governed, make_job: Any) -> Job:
    """A job that was refused under an empty cap."""
    set_cap(Decimal(0))
    return refused(governed, make_job())


@pytest.fixture
def full(governed: Governed, make_job: Any) -> tuple[Job, Callable[[], Any]]:
    """A job that was refused under a cap that another's call fills, and the release of that."""
    set_cap(CALL)
    held = make_job()
    governed.claim(held)
    routed = governed.route(held)
    return refused(governed, make_job()), release_of(governed, held, routed)


def test_a_cap_that_is_raised_while_a_deferral_judges_leaves_no_note(
    race: Any, governed: Governed, empty: Job
) -> None:
    _, deferred = race(lambda: set_cap(Decimal(1)), defer_of(governed, empty))

    assert deferred.cause == "confirmed"
    assert not NoRoom.objects.exists()


def test_control_without_the_lock_of_the_budget_the_note_is_of_the_old_cap(
    race: Any, governed: Governed, empty: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlocked = room.LOCK_BUDGETS.replace(" FOR SHARE OF b", "")
    assert unlocked != room.LOCK_BUDGETS
    monkeypatch.setattr(room, "LOCK_BUDGETS", unlocked)

    race(lambda: set_cap(Decimal(1)), defer_of(governed, empty))

    assert NoRoom.objects.exists()


def test_a_note_that_is_written_while_a_cap_is_raised_is_dropped_with_it(
    race: Any, governed: Governed, empty: Job
) -> None:
    _, budget = race(defer_of(governed, empty), lambda: set_cap(Decimal(1)))

    assert budget.cap == 1
    assert not NoRoom.objects.exists()


def test_a_hold_that_is_released_while_a_deferral_judges_leaves_no_note(
    race: Any, governed: Governed, full: tuple[Job, Callable[[], Any]]
) -> None:
    job, release = full

    released, deferred = race(release, defer_of(governed, job))

    assert (released.outcome, deferred.cause) == ("recorded", "confirmed")
    assert not NoRoom.objects.exists()


def test_control_without_the_lock_of_the_window_the_note_is_of_the_old_hold(
    race: Any,
    governed: Governed,
    full: tuple[Job, Callable[[], Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job, release = full
    unlocked = room.LOCK_WINDOWS.replace(" FOR NO KEY UPDATE OF w", "")
    assert unlocked != room.LOCK_WINDOWS
    monkeypatch.setattr(room, "LOCK_WINDOWS", unlocked)

    race(release, defer_of(governed, job))

    assert NoRoom.objects.exists()


def test_a_note_that_is_written_while_a_hold_is_released_is_dropped_with_it(
    race: Any, governed: Governed, full: tuple[Job, Callable[[], Any]]
) -> None:
    job, release = full

    race(defer_of(governed, job), release)

    assert not NoRoom.objects.exists()


def test_two_deferrals_write_one_note(
    race: Any, governed: Governed, empty: Job, make_job: Any
) -> None:
    other = refused(governed, make_job())

    first, second = race(defer_of(governed, empty), defer_of(governed, other))

    assert (first.outcome, second.outcome) == ("recorded", "recorded")
    assert NoRoom.objects.get().scope == "agent"


def test_two_claims_past_what_has_no_room_get_two_jobs(
    race: Any, governed: Governed, empty: Job, make_job: Any, worker: Entry
) -> None:
    defer_of(governed, empty)()
    fine = [make_job(task_type="healthcheck").task_id for _ in range(2)]

    def next_of(entry: Entry) -> Callable[[], list[str]]:
        return lambda: [each.job.task_id for each in transitions.claim_next(entry=entry, limit=1)]

    mine, theirs = race(next_of(governed.entry), next_of(worker))

    assert [mine, theirs] == [fine[:1], fine[1:]]
