"""Whose a session is: the lineage of its credential, and the certificate that it came with."""

from __future__ import annotations

import json
from dataclasses import replace
from uuid import UUID, uuid4

import pytest
from django.db import DatabaseError, connection, transaction

from agents.entry import Entry
from agents.models import Agent, CellApproval, Credential, FormerSession, Session
from agents.principals import identify
from agents.transitions import credentials, epochs, presence, sessions
from agents.transitions.admission import set_admission
from agents.transitions.principals import Settings, configure_agent
from agents.transitions.sessions import Boot, activate
from governance.core.errors import (
    ClientCertificateMismatch,
    ClientCertificateRequired,
    DispatcherEpochStale,
    DomainError,
    InvalidTransition,
    LeaseHeldByAnother,
    NotFound,
    SessionNotApproved,
    SessionOfAnother,
    SessionSuperseded,
)
from governance.core.models import AuditEvent
from jobs import transitions
from jobs.models import Attempt, Job, Lease

pytestmark = pytest.mark.django_db

BY = {"actor": "user:anna", "reason": "planned"}
A, B, C = "aa" * 32, "bb" * 32, "cc" * 32


@pytest.fixture
def caller(issue):
    """Make a fresh credential, and return its caller: `caller("hermes", bound_to=A)`."""

    def make(agent="hermes", bound_to="", came_with=None):
        token = issue(agent=agent, certificate_sha256=bound_to)
        return identify(token=token, certificate_sha256=came_with or bound_to)

    return make


def rotated(principal, came_with="", **over):
    """Rotate a caller's credential, and return the caller of the new one."""
    issued = credentials.rotate(prefix=principal.credential_prefix, **BY, **over)
    return identify(token=issued.token, certificate_sha256=came_with)


def start(principal, operation="op-1", cell="cell-1", boot_id="boot-1", **over):
    boot = Boot(cell_id=cell, boot_id=boot_id, protocol_version="1.0", runtime="command", **over)
    return activate(principal=principal, agent=principal.name, operation_id=operation, boot=boot)


def entry(principal, answer):
    return Entry(principal, "", UUID(answer["session_id"]), UUID(answer["dispatcher_epoch"]))


def claimed(by, job):
    outcome = transitions.claim(entry=by, task_id=job.task_id, owner="")
    attempt = outcome.grant.attempt
    return {
        "task_id": job.task_id,
        "attempt": attempt.number,
        "fencing_token": attempt.fencing_token,
    }


def complete(by, held):
    [done] = transitions.complete(entry=by, completions=[held | {"result": {"n": 1}}])
    return done


def calls(held):
    """Every way of a worker to write, as functions of the entry."""
    failure = {"error_message": "no", "error_code": "E", "retryable": True}
    return {
        "claim": lambda by: transitions.claim(entry=by, task_id=held["task_id"], owner=""),
        "claim next": lambda by: transitions.claim_next(entry=by),
        "beat": lambda by: transitions.heartbeat(entry=by, beats=[held]),
        "complete": lambda by: complete(by, held),
        "fail": lambda by: transitions.fail(entry=by, **held, **failure),
        "escalate": lambda by: transitions.escalate(entry=by, **held, reason="why"),
        "presence": lambda by: presence.beat(entry=by, agent="hermes", worker_ids=[]),
    }


def rows():
    """Everything that a refused call may not have changed."""
    return (
        list(Job.objects.values()),
        list(Lease.objects.values()),
        list(Session.objects.values()),
        AuditEvent.objects.count(),
    )


def refused_everywhere(refusal, by, held):
    before = rows()
    for name, call in calls(held).items():
        with pytest.raises(refusal), transaction.atomic():
            call(by)
        assert rows() == before, name


def details_of(action, subject="agent:hermes"):
    event = AuditEvent.objects.filter(subject=subject, action=action).latest("seq")
    return json.loads(bytes(event.body))["details"]


# --- Lineages of credentials ------------------------------------------------------------------


