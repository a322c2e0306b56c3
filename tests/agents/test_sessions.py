"""Activation, supersession, re-binding, approval of cells; contract section 4."""

from __future__ import annotations

import json
from dataclasses import replace
from uuid import UUID, uuid4

import pytest

from agents.entry import Entry
from agents.models import Activation, Agent, Fleet, Session
from agents.transitions import epochs, sessions
from agents.transitions.sessions import Boot, activate
from governance.core.errors import (
    DispatcherEpochStale,
    IdempotencyKeyReused,
    InvalidArgument,
    InvalidTransition,
    LeaseHeldByAnother,
    NotFound,
    PermissionDenied,
    SessionNotApproved,
    SessionRequired,
    SessionSuperseded,
)
from governance.core.models import AuditEvent
from jobs import transitions
from jobs.models import Attempt, Job, Lease

BY = {"actor": "user:anna", "reason": "planned"}


def boot(cell="cell-1", boot_id="boot-1", **over):
    return Boot(cell_id=cell, boot_id=boot_id, protocol_version="1.0", runtime="command", **over)


def start(principal, operation="op-1", **over):
    return activate(
        principal=principal, agent=principal.name, operation_id=operation, boot=boot(**over)
    )


def entry(principal, answer):
    return Entry(principal, "", UUID(answer["session_id"]), UUID(answer["dispatcher_epoch"]))


def actions(subject="agent:hermes"):
    rows = AuditEvent.objects.filter(subject=subject).order_by("seq")
    return [a for a in rows.values_list("action", flat=True) if a.startswith(("session", "cell"))]


def claim(principal, answer, job):
    return transitions.claim(entry=entry(principal, answer), task_id=job.task_id, owner="")


def test_activation_makes_the_process_somebody_in_particular(hermes, make_job):
    answer = start(hermes)

    session = Session.objects.get(session_id=answer["session_id"])
    assert (session.state, session.cell_id, session.boot_id) == ("current", "cell-1", "boot-1")
    assert answer["session_generation"] == 1
    assert answer["dispatcher_epoch"] == str(Fleet.objects.get().dispatcher_epoch)
    assert answer["heartbeat_interval_seconds"] == 20
    assert answer["credential"]["scopes"] == ["admit", "read", "work"]
    assert session.presence.runtime == "command"
    assert actions() == ["session.activated"]
    claimed = claim(hermes, answer, make_job())
    assert claimed.outcome == "claimed"
    assert Lease.objects.get().session_id == session.pk


def test_the_same_operation_gets_the_same_answer(hermes):
    first = start(hermes)
    assert start(hermes) == first
    assert Session.objects.filter(kind="activated").count() == 1
    assert actions() == ["session.activated"]


def test_an_operation_id_with_other_content_is_refused(hermes):
    start(hermes)
    with pytest.raises(IdempotencyKeyReused):
        start(hermes, boot_id="boot-2")
    assert Session.objects.filter(kind="activated").count() == 1


def test_a_newer_boot_fences_the_older_at_once(hermes, make_job):
    job = make_job()
    old = start(hermes)
    held = claim(hermes, old, job)
    new = start(hermes, "op-2", boot_id="boot-2")

    assert new["session_generation"] == 2
    before = Job.objects.get(pk=job.pk)
    [refusal] = refused(SessionSuperseded, hermes, old, job, held)
    assert refusal == "SESSION_SUPERSEDED"
    assert Job.objects.get(pk=job.pk).revision == before.revision
    with pytest.raises(SessionSuperseded):
        start(hermes)
    with pytest.raises(SessionSuperseded):
        start(hermes, "op-3", boot_id="boot-1")

    transitions.sweep()
    job.refresh_from_db()
    assert job.state == "queued"
    assert Attempt.objects.get().outcome == "superseded"
    assert actions() == ["session.activated", "session.superseded", "session.activated"]


def refused(kind, principal, answer, job, held):
    """Try to complete; return the reasons of refusals."""
    item = {
        "task_id": job.task_id,
        "attempt": held.grant.attempt.number,
        "fencing_token": held.grant.attempt.fencing_token,
        "result": {},
        "needs_review": False,
    }
    with pytest.raises(kind) as raised:
        transitions.complete(entry=entry(principal, answer), completions=[item])
    return [raised.value.reason]


def test_sessions_of_other_cells_go_on(hermes, make_job):
    first = start(hermes, cell="cell-1")
    start(hermes, "op-2", cell="cell-2")
    assert claim(hermes, first, make_job()).outcome == "claimed"


def test_a_boot_that_is_current_keeps_its_session(hermes):
    first = start(hermes)
    again = start(hermes, "op-2", capabilities={"gpu": True})
    assert Session.objects.get(kind="activated").capabilities == {"gpu": True}
    described = AuditEvent.objects.get(subject="agent:hermes", action="session.described")
    details = json.loads(bytes(described.body))["details"]
    assert (details["changed"], details["session_id"]) == (["capabilities"], first["session_id"])
    start(hermes, "op-3", capabilities={"gpu": True})
    assert AuditEvent.objects.filter(action="session.described").count() == 1
    assert again["session_id"] == first["session_id"]
    assert again["session_generation"] == first["session_generation"]
    assert Activation.objects.count() == 3


