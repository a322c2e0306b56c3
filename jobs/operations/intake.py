"""Operations of intake: tasks in, jobs out."""

from __future__ import annotations

from dataclasses import replace

from agents.operations.callers import principal_of
from governance.core.errors import DomainError
from governance.core.idempotency import Answer
from governance.operations.operation import Call, operation
from jobs import transitions
from jobs.operations import answers, shapes
from jobs.operations.answering import answer_batch, answer_of
from jobs.transitions.intake import INTAKE_LIMIT_MAX

#: The outcomes that say that there is a new job.
MADE = frozenset({"queued", "held"})


@operation(
    scopes=("submit",),
    reads=shapes.EnvelopeIn,
    answers=answers.JobAnswerOut,
    outcomes=("queued", "held", "already_queued"),
    key="honoured",
    moment=(),
)
def queue_job(call: Call) -> Answer:
    """Queue a task; the same envelope again answers its job."""

    def move() -> Answer:
        [outcome] = transitions.intake(principal=principal_of(call), envelopes=[call.body])
        if isinstance(outcome, DomainError):
            raise outcome
        return answer_of(outcome, answers.moved)

    return call.once(move)


#: The older name; its idempotency keys are its own.
intake_task = replace(queue_job, name="intake_task")


@operation(
    scopes=("submit",),
    reads=shapes.EnvelopeIn,
    answers=answers.BatchOut,
    key="honoured",
    moment=(),
    batch_max=INTAKE_LIMIT_MAX,
    batch_name="tasks",
)
def queue_jobs(call: Call) -> Answer:
    """Queue up to 500 tasks, each by itself."""
    principal = principal_of(call)

    return answer_batch(
        call,
        call.body,
        lambda tasks: transitions.intake(principal=principal, envelopes=tasks),
        answers.moved_of_several,
        made=MADE,
    )