def test_a_rotation_keeps_the_lineage_and_a_fresh_credential_begins_one(caller):
    first, other = caller(), caller()
    second = rotated(first)
    third = rotated(second)
    assert first.lineage == second.lineage == third.lineage
    assert other.lineage != first.lineage
    row = Credential.objects.get(prefix=third.credential_prefix)
    assert row.lineage == first.lineage


def test_a_credential_stays_in_its_lineage(caller):
    first = caller()
    with pytest.raises(DatabaseError), transaction.atomic():
        Credential.objects.filter(prefix=first.credential_prefix).update(lineage=uuid4())


def test_a_rotation_may_add_a_fingerprint_and_both_are_taken(issue):
    token = issue(agent="hermes", certificate_sha256=A)
    first = identify(token=token, certificate_sha256=A)
    issued = credentials.rotate(
        prefix=first.credential_prefix, certificate_sha256=B, overlap_seconds=60, **BY
    )
    for certificate in (A, B):
        again = identify(token=issued.token, certificate_sha256=certificate)
        assert again.lineage == first.lineage
    for certificate in ("", C):
        with pytest.raises(ClientCertificateMismatch):
            identify(token=issued.token, certificate_sha256=certificate)
    with pytest.raises(ClientCertificateMismatch):
        identify(token=token, certificate_sha256=B)


# --- Sessions ---------------------------------------------------------------------------------


def test_a_session_and_its_events_name_lineage_and_certificate(caller):
    by = caller(bound_to=A)
    answer = start(by)
    row = Session.objects.get(session_id=answer["session_id"])
    assert (row.lineage, row.certificate_sha256) == (by.lineage, A)
    named = details_of("session.activated")
    assert (named["lineage"], named["certificate_sha256"]) == (str(by.lineage), A)
    assert named["credential"] == by.credential_prefix


def test_no_other_lineage_acts_in_a_session(caller, make_job):
    mine, other = caller(), caller()
    answer = start(mine)
    held = claimed(entry(mine, answer), make_job())
    make_job()
    refused_everywhere(SessionOfAnother, entry(other, answer), held)
    assert complete(entry(mine, answer), held).outcome == "recorded"


@pytest.mark.parametrize("came_with", ["", B], ids=["none", "another"])
def test_no_other_certificate_acts_in_a_session(caller, make_job, came_with):
    mine = caller(came_with=A)
    answer = start(mine)
    held = claimed(entry(mine, answer), make_job())
    strange = replace(
        mine, presented_sha256=came_with, certificates=(came_with,) if came_with else ()
    )
    refused_everywhere(SessionOfAnother, entry(strange, answer), held)
    assert complete(entry(mine, answer), held).outcome == "recorded"


def test_a_rotation_goes_on_in_the_session_also_with_a_further_certificate(caller, make_job):
    mine = caller(bound_to=A)
    answer = start(mine)
    held = claimed(entry(mine, answer), make_job())
    after = rotated(mine, came_with=B, certificate_sha256=B)
    assert transitions.heartbeat(entry=entry(after, answer), beats=[held])[0].outcome == "renewed"
    assert complete(entry(after, answer), held).outcome == "recorded"


def test_another_lineage_comes_before_supersession_and_epoch(caller, make_job):
    mine, other = caller(), caller()
    answer = start(mine)
    held = claimed(entry(mine, answer), make_job())
    start(mine, "op-2", boot_id="boot-2")
    epochs.rotate(**BY)
    refused_everywhere(SessionOfAnother, entry(other, answer), held)


@pytest.mark.parametrize(
    ("boot_id", "previous"),
    [("boot-1", False), ("boot-2", False), ("boot-1", True), ("boot-2", True)],
)
def test_another_lineage_takes_no_cell_over(caller, make_job, boot_id, previous):
    mine, other = caller(), caller()
    answer = start(mine)
    held = claimed(entry(mine, answer), make_job())
    epochs.rotate(**BY)
    told = {"previous_session_id": UUID(answer["session_id"])} if previous else {}
    before = rows()
    with pytest.raises(SessionOfAnother), transaction.atomic():
        start(other, "op-2", boot_id=boot_id, **told)
    with pytest.raises(SessionOfAnother), transaction.atomic():
        start(other)
    assert rows() == before
    again = start(mine, "op-2", previous_session_id=UUID(answer["session_id"]))
    assert complete(entry(mine, again), held).outcome == "recorded"


