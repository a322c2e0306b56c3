"""Admission, inhibits, the guard, runtime switches; contract sections 4 and 7."""

from __future__ import annotations

import io
import json
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db.models.functions import Now

from agents import guard, metrics
from agents.entry import Entry
from agents.models import AdmissionChange, Agent, MaintenanceInhibit, Presence, RuntimeSwitch
from agents.transitions import inhibits, presence, switches
from agents.transitions.admission import end_drains, set_admission
from agents.transitions.principals import Settings, configure_agent
from agents.verbs import CLOSE, DRAIN, OPEN
from governance.core import clock
from governance.core.errors import (
    AdmissionClosed,
    AdmissionDraining,
    BarrierConflict,
    GenerationMismatch,
    InvalidArgument,
    InvalidTransition,
    MaintenanceInhibited,
    NotFound,
    PermissionDenied,
)
from governance.core.models import AuditEvent
from jobs import transitions
from jobs.models import Job

BY = {"actor": "user:anna", "reason": "maintenance"}


def move(state, barrier_id="b-1", expected=1, **over):
    asked = {"agent": "hermes", "state": state, "barrier_id": barrier_id}
    return set_admission(**(asked | BY | {"expected_generation": expected} | over))


def row():
    return Agent.objects.get(name="hermes")


def claim(entry, job):
    return transitions.claim(entry=entry, task_id=job.task_id, owner="")


@pytest.mark.parametrize(
    ("state", "refusal"), [("closed", AdmissionClosed), ("draining", AdmissionDraining)]
)
def test_no_claim_while_not_open(hermes, entry_of, make_job, state, refusal):
    job = make_job()
    moved = move(state)
    assert (moved.state, moved.generation, moved.active_leases) == (state, 2, 0)
    with pytest.raises(refusal):
        claim(entry_of(hermes), job)
    with pytest.raises(refusal):
        transitions.claim_next(entry=entry_of(hermes), limit=1)
    job.refresh_from_db()
    assert (job.state, job.attempt) == ("queued", 0)
    move("open", "b-2", 2)
    assert claim(entry_of(hermes), job).outcome == "claimed"


def test_a_replayed_barrier_moves_the_generation_once(world):
    first = move("closed")
    move("open", "b-2", 2)
    assert move("closed") == first
    assert (row().admission, row().admission_generation) == ("open", 3)
    assert AdmissionChange.objects.count() == 2


def test_a_barrier_id_with_another_change_is_refused(world):
    move("closed")
    for over in ({"state": "open"}, {"expected": 2, "state": "closed"}):
        with pytest.raises(BarrierConflict):
            move(**over)
    assert row().admission_generation == 2


def test_a_stale_generation_is_refused_with_the_current_one(world):
    move("closed")
    events = AuditEvent.objects.count()
    with pytest.raises(GenerationMismatch) as raised:
        move("open", "b-2", 1)
    assert raised.value.current == {"admission": "closed", "generation": 2}
    assert AuditEvent.objects.count() == events


def test_an_agent_only_drains_itself(hermes, openclaw):
    for principal, state in ((hermes, "closed"), (hermes, "open"), (openclaw, "draining")):
        with pytest.raises(PermissionDenied):
            move(state, principal=principal)
    move("draining", principal=hermes)
    with pytest.raises(PermissionDenied):
        move("draining", "b-2", 2, principal=hermes)
    assert row().admission_generation == 2


def test_a_reason_is_required(world):
    with pytest.raises(InvalidArgument):
        move("closed", reason=" ")
    with pytest.raises(NotFound):
        move("closed", agent="nobody")


def test_a_drain_ends_when_its_last_lease_is_gone(hermes, entry_of, make_job):
    job = make_job()
    held = claim(entry_of(hermes), job)
    assert move("draining").active_leases == 1
    [beat] = transitions.heartbeat(
        entry=Entry(hermes),
        beats=[
            {
                "task_id": job.task_id,
                "attempt": 1,
                "fencing_token": held.grant.attempt.fencing_token,
            }
        ],
    )
    assert beat.control == "drain"
    assert end_drains() == 0
    transitions.stop(task_id=job.task_id, **BY)
    assert end_drains() == 1
    assert (row().admission, row().admission_generation) == ("closed", 3)
    assert end_drains() == 0


