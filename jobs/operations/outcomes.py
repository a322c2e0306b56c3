"""Operations by which an attempt ends: complete, fail, escalate, defer; and what was learnt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agents.entry import Entry
from agents.operations.callers import entry_of, named_entry, need_name
from governance.core.errors import (
    DomainError,
    FencingTokenRequired,
    FieldFault,
    InvalidArgument,
    WrongOwner,
)
from governance.core.idempotency import Answer
from governance.operations.operation import Call, operation
from jobs import metrics, queries, transitions
from jobs.operations import answers, shapes
from jobs.operations.answering import answer_batch, answer_of
from jobs.transitions import Outcome
from jobs.transitions.reflections import FIELDS

COMPLETIONS_MAX = 500
RECORDED = ("recorded", "already_recorded")


@operation(
    scopes=("work",),
    identity={"task_id": str},
    reads=shapes.CompleteIn,
    answers=answers.JobAnswerOut,
    outcomes=RECORDED,
    key="honoured",
    moment=(),
    sessions=True,
    if_match=True,
)
def complete_job(call: Call) -> Answer:
    """Record what the attempt delivered."""
    check_authority(call.body)
    entry = named_entry(call, call.body.get("worker_id"))

    def move() -> Answer:
        [outcome] = transitions.complete(entry=entry, completions=[{**call.body, **call.identity}])
        if isinstance(outcome, DomainError):
            raise outcome
        return answer_of(outcome, answers.moved)

    return call.once(move)


@operation(
    scopes=("work",),
    reads=shapes.CompletionIn,
    answers=answers.BatchOut,
    key="honoured",
    moment=(),
    sessions=True,
    batch_max=COMPLETIONS_MAX,
    batch_name="completions",
)
def complete_jobs(call: Call) -> Answer:
    """Record what up to 500 attempts delivered, each by itself."""
    items = [_authorized(call, item) for item in call.body]
    entry = entry_of(call, _one_worker(items))

    return answer_batch(
        call,
        items,
        lambda completions: transitions.complete(entry=entry, completions=completions),
        answers.moved_of_several,
    )


@operation(
    scopes=("work",),
    identity={"task_id": str},
    reads=shapes.FailIn,
    answers=answers.JobAnswerOut,
    outcomes=RECORDED,
    key="honoured",
    moment=(),
    sessions=True,
    if_match=True,
)
def fail_job(call: Call) -> Answer:
    """Record why the attempt failed; retried when it may be and attempts are left."""
    return _ended(call, transitions.fail)


@operation(
    scopes=("work",),
    identity={"task_id": str},
    reads=shapes.EscalateIn,
    answers=answers.JobAnswerOut,
    outcomes=RECORDED,
    key="honoured",
    moment=(),
    sessions=True,
    if_match=True,
)
def escalate_job(call: Call) -> Answer:
    """Hand the job to a human; the attempt ends."""
    return _ended(call, transitions.escalate)


@operation(
    scopes=("work",),
    identity={"task_id": str},
    reads=shapes.DeferIn,
    answers=answers.JobAnswerOut,
    outcomes=RECORDED,
    key="honoured",
    moment=(),
    sessions=True,
    if_match=True,
)
def defer_job(call: Call) -> Answer:
    """Give the job back without a verdict, to be claimed later; the attempt ends."""
    entry, authority, content = _attempt_write(call)

    def move() -> Answer:
        outcome = transitions.defer(entry=entry, **call.identity, **authority, **content)
        if outcome.cause is not None:
            metrics.DEFERRALS.labels(outcome.record.owner, outcome.cause).inc()
        return answer_of(outcome, answers.moved)

    return call.once(move)


@operation(
    scopes=("work",),
    identity={"task_id": str},
    reads=shapes.ReflectionIn,
    answers=answers.ReflectionAnswerOut,
    outcomes=RECORDED,
    key="honoured",
    moment=(),
    sessions=True,
    if_match=True,
)
def reflect_on_job(call: Call) -> Answer:
    """Append a reflection; the server gives the number when there is none."""
    return _reflected(call, **call.identity)


@operation(
    scopes=("work",),
    reads=shapes.TaskReflectionIn,
    answers=answers.ReflectionAnswerOut,
    outcomes=RECORDED,
    key="honoured",
    moment=(),
    sessions=True,
    if_match=True,
)
def reflect(call: Call) -> Answer:
    """Append a reflection to the named task, as older clients do."""
    if call.body.get("owner") and call.body["owner"] != call.principal.name:
        raise WrongOwner("owner must be the agent of the credential.")
    task_id, job_id = call.body.get("task_id"), call.body.get("job_id")
    if job_id is not None:
        named = queries.task_of(job_id=job_id)
        if task_id not in (None, named):
            fault = FieldFault("/job_id", "not the job of task_id")
            raise InvalidArgument("task_id and job_id name two jobs.", errors=[fault])
        task_id = named
    return _reflected(call, task_id=task_id, unnamed=True)


def _ended(call: Call, end: Callable[..., Outcome]) -> Answer:
    """Return the answer of the transition that ends the attempt, which takes the body's members."""
    entry, authority, content = _attempt_write(call)

    def move() -> Answer:
        return answer_of(end(entry=entry, **call.identity, **authority, **content), answers.moved)

    return call.once(move)


def _reflected(call: Call, *, task_id: str, unnamed: bool = False) -> Answer:
    entry, authority, members = _attempt_write(call, unnamed=unnamed)
    content = {name: members[name] for name in FIELDS if name in members}

    def move() -> Answer:
        outcome = transitions.reflect(
            entry=entry,
            task_id=task_id,
            **authority,
            sequence_number=members.get("sequence_number"),
            content=content,
            unnamed=unnamed,
        )
        return answer_of(outcome, answers.reflected)

    return call.once(move)


def _attempt_write(
    call: Call, *, unnamed: bool = False
) -> tuple[Entry, dict[str, Any], dict[str, Any]]:
    """Return who writes, the attempt in whose name, and what: the other members of the body.

    :param unnamed: whether the form knows callers that name neither a session nor themselves.
    """
    check_authority(call.body)
    if not unnamed:
        need_name(call, call.body.get("worker_id"))
    members = dict(call.body)
    entry = entry_of(call, members.pop("worker_id", None))
    authority = {name: members.pop(name, None) for name in ("attempt", "fencing_token")}
    return entry, authority, members


def check_authority(body: dict[str, Any]) -> None:
    """Refuse a write that names its attempt without the token, or the other way round.

    :raises FencingTokenRequired: half an authority is none, and not the older contract either.
    """
    if (body.get("attempt") is None) != (body.get("fencing_token") is None):
        raise FencingTokenRequired("attempt and fencing_token go together.")


def _authorized(call: Call, item: dict[str, Any] | DomainError) -> dict[str, Any] | DomainError:
    """Return an item of a batch, or what is wrong with its authority."""
    if isinstance(item, DomainError):
        return item
    try:
        check_authority(item)
        need_name(call, item.get("worker_id"))
    except DomainError as refusal:
        return refusal
    return item


def _one_worker(items: list[dict[str, Any] | DomainError]) -> str | None:
    """Return the worker that all items name, if they name one."""
    good = [item for item in items if not isinstance(item, DomainError)]
    workers = {item["worker_id"] for item in good if item.get("worker_id")}
    return workers.pop() if len(workers) == 1 else None
