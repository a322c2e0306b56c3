"""A session is bound to a new epoch while its process writes: each sees the other, or comes after.

The controls show what happens without the gate's lock, which a re-binding takes exclusively.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from agents import barrier, entry
from agents.entry import Entry
from agents.models import Agent, Fleet, FormerSession, Session
from agents.principals import Principal, identify
from agents.transitions import credentials, epochs, sessions
from governance.core.errors import (
    DispatcherEpochStale,
    PermitRevoked,
    SessionOfAnother,
    SessionSuperseded,
)
from jobs import transitions
from jobs.models import Attempt, Execution, Job, JobType, Lease, ModelUse, Permit
from tests.jobs.governed import Governed
from tests.world import TEST

pytestmark = pytest.mark.django_db(transaction=True)

MakeJob = Callable[..., Job]
Held = dict[str, Any]


@pytest.fixture
def no_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: whoever closes the gate of an agent waits for nobody."""
    monkeypatch.setattr(barrier, "LOCK_EXCLUSIVE", "SELECT %s::int, %s::int")


@pytest.fixture
def held(governed: Governed, make_job: MakeJob) -> Held:
    """A job that the session holds, as its writes name it."""
    # What it completes without a call of a model is not what these races are about.
    JobType.objects.update(model_use=ModelUse.ALLOWED)
    claimed = governed.claim(make_job())
    assert claimed.grant is not None
    return {
        "task_id": claimed.job.task_id,
        "attempt": claimed.grant.attempt.number,
        "fencing_token": claimed.grant.attempt.fencing_token,
    }


def beat(by: Entry, held: Held) -> Callable[[], Any]:
    return lambda: transitions.heartbeat(entry=by, beats=[held])[0]


def complete(by: Entry, held: Held) -> Callable[[], Any]:
    completion = held | {"result": {"n": 1}}
    return lambda: transitions.complete(entry=by, completions=[completion])[0]


def ended() -> bool:
    return Attempt.objects.get().ended_at is not None


def rotate() -> UUID:
    return epochs.rotate(**TEST)


# --- Heartbeats -------------------------------------------------------------------------------


def test_a_beat_that_meets_a_rebinding_is_renewed_or_told_to_activate(
    race: Any, governed: Governed, held: Held
) -> None:
    """It takes no gate, so that it is answered at once: the lease stays as it was, or is longer."""
    before, lease = governed.entry, Lease.objects.get()
    rotate()

    _, beaten = race(governed.rebind, beat(before, held))

    assert type(beaten) is DispatcherEpochStale
    after = Lease.objects.get()
    assert (after.session_id, after.expires_at) == (lease.session_id, lease.expires_at)
    assert beat(governed.entry, held)().outcome == "renewed"


def test_a_rebinding_that_meets_a_beat_leaves_it_renewed(
    race: Any, governed: Governed, held: Held
) -> None:
    lease = Lease.objects.get()

    def turn() -> None:
        rotate()
        governed.rebind()

    beaten, _ = race(beat(governed.entry, held), turn)

    assert beaten.outcome == "renewed"
    after = Lease.objects.get()
    assert after.session_id == lease.session_id
    assert after.expires_at > lease.expires_at