def test_an_inhibit_stops_new_work_and_lets_the_running_go_on(hermes, openclaw, entry_of, make_job):
    running, waiting = make_job(), make_job()
    held = claim(entry_of(hermes), running)
    until = clock.now() + timedelta(minutes=5)
    stop = inhibits.inhibit(agent="hermes", ends_at=until, **BY)

    with pytest.raises(MaintenanceInhibited) as raised:
        claim(entry_of(hermes), waiting)
    assert 290 <= raised.value.after_seconds <= 301
    assert Job.objects.get(pk=waiting.pk).attempt == 0
    other = make_job(task_type="rewrite")
    assert claim(entry_of(openclaw), other).outcome == "claimed"
    [done] = transitions.complete(
        entry=entry_of(hermes),
        completions=[
            {
                "task_id": running.task_id,
                "attempt": 1,
                "fencing_token": held.grant.attempt.fencing_token,
                "result": {},
                "needs_review": False,
            }
        ],
    )
    assert done.outcome == "recorded"
    inhibits.lift(inhibit_id=stop.pk, **BY)
    assert claim(entry_of(hermes), waiting).outcome == "claimed"


def test_an_inhibit_of_the_fleet_stops_everybody(hermes, openclaw, entry_of, make_job):
    inhibits.inhibit(**BY)
    for principal, kind in ((hermes, "content_prep"), (openclaw, "rewrite")):
        with pytest.raises(MaintenanceInhibited):
            claim(entry_of(principal), make_job(task_type=kind))


def test_an_inhibit_that_has_ended_or_not_begun_stops_nobody(hermes, entry_of, make_job):
    now = clock.now()
    inhibits.inhibit(starts_at=now + timedelta(hours=1), **BY)
    MaintenanceInhibit.objects.create(
        owner="user:anna",
        reason="past",
        starts_at=now - timedelta(hours=2),
        ends_at=now - timedelta(hours=1),
    )
    assert claim(entry_of(hermes), make_job()).outcome == "claimed"


@pytest.mark.parametrize("verb", [OPEN, DRAIN, CLOSE], ids=lambda verb: verb.name)
def test_no_page_forecasts_that_an_admission_would_be_skipped(world, verb):
    for number in (2, 3):
        assert verb.precondition(row(), actor="user:anna", now=clock.now()) is None
        done = verb.perform(key="hermes", actor="user:anna", reason="x", values={})
        assert done.generation == number


def test_an_inhibit_is_lifted_once(world):
    stop = inhibits.inhibit(**BY)
    first = inhibits.lift(inhibit_id=stop.pk, **BY)
    events = AuditEvent.objects.count()
    with pytest.raises(InvalidTransition, match="lifted already") as refused:
        inhibits.lift(inhibit_id=stop.pk, actor="user:ben", reason="again")
    assert refused.value.effect == "none"
    assert AuditEvent.objects.count() == events
    stop.refresh_from_db()
    assert (stop.lifted_at, stop.lifted_by) == (first.lifted_at, "user:anna")
    with pytest.raises(CommandError, match=r"^It is lifted already\. \(INVALID_TRANSITION\)$"):
        run("lift_inhibit", str(stop.pk), "--reason", "x")
    with pytest.raises(NotFound):
        inhibits.lift(inhibit_id=stop.pk + 1, **BY)
    with pytest.raises(InvalidArgument):
        inhibits.inhibit(ends_at=clock.now() - timedelta(seconds=1), **BY)


def beat(principal, runtime="command", worker="w-1"):
    return presence.beat(
        entry=Entry(principal), agent=principal.name, runtime=runtime, worker_ids=[worker]
    )


def age(name, seconds):
    for shown in Presence.objects.filter(session__agent__name=name):
        Presence.objects.filter(pk=shown.pk).update(
            last_heartbeat_at=shown.last_heartbeat_at - timedelta(seconds=seconds)
        )


def test_the_guard_is_healthy_when_every_expected_agent_is_fresh(hermes, openclaw, agent_zero):
    assert guard.look().state == "degraded"
    assert [watch.freshness for watch in guard.look().agents] == ["never"] * 3
    for principal in (hermes, openclaw, agent_zero):
        beat(principal)
    assert guard.look().state == "healthy"

    age("openclaw", 61)
    seen = guard.look()
    assert seen.state == "degraded"
    [late] = seen.missing
    assert (late.agent, late.freshness) == ("openclaw", "late")
    assert 61 <= late.age_seconds < 90
    age("openclaw", 120)
    assert [watch.freshness for watch in guard.look().missing] == ["stale"]

    Agent.objects.filter(name="openclaw").update(expected=False)
    assert guard.look().state == "healthy"


