"""The operation that steers a job from outside."""

from __future__ import annotations

from agents.operations.callers import principal_of
from governance.core.errors import PreconditionFailed, RevisionMismatch
from governance.core.idempotency import Answer
from governance.core.isolation import in_any_case
from governance.operations.operation import Call, operation
from jobs import queries
from jobs.operations import answers, shapes
from jobs.verbs import CONTROLS


@operation(
    scopes=("control",),
    identity={"task_id": str},
    reads=shapes.ControlIn,
    answers=answers.ControlAnswerOut,
    outcomes=("applied",),
    key="required",
    moment=(),
    if_match=True,
)
def control_job(call: Call) -> Answer:
    """Steer one's own job, if it is as the caller saw it: stop, pause, resume, hold, release."""
    principal, body = principal_of(call), call.body

    def move() -> Answer:
        # Whose job it is never changes, so that it may be judged before the lock.
        # A job that cannot be read can be stopped nevertheless.
        record = in_any_case(lambda: queries.read_job(principal=principal, **call.identity))
        _check_match(call, record.job.revision)
        try:
            outcome = CONTROLS[body["action"]].run(
                key=call.identity["task_id"],
                actor=principal.text,
                reason=body["reason"],
                expected_revision=body["expected_task_revision"],
                **body["values"],
            )
        except RevisionMismatch as stale:
            if call.context.if_match is None:
                raise
            raise PreconditionFailed(current=stale.current) from None
        return Answer("applied", answers.controlled(outcome))

    return call.once(move)


def _check_match(call: Call, revision: int) -> None:
    """Refuse a request that expects one revision in its body and another in If-Match.

    No job is at two of them, so this needs no lock; where they are one, the move judges it.

    :raises PreconditionFailed: the job is not at the one in If-Match.
    :raises RevisionMismatch: it is, and so not at the one in the body.
    """
    if call.context.if_match in (None, call.body["expected_task_revision"]):
        return
    if call.context.if_match != revision:
        raise PreconditionFailed(current={"revision": revision})
    raise RevisionMismatch(current={"revision": revision})
