"""Runtime switches: inhibit, drain, switch, all fresh under the new runtime, lift, guard healthy.

Each step is a move of its own that waits for nothing: `advance` takes the next step if its
condition holds.  Whoever drives a switch asks again until it is `verified`, or gives it up, which
ends it `failed` with the inhibit in force.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import transaction

from agents import barrier, guard, workload
from agents.models import (
    RUNTIME,
    RUNTIME_FAULT,
    Agent,
    MaintenanceInhibit,
    Presence,
    RuntimeSwitch,
)
from agents.transitions import inhibits
from agents.transitions.admission import SWEEPER, set_admission
from governance.core import audit, clock
from governance.core.errors import FieldFault, InvalidArgument, InvalidTransition, NotFound
from governance.core.reasons import required

Step = RuntimeSwitch.Step


@transaction.atomic
def begin(*, agent: str, runtime: str, actor: str, reason: str) -> RuntimeSwitch:
    """Start a switch: set an inhibit without an end, and tell the agent to drain.

    :raises InvalidArgument: this is no name of a runtime.
    :raises InvalidTransition: a switch of the agent is under way, or it has that runtime.
    """
    reason = required(reason)
    if not RUNTIME.fullmatch(runtime):
        fault = FieldFault("/runtime", RUNTIME_FAULT)
        raise InvalidArgument(f"A runtime's name is {RUNTIME_FAULT}.", errors=[fault])
    [row] = barrier.hold([agent])
    if (other := row.runtime_switches.filter(state="running").first()) is not None:
        raise InvalidTransition(
            f"A switch of this agent to {other.to_runtime} is under way: take it up by running it "
            "again, or give it up in the console."
        )
    if row.runtime == runtime:
        raise InvalidTransition(f"The agent's runtime is {runtime} already.")
    stop = inhibits.inhibit(agent=agent, actor=actor, reason=f"Runtime switch: {reason}")
    switch = RuntimeSwitch.objects.create(
        agent=row,
        from_runtime=row.runtime,
        to_runtime=runtime,
        inhibit=stop,
        reopen=row.admission == Agent.Admission.OPEN,
        started_by=actor,
        reason=reason,
        started_at=stop.starts_at,
        steps=[_step("inhibit", stop.starts_at, f"inhibit {stop.pk}")],
    )
    if switch.reopen:
        set_admission(
            agent=agent,
            state=Agent.Admission.DRAINING,
            barrier_id=_drain_barrier(switch),
            actor=actor,
            reason=reason,
        )
    _note(switch, "runtime_switch.started", actor, stop.starts_at)
    return switch


@transaction.atomic
def advance(*, switch_id: int, actor: str) -> RuntimeSwitch:
    """Take the next step of a switch if its condition holds; return the switch as it is then.

    :raises NotFound: there is no such switch.
    :raises InvalidTransition: somebody lifted its inhibit before it was time.
    """
    switch = _held(switch_id)
    if switch.state != RuntimeSwitch.State.RUNNING:
        return switch
    inhibit = MaintenanceInhibit.objects.get(pk=switch.inhibit_id)
    if switch.step != Step.GUARD and inhibit.lifted_at is not None:
        raise InvalidTransition("The inhibit of the switch was lifted before its end.")
    take = {
        Step.DRAIN: _drained,
        Step.SWITCH: _switched,
        Step.FRESH: _freshened,
        Step.GUARD: _verified,
    }[Step(switch.step)]
    if take(switch, actor, clock.now()):
        switch.save()
    return switch


@transaction.atomic
def give_up(*, switch_id: int, actor: str, error: str) -> RuntimeSwitch:
    """End a switch as failed, for the reason `error`, with an inhibit in force.

    An inhibit that had been lifted for the last step is set again.

    :raises NotFound: there is no such switch.
    :raises InvalidTransition: it has ended.
    """
    error = required(error)
    switch = _held(switch_id)
    if refusal := ended(switch):
        raise refusal
    inhibit = MaintenanceInhibit.objects.get(pk=switch.inhibit_id)
    if inhibit.lifted_at is not None:
        switch.inhibit = inhibits.inhibit(
            agent=switch.agent.name, actor=actor, reason=f"Runtime switch failed: {error}"
        )
    now = clock.now()
    switch.state, switch.finished_at, switch.error = "failed", now, error
    switch.steps.append(_step("failed", now, error))
    switch.save()
    _note(switch, "runtime_switch.failed", actor, now)
    return switch


def ended(switch: RuntimeSwitch) -> InvalidTransition | None:
    """Return why a switch takes no further step; None while it runs."""
    if switch.state == RuntimeSwitch.State.RUNNING:
        return None
    return InvalidTransition(f"The switch is {switch.state} already.")


def waits_for(switch: RuntimeSwitch) -> str:
    """Return, for a person, what the switch waits for."""
    agent = switch.agent
    if switch.step == Step.DRAIN:
        running = workload.active_leases(agent.pk)
        return f"{running} running jobs of {agent} to end" if running else "somebody to go on"
    if switch.step == Step.FRESH:
        return f"every worker of {agent} to be fresh under the runtime {switch.to_runtime}"
    if switch.step == Step.GUARD:
        seen = guard.look()
        names = ", ".join(watch.agent for watch in seen.missing) or "the end of inhibits"
        return f"the guard, which is {seen.state}: {names}"
    return f"the runtime of {agent} to be switched"


def _drained(switch: RuntimeSwitch, actor: str, now: datetime) -> bool:
    if workload.active_leases(switch.agent_id):
        return False
    switch.steps.append(_step("drain", now, "no job is running"))
    switch.step = Step.SWITCH
    return True


def _switched(switch: RuntimeSwitch, actor: str, now: datetime) -> bool:
    agent = switch.agent
    agent.runtime = switch.to_runtime
    agent.save(update_fields=["runtime"])
    switch.switched_at = now
    switch.steps.append(_step("switch", now, f"{switch.from_runtime} -> {switch.to_runtime}"))
    switch.step = Step.FRESH
    _note(switch, "runtime.switched", actor, now, rows=[agent])
    return True


def _freshened(switch: RuntimeSwitch, actor: str, now: datetime) -> bool:
    """End the step once all workers heard of lately run the new runtime, as many as expected."""
    agent = switch.agent
    alive = Presence.objects.filter(
        session__agent=agent,
        session__state="current",
        last_heartbeat_at__gt=now - timedelta(seconds=agent.fresh_seconds),
    )
    since = list(
        alive.filter(last_heartbeat_at__gt=switch.switched_at).values_list("runtime", flat=True)
    )
    wanted = agent.workers_expected if agent.expected else 1
    lagging = alive.exclude(runtime=switch.to_runtime).exists()
    if set(since) != {switch.to_runtime} or len(since) < wanted or lagging:
        return False
    switch.steps.append(_step("fresh", now, f"all under {switch.to_runtime}"))
    inhibits.lift(inhibit_id=switch.inhibit_id, actor=actor, reason="The runtime is switched.")
    if switch.reopen and _still_ours(switch):
        set_admission(
            agent=agent.name,
            state=Agent.Admission.OPEN,
            barrier_id=f"switch:{switch.pk}:open",
            actor=actor,
            reason="The runtime is switched.",
        )
    switch.steps.append(_step("lift", now, f"inhibit {switch.inhibit_id}"))
    switch.step = Step.GUARD
    return True


def _still_ours(switch: RuntimeSwitch) -> bool:
    """Tell whether nobody else has moved the admission since the switch drained the agent."""
    newest = switch.agent.admission_changes.order_by("-generation").first()
    if newest is None:
        return False
    return newest.barrier_id == _drain_barrier(switch) or newest.actor == SWEEPER


def _drain_barrier(switch: RuntimeSwitch) -> str:
    return f"switch:{switch.pk}:drain"


def _verified(switch: RuntimeSwitch, actor: str, now: datetime) -> bool:
    if guard.look().state != guard.HEALTHY:
        return False
    switch.steps.append(_step("guard", now, "healthy"))
    switch.state, switch.finished_at = RuntimeSwitch.State.VERIFIED, now
    _note(switch, "runtime_switch.verified", actor, now)
    return True


def _held(switch_id: int) -> RuntimeSwitch:
    """Lock the agent of the switch, which orders all moves on it, and read the switch."""
    found = RuntimeSwitch.objects.filter(pk=switch_id).values_list("agent__name", flat=True)
    names = list(found)
    if not names:
        raise NotFound("There is no such runtime switch.")
    [row] = barrier.hold(names)
    switch = RuntimeSwitch.objects.get(pk=switch_id)
    switch.agent = row
    return switch


def _step(step: str, at: datetime, detail: str) -> dict[str, str]:
    return {"step": step, "at": at.isoformat(), "detail": detail}


def _note(
    switch: RuntimeSwitch, action: str, actor: str, now: datetime, rows: Sequence[Agent] = ()
) -> None:
    # Read again: the steps before have appended to the chain on instances of their own.
    head = Agent.objects.get(pk=switch.agent_id)
    audit.record(
        head,
        action=action,
        actor=actor,
        at=now,
        reason=switch.error or switch.reason,
        details={"switch_id": switch.pk, "from": switch.from_runtime, "to": switch.to_runtime},
        rows=rows,
    )
