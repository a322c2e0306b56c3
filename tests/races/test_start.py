"""External effects that meet: two starts, a start and a stop, a result and the sweep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.db import IntegrityError

from agents import entry
from agents.transitions.admission import Admission, set_admission
from governance.core.errors import (
    EffectsClosed,
    ExecutionConflict,
    PermitSpent,
    StaleFencingToken,
)
from governance.money.models import Reservation, Resolution
from jobs import transitions
from jobs.models import Execution, Job, Permit
from tests.evidence import actions
from tests.jobs.governed import Governed
from tests.work import expire_lease
from tests.world import TEST

pytestmark = pytest.mark.django_db(transaction=True)

MakeJob = Callable[..., Job]


@pytest.fixture
def permitted(governed: Governed, make_job: MakeJob) -> tuple[Job, UUID]:
    """A claimed job with a reservation, and the permit to start its execution."""
    job = make_job()
    governed.claim(job)
    reservation = governed.route(job).reservation.reservation_id
    return job, governed.permit(job, reservation).permit_id


def start_of(governed: Governed, job: Job, permit_id: UUID, **over: Any) -> Callable[[], Any]:
    return lambda: governed.start(Job.objects.get(pk=job.pk), permit_id, **over)


def test_a_start_that_meets_itself_is_issued_once(
    race: Any, governed: Governed, permitted: tuple[Job, UUID]
) -> None:
    job, permit_id = permitted

    first, second = race(start_of(governed, job, permit_id), start_of(governed, job, permit_id))

    assert (first.outcome, second.outcome) == ("started", "already_started")
    assert first.execution.decided_at == second.execution.decided_at
    assert Execution.objects.count() == 1
    assert actions(job).count("execution.started") == 1
    job.refresh_from_db()
    assert job.unresolved_executions == 1


def test_of_two_different_starts_one_is_a_conflict(
    race: Any, governed: Governed, permitted: tuple[Job, UUID]
) -> None:
    job, permit_id = permitted

    first, second = race(
        start_of(governed, job, permit_id),
        start_of(governed, job, permit_id, request_sha256="ef" * 32),
    )

    assert first.outcome == "started"
    assert type(second) is ExecutionConflict
    assert Execution.objects.get().request_sha256 == "ab" * 32


@pytest.mark.usefixtures("no_job_locks")
def test_control_without_the_lock_a_repeated_start_does_not_find_its_receipt(
    race: Any, governed: Governed, permitted: tuple[Job, UUID]
) -> None:
    job, permit_id = permitted

    _, second = race(start_of(governed, job, permit_id), start_of(governed, job, permit_id))

    assert type(second) is PermitSpent


def test_a_start_that_meets_a_stop_is_fenced(
    race: Any, governed: Governed, permitted: tuple[Job, UUID]
) -> None:
    job, permit_id = permitted
    start = governed.binding(job)

    def begin() -> Any:
        return governed.start(job, permit_id, binding=start)

    stopped, begun = race(lambda: transitions.stop(task_id=job.task_id, **TEST), begin)

    assert stopped.job.state == "stopped"
    assert type(begun) is StaleFencingToken
    assert not Execution.objects.exists()
    assert Permit.objects.get().state == "revoked"
    assert Reservation.objects.get().state == "released"


def test_a_delayed_start_that_meets_the_end_of_its_attempt_permits_nothing(
    race: Any, governed: Governed, permitted: tuple[Job, UUID]
) -> None:
    job, permit_id = permitted
    governed.start(job, permit_id)
    binding = governed.binding(job)

    _, again = race(
        lambda: transitions.stop(task_id=job.task_id, **TEST),
        lambda: governed.start(job, permit_id, binding=binding),
    )

    assert (again.outcome, again.may_begin) == ("already_started", False)


@pytest.mark.usefixtures("no_job_locks")
def test_control_without_the_lock_the_delayed_start_permits(
    race: Any, governed: Governed, permitted: tuple[Job, UUID]
) -> None:
    job, permit_id = permitted
    governed.start(job, permit_id)
    binding = governed.binding(job)

    _, again = race(
        lambda: transitions.stop(task_id=job.task_id, **TEST),
        lambda: governed.start(job, permit_id, binding=binding),
    )

    assert (again.outcome, again.may_begin) == ("already_started", True)


def test_a_stop_that_meets_a_start_leaves_the_execution_to_be_reconciled(
    race: Any, governed: Governed, permitted: tuple[Job, UUID]
) -> None:
    job, permit_id = permitted

    begun, stopped = race(
        start_of(governed, job, permit_id),
        lambda: transitions.stop(task_id=job.task_id, **TEST),
    )

    job.refresh_from_db()
    assert begun.outcome == "started"
    assert stopped.job.state == "stopped"
    assert job.unresolved_executions == 1
    assert Reservation.objects.get().state == "in_doubt"


def close() -> Admission:
    return set_admission(agent="hermes", state="closed", barrier_id="b", **TEST)


def test_a_start_that_meets_a_close_is_refused(
    race: Any, governed: Governed, permitted: tuple[Job, UUID]
) -> None:
    job, permit_id = permitted

    closed, begun = race(close, start_of(governed, job, permit_id))

    assert (closed.state, closed.effects_until) == ("closed", None)
    assert type(begun) is EffectsClosed
    assert not Execution.objects.exists()


def test_a_close_that_meets_a_start_waits_for_it_and_names_its_end(
    race: Any, governed: Governed, permitted: tuple[Job, UUID]
) -> None:
    job, permit_id = permitted

    begun, closed = race(start_of(governed, job, permit_id), close)

    assert begun.outcome == "started"
    assert closed.effects_until == begun.execution.deadline_at


def test_control_without_the_lock_a_close_does_not_see_the_start(
    race: Any,
    governed: Governed,
    permitted: tuple[Job, UUID],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job, permit_id = permitted
    monkeypatch.setattr(entry, "LOCK_SHARED", "SELECT %s::int, %s::int")

    begun, closed = race(start_of(governed, job, permit_id), close)

    assert begun.outcome == "started"
    assert (closed.state, closed.effects_until) == ("closed", None)


def test_a_result_that_meets_the_sweep_is_evidence(
    race: Any, governed: Governed, permitted: tuple[Job, UUID]
) -> None:
    job, permit_id = permitted
    governed.start(job, permit_id)
    execution = Execution.objects.get()
    expire_lease(job)

    swept, told = race(
        lambda: transitions.end_if_due(task_id=job.task_id), lambda: governed.result(execution)
    )

    assert swept == "lease_expired"
    assert told.as_evidence
    job.refresh_from_db()
    assert job.state == "in_doubt"
    assert Resolution.objects.get().ended_as == "settled"


def test_a_sweep_that_meets_a_result_finds_nothing_unknown(
    race: Any, governed: Governed, permitted: tuple[Job, UUID]
) -> None:
    job, permit_id = permitted
    governed.start(job, permit_id)
    execution = Execution.objects.get()
    expire_lease(job)

    told, swept = race(
        lambda: governed.result(execution), lambda: transitions.end_if_due(task_id=job.task_id)
    )

    assert not told.as_evidence
    job.refresh_from_db()
    assert (swept, job.unresolved_executions) in ((None, 0), ("lease_expired", 0))
    assert Resolution.objects.get().ended_as == "settled"


@pytest.mark.usefixtures("no_job_locks")
def test_control_without_the_lock_the_sweep_acts_on_what_it_read_before(
    race: Any, governed: Governed, permitted: tuple[Job, UUID]
) -> None:
    job, permit_id = permitted
    governed.start(job, permit_id)
    execution = Execution.objects.get()
    expire_lease(job)

    _, swept = race(
        lambda: governed.result(execution), lambda: transitions.end_if_due(task_id=job.task_id)
    )

    assert isinstance(swept, IntegrityError)
