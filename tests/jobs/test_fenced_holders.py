"""What a holder that may act no more still has to tell, and who may not tell it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from agents.models import Session
from agents.principals import identify
from agents.transitions import credentials, epochs, sessions
from governance.core import errors
from governance.core.models import AuditEvent
from governance.money.models import Reservation, Resolution
from jobs import executions, transitions
from jobs.models import Execution, ExecutionEvidence, Job, Permit
from tests.evidence import actions
from tests.jobs.governed import TEST, Governed

pytestmark = pytest.mark.django_db

MakeJob = Callable[..., Job]
USED = {"input_tokens": 500, "output_tokens": 100}


def superseded(governed: Governed) -> None:
    """Let a newer boot take the session's place; the worker knows nothing of it."""
    entry = governed.entry
    governed.activate()
    governed.entry = entry


def of_an_older_epoch(governed: Governed) -> None:
    epochs.rotate(**TEST)


def bound_anew_elsewhere(governed: Governed) -> None:
    """Let another thread of the worker have activated again, under a new id."""
    entry = governed.entry
    epochs.rotate(**TEST)
    governed.rebind()
    governed.entry = entry


def released(governed: Governed) -> None:
    assert governed.entry.session_id is not None
    sessions.release_cell(session_id=governed.entry.session_id, **TEST)


FENCES = [superseded, of_an_older_epoch, bound_anew_elsewhere, released]


def states(job: Job) -> tuple[Any, ...]:
    """Everything that a word which decides nothing leaves as it is."""
    row = Job.objects.get(pk=job.pk)
    return (
        (row.state, row.attempt, row.fencing_token, row.unresolved_executions),
        list(Execution.objects.values("state", "outcome_sha256", "resulted_at")),
        list(row.attempts.values("outcome", "ended_at")),
    )


def resolve(governed: Governed, job: Job, end: str, **over: Any) -> executions.ResolveOutcome:
    return executions.resolve_reservation(
        entry=governed.entry,
        binding=governed.binding(job),
        reservation_id=Reservation.objects.get().reservation_id,
        end=end,
        **over,
    )


@pytest.mark.parametrize("fence", FENCES)
def test_a_result_of_a_fenced_session_is_kept_and_its_usage_booked(
    governed: Governed, make_job: MakeJob, fence: Callable[[Governed], None]
) -> None:
    job = make_job()
    execution = governed.begin(job)
    fence(governed)
    before = states(job)

    told = governed.result(execution)

    assert (told.outcome, told.as_evidence) == ("recorded", True)
    assert states(job) == before
    assert ExecutionEvidence.objects.get().content["usage"] == USED
    assert Resolution.objects.get().ended_as == "settled"
    assert actions(job)[-2:] == ["execution.evidence_kept", "reservation.settled"]
    assert governed.result(execution).outcome == "already_recorded"
    assert ExecutionEvidence.objects.count() == Resolution.objects.count() == 1


