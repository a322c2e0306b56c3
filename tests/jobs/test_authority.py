"""Who may write for an attempt: what is left out of a request gives nobody more than it had."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from agents.entry import Entry
from agents.models import Session
from agents.principals import Principal
from agents.transitions import epochs, sessions
from governance.core import clock, errors
from governance.core.digests import canonical, sha256_hex
from governance.core.models import AuditEvent
from governance.money.ledger import Resolved
from governance.money.models import Reservation
from jobs import executions, transitions
from jobs.models import Execution, Job, Lease, Permit, Upload
from jobs.transitions import facts, uploads
from jobs.transitions.sweeping import end_if_due
from tests.jobs.governed import TEST, Governed

MakeJob = Callable[..., Job]


@pytest.fixture
def nobody(hermes: Principal) -> Entry:
    """A request of the agent that names neither session nor worker."""
    return Entry(hermes)


def events(job: Job) -> int:
    return AuditEvent.objects.filter(subject=job.audit_subject).count()


def authority(job: Job) -> dict[str, Any]:
    return {"task_id": job.task_id, "attempt": job.attempt, "fencing_token": job.fencing_token}


DATA = {"state": "published"}
WRITES: dict[str, Callable[..., Any]] = {
    "state_fact": lambda entry, said: facts.state_fact(
        entry=entry,
        stated=facts.Stated("f-1", sha256_hex(canonical(DATA)), "com.example.published", DATA),
        subject=facts.Subject(**said),
    ),
    "complete": lambda entry, said: _alone(
        transitions.complete(entry=entry, completions=[said | {"result": 1}])
    ),
    "fail": lambda entry, said: transitions.fail(
        entry=entry, **said, error_message="It broke.", error_code="BROKE", retryable=True
    ),
    "escalate": lambda entry, said: transitions.escalate(entry=entry, **said, reason="Help."),
    "reflect": lambda entry, said: transitions.reflect(
        entry=entry, **said, content={"what_worked": "nothing"}
    ),
}


def _alone(answers: list[Any]) -> Any:
    [answer] = answers
    if isinstance(answer, errors.DomainError):
        raise answer
    return answer


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("holder", ["current", "superseded", "of an older epoch"])
def test_nobody_writes_for_a_session_by_leaving_the_session_out(
    governed: Governed, nobody: Entry, make_job: MakeJob, write: str, holder: str
) -> None:
    job = make_job()
    governed.claim(job)
    job.refresh_from_db()
    if holder == "superseded":
        governed.activate()
    elif holder == "of an older epoch":
        epochs.rotate(**TEST)
    before = events(job)

    with pytest.raises(errors.LeaseHeldByAnother):
        WRITES[write](nobody, authority(job))

    job.refresh_from_db()
    assert (job.state, events(job)) == ("active", before)


@pytest.mark.parametrize("write", WRITES)
def test_another_worker_writes_nothing_by_a_token_that_it_knows(
    worker: Entry, other_worker: Entry, make_job: MakeJob, claim: Callable[..., Any], write: str
) -> None:
    job = claim(make_job()).job
    before = events(job)

    with pytest.raises(errors.LeaseHeldByAnother):
        WRITES[write](other_worker, authority(job))

    job.refresh_from_db()
    assert (job.state, events(job)) == ("active", before)
    WRITES[write](worker, authority(job))
    assert events(job) == before + 1


def test_a_name_alone_writes_nothing_for_an_activated_session(
    governed: Governed, hermes: Principal, make_job: MakeJob
) -> None:
    job = make_job()
    named = Entry(hermes, "w1", governed.entry.session_id, governed.entry.epoch)
    transitions.claim(entry=named, task_id=job.task_id, owner="")
    before = events(job)

    with pytest.raises(errors.LeaseHeldByAnother):
        WRITES["complete"](Entry(hermes, "w1"), {"task_id": job.task_id, "worker_id": "w1"})

    job.refresh_from_db()
    assert (job.state, events(job)) == ("active", before)


def test_another_session_gets_no_permit_for_a_lease_that_it_does_not_hold(
    governed: Governed, hermes: Principal, make_job: MakeJob
) -> None:
    job = make_job()
    governed.claim(job)
    reservation = governed.route(job).reservation.reservation_id
    other = Governed(hermes, cell="cell-2")

    with pytest.raises(errors.LeaseHeldByAnother):
        other.permit(job, reservation)

    assert not Permit.objects.exists()


def test_a_session_without_activation_starts_nothing(
    governed: Governed, nobody: Entry, make_job: MakeJob
) -> None:
    job = make_job()
    governed.claim(job)
    permit = governed.permit(job, governed.route(job).reservation.reservation_id)
    governed.entry = nobody

    with pytest.raises(errors.SessionRequired):
        governed.start(job, permit.permit_id)

    assert not Execution.objects.exists()


@pytest.mark.parametrize(
    ("whose", "refusal"),
    [
        ("another agent's", errors.WrongOwner),
        ("nobody's", errors.NotFound),
        ("its own", errors.SessionRequired),
    ],
)
def test_without_a_session_the_owner_comes_before_the_session_and_that_before_the_token(
    governed: Governed,
    nobody: Entry,
    openclaw: Principal,
    make_job: MakeJob,
    whose: str,
    refusal: type[errors.DomainError],
) -> None:
    job = make_job()
    governed.claim(job)
    bound = replace(governed.binding(job), fencing_token=99)
    if whose == "nobody's":
        bound = replace(bound, task_id="no-such-task")
    entry = Entry(openclaw) if whose == "another agent's" else nobody
    said = {name: getattr(bound, name) for name in ("task_id", "attempt", "fencing_token")}
    content = {"sha256": "ab" * 32, "size_bytes": 1}
    calls: list[Callable[[], Any]] = [
        lambda: executions.permit(
            entry=entry, binding=bound, reservation_id=None, mode="mock", expected_revision=1
        ),
        lambda: executions.start(
            entry=entry,
            permit_id=uuid4(),
            binding=bound,
            execution_digest="",
            runtime="",
            request_sha256="",
        ),
        lambda: uploads.grant_upload(
            entry=entry, announced=uploads.Announced("a", "text/plain", 1, "ab" * 32), **said
        ),
        lambda: uploads.complete_upload(
            entry=entry, upload_id=uuid4(), stored=None, **said, **content
        ),
    ]
    before = events(job)

    for call in calls:
        with pytest.raises(refusal) as caught:
            call()
        assert type(caught.value) is refusal

    assert not Permit.objects.exists()
    assert not Upload.objects.exists()
    assert events(job) == before


@pytest.mark.parametrize("ended", ["superseded", "of an older epoch"])
def test_a_session_that_is_no_more_reports_no_result_by_leaving_itself_out(
    governed: Governed, nobody: Entry, make_job: MakeJob, ended: str
) -> None:
    job = make_job()
    execution = governed.begin(job)
    if ended == "superseded":
        governed.activate()
    else:
        epochs.rotate(**TEST)
    governed.entry = nobody
    before = events(job)

    with pytest.raises(errors.LeaseHeldByAnother):
        governed.result(execution)

    execution.refresh_from_db()
    assert execution.state == "unknown"
    assert Reservation.objects.get(reservation_id=execution.reservation_id).state == "in_doubt"
    assert events(job) == before


def test_a_session_that_was_bound_to_a_new_epoch_gets_a_new_permit(
    governed: Governed, hermes: Principal, make_job: MakeJob
) -> None:
    job = make_job()
    governed.claim(job)
    reservation = governed.route(job).reservation.reservation_id
    old = governed.permit(job, reservation)
    session = Session.objects.get(session_id=governed.entry.session_id)
    epochs.rotate(**TEST)
    boot = sessions.Boot(
        cell_id=session.cell_id,
        boot_id=session.boot_id,
        protocol_version="1.0",
        runtime="command",
        previous_session_id=session.session_id,
    )
    answer = sessions.activate(
        principal=hermes, agent="hermes", operation_id="bound-anew", boot=boot
    )
    governed.entry = Entry(
        hermes,
        session_id=UUID(str(answer["session_id"])),
        epoch=UUID(str(answer["dispatcher_epoch"])),
    )

    new = governed.permit(job, reservation)

    assert Permit.objects.get(permit_id=old.permit_id).state == "revoked"
    with pytest.raises(errors.PermitRevoked):
        governed.start(job, old.permit_id)
    assert governed.start(job, new.permit_id).execution.state == "unknown"


# --- Money and results ------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["released", "failed"])
def test_nothing_starts_on_a_reservation_that_has_ended_meanwhile(
    governed: Governed, make_job: MakeJob, end: str
) -> None:
    job = make_job()
    governed.claim(job)
    reservation = governed.route(job).reservation
    permit = governed.permit(job, reservation.reservation_id)
    how = {"cost_basis": "none"} if end == "failed" else {}
    resolve(governed, job, reservation, end=end, **how)
    before = events(job)

    with pytest.raises(errors.ModelReservationStateInvalid):
        governed.start(job, permit.permit_id)

    assert not Execution.objects.exists()
    assert Permit.objects.get().state == "issued"
    assert Job.objects.get(pk=job.pk).unresolved_executions == 0
    assert events(job) == before


def test_a_result_waits_for_the_later_calls_of_its_attempt(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job()
    execution = governed.begin(job)
    resolve(governed, job, Reservation.objects.get(), end="settled")
    governed.route(job, call=2)

    with pytest.raises(errors.ModelReservationStateInvalid):
        governed.result(execution)

    execution.refresh_from_db()
    assert execution.state == "unknown"
    later = Reservation.objects.get(state="in_doubt")
    resolve(governed, job, later, end="settled")
    assert governed.result(execution).outcome == "recorded"
    assert not Reservation.objects.filter(state__in=Reservation.OPEN).exists()


def test_an_ended_attempt_ends_no_call_as_if_it_had_cost_nothing(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job()
    governed.begin(job)
    binding = governed.binding(job)
    transitions.fail(
        entry=governed.entry, **authority(job), error_message="Lost.", error_code="", retryable=True
    )
    job.refresh_from_db()
    assert job.state == "in_doubt"

    told = executions.resolve_reservation(
        entry=governed.entry,
        binding=binding,
        reservation_id=Reservation.objects.get().reservation_id,
        end="failed",
        cost_basis="none",
    )

    assert (told.as_evidence, told.resolution) == (True, None)
    assert Reservation.objects.get().state == "in_doubt"


def test_a_repeated_end_of_a_reservation_is_answered_after_the_attempt_is_over(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job()
    governed.claim(job)
    governed.route(job)
    reservation, binding = Reservation.objects.get(), governed.binding(job)
    resolve(governed, job, reservation, end="failed", cost_basis="none")
    governed.activate()
    assert end_if_due(task_id=job.task_id) == "superseded"

    def again(**over: Any) -> Resolved:
        said = {"end": "failed", "cost_basis": "none"} | over
        return executions.resolve_reservation(
            entry=governed.entry,
            binding=binding,
            reservation_id=reservation.reservation_id,
            **said,
        )

    assert again().outcome == "already_recorded"
    with pytest.raises(errors.ModelReservationStateInvalid):
        again(error_code="OTHER")


def resolve(governed: Governed, job: Job, reservation: Reservation, **how: Any) -> Resolved:
    return executions.resolve_reservation(
        entry=governed.entry,
        binding=governed.binding(job),
        reservation_id=reservation.reservation_id,
        **how,
    )


def test_before_a_start_token_state_lease_and_permit_are_judged_in_this_order(
    governed: Governed, make_job: MakeJob
) -> None:
    """Each refusal is answered though all that come after it apply as well."""
    job = make_job()
    governed.claim(job)
    permit = governed.permit(job, governed.route(job).reservation.reservation_id)
    now = clock.now()
    Permit.objects.update(state="revoked", ended_at=now)
    with pytest.raises(errors.PermitRevoked):
        governed.start(job, permit.permit_id)

    Lease.objects.update(granted_at=now - timedelta(hours=1), expires_at=now)
    with pytest.raises(errors.LeaseExpired):
        governed.start(job, permit.permit_id)

    binding = governed.binding(job)
    transitions.escalate(
        entry=governed.entry,
        task_id=job.task_id,
        attempt=binding.attempt,
        fencing_token=binding.fencing_token,
        reason="help",
    )
    with pytest.raises(errors.InvalidTransition) as caught:
        governed.start(job, permit.permit_id)
    assert caught.value.reason == "INVALID_TRANSITION"

    stale = replace(binding, fencing_token=binding.fencing_token + 1)
    with pytest.raises(errors.StaleFencingToken):
        governed.start(job, permit.permit_id, binding=stale)

    session = governed.entry
    governed.activate()
    governed.entry = session
    with pytest.raises(errors.SessionSuperseded):
        governed.start(job, permit.permit_id, binding=stale)
    assert not Execution.objects.exists()


def test_before_a_permit_token_revision_lease_binding_and_permit_are_judged_in_this_order(
    governed: Governed, make_job: MakeJob
) -> None:
    """Each refusal is answered though all that come after it apply as well."""
    job = make_job()
    governed.claim(job)
    reservation = governed.route(job).reservation.reservation_id
    governed.start(job, governed.permit(job, reservation).permit_id)
    transitions.pause(task_id=job.task_id, **TEST)
    wanted = {"reservation_id": uuid4(), "mode": "live", "expected_revision": 0}

    def refusal_of(binding: executions.Binding, **over: Any) -> type[Exception]:
        with pytest.raises(errors.DomainError) as caught:
            executions.permit(entry=governed.entry, binding=binding, **(wanted | over))
        return caught.type

    binding = governed.binding(job)
    seen = {"expected_revision": job.revision}
    other = replace(binding, external_request_id="xr_" + "0" * 64)
    assert refusal_of(binding, **seen) is errors.PermitSpent
    assert refusal_of(other, **seen) is errors.BindingMismatch

    now = clock.now()
    Lease.objects.update(granted_at=now - timedelta(hours=1), expires_at=now)
    assert refusal_of(other, **seen) is errors.LeaseExpired
    assert refusal_of(other) is errors.RevisionMismatch
    stale = replace(other, fencing_token=binding.fencing_token + 1)
    assert refusal_of(stale) is errors.StaleFencingToken
    assert Permit.objects.get().state == "spent"


def test_a_pause_refuses_a_permit_before_its_reservation_is_looked_at(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job()
    governed.claim(job)
    transitions.pause(task_id=job.task_id, **TEST)

    with pytest.raises(errors.ExecutionPaused):
        governed.permit(job, uuid4())

    assert not Permit.objects.exists()


def test_a_refused_start_is_refused_again(governed: Governed, make_job: MakeJob) -> None:
    job = make_job()
    governed.claim(job)
    reservation = governed.route(job).reservation.reservation_id
    live = transitions.authorize_live(agent="hermes", runtime="command", valid_seconds=60, **TEST)
    permit = governed.permit(job, reservation, mode="live")
    transitions.revoke_live(authorization_id=live.pk, **TEST)

    answers = [governed.start(job, permit.permit_id) for _ in range(2)]

    assert [type(answer) for answer in answers] == [errors.LiveExecutionNotAuthorized] * 2
    assert Execution.objects.get().state == "refused"


def test_what_happened_is_not_completed_without_the_output_that_its_task_requires(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job(output_required=True)
    execution = governed.begin(job)
    transitions.fail(
        entry=governed.entry, **authority(job), error_message="Lost.", error_code="", retryable=True
    )
    before = events(job)

    def reconcile(**over: Any) -> transitions.Outcome:
        return executions.reconcile(
            external_request_id=execution.external_request_id, verdict="happened", **(TEST | over)
        )

    with pytest.raises(errors.InvalidArgument):
        reconcile()
    job.refresh_from_db()
    assert (job.state, events(job)) == ("in_doubt", before)
    assert reconcile(result={"found": True}).job.state == "completed"