def test_the_guard_counts_the_workers_that_are_expected(hermes, openclaw, agent_zero):
    for principal in (hermes, openclaw, agent_zero):
        beat(principal)
    configure_agent(
        name="hermes", actor="user:anna", reason="two hosts", settings=Settings(workers_expected=2)
    )
    [lacking] = guard.look().missing
    assert (lacking.agent, lacking.freshness, lacking.workers_missing) == ("hermes", "fresh", 1)
    assert lacking.silent == []

    beat(hermes, worker="w-2")
    assert guard.look().state == "healthy"

    # One of the two falls silent for hours: the other does not speak for it.
    Presence.objects.filter(session__agent__name="hermes", session__worker_id="w-1").update(
        last_heartbeat_at=Now() - timedelta(hours=3)
    )
    [lacking] = guard.look().missing
    [silent] = lacking.silent
    assert (lacking.freshness, lacking.workers_fresh, silent.name) == ("fresh", 1, "w-1")
    assert 3 * 3600 <= silent.age_seconds < 3 * 3600 + 60

    configure_agent(
        name="hermes", actor="user:anna", reason="back", settings=Settings(workers_expected=1)
    )
    assert guard.look().state == "healthy"


def test_the_guard_names_who_is_silent_at_a_shell_and_to_prometheus(hermes, capsys):
    beat(hermes)
    beat(hermes, worker="w-2")
    Presence.objects.filter(session__worker_id="w-2").update(
        last_heartbeat_at=Now() - timedelta(hours=1)
    )
    Agent.objects.exclude(name="hermes").update(expected=False)
    Agent.objects.filter(name="hermes").update(workers_expected=2)

    with pytest.raises(SystemExit):
        call_command("guard")
    assert "hermes: fresh, 0 s, 1 of 2 workers (w-2 silent for 3600 s)" in capsys.readouterr().out
    told = {metric.name: metric.samples for metric in metrics.gauges()}
    lacking = {each.labels["agent"]: each.value for each in told["fencepost_agent_workers_missing"]}
    assert lacking == {"hermes": 1.0}


def test_an_inhibited_fleet_raises_no_alarm(world):
    inhibits.inhibit(agent="hermes", **BY)
    seen = guard.look()
    assert seen.state == "inhibited"
    assert "hermes" not in [watch.agent for watch in seen.missing]


def test_a_lease_heartbeat_is_a_sign_of_life(hermes, entry_of, make_job):
    claim(entry_of(hermes), make_job())
    [mine] = [watch for watch in guard.look().agents if watch.agent == "hermes"]
    assert mine.freshness == "fresh"


def test_presence_tells_how_things_stand(hermes, openclaw):
    move("draining")
    inhibits.inhibit(agent="hermes", **BY)
    told = beat(hermes)
    assert told.admission == {"state": "draining", "generation": 2}
    assert told.inhibit.reason == "maintenance"
    assert told.heartbeat_interval_seconds == 20
    with pytest.raises(PermissionDenied):
        presence.beat(entry=Entry(openclaw), agent="hermes", worker_ids=[])


def run(*command):
    out = io.StringIO()
    call_command(*command, "--json", stdout=out, stderr=io.StringIO())
    return json.loads(out.getvalue())


def test_a_switch_goes_step_by_step_and_ends_verified(
    hermes, openclaw, agent_zero, entry_of, make_job
):
    for principal in (hermes, openclaw, agent_zero):
        beat(principal)
    job, waiting = make_job(), make_job()
    claim(entry_of(hermes), job)
    switch = switches.begin(agent="hermes", runtime="http", **BY)

    def go():
        return switches.advance(switch_id=switch.pk, actor="user:anna")

    with pytest.raises(MaintenanceInhibited):
        claim(entry_of(hermes), waiting)
    assert go().step == "drain"
    transitions.stop(task_id=job.task_id, **BY)
    # Its worker, which does not say what it runs, has gone since it claimed.
    quiet = Presence.objects.get(session__worker_id="worker-1")
    quiet.last_heartbeat_at -= timedelta(seconds=61)
    quiet.save()
    assert go().step == "switch"
    assert row().runtime == "command"
    assert go().step == "fresh"
    assert row().runtime == "http"
    assert go().step == "fresh"
    beat(hermes, "http", worker="w-2")
    assert go().step == "fresh", "the old worker is still there under the old runtime"
    beat(hermes, "http")
    assert go().step == "guard"
    assert row().admission == "open"
    assert MaintenanceInhibit.objects.get(pk=switch.inhibit_id).lifted_at is not None
    done = go()
    assert done.state == "verified"
    assert [step["step"] for step in done.steps] == [
        "inhibit",
        "drain",
        "switch",
        "fresh",
        "lift",
        "guard",
    ]
    assert claim(entry_of(hermes), waiting).outcome == "claimed"
    assert go().finished_at == done.finished_at


