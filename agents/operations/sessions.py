"""Operations of processes: activate a session, say that one lives."""

from __future__ import annotations

from agents.models import NotAsked
from agents.operations import answers, shapes
from agents.operations.callers import entry_of, principal_of
from agents.transitions import presence, sessions
from agents.transitions.sessions import SessionStateOut
from governance.core.idempotency import Answer
from governance.core.protocol import check_protocol
from governance.operations.operation import DONE, Call, operation


@operation(
    scopes=("work",),
    identity={"agent": str},
    reads=shapes.ActivateIn,
    answers=SessionStateOut,
    outcomes=("current", "pending"),
    key="required",
    moment=(),
)
def activate(call: Call) -> Answer:
    """Activate a session; it is `pending` while an operator has not approved the cell."""
    check_protocol(call.body["protocol_version"])
    boot = {name: value for name, value in call.body.items() if name != "activation_operation_id"}

    def move() -> Answer:
        session = sessions.activate(
            principal=principal_of(call),
            agent=call.identity["agent"],
            operation_id=call.body["activation_operation_id"],
            boot=sessions.Boot(**boot),
            key=call.key,
        )
        # What waits for an operator is no final answer: the same key learns of the approval.
        state = session["state"]
        return Answer(state, session, recorded=state != "pending")

    return call.once(move, at_gate=True)


@operation(
    scopes=("work",),
    identity={"agent": str},
    reads=shapes.HeartbeatIn,
    answers=answers.StandingOut,
    sessions=True,
)
def agent_heartbeat(call: Call) -> Answer:
    """Say that a session lives, or workers of the older contract do."""
    agent, entry = call.identity["agent"], entry_of(call)
    workers = call.body.get("worker_ids", [])
    if entry.session_id is None and not workers:
        workers = [agent]
    standing = presence.beat(
        entry=entry,
        agent=agent,
        runtime=call.body.get("runtime", ""),
        worker_ids=workers,
        not_asking=[NotAsked(**each) for each in call.body.get("not_asking", [])],
    )
    return Answer(DONE, answers.standing(standing))
