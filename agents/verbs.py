"""What operators can do to agents, submitters and the fleet."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from uuid_utils.compat import uuid7

from agents.models import (
    PREFIX_CHARS_MAX,
    PREFIX_CHARS_MIN,
    PREFIX_ENDS,
    Agent,
    Credential,
    Fleet,
    MaintenanceInhibit,
    RiskTier,
    RuntimeSwitch,
    Session,
    Submitter,
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
from agents.transitions.admission import Admission
from governance.core import audit, clock
from governance.core.errors import DomainError, InvalidTransition, NotFound
from governance.core.fields import DAY_SECONDS, Choice, Flag, Span, Text, Whole
from governance.core.permissions import OPERATOR, Permission
from governance.core.verbs import Done, Target, Verb, of_row

SET_ADMISSION = Permission("set_admission", "Can open, drain and close an agent", (OPERATOR,))
INHIBIT_FLEET = Permission("inhibit_fleet", "Can set and lift a maintenance inhibit", (OPERATOR,))
SWITCH_RUNTIME = Permission("switch_runtime", "Can switch the runtime of an agent")
CONFIGURE_AGENT = Permission("configure_agent", "Can change the settings of an agent")
CONFIGURE_SUBMITTER = Permission("configure_submitter", "Can change what a submitter owns")
APPROVE_CELL = Permission("approve_cell", "Can approve a cell of an agent")
MANAGE_CREDENTIALS = Permission("manage_credentials", "Can create, rotate and revoke credentials")
ROTATE_EPOCH = Permission("rotate_epoch", "Can rotate the dispatcher epoch")

AGENT, SUBMITTER = Target(Agent, key="name"), Target(Submitter, key="name")
CREDENTIAL, SESSION = Target(Credential, key="prefix"), Target(Session, key="session_id")
FLEET, INHIBIT, SWITCH = Target(Fleet), Target(MaintenanceInhibit), Target(RuntimeSwitch)
State = Agent.Admission

NAME = Text(name="name", chars_max=60, slug=True)
TASK_ID_PREFIX = Text(
    name="task_id_prefix",
    chars_max=PREFIX_CHARS_MAX,
    help=f"{PREFIX_CHARS_MIN} characters or more, ending in one of {PREFIX_ENDS}",
)
#: How long an inhibit lasts.
LASTS = Span(
    name="seconds",
    given_as="minutes",
    unit="minutes",
    least=1,
    most=90 * DAY_SECONDS,
    required=False,
    help="Empty: until an operator lifts it.",
)


def pending(session: Session) -> DomainError | None:
    """Return why there is no cell to approve; None where the session waits for that."""
    if session.state == Session.State.PENDING:
        return None
    return InvalidTransition(f"It is {session.state}.")


def _set_admission(*, key: str, actor: str, reason: str, state: str) -> Admission:
    # The request names the barrier, so that a run that is gone on with moves the generation once.
    request = audit.current_request_id.get() or str(uuid7())
    return admission.set_admission(
        agent=key, state=state, barrier_id=f"verb:{request}", actor=actor, reason=reason
    )


def _open(*, key: str, actor: str, reason: str) -> Admission:
    return _set_admission(key=key, actor=actor, reason=reason, state=State.OPEN)


def _drain(*, key: str, actor: str, reason: str) -> Admission:
    return _set_admission(key=key, actor=actor, reason=reason, state=State.DRAINING)


def _close(*, key: str, actor: str, reason: str) -> Admission:
    return _set_admission(key=key, actor=actor, reason=reason, state=State.CLOSED)


def _inhibit_agent(
    *, key: str, actor: str, reason: str, seconds: int | None = None
) -> MaintenanceInhibit:
    return inhibits.inhibit(agent=key, actor=actor, reason=reason, ends_at=after(seconds))


def _inhibit_fleet(
    *, key: int, actor: str, reason: str, seconds: int | None = None
) -> MaintenanceInhibit:
    return inhibits.inhibit(actor=actor, reason=reason, ends_at=after(seconds))


def after(seconds: int | None) -> datetime | None:
    """Return the instant in so many seconds; None for no end."""
    return clock.now() + timedelta(seconds=seconds) if seconds else None


def _lift(*, key: int, actor: str, reason: str) -> MaintenanceInhibit:
    return inhibits.lift(inhibit_id=key, actor=actor, reason=reason)


def _configure(*, key: str, actor: str, reason: str, **settings: Any) -> Agent:
    return principals.configure_agent(
        name=key, actor=actor, reason=reason, settings=principals.Settings(**settings)
    )


def _own_prefix(*, key: str, actor: str, reason: str, task_id_prefix: str) -> Submitter:
    return principals.configure_submitter(
        name=key, actor=actor, reason=reason, add=[task_id_prefix]
    )


def _disown_prefix(*, key: str, actor: str, reason: str, task_id_prefix: str) -> Submitter:
    return principals.configure_submitter(
        name=key, actor=actor, reason=reason, remove=[task_id_prefix]
    )


def _rotate_epoch(*, key: int, actor: str, reason: str) -> UUID:
    return epochs.rotate(actor=actor, reason=reason)


def _begin_switch(*, key: str, actor: str, reason: str, runtime: str) -> RuntimeSwitch:
    return switches.begin(agent=key, runtime=runtime, actor=actor, reason=reason)


def _advance_switch(*, key: int, actor: str, reason: str) -> RuntimeSwitch:
    """Take the steps of a switch as far as their conditions hold now."""
    before = ""
    switch = switches.advance(switch_id=key, actor=actor)
    while switch.state == RuntimeSwitch.State.RUNNING and switch.step != before:
        before = switch.step
        switch = switches.advance(switch_id=key, actor=actor)
    return switch


def _give_up_switch(*, key: int, actor: str, reason: str) -> RuntimeSwitch:
    return switches.give_up(switch_id=key, actor=actor, error=reason)


def _approve_cell(*, key: UUID, actor: str, reason: str) -> Any:
    session = Session.objects.select_related("agent").filter(session_id=key).first()
    if session is None:
        raise NotFound("There is no such session.")
    return sessions.approve_cell(
        agent=session.agent.name, cell_id=session.cell_id, actor=actor, reason=reason
    )


def _release_cell(*, key: UUID, actor: str, reason: str) -> Session:
    return sessions.release_cell(session_id=key, actor=actor, reason=reason)


def _revoke(*, key: str, actor: str, reason: str) -> Credential:
    return credentials.revoke(prefix=key, actor=actor, reason=reason)


def _admission_set(answer: Admission) -> Done:
    words = f"{answer.state}, generation {answer.generation}; {answer.active_leases} running"
    if answer.effects_until is not None:
        words += f", effects until {clock.instant(answer.effects_until)}"
    return Done(words, asdict(answer))


def _inhibited(row: MaintenanceInhibit) -> Done:
    facts = {"inhibit_id": row.pk, "ends_at": row.ends_at}
    return Done(f"inhibit {row.pk} in force", facts)


def _switching(switch: RuntimeSwitch) -> Done:
    facts = {"switch_id": switch.pk, "state": switch.state, "step": switch.step}
    if switch.state != RuntimeSwitch.State.RUNNING:
        return Done(str(switch.state), facts)
    return Done(f"it waits for {switches.waits_for(switch)}", facts)


def _switch_begun(switch: RuntimeSwitch) -> Done:
    waiting = _switching(switch)
    words = f"switch {switch.pk} to {switch.to_runtime} begun; {waiting.words}"
    return Done(words, waiting.facts)


OPEN = Verb(
    name="open",
    on=AGENT,
    label="Open",
    permission=SET_ADMISSION,
    effect="Lets each agent take new work again.",
    run=_open,
    done=_admission_set,
    command="set_admission",
)
DRAIN = Verb(
    name="drain",
    on=AGENT,
    label="Drain",
    permission=SET_ADMISSION,
    effect="Lets each agent finish what it runs and take nothing new; when its last lease is "
    "gone it is closed. It is told at its next heartbeat.",
    run=_drain,
    done=_admission_set,
    command="set_admission",
)
CLOSE = Verb(
    name="close",
    on=AGENT,
    label="Close",
    permission=SET_ADMISSION,
    effect="Stops each agent from taking new work at once; when this answers, no earlier claim "
    "can still go through. Running work goes on.",
    run=_close,
    done=_admission_set,
    grave=True,
    command="set_admission",
)
INHIBIT_AGENT = Verb(
    name="inhibit",
    on=AGENT,
    label="Inhibit for maintenance",
    permission=INHIBIT_FLEET,
    effect="Stops new work of each agent for a time. Running work goes on, and the guard "
    "raises no alarm.",
    fields=(LASTS,),
    run=_inhibit_agent,
    done=_inhibited,
    grave=True,
    command="inhibit",
)
CONFIGURE = Verb(
    name="configure",
    on=AGENT,
    label="Change settings",
    permission=CONFIGURE_AGENT,
    effect="Changes settings of each agent: from then on no worker acts under the old ones.",
    fields=(
        Flag(name="enabled", required=False, blank="as it is"),
        Flag(
            name="expected",
            required=False,
            blank="as it is",
            help="Whether the guard watches it.",
        ),
        Whole(
            name="workers_expected",
            least=1,
            most=principals.WORKERS_EXPECTED_MAX,
            required=False,
            help="How many of its workers the guard wants fresh.",
        ),
        Flag(
            name="approve_cells",
            required=False,
            blank="as it is",
            help="Whether each cell must be approved first.",
        ),
        Flag(
            name="require_certificates",
            required=False,
            blank="as it is",
            help="Whether only credentials that are bound to a client certificate are taken.",
        ),
        Choice(
            name="max_risk_tier",
            choices=tuple(RiskTier.choices),
            required=False,
            blank="as it is",
            label="Highest risk",
        ),
        Whole(
            name="fresh_seconds",
            least=1,
            most=principals.STALE_SECONDS_MAX,
            required=False,
            help="Late after that long a silence.",
        ),
        Whole(
            name="stale_seconds",
            least=1,
            most=principals.STALE_SECONDS_MAX,
            required=False,
            help="Stale after that long a silence.",
        ),
    ),
    run=_configure,
    done=lambda agent: Done("changed", {"agent": agent.name}),
    command="configure_agent",
)
REGISTER_AGENT = Verb(
    name="make",
    on=AGENT,
    label="Register an agent",
    permission=CONFIGURE_AGENT,
    effect="Enters an agent. It gets work once a job type names it, and acts once it has a "
    "credential.",
    fields=(
        NAME,
        Choice(name="max_risk_tier", choices=tuple(RiskTier.choices), label="Highest risk"),
    ),
    run=principals.register_agent,
    done=lambda agent: Done(f"{agent} is registered", {"agent": agent.name}),
    makes=True,
    command="configure_agent",
)
REGISTER_SUBMITTER = Verb(
    name="make",
    on=SUBMITTER,
    label="Register a submitter",
    permission=MANAGE_CREDENTIALS,
    effect="Enters a system that queues work. It may once it has a credential.",
    fields=(
        NAME,
        Text(
            name="owner",
            chars_max=150,
            required=False,
            help="User who answers for it, and who may not approve what it submits.",
        ),
    ),
    run=principals.register_submitter,
    done=lambda row: Done(f"{row} is registered", {"submitter": row.name}),
    makes=True,
    command="create_credential",
)
OWN_PREFIX = Verb(
    name="own_prefix",
    on=SUBMITTER,
    label="Own a prefix",
    permission=CONFIGURE_SUBMITTER,
    effect="From then on nobody but the submitter may queue tasks whose ids begin so. Jobs that "
    "exist stay their submitters'.",
    fields=(TASK_ID_PREFIX,),
    run=_own_prefix,
    done=lambda row: Done("it owns the prefix", {"submitter": row.name}),
    bulk=False,
    command="configure_submitter",
)
DISOWN_PREFIX = Verb(
    name="disown_prefix",
    on=SUBMITTER,
    label="Give a prefix up",
    permission=CONFIGURE_SUBMITTER,
    effect="Lets everybody queue tasks again whose ids begin so.",
    fields=(TASK_ID_PREFIX,),
    run=_disown_prefix,
    done=lambda row: Done("everybody may use it", {"submitter": row.name}),
    bulk=False,
    command="configure_submitter",
)
BEGIN_SWITCH = Verb(
    name="switch_runtime",
    on=AGENT,
    label="Switch runtime",
    permission=SWITCH_RUNTIME,
    effect="Begins the switch of the agent to another runtime: inhibit, drain, switch, all "
    "workers fresh, lift, guard healthy. It ends verified, or failed with the inhibit in "
    "force.",
    fields=(Text(name="runtime", chars_max=40, help="command, http, openai …"),),
    run=_begin_switch,
    done=_switch_begun,
    grave=True,
    bulk=False,
    command="switch_runtime",
)
INHIBIT_ALL = Verb(
    name="inhibit_all",
    on=FLEET,
    label="Inhibit the fleet",
    permission=INHIBIT_FLEET,
    effect="Stops new work of all agents for a time. Running work goes on, and the guard "
    "raises no alarm.",
    fields=(LASTS,),
    run=_inhibit_fleet,
    done=_inhibited,
    grave=True,
    command="inhibit",
)
ROTATE = Verb(
    name="rotate_epoch",
    on=FLEET,
    label="Rotate the epoch",
    permission=ROTATE_EPOCH,
    effect="Makes every session activate again under a new dispatcher epoch; running work goes "
    "on under its tokens. After a restore of the database this is not enough: use "
    "manage.py rotate_epoch --after-restore.",
    run=_rotate_epoch,
    done=lambda epoch: Done(f"the epoch is {epoch}", {"dispatcher_epoch": str(epoch)}),
    grave=True,
    command="rotate_epoch",
)
LIFT = Verb(
    name="lift",
    on=INHIBIT,
    label="Lift",
    permission=INHIBIT_FLEET,
    effect="Ends each inhibit now: new work is granted again.",
    run=_lift,
    done=lambda row: Done("lifted", {"lifted_at": row.lifted_at}),
    precondition=of_row(inhibits.liftable),
    command="lift_inhibit",
)
ADVANCE_SWITCH = Verb(
    name="advance",
    on=SWITCH,
    label="Go on",
    permission=SWITCH_RUNTIME,
    effect="Takes the next steps of the switch, as far as their conditions hold.",
    run=_advance_switch,
    done=_switching,
    precondition=of_row(switches.ended),
    bulk=False,
    command="switch_runtime",
)
GIVE_UP_SWITCH = Verb(
    name="give_up",
    on=SWITCH,
    label="Give up",
    permission=SWITCH_RUNTIME,
    effect="Ends the switch as failed. Its inhibit stays in force until it is lifted.",
    run=_give_up_switch,
    done=lambda switch: Done(
        "failed; its inhibit stays in force",
        {"switch_id": switch.pk, "state": switch.state, "inhibit_id": switch.inhibit_id},
    ),
    precondition=of_row(switches.ended),
    grave=True,
    bulk=False,
)
APPROVE_PENDING = Verb(
    name="approve_cell",
    on=SESSION,
    label="Approve the cell",
    permission=APPROVE_CELL,
    effect="Lets the cell of each session act for its agent, now and after restarts, under the "
    "lineage of credentials and the client certificate that it came with.",
    run=_approve_cell,
    done=lambda approval: Done(f"cell {approval.cell_id} approved", {"cell_id": approval.cell_id}),
    precondition=of_row(pending),
    command="approve_cell",
)
RELEASE_CELL = Verb(
    name="release_cell",
    on=SESSION,
    label="Release the cell",
    permission=APPROVE_CELL,
    effect="Ends each session at once, so that another lineage of credentials, or another client "
    "certificate, may take its cell. Its leases go to the sweeper, and its process never comes "
    "back under that boot.",
    run=_release_cell,
    done=lambda session: Done(f"cell {session.cell_id} released", {"cell_id": session.cell_id}),
    precondition=of_row(sessions.releasable),
    grave=True,
)
REVOKE = Verb(
    name="revoke",
    on=CREDENTIAL,
    label="Revoke",
    permission=MANAGE_CREDENTIALS,
    effect="Makes each token void at once and for good. With the last live one of an agent's "
    "lineage its sessions end, and their leases go to the sweeper.",
    run=_revoke,
    done=lambda row: Done("revoked", {"prefix": row.prefix, "revoked_at": row.revoked_at}),
    precondition=of_row(credentials.revocable),
    grave=True,
    command="revoke_credential",
)

VERBS: tuple[Verb[Any], ...] = (
    OPEN,
    DRAIN,
    CLOSE,
    INHIBIT_AGENT,
    CONFIGURE,
    REGISTER_AGENT,
    REGISTER_SUBMITTER,
    OWN_PREFIX,
    DISOWN_PREFIX,
    BEGIN_SWITCH,
    INHIBIT_ALL,
    ROTATE,
    LIFT,
    ADVANCE_SWITCH,
    GIVE_UP_SWITCH,
    APPROVE_PENDING,
    RELEASE_CELL,
    REVOKE,
)