def test_a_cell_is_taken_over_once_an_operator_has_released_it(caller, make_job):
    mine, other = caller(), caller()
    answer = start(mine)
    job = make_job()
    held = claimed(entry(mine, answer), job)
    released = sessions.release_cell(session_id=UUID(answer["session_id"]), **BY)
    assert released.state == "superseded"
    assert details_of("cell.released")["cell_id"] == "cell-1"
    assert start(other, "op-2", boot_id="boot-2")["state"] == "current"
    with pytest.raises(SessionSuperseded):
        complete(entry(mine, answer), held)
    with pytest.raises(SessionOfAnother):
        start(mine, "op-3")
    transitions.sweep()
    job.refresh_from_db()
    assert (job.state, Attempt.objects.get().outcome) == ("queued", "superseded")


def test_only_a_live_session_of_a_cell_is_released(caller, make_job):
    mine = caller()
    answer = start(mine)
    claimed(Entry(mine, "w"), make_job())
    implied = Session.objects.get(kind="implicit")
    sessions.release_cell(session_id=UUID(answer["session_id"]), **BY)
    before = rows()
    for session_id, refusal in (
        (UUID(answer["session_id"]), InvalidTransition),
        (implied.session_id, InvalidTransition),
        (uuid4(), NotFound),
    ):
        with pytest.raises(refusal):
            sessions.release_cell(session_id=session_id, **BY)
    assert rows() == before


def test_a_cell_is_freed_where_somebody_has_it(caller):
    mine, other = caller(), caller()
    assert sessions.free_cell(agent="hermes", cell_id="cell-1", **BY) is None
    start(mine)
    start(mine, "op-2", cell="cell-2")
    assert sessions.free_cell(agent="hermes", cell_id="cell-1", **BY).state == "superseded"
    assert Session.objects.filter(state="current").get().cell_id == "cell-2"
    assert start(other, "op-3", boot_id="boot-3")["state"] == "current"


# --- Approved cells ---------------------------------------------------------------------------


@pytest.fixture
def approving(world):
    Agent.objects.filter(name="hermes").update(approve_cells=True)


@pytest.mark.usefixtures("approving")
def test_an_approval_is_for_the_lineage_and_certificate_that_waited(caller, make_job):
    mine, other = caller(bound_to=A), caller(bound_to=B)
    answer = start(mine)
    approval = sessions.approve_cell(agent="hermes", cell_id="cell-1", **BY)
    assert (approval.lineage, approval.certificate_sha256) == (mine.lineage, A)
    assert details_of("cell.approved")["lineage"] == str(mine.lineage)
    with pytest.raises(SessionOfAnother):
        start(other, "op-2", boot_id="boot-2")
    sessions.release_cell(session_id=UUID(answer["session_id"]), **BY)

    theirs = start(other, "op-2", boot_id="boot-2")
    assert theirs["state"] == "pending"
    with pytest.raises(SessionNotApproved):
        claimed(entry(other, theirs), make_job())
    sessions.approve_cell(agent="hermes", cell_id="cell-1", **BY)
    assert start(other, "op-2", boot_id="boot-2")["state"] == "current"
    in_force = CellApproval.objects.get(withdrawn_at=None)
    assert (in_force.lineage, in_force.certificate_sha256) == (other.lineage, B)