def test_a_boot_that_is_bound_to_a_new_epoch_is_audited_for_what_it_says_otherwise(hermes):
    first = start(hermes)
    epochs.rotate(**BY)
    again = start(
        hermes, "op-2", capabilities={"gpu": True}, previous_session_id=UUID(first["session_id"])
    )

    assert again["rebound"] is True
    assert Session.objects.get(kind="activated").capabilities == {"gpu": True}
    described = AuditEvent.objects.get(subject="agent:hermes", action="session.described")
    details = json.loads(bytes(described.body))["details"]
    assert (details["changed"], details["session_id"]) == (["capabilities"], again["session_id"])


def test_a_new_epoch_refuses_the_old_one_until_the_agent_activates_again(hermes, make_job):
    job = make_job()
    answer = start(hermes)
    held = claim(hermes, answer, job)
    epochs.rotate(**BY)

    assert refused(DispatcherEpochStale, hermes, answer, job, held) == ["DISPATCHER_EPOCH_STALE"]
    again = start(hermes, "op-2", previous_session_id=UUID(answer["session_id"]))

    assert again["rebound"] is True
    assert again["session_generation"] == 2
    job.refresh_from_db()
    assert job.fencing_token == held.grant.attempt.fencing_token
    [done] = transitions.complete(
        entry=entry(hermes, again),
        completions=[
            {
                "task_id": job.task_id,
                "attempt": 1,
                "fencing_token": held.grant.attempt.fencing_token,
                "result": {"ok": True},
                "needs_review": False,
            }
        ],
    )
    assert done.outcome == "recorded"


def test_without_its_previous_session_a_boot_starts_over_under_a_new_epoch(hermes, make_job):
    job = make_job()
    answer = start(hermes)
    claim(hermes, answer, job)
    epochs.rotate(**BY)
    again = start(hermes, "op-2")

    assert again["session_id"] != answer["session_id"]
    transitions.sweep()
    job.refresh_from_db()
    assert job.state == "queued"


def test_a_foreign_previous_session_binds_nothing(hermes):
    start(hermes)
    epochs.rotate(**BY)
    with pytest.raises(SessionSuperseded):
        start(hermes, "op-2", previous_session_id=uuid4())
    assert Session.objects.get(kind="activated").generation == 1


def test_nobody_activates_for_another_agent(openclaw, submitter):
    for principal in (openclaw, submitter):
        with pytest.raises(PermissionDenied):
            activate(principal=principal, agent="hermes", operation_id="op", boot=boot())
    assert not Session.objects.filter(kind="activated").exists()


def test_a_disabled_agent_activates_nothing(hermes):
    Agent.objects.filter(name="hermes").update(enabled=False)
    with pytest.raises(PermissionDenied):
        start(hermes)


def test_an_unapproved_cell_waits_for_an_operator(hermes, make_job):
    Agent.objects.filter(name="hermes").update(approve_cells=True)
    job = make_job()
    answer = start(hermes)

    assert answer["state"] == "pending"
    with pytest.raises(SessionNotApproved):
        claim(hermes, answer, job)
    job.refresh_from_db()
    assert (job.state, job.attempt) == ("queued", 0)

    sessions.approve_cell(agent="hermes", cell_id="cell-1", **BY)
    assert start(hermes)["state"] == "current"
    assert claim(hermes, answer, job).outcome == "claimed"
    assert start(hermes, "op-2", boot_id="boot-2")["state"] == "current"
    assert actions()[:3] == ["session.awaiting_approval", "cell.approved", "session.activated"]


def test_a_pending_session_fences_nobody(hermes, make_job):
    current = start(hermes)
    Agent.objects.filter(name="hermes").update(approve_cells=True)
    start(hermes, "op-2", boot_id="boot-2")
    assert claim(hermes, current, make_job()).outcome == "claimed"
    sessions.approve_cell(agent="hermes", cell_id="cell-1", **BY)
    with pytest.raises(SessionSuperseded):
        claim(hermes, current, make_job())


def test_withdrawing_an_approval_ends_the_sessions_of_the_cell(hermes, make_job):
    Agent.objects.filter(name="hermes").update(approve_cells=True)
    sessions.approve_cell(agent="hermes", cell_id="cell-1", **BY)
    answer = start(hermes)
    sessions.withdraw_cell(agent="hermes", cell_id="cell-1", **BY)
    with pytest.raises(SessionSuperseded):
        claim(hermes, answer, make_job())
    assert start(hermes, "op-2", boot_id="boot-2")["state"] == "pending"


def test_approvals_that_make_no_sense_are_refused(world):
    sessions.approve_cell(agent="hermes", cell_id="c", **BY)
    with pytest.raises(InvalidTransition):
        sessions.approve_cell(agent="hermes", cell_id="c", **BY)
    with pytest.raises(NotFound):
        sessions.withdraw_cell(agent="hermes", cell_id="other", **BY)
    with pytest.raises(NotFound):
        sessions.approve_cell(agent="nobody", cell_id="c", **BY)
    with pytest.raises(InvalidArgument):
        sessions.approve_cell(agent="hermes", cell_id="d", actor="user:anna", reason=" ")
    assert actions() == ["cell.approved"]


