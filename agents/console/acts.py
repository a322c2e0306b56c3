"""What operators can do to agents and to the fleet: each act asks, then calls one transition."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django import forms

from agents.models import (
    Agent,
    Credential,
    MaintenanceInhibit,
    RiskTier,
    RuntimeSwitch,
    Session,
)
from agents.transitions import (
    admission,
    credentials,
    epochs,
    inhibits,
    principals,
    sessions,
    switches,
)
from governance.console.acts import TRISTATE, Act, add_act, meant
from governance.core import audit, clock
from governance.core.errors import NotFound

INHIBIT_MINUTES_MAX = 60 * 24 * 14
Admission = Agent.Admission


class InhibitForm(forms.Form):
    """How long an inhibit lasts."""

    minutes = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=INHIBIT_MINUTES_MAX,
        help_text="Empty: until an operator lifts it.",
    )


class RuntimeForm(forms.Form):
    """Which runtime an agent is to have."""

    runtime = forms.CharField(max_length=40, help_text="command, http, openai …")


class AgentForm(forms.Form):
    """A new agent."""

    name = forms.SlugField(max_length=60)
    max_risk_tier = forms.ChoiceField(choices=RiskTier.choices, label="Highest risk")


class SettingsForm(forms.Form):
    """Settings of an agent; what is left as it is does not change."""

    enabled = forms.ChoiceField(choices=TRISTATE, required=False)
    expected = forms.ChoiceField(
        choices=TRISTATE, required=False, help_text="Whether the guard watches it."
    )
    approve_cells = forms.ChoiceField(
        choices=TRISTATE, required=False, help_text="Whether each cell must be approved first."
    )
    max_risk_tier = forms.ChoiceField(
        choices=[("", "as it is"), *RiskTier.choices], required=False, label="Highest risk"
    )
    fresh_seconds = forms.IntegerField(required=False, min_value=1, help_text="Late after that.")
    stale_seconds = forms.IntegerField(required=False, min_value=1, help_text="Stale after that.")


class SubmitterForm(forms.Form):
    """A new submitter."""

    name = forms.SlugField(max_length=60)
    owner = forms.CharField(
        required=False,
        max_length=150,
        help_text="User who answers for it, and who may not approve what it submits.",
    )


def _register_agent(*, key: str, actor: str, reason: str, name: str, max_risk_tier: str) -> str:
    agent = principals.register_agent(
        name=name, max_risk_tier=max_risk_tier, actor=actor, reason=reason
    )
    return f"{agent} is registered"


def _register_submitter(*, key: str, actor: str, reason: str, name: str, owner: str = "") -> str:
    row = principals.register_submitter(name=name, owner=owner, actor=actor, reason=reason)
    return f"{row} is registered"


def _configure(*, key: str, actor: str, reason: str, **asked: Any) -> str:
    settings = principals.Settings(**meant(asked, "enabled", "expected", "approve_cells"))
    principals.configure_agent(name=key, actor=actor, reason=reason, settings=settings)
    return "changed"


def _admit(state: str) -> Callable[..., str]:
    def run(*, key: str, actor: str, reason: str) -> str:
        # The run's id names the barrier, so that the same run moves the generation once.
        answer = admission.set_admission(
            agent=key,
            state=state,
            barrier_id=f"console:{audit.current_request_id.get()}",
            actor=actor,
            reason=reason,
        )
        return f"{answer.state}, generation {answer.generation}; {answer.active_leases} running"

    return run


def _admitted(*, unlike: str) -> Callable[[Agent, str], str]:
    return lambda agent, actor: f"it is {unlike} already" if agent.admission == unlike else ""


def _inhibit_agent(*, key: str, actor: str, reason: str, minutes: int | None = None) -> str:
    row = inhibits.inhibit(agent=key, actor=actor, reason=reason, ends_at=_after(minutes))
    return f"inhibit {row.pk} in force"


def _inhibit_fleet(*, key: str, actor: str, reason: str, minutes: int | None = None) -> str:
    row = inhibits.inhibit(actor=actor, reason=reason, ends_at=_after(minutes))
    return f"inhibit {row.pk} in force"


def _after(minutes: int | None) -> Any:
    return clock.now() + timedelta(minutes=minutes) if minutes else None


def _lift(*, key: str, actor: str, reason: str) -> str:
    inhibits.lift(inhibit_id=int(key), actor=actor, reason=reason)
    return "lifted"


def _rotate_epoch(*, key: str, actor: str, reason: str) -> str:
    return f"the epoch is {epochs.rotate(actor=actor, reason=reason)}"


def _begin_switch(*, key: str, actor: str, reason: str, runtime: str) -> str:
    switch = switches.begin(agent=key, runtime=runtime, actor=actor, reason=reason)
    return f"switch {switch.pk} to {runtime} begun; it waits for {switches.waits_for(switch)}"


def _advance_switch(*, key: str, actor: str, reason: str) -> str:
    before = ""
    switch = switches.advance(switch_id=int(key), actor=actor)
    # Each call takes one step; go on as far as the conditions hold now.
    while switch.state == RuntimeSwitch.State.RUNNING and switch.step != before:
        before = switch.step
        switch = switches.advance(switch_id=int(key), actor=actor)
    if switch.state == RuntimeSwitch.State.RUNNING:
        return f"it waits for {switches.waits_for(switch)}"
    return str(switch.state)


def _give_up_switch(*, key: str, actor: str, reason: str) -> str:
    switches.give_up(switch_id=int(key), actor=actor, error=reason)
    return "failed; its inhibit stays in force"


def _running(switch: RuntimeSwitch, actor: str) -> str:
    return "" if switch.state == RuntimeSwitch.State.RUNNING else f"it is {switch.state}"


def _approve_cell(*, key: str, actor: str, reason: str) -> str:
    session = Session.objects.select_related("agent").filter(session_id=key).first()
    if session is None:
        raise NotFound("There is no such session.")
    sessions.approve_cell(
        agent=session.agent.name, cell_id=session.cell_id, actor=actor, reason=reason
    )
    return f"cell {session.cell_id} approved"


def _pending(session: Session, actor: str) -> str:
    return "" if session.state == Session.State.PENDING else f"it is {session.state}"


def _revoke(*, key: str, actor: str, reason: str) -> str:
    credentials.revoke(prefix=key, actor=actor, reason=reason)
    return "revoked"


def _unrevoked(credential: Credential, actor: str) -> str:
    return "it is revoked already" if credential.revoked_at else ""


def _unlifted(inhibit: MaintenanceInhibit, actor: str) -> str:
    return "it is lifted already" if inhibit.lifted_at else ""


for act in (
    Act(
        name="open",
        model="agents.agent",
        label="Open",
        permission="agents.set_admission",
        effect="Lets each agent take new work again.",
        run=_admit(Admission.OPEN),
        fits=_admitted(unlike=Admission.OPEN),
    ),
    Act(
        name="drain",
        model="agents.agent",
        label="Drain",
        permission="agents.set_admission",
        effect="Lets each agent finish what it runs and take nothing new; when its last lease is "
        "gone it is closed. It is told at its next heartbeat.",
        run=_admit(Admission.DRAINING),
        fits=_admitted(unlike=Admission.DRAINING),
    ),
    Act(
        name="close",
        model="agents.agent",
        label="Close",
        permission="agents.set_admission",
        effect="Stops each agent from taking new work at once; when this answers, no earlier claim "
        "can still go through. Running work goes on.",
        run=_admit(Admission.CLOSED),
        fits=_admitted(unlike=Admission.CLOSED),
        grave=True,
    ),
    Act(
        name="inhibit",
        model="agents.agent",
        label="Inhibit for maintenance",
        permission="agents.inhibit_fleet",
        effect="Stops new work of each agent for a time. Running work goes on, and the guard "
        "raises no alarm.",
        run=_inhibit_agent,
        fields=InhibitForm,
        grave=True,
    ),
    Act(
        name="configure",
        model="agents.agent",
        label="Change settings",
        permission="agents.configure_agent",
        effect="Changes settings of each agent: from then on no worker acts under the old ones.",
        run=_configure,
        fields=SettingsForm,
    ),
    Act(
        name="make",
        model="agents.agent",
        label="Register an agent",
        permission="agents.configure_agent",
        effect="Enters an agent. It gets work once a job type names it, and acts once it has a "
        "credential.",
        run=_register_agent,
        fields=AgentForm,
        makes=True,
    ),
    Act(
        name="make",
        model="agents.submitter",
        label="Register a submitter",
        permission="agents.manage_credentials",
        effect="Enters a system that queues work. It may once it has a credential.",
        run=_register_submitter,
        fields=SubmitterForm,
        makes=True,
    ),
    Act(
        name="switch_runtime",
        model="agents.agent",
        label="Switch runtime",
        permission="agents.switch_runtime",
        effect="Begins the switch of the agent to another runtime: inhibit, drain, switch, all "
        "workers fresh, lift, guard healthy. It ends verified, or failed with the inhibit in "
        "force.",
        run=_begin_switch,
        fields=RuntimeForm,
        grave=True,
        bulk=False,
    ),
    Act(
        name="inhibit_all",
        model="agents.fleet",
        label="Inhibit the fleet",
        permission="agents.inhibit_fleet",
        effect="Stops new work of all agents for a time. Running work goes on, and the guard "
        "raises no alarm.",
        run=_inhibit_fleet,
        fields=InhibitForm,
        grave=True,
    ),
    Act(
        name="rotate_epoch",
        model="agents.fleet",
        label="Rotate the epoch",
        permission="agents.rotate_epoch",
        effect="Makes every session activate again under a new dispatcher epoch; running work goes "
        "on under its tokens. After a restore of the database this is not enough: use "
        "manage.py rotate_epoch --after-restore.",
        run=_rotate_epoch,
        grave=True,
    ),
    Act(
        name="lift",
        model="agents.maintenanceinhibit",
        label="Lift",
        permission="agents.inhibit_fleet",
        effect="Ends each inhibit now: new work is granted again.",
        run=_lift,
        fits=_unlifted,
    ),
    Act(
        name="advance",
        model="agents.runtimeswitch",
        label="Go on",
        permission="agents.switch_runtime",
        effect="Takes the next steps of the switch, as far as their conditions hold.",
        run=_advance_switch,
        fits=_running,
        bulk=False,
    ),
    Act(
        name="give_up",
        model="agents.runtimeswitch",
        label="Give up",
        permission="agents.switch_runtime",
        effect="Ends the switch as failed. Its inhibit stays in force until it is lifted.",
        run=_give_up_switch,
        fits=_running,
        grave=True,
        bulk=False,
    ),
    Act(
        name="approve_cell",
        model="agents.session",
        label="Approve the cell",
        permission="agents.approve_cell",
        effect="Lets the cell of each session act for its agent, now and after restarts.",
        run=_approve_cell,
        fits=_pending,
    ),
    Act(
        name="revoke",
        model="agents.credential",
        label="Revoke",
        permission="agents.manage_credentials",
        effect="Makes each token void at once and for good.",
        run=_revoke,
        fits=_unrevoked,
        grave=True,
    ),
):
    add_act(act)