@pytest.mark.usefixtures("approving")
def test_an_approval_covers_rotations_and_not_another_certificate(caller):
    mine = caller(came_with=A)
    first = start(mine)
    sessions.approve_cell(agent="hermes", cell_id="cell-1", **BY)
    after = rotated(mine, came_with=A)
    second = start(after, "op-2", boot_id="boot-2")
    assert second["state"] == "current"
    sessions.release_cell(session_id=UUID(second["session_id"]), **BY)
    bare = rotated(after)
    assert start(bare, "op-3", boot_id="boot-3")["state"] == "pending"
    assert first["state"] == "pending"


@pytest.mark.usefixtures("approving")
def test_a_cell_approved_beforehand_is_for_the_first_that_comes(caller):
    mine, other = caller(), caller()
    sessions.approve_cell(agent="hermes", cell_id="cell-1", **BY)
    answer = start(mine)
    assert answer["state"] == "current"
    assert CellApproval.objects.get().lineage == mine.lineage
    assert details_of("cell.taken")["credential"] == mine.credential_prefix
    sessions.release_cell(session_id=UUID(answer["session_id"]), **BY)
    assert start(other, "op-2", boot_id="boot-2")["state"] == "pending"


# --- Implicit sessions ------------------------------------------------------------------------


def test_the_same_name_of_another_lineage_is_another_holder(caller, make_job):
    mine, other = caller(), caller()
    job = make_job()
    held = claimed(Entry(mine, "w"), job)
    before = list(Lease.objects.values())
    with pytest.raises(LeaseHeldByAnother):
        transitions.claim(entry=Entry(other, "w"), task_id=job.task_id, owner="")
    [beat] = transitions.heartbeat(entry=Entry(other, "w"), beats=[held])
    assert isinstance(beat, LeaseHeldByAnother)
    [beat] = transitions.heartbeat(entry=Entry(other), beats=[held])
    assert isinstance(beat, LeaseHeldByAnother)
    assert isinstance(complete(Entry(other, "w"), held), LeaseHeldByAnother)
    by_item = held | {"worker_id": "w"}
    assert isinstance(complete(Entry(other), by_item), LeaseHeldByAnother)
    with pytest.raises(LeaseHeldByAnother):
        transitions.fail(
            entry=Entry(other, "w"), **held, error_message="no", error_code="E", retryable=True
        )
    assert list(Lease.objects.values()) == before
    assert complete(Entry(mine, "w"), held).outcome == "recorded"


def test_a_rotation_keeps_the_holder(caller, make_job):
    mine = caller()
    held = claimed(Entry(mine, "w"), make_job())
    after = rotated(mine)
    [beat] = transitions.heartbeat(entry=Entry(after), beats=[held])
    assert beat.outcome == "renewed"
    assert complete(Entry(after, "w"), held).outcome == "recorded"
    assert Session.objects.filter(kind="implicit").count() == 1


def of_before():
    """Let the implicit sessions be those of a release that knew no lineages."""
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        Session.objects.filter(kind="implicit").update(lineage=None)
        cursor.execute("SET session_replication_role = origin")


USES = {
    "claim": lambda by, held: transitions.claim(entry=by, task_id=held["task_id"], owner=""),
    "beat": lambda by, held: transitions.heartbeat(entry=by, beats=[held]),
    "beat of nobody": lambda by, held: transitions.heartbeat(
        entry=replace(by, worker_id=""), beats=[held]
    ),
    "presence": lambda by, held: presence.beat(entry=by, agent="hermes", worker_ids=["w"]),
}


@pytest.mark.parametrize("use", ["claim", "beat", "beat of nobody", "presence"])
def test_a_session_of_before_takes_the_first_lineage_that_uses_it(caller, make_job, use):
    mine, other = caller(), caller()
    held = claimed(Entry(mine, "w"), make_job())
    of_before()

    USES[use](Entry(mine, "w"), held)

    assert Session.objects.get(kind="implicit").lineage == mine.lineage
    assert isinstance(complete(Entry(other, "w"), held), LeaseHeldByAnother)
    assert complete(Entry(mine, "w"), held).outcome == "recorded"