def test_without_usage_the_reservation_stays_in_doubt(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job()
    execution = governed.begin(job)
    superseded(governed)
    assert governed.result(execution, "failed", error_code="E").as_evidence
    assert Reservation.objects.get().state == "in_doubt"


def test_once_bound_anew_the_result_counts(governed: Governed, make_job: MakeJob) -> None:
    job = make_job()
    execution = governed.begin(job)
    epochs.rotate(**TEST)
    assert governed.result(execution).as_evidence
    governed.rebind()

    told = governed.result(execution)

    assert (told.outcome, told.as_evidence) == ("recorded", False)
    job.refresh_from_db()
    assert (told.execution.state, job.unresolved_executions) == ("succeeded", 0)
    assert Resolution.objects.count() == 1


@pytest.mark.parametrize("fence", FENCES)
@pytest.mark.parametrize(
    ("end", "said", "state"),
    [
        ("settled", {"usage": USED}, "settled"),
        ("settled", {}, "settled"),
        ("failed", {"usage": USED, "error_code": "E"}, "failed"),
        ("failed", {"cost_basis": "none", "error_code": "E"}, "in_doubt"),
    ],
)
def test_an_end_of_a_fenced_session_books_what_was_used_and_keeps_the_rest(
    governed: Governed,
    make_job: MakeJob,
    fence: Callable[[Governed], None],
    end: str,
    said: dict[str, Any],
    state: str,
) -> None:
    job = make_job()
    governed.begin(job)
    fence(governed)
    before = states(job)

    told = resolve(governed, job, end, **said)

    assert (told.outcome, told.as_evidence, told.state) == ("recorded", True, state)
    assert Reservation.objects.get().state == state
    assert states(job) == before
    kept = "reservation.evidence_kept" if state == "in_doubt" else f"reservation.{state}"
    assert actions(job)[-1] == kept


def test_a_release_by_a_fenced_session_releases_nothing(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job()
    governed.claim(job)
    governed.route(job)
    superseded(governed)
    told = resolve(governed, job, "released")
    assert (told.as_evidence, told.resolution) == (True, None)
    assert Reservation.objects.get().state == "held"


def test_an_end_from_an_ended_attempt_is_booked(governed: Governed, make_job: MakeJob) -> None:
    job = make_job()
    execution = governed.begin(job)
    binding = governed.binding(job)
    superseded(governed)
    transitions.sweep()
    job.refresh_from_db()
    assert job.state == "in_doubt"

    told = executions.resolve_reservation(
        entry=governed.entry,
        binding=binding,
        reservation_id=Reservation.objects.get().reservation_id,
        end="settled",
        usage=USED,
    )

    assert told.as_evidence
    assert Resolution.objects.get().ended_as == "settled"
    execution.refresh_from_db()
    assert execution.state == "unknown"


@pytest.mark.parametrize("ended", [False, True], ids=["running", "ended"])
@pytest.mark.parametrize("of_its_own", [False, True], ids=["in the session", "in its own session"])
def test_another_lineage_tells_nothing(
    governed: Governed, make_job: MakeJob, issue: Any, ended: bool, of_its_own: bool
) -> None:
    job = make_job()
    execution = governed.begin(job)
    binding = governed.binding(job)
    mine = governed.entry
    other = Governed(identify(token=issue(agent="hermes")), cell="cell-2")
    if not of_its_own:
        other.entry = replace(mine, principal=other.principal)
    if ended:
        superseded(governed)
        transitions.sweep()
    before = (states(job), AuditEvent.objects.count(), Reservation.objects.get().state)
    refusal = errors.LeaseHeldByAnother if of_its_own else errors.SessionOfAnother

    with pytest.raises(refusal), transaction.atomic():
        other.result(execution)
    with pytest.raises(refusal), transaction.atomic():
        executions.resolve_reservation(
            entry=other.entry,
            binding=binding,
            reservation_id=Reservation.objects.get().reservation_id,
            end="settled",
            usage=USED,
        )

    assert (states(job), AuditEvent.objects.count(), Reservation.objects.get().state) == before
    assert not ExecutionEvidence.objects.exists()


def test_what_begins_something_is_refused_to_a_fenced_session(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job()
    governed.claim(job)
    reservation = governed.route(job).reservation.reservation_id
    permit = governed.permit(job, reservation)
    superseded(governed)
    before = (states(job), AuditEvent.objects.count())
    for begin in (
        lambda: governed.route(job, call=2),
        lambda: governed.permit(job, reservation),
        lambda: governed.start(job, permit.permit_id),
    ):
        with pytest.raises(errors.SessionSuperseded), transaction.atomic():
            begin()
    assert (states(job), AuditEvent.objects.count()) == before


# --- Permits and starts over a new epoch ------------------------------------------------------


def test_binding_anew_revokes_what_is_not_spent(governed: Governed, make_job: MakeJob) -> None:
    job = make_job()
    governed.claim(job)
    reservation = governed.route(job).reservation.reservation_id
    permit = governed.permit(job, reservation)
    epochs.rotate(**TEST)
    governed.rebind()

    assert Permit.objects.get().state == "revoked"
    with pytest.raises(errors.PermitRevoked), transaction.atomic():
        governed.start(job, permit.permit_id)
    assert not Execution.objects.exists()
    again = governed.permit(job, reservation)
    assert governed.start(job, again.permit_id).outcome == "started"


def test_binding_anew_leaves_the_permits_of_other_sessions(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job()
    other = Governed(governed.principal, cell="cell-2")
    other.claim(job)
    other.permit(job, other.route(job).reservation.reservation_id)
    epochs.rotate(**TEST)
    governed.rebind()
    assert Permit.objects.get().state == "issued"


def test_a_start_already_made_goes_on_over_an_epoch(governed: Governed, make_job: MakeJob) -> None:
    job = make_job()
    execution = governed.begin(job)
    permit = execution.permit
    epochs.rotate(**TEST)
    governed.rebind()

    assert Permit.objects.get().state == "spent"
    again = governed.start(job, permit.permit_id)
    assert (again.outcome, again.may_begin) == ("already_started", False)
    assert not governed.result(execution).as_evidence


def test_a_permit_of_an_epoch_before_is_never_good(governed: Governed, make_job: MakeJob) -> None:
    """Also one that was issued before permits were revoked with the epoch."""
    job = make_job()
    governed.claim(job)
    reservation = governed.route(job).reservation.reservation_id
    permit = governed.permit(job, reservation)
    row = Session.objects.get(session_id=governed.entry.session_id)
    Session.objects.filter(pk=row.pk).update(generation=row.generation + 1)
    with pytest.raises(errors.PermitRevoked), transaction.atomic():
        governed.start(job, permit.permit_id)
    assert Permit.objects.get().state == "issued"


def test_a_rotated_credential_goes_on_in_the_session(governed: Governed, make_job: MakeJob) -> None:
    job = make_job()
    governed.claim(job)
    reservation = governed.route(job).reservation.reservation_id
    permit = governed.permit(job, reservation)
    issued = credentials.rotate(prefix=governed.principal.credential_prefix, **TEST)
    governed.entry = replace(governed.entry, principal=identify(token=issued.token))
    assert governed.start(job, permit.permit_id).outcome == "started"
    assert not governed.result(Execution.objects.get()).as_evidence


@pytest.mark.parametrize("call", ["route", "permit", "start"])
def test_another_lineage_begins_nothing_in_the_session(
    governed: Governed, make_job: MakeJob, issue: Any, call: str
) -> None:
    job = make_job()
    governed.claim(job)
    reservation = governed.route(job).reservation.reservation_id
    permit_id: UUID = governed.permit(job, reservation).permit_id
    other = replace(governed.entry, principal=identify(token=issue(agent="hermes")))
    governed.entry = other
    before = (states(job), AuditEvent.objects.count())
    calls = {
        "route": lambda: governed.route(job, call=2),
        "permit": lambda: governed.permit(job, reservation),
        "start": lambda: governed.start(job, permit_id),
    }
    with pytest.raises(errors.SessionOfAnother), transaction.atomic():
        calls[call]()
    assert (states(job), AuditEvent.objects.count()) == before


def test_a_start_needs_its_reservation_as_the_permit_did(
    governed: Governed, make_job: MakeJob
) -> None:
    """Between permit and start the worker may end the call that it is for."""
    job = make_job()
    governed.claim(job)
    reservation = governed.route(job).reservation.reservation_id
    permit = governed.permit(job, reservation)
    resolve(governed, job, "released")
    before = (states(job), AuditEvent.objects.count())

    with pytest.raises(errors.ModelReservationStateInvalid), transaction.atomic():
        governed.start(job, permit.permit_id)

    assert (states(job), AuditEvent.objects.count()) == before
    assert Permit.objects.get().state == "issued"