def test_an_unknown_or_foreign_session_is_not_one(hermes, openclaw, make_job):
    job = make_job()
    theirs = start(openclaw)
    for session_id in (uuid4(), UUID(theirs["session_id"])):
        with pytest.raises(SessionRequired):
            transitions.claim(
                entry=Entry(hermes, "", session_id, None), task_id=job.task_id, owner=""
            )


def test_an_implicit_session_cannot_be_named_as_if_it_were_activated(hermes, make_job):
    job = make_job()
    held = transitions.claim(entry=Entry(hermes, "w"), task_id=job.task_id, owner="")
    implied = str(Session.objects.get(kind="implicit").session_id)
    epoch = str(Fleet.objects.get().dispatcher_epoch)
    named = {"session_id": implied, "dispatcher_epoch": epoch}
    assert refused(SessionRequired, hermes, named, job, held) == ["SESSION_REQUIRED"]
    with pytest.raises(SessionRequired):
        beat(hermes, named, job, held)


def test_of_several_refusals_the_first_of_the_order_is_answered(hermes, make_job):
    """Superseded comes before a stale epoch, which comes before token and state."""
    job = make_job()
    old = start(hermes)
    held = claim(hermes, old, job)
    start(hermes, "op-2", boot_id="boot-2")
    epochs.rotate(**BY)
    held.grant.attempt.fencing_token += 5
    assert refused(SessionSuperseded, hermes, old, job, held) == ["SESSION_SUPERSEDED"]

    new = {**old, "session_id": start(hermes, "op-3", boot_id="boot-3")["session_id"]}
    assert refused(DispatcherEpochStale, hermes, new, job, held) == ["DISPATCHER_EPOCH_STALE"]


def beat(principal, answer, job, held, **over):
    session = entry(principal, answer)
    lease = {
        "task_id": job.task_id,
        "attempt": held.grant.attempt.number,
        "fencing_token": held.grant.attempt.fencing_token,
    }
    return transitions.heartbeat(entry=replace(session, **over), beats=[lease])


def expiry(job):
    return Lease.objects.get(job=job).expires_at


def test_a_heartbeat_renews_under_the_session_that_holds_the_lease(hermes, make_job):
    job = make_job()
    answer = start(hermes)
    held = claim(hermes, answer, job)
    before = expiry(job)
    assert beat(hermes, answer, job, held)[0].control == "continue"
    assert expiry(job) > before
    before = expiry(job)
    [unnamed] = beat(hermes, answer, job, held, session_id=None, epoch=None)
    assert isinstance(unnamed, LeaseHeldByAnother)
    assert expiry(job) == before


def test_a_superseded_session_renews_nothing(hermes, make_job):
    job = make_job()
    old = start(hermes)
    held = claim(hermes, old, job)
    start(hermes, "op-2", boot_id="boot-2")
    before = expiry(job)
    with pytest.raises(SessionSuperseded):
        beat(hermes, old, job, held)
    [refusal] = beat(hermes, old, job, held, session_id=None, epoch=None)
    assert isinstance(refusal, LeaseHeldByAnother)
    with pytest.raises(SessionRequired):
        beat(hermes, old, job, held, session_id=uuid4())
    assert expiry(job) == before


def test_a_newer_boot_neither_renews_nor_completes_what_the_older_one_holds(hermes, make_job):
    job = make_job()
    held = claim(hermes, start(hermes), job)
    newer = start(hermes, "op-2", boot_id="boot-2")
    before = expiry(job)
    [refusal] = beat(hermes, newer, job, held)
    assert isinstance(refusal, LeaseHeldByAnother)
    completion = {
        "task_id": job.task_id,
        "attempt": held.grant.attempt.number,
        "fencing_token": held.grant.attempt.fencing_token,
        "result": {},
        "needs_review": False,
    }
    [refusal] = transitions.complete(entry=entry(hermes, newer), completions=[completion])
    assert isinstance(refusal, LeaseHeldByAnother)
    job.refresh_from_db()
    assert (job.state, expiry(job)) == ("active", before)


def test_a_lease_of_an_older_epoch_is_not_renewed_until_it_is_bound_anew(hermes, make_job):
    job = make_job()
    answer = start(hermes)
    held = claim(hermes, answer, job)
    epochs.rotate(**BY)
    before = expiry(job)
    with pytest.raises(DispatcherEpochStale):
        beat(hermes, answer, job, held)
    [refusal] = beat(hermes, answer, job, held, session_id=None, epoch=None)
    assert isinstance(refusal, LeaseHeldByAnother)
    assert expiry(job) == before
    again = start(hermes, "op-2", previous_session_id=UUID(answer["session_id"]))
    assert beat(hermes, again, job, held)[0].control == "continue"
    with pytest.raises(DispatcherEpochStale):
        beat(hermes, again, job, held, epoch=uuid4())
