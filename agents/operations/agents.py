"""Operations on agents: change the admission of one, look at one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents import queries, workload
from agents.models import Agent
from agents.operations import answers, shapes
from agents.operations.callers import principal_of
from agents.transitions import admission
from governance.core.idempotency import Answer
from governance.core.protocol import supported_protocols
from governance.evidence.envelopes import public_keys
from governance.operations.operation import DONE, Call, operation


@operation(
    scopes=("admit",),
    identity={"agent": str},
    reads=shapes.AdmissionIn,
    answers=answers.AdmissionOut,
    key="required",
    moment=("active_leases", "effects_until"),
    sessions=True,
)
def set_admission(call: Call) -> Answer:
    """Change the admission; answers when nothing admitted before can commit any more."""
    principal = principal_of(call)

    def move() -> Answer:
        changed = admission.set_admission(
            agent=call.identity["agent"],
            actor=principal.text,
            principal=principal,
            session=(call.context.session_id, call.context.epoch),
            key=call.key,
            **call.body,
        )
        moment = answers.moment_of_admission(changed)
        return Answer(DONE, answers.admission(changed), moment=moment)

    def renew(_: Mapping[str, Any]) -> Mapping[str, Any]:
        return answers.moment_of_admission(admission.under_way(agent=call.identity["agent"]))

    return call.once(move, at_gate=True, renew=renew)


@operation(
    scopes=("read", "admit"),
    identity={"agent": str},
    answers=answers.StatusOut,
)
def agent_status(call: Call) -> Answer:
    """Look at an agent: itself, or any with the scope `admit`."""
    found = queries.status(agent=_visible(call))
    presence = queries.presence(agent=found.agent, at=found.at)
    return Answer(DONE, answers.status(found, presence, queries.no_room(agent=found.agent)))


@operation(
    scopes=("read", "work"),
    identity={"agent": str},
    answers=answers.BootstrapOut,
)
def agent_bootstrap(call: Call) -> Answer:
    """Learn what the agent may do, before it activates."""
    found = queries.status(agent=_visible(call))
    bootstrap = answers.bootstrap(
        found,
        job_types=workload.ask().job_types(agent_id=found.agent.pk),
        limits=workload.ask().limits(),
        protocol=supported_protocols(),
        keys=public_keys(),
    )
    return Answer(DONE, bootstrap)


def _visible(call: Call) -> Agent:
    return queries.visible_agent(principal=principal_of(call), agent=call.identity["agent"])