def test_control_a_beat_under_a_former_id_that_is_not_kept_would_lose_its_session(
    governed: Governed, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgetting = entry.CALLER.replace(
        "agents_formersession WHERE", "agents_formersession WHERE 0=1 AND"
    )
    assert forgetting != entry.CALLER
    before = governed.entry
    rotate()
    governed.rebind()
    monkeypatch.setattr(
        transitions.leases, "BEAT", transitions.leases.BEAT.replace(entry.CALLER, forgetting)
    )

    with pytest.raises(Exception) as refusal:
        beat(before, held)()

    assert type(refusal.value) is not DispatcherEpochStale


# --- Completions ------------------------------------------------------------------------------


def test_a_completion_that_meets_a_rebinding_is_told_to_activate_and_loses_nothing(
    race: Any, governed: Governed, held: Held
) -> None:
    before = governed.entry
    rotate()

    _, done = race(governed.rebind, complete(before, held))

    assert type(done) is DispatcherEpochStale
    assert Attempt.objects.get().ended_at is None
    assert complete(governed.entry, held)().outcome == "recorded"


def test_a_rebinding_that_meets_a_completion_waits_for_it(
    race: Any, governed: Governed, held: Held
) -> None:
    def turn() -> bool:
        rotate()
        governed.rebind()
        return ended()

    done, seen = race(complete(governed.entry, held), turn)

    assert (done.outcome, seen) == ("recorded", True)


@pytest.mark.usefixtures("no_gate")
def test_control_without_the_lock_the_rebinding_is_through_before_the_completion(
    race: Any, governed: Governed, held: Held
) -> None:
    def turn() -> bool:
        rotate()
        governed.rebind()
        return ended()

    done, seen = race(complete(governed.entry, held), turn)

    assert (done.outcome, seen) == ("recorded", False)


# --- Starts -----------------------------------------------------------------------------------


@pytest.fixture
def permitted(governed: Governed, make_job: MakeJob) -> tuple[Job, Permit]:
    job = make_job()
    governed.claim(job)
    reservation = governed.route(job).reservation.reservation_id
    return job, governed.permit(job, reservation)


def test_a_start_that_meets_a_rebinding_has_no_permit_any_more(
    race: Any, governed: Governed, permitted: tuple[Job, Permit]
) -> None:
    job, permit = permitted
    binding, before = governed.binding(job), governed.entry
    rotate()

    def begin() -> Any:
        governed.entry, bound = before, governed.entry
        try:
            return governed.start(job, permit.permit_id, binding=binding)
        finally:
            governed.entry = bound

    _, begun = race(governed.rebind, begin)

    assert type(begun) is DispatcherEpochStale
    assert Permit.objects.get().state == "revoked"
    assert not Execution.objects.exists()
    with pytest.raises(PermitRevoked):
        governed.start(job, permit.permit_id)


def test_a_rebinding_that_meets_a_start_finds_the_permit_spent(
    race: Any, governed: Governed, permitted: tuple[Job, Permit]
) -> None:
    job, permit = permitted

    def turn() -> None:
        rotate()
        governed.rebind()

    begun, _ = race(lambda: governed.start(job, permit.permit_id), turn)

    assert begun.outcome == "started"
    assert Permit.objects.get().state == "spent"
    again = governed.start(job, permit.permit_id)
    assert (again.outcome, again.may_begin) == ("already_started", False)
    assert not governed.result(Execution.objects.get()).as_evidence


@pytest.mark.usefixtures("no_gate")
def test_control_without_the_lock_the_permit_is_looked_at_before_the_start_has_spent_it(
    race: Any, governed: Governed, permitted: tuple[Job, Permit]
) -> None:
    job, permit = permitted
    seen: list[int] = []

    def turn() -> None:
        rotate()
        seen.append(Permit.objects.filter(state="issued").count())

    race(lambda: governed.start(job, permit.permit_id), turn)

    assert seen == [1]


# --- The epoch --------------------------------------------------------------------------------


def test_an_epoch_that_is_rotated_while_a_session_is_bound_waits_for_it(
    race: Any, governed: Governed, held: Held
) -> None:
    """The session is of the epoch between, and its process has to come once more."""
    rotate()
    _, newest = race(governed.rebind, rotate)

    row = Session.objects.get()
    assert Fleet.objects.get().dispatcher_epoch == newest != row.dispatcher_epoch
    with pytest.raises(DispatcherEpochStale):
        beat(governed.entry, held)()
    governed.rebind()
    assert beat(governed.entry, held)().outcome == "renewed"
    assert FormerSession.objects.count() == 2


def test_a_rebinding_that_meets_a_rotation_is_bound_to_the_newest(
    race: Any, governed: Governed, held: Held
) -> None:
    rotate()
    newest, _ = race(rotate, governed.rebind)

    assert Session.objects.get().dispatcher_epoch == newest
    assert beat(governed.entry, held)().outcome == "renewed"


def test_control_without_any_lock_the_rebinding_is_to_an_epoch_that_is_over(
    race: Any, governed: Governed, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(names: Any = None, *, key: Any = None) -> list[Agent]:
        return list(Agent.objects.filter(name__in=names) if names else Agent.objects.all())

    rotate()
    monkeypatch.setattr(barrier, "hold", look)
    newest, _ = race(rotate, governed.rebind)

    assert Session.objects.get().dispatcher_epoch != newest


def test_a_rotation_waits_for_the_writes_under_the_epoch_before(
    race: Any, governed: Governed, held: Held
) -> None:
    def turn() -> bool:
        rotate()
        return ended()

    done, seen = race(complete(governed.entry, held), turn)

    assert (done.outcome, seen) == ("recorded", True)


@pytest.mark.usefixtures("no_gate")
def test_control_without_the_lock_the_rotation_is_over_before_such_a_write(
    race: Any, governed: Governed, held: Held
) -> None:
    def turn() -> bool:
        rotate()
        return ended()

    done, seen = race(complete(governed.entry, held), turn)

    assert (done.outcome, seen) == ("recorded", False)


# --- Lineages ---------------------------------------------------------------------------------


@pytest.fixture
def other(issue: Any) -> Principal:
    return identify(token=issue(agent="hermes"))


def boot(by: Principal) -> Callable[[], Any]:
    called = sessions.Boot(cell_id="cell-9", boot_id=str(uuid4()), protocol_version="1.0")
    return lambda: sessions.activate(
        principal=by, agent="hermes", operation_id=str(uuid4()), boot=called
    )


def test_of_two_lineages_that_boot_in_one_cell_the_first_has_it(
    race: Any, hermes: Principal, other: Principal
) -> None:
    first, second = race(boot(hermes), boot(other))

    assert first["state"] == "current"
    assert type(second) is SessionOfAnother
    assert Session.objects.get().lineage == hermes.lineage


def test_a_write_that_meets_the_revocation_of_its_lineage_is_over(
    race: Any, governed: Governed, held: Held
) -> None:
    _, done = race(
        lambda: credentials.revoke(prefix=governed.principal.credential_prefix, **TEST),
        complete(governed.entry, held),
    )

    assert type(done) is SessionSuperseded
    assert Attempt.objects.get().ended_at is None


@pytest.mark.usefixtures("no_gate")
def test_control_without_the_lock_such_a_write_commits_after_the_revocation(
    race: Any, governed: Governed, held: Held
) -> None:
    _, done = race(
        lambda: credentials.revoke(prefix=governed.principal.credential_prefix, **TEST),
        complete(governed.entry, held),
    )

    assert done.outcome == "recorded"