def test_a_completion_by_item_takes_a_session_of_before(caller, make_job):
    mine, other = caller(), caller()
    first, second = (claimed(Entry(mine, "w"), make_job()) for _ in range(2))
    of_before()
    assert complete(Entry(mine), first | {"worker_id": "w"}).outcome == "recorded"
    assert Session.objects.get(kind="implicit").lineage == mine.lineage
    refusal = complete(Entry(other), second | {"worker_id": "w"})
    assert isinstance(refusal, LeaseHeldByAnother)


# --- Revocation -------------------------------------------------------------------------------


def test_revoking_the_last_live_credential_ends_the_sessions_of_the_lineage(caller, make_job):
    mine, other = caller(), caller()
    answer, theirs = start(mine), start(other, "op-2", cell="cell-2")
    jobs = [make_job() for _ in range(4)]
    claimed(entry(mine, answer), jobs[0])
    claimed(Entry(mine, "w"), jobs[1])
    claimed(entry(other, theirs), jobs[2])
    claimed(Entry(other, "w"), jobs[3])
    after = rotated(mine)

    credentials.revoke(prefix=mine.credential_prefix, **BY)
    assert not Session.objects.filter(state="superseded").exists()
    credentials.revoke(prefix=after.credential_prefix, **BY)

    ended = Session.objects.filter(state="superseded")
    assert {session.lineage for session in ended} == {mine.lineage}
    assert ended.count() == 2
    transitions.sweep()
    states = [Job.objects.get(pk=job.pk).state for job in jobs]
    assert states == ["queued", "queued", "active", "active"]


def test_an_expired_credential_keeps_no_lineage_alive(caller):
    mine = caller()
    start(mine)
    after = rotated(mine, overlap_seconds=0)
    credentials.revoke(prefix=after.credential_prefix, **BY)
    assert Session.objects.get().state == "superseded"
    with pytest.raises(InvalidTransition, match="lineage"):
        credentials.rotate(prefix=mine.credential_prefix, **BY)


# --- Agents that demand certificates ----------------------------------------------------------


def demand(value=True):
    configure_agent(name="hermes", settings=Settings(require_certificates=value), **BY)


def test_an_agent_that_demands_certificates_takes_no_credential_without_one(issue, caller):
    bare, bound = issue(agent="hermes"), issue(agent="hermes", certificate_sha256=A)
    demand()
    for certificate in ("", A):
        with pytest.raises(ClientCertificateRequired):
            identify(token=bare, certificate_sha256=certificate)
    with pytest.raises(ClientCertificateMismatch):
        identify(token=bound)
    assert identify(token=bound, certificate_sha256=A).name == "hermes"
    demand(value=False)
    assert identify(token=bare).name == "hermes"


def test_from_then_on_no_write_of_who_was_let_in_before_commits(caller, make_job):
    mine = caller()
    answer = start(mine)
    held = claimed(entry(mine, answer), make_job())
    demand()
    refused_everywhere(ClientCertificateRequired, entry(mine, answer), held)
    with pytest.raises(ClientCertificateRequired):
        start(mine, "op-2")


# --- Re-binding -------------------------------------------------------------------------------


def rebind(by, answer, operation="op-2", **over):
    previous = UUID(answer["session_id"])
    return start(by, operation, previous_session_id=previous, **over)


def test_a_session_that_is_bound_anew_has_another_id_and_keeps_its_row_and_leases(caller, make_job):
    mine = caller()
    answer = start(mine)
    before = Session.objects.get()
    held = claimed(entry(mine, answer), make_job())
    epochs.rotate(**BY)
    again = rebind(mine, answer)

    after = Session.objects.get()
    assert again["session_id"] == str(after.session_id) != answer["session_id"]
    assert (after.pk, after.cell_id, after.boot_id) == (before.pk, "cell-1", "boot-1")
    former = FormerSession.objects.get()
    assert (former.former_id, former.session_id) == (before.session_id, after.pk)
    assert (former.generation, former.dispatcher_epoch) == (1, before.dispatcher_epoch)
    assert details_of("session.rebound")["former_session_id"] == answer["session_id"]
    assert Lease.objects.get().session_id == after.pk
    assert complete(entry(mine, again), held).outcome == "recorded"