def test_a_switch_that_is_given_up_leaves_the_inhibit(hermes, entry_of, make_job):
    switch = switches.begin(agent="hermes", runtime="http", **BY)
    failed = switches.give_up(switch_id=switch.pk, actor="user:anna", error="No worker came.")
    assert (failed.state, failed.error) == ("failed", "No worker came.")
    with pytest.raises(MaintenanceInhibited):
        claim(entry_of(hermes), make_job())
    with pytest.raises(InvalidTransition):
        switches.give_up(switch_id=switch.pk, actor="user:anna", error="again")


def test_a_switch_that_fails_at_the_guard_inhibits_again(hermes):
    beat(hermes, "http")
    switch = switches.begin(agent="hermes", runtime="http", **BY)
    for _ in range(2):
        switches.advance(switch_id=switch.pk, actor="user:anna")
    beat(hermes, "http")
    switch = switches.advance(switch_id=switch.pk, actor="user:anna")
    assert switch.step == "guard"
    assert switches.advance(switch_id=switch.pk, actor="user:anna").state == "running"
    failed = switches.give_up(switch_id=switch.pk, actor="user:anna", error="openclaw is away")
    assert failed.inhibit.lifted_at is None
    assert guard.look().state == "inhibited"


def test_only_one_switch_of_an_agent_at_a_time(world):
    switches.begin(agent="hermes", runtime="http", **BY)
    with pytest.raises(InvalidTransition, match="to http is under way"):
        switches.begin(agent="hermes", runtime="openai", **BY)
    with pytest.raises(InvalidTransition):
        switches.begin(agent="openclaw", runtime="command", **BY)
    assert RuntimeSwitch.objects.count() == 1
    assert MaintenanceInhibit.objects.count() == 1


@pytest.mark.parametrize("runtime", ["", "two words", "-x", "x" * 41])
def test_a_switch_to_what_is_no_runtime_is_not_begun(world, runtime):
    with pytest.raises(InvalidArgument):
        switches.begin(agent="hermes", runtime=runtime, **BY)
    assert not RuntimeSwitch.objects.exists()
    assert not MaintenanceInhibit.objects.exists()
    assert (row().runtime, row().admission) == ("command", "open")


def test_a_switch_whose_inhibit_was_lifted_goes_no_further(world):
    switch = switches.begin(agent="hermes", runtime="http", **BY)
    inhibits.lift(inhibit_id=switch.inhibit_id, **BY)
    with pytest.raises(InvalidTransition):
        switches.advance(switch_id=switch.pk, actor="user:anna")
    assert row().runtime == "command"


def test_a_switch_does_not_open_what_somebody_closed_meanwhile(hermes):
    beat(hermes, "http")
    switch = switches.begin(agent="hermes", runtime="http", **BY)
    move("closed", expected=2)
    for _ in range(2):
        switches.advance(switch_id=switch.pk, actor="user:anna")
    beat(hermes, "http")
    assert switches.advance(switch_id=switch.pk, actor="user:anna").step == "guard"
    assert row().admission == "closed"


def test_the_commands_act(hermes, openclaw, agent_zero):
    assert run("set_admission", "hermes", "closed", "--reason", "x")["generation"] == 2
    assert run("set_admission", "hermes", "open", "--reason", "x")["state"] == "open"
    again = run("set_admission", "hermes", "open", "--reason", "x")
    assert (again["state"], again["generation"]) == ("open", 4)
    stop = run("inhibit", "--minutes", "5", "--reason", "x")
    assert stop["scope"] == "fleet"
    assert run("lift_inhibit", "--fleet", "--reason", "x") == {"lifted": [stop["inhibit_id"]]}
    with pytest.raises(CommandError):
        run("lift_inhibit", "--fleet", "--reason", "x")
    with pytest.raises(SystemExit):
        run("guard")
    for principal in (hermes, openclaw, agent_zero):
        beat(principal)
    assert run("guard")["state"] == "healthy"
    assert run("approve_cell", "hermes", "c", "--reason", "x")["in_force"] is True


def test_the_switch_command_fails_loudly(world):
    with pytest.raises(CommandError, match="has failed"):
        run("switch_runtime", "hermes", "http", "--reason", "x", "--timeout-seconds", "0")
    switch = RuntimeSwitch.objects.get()
    assert (switch.state, switch.step) == ("failed", "fresh")
    assert row().runtime == "http"
    assert guard.look().state == "inhibited"