def test_a_former_id_is_told_to_activate_again_whatever_came_after(caller, make_job):
    mine = caller()
    answer = start(mine)
    held = claimed(entry(mine, answer), make_job())
    epochs.rotate(**BY)
    again = rebind(mine, answer)
    for epoch in (answer["dispatcher_epoch"], again["dispatcher_epoch"], None):
        stale = replace(entry(mine, answer), epoch=UUID(epoch) if epoch else None)
        refused_everywhere(DispatcherEpochStale, stale, held)
    epochs.rotate(**BY)
    third = rebind(mine, again, "op-3")
    refused_everywhere(DispatcherEpochStale, replace(entry(mine, answer), epoch=None), held)
    refused_everywhere(DispatcherEpochStale, replace(entry(mine, again), epoch=None), held)
    start(mine, "op-4", boot_id="boot-2")
    refused_everywhere(DispatcherEpochStale, replace(entry(mine, again), epoch=None), held)
    refused_everywhere(SessionSuperseded, entry(mine, third), held)


def test_an_older_activation_is_not_answered_as_if_it_still_held(caller):
    mine = caller()
    answer = start(mine)
    epochs.rotate(**BY)
    again = rebind(mine, answer)
    with pytest.raises(DispatcherEpochStale):
        start(mine)
    assert rebind(mine, answer) == again
    start(mine, "op-4", boot_id="boot-2")
    with pytest.raises(DispatcherEpochStale):
        start(mine)
    with pytest.raises(SessionSuperseded):
        rebind(mine, answer)


def test_a_boot_that_names_a_former_id_of_its_session_gets_it_as_it_is_now(caller):
    mine = caller()
    answer = start(mine)
    epochs.rotate(**BY)
    again = rebind(mine, answer)
    lost = rebind(mine, answer, "op-3")
    assert (lost["session_id"], lost["rebound"]) == (again["session_id"], False)
    epochs.rotate(**BY)
    assert rebind(mine, answer, "op-4")["rebound"] is True


def test_no_id_of_a_session_is_lost(caller):
    start(caller())
    with pytest.raises(DatabaseError), transaction.atomic():
        Session.objects.update(session_id=uuid4())
    with pytest.raises(DatabaseError), transaction.atomic():
        Session.objects.update(lineage=uuid4())


# --- What is audited --------------------------------------------------------------------------


def drain(by, session=(None, None)):
    return set_admission(
        agent="hermes",
        state="draining",
        barrier_id="b",
        actor="agent:hermes",
        reason="enough",
        expected_generation=1,
        principal=by,
        session=session,
    )


def test_an_agents_own_drain_names_its_session_and_credential(caller):
    mine = caller()
    answer = start(mine)
    drain(mine, (UUID(answer["session_id"]), None))
    named = details_of("admission.changed")
    assert named["session_id"] == answer["session_id"]
    assert named["credential"] == mine.credential_prefix


def test_a_drain_in_anothers_session_is_refused(caller):
    mine, other = caller(), caller()
    answer = start(mine)
    with pytest.raises(SessionOfAnother):
        drain(other, (UUID(answer["session_id"]), None))
    assert Agent.objects.get(name="hermes").admission == "open"
    drain(other)
    assert details_of("admission.changed")["credential"] == other.credential_prefix


def test_every_act_of_a_worker_names_it_and_its_credential(caller, make_job):
    mine = caller()
    answer = start(mine)
    job = make_job()
    held = claimed(entry(mine, answer), job)
    assert not isinstance(complete(entry(mine, answer), held), DomainError)
    events = AuditEvent.objects.filter(subject=f"job:{job.job_id}", actor="agent:hermes")
    named = [json.loads(bytes(event.body))["details"] for event in events]
    assert len(named) >= 2
    for details in named:
        assert details["session_id"] == answer["session_id"]
        assert details["credential"] == mine.credential_prefix
