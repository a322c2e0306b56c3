"""Operations that read: jobs, and what happened to them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from agents.operations.callers import principal_of
from governance.core.idempotency import Answer
from governance.core.isolation import past_bad_rows
from governance.core.models import AuditEvent
from governance.operations.operation import ANY_REVISION, DONE, Call, operation
from governance.operations.pages import page_of
from governance.operations.parameters import OneOf, Whole
from jobs import queries, watching
from jobs.filters import JobFilter
from jobs.models import Attempt, Job
from jobs.operations import answers
from jobs.operations.shapes import WAIT_SECONDS_MAX
from jobs.queries import JobRecord
from jobs.transitions.story import read_attempts

#: The outcome of a read of what its caller has already.
UNCHANGED = "unchanged"
#: What a read of a job may wait for, as a rule over the revisions that the caller knows.
OVER: dict[str, Callable[[frozenset[int], JobRecord], bool]] = {
    "terminal": lambda known, found: found.job.state in Job.FINISHED,
    "changed": lambda known, found: found.job.revision not in known,
}


@operation(
    scopes=("read", "submit"),
    answers=answers.JobPageOut,
    filters=JobFilter,
    paged=True,
)
def list_jobs(call: Call) -> Answer:
    """List one's own jobs, newest first."""
    jobs = call.filtered(queries.visible_jobs(principal=principal_of(call))).only("pk")
    page = page_of(
        jobs,
        call.query,
        key="-id",
        weigh=lambda rows: queries.sizes_of(job_pks=[job.pk for job in rows]),
    )
    found = _jobs([job.pk for job in page.rows])
    return Answer(DONE, answers.page(found, next=page.next, previous=page.previous))


def _jobs(pks: list[int]) -> list[answers.ListedJobOut | answers.UnreadableOut]:
    """Return the jobs as they are listed; where some row spoils that, each by itself."""

    def stub(pk: int, error: Exception) -> list[answers.UnreadableOut]:
        return [answers.unreadable_job(Job.objects.values_list("task_id", flat=True).get(pk=pk))]

    return past_bad_rows(pks, _readable, stub)


def _readable(pks: list[int]) -> list[answers.ListedJobOut | answers.UnreadableOut]:
    records = queries.read_listed(job_pks=pks)
    return [answers.listed(records[pk]) for pk in pks]


@operation(
    scopes=("read", "submit"),
    identity={"task_id": str},
    answers=answers.JobOut,
    outcomes=(DONE, UNCHANGED),
    if_none_match=True,
    query={
        "wait_seconds": Whole("How long to wait for it.", 0, WAIT_SECONDS_MAX, 0),
        "until": OneOf("What is waited for.", tuple(OVER)),
    },
)
def get_job(call: Call) -> Answer:
    """Read a job; if asked to, once it is over or has changed.

    It is answered as it stands when the time is over. Whether it has changed is told by its
    revision alone: from the one that the caller has, else from that at the request's arrival.
    """
    principal, named = principal_of(call), call.context.if_none_match
    seconds, over = call.parameter("wait_seconds"), OVER[call.parameter("until")]
    read = partial(queries.read_job, principal=principal, **call.identity)
    found = read()
    anew = named is None or ANY_REVISION in named
    known = frozenset({found.job.revision}) if anew else named
    assert known is not None
    found = watching.follow(
        found, read, partial(over, known), principal=principal.text, seconds=seconds
    )
    if named is not None and found.job.revision in known:
        return Answer(UNCHANGED, {"revision": found.job.revision})
    return Answer(DONE, answers.job(found))


@operation(
    scopes=("read", "submit", "work"),
    identity={"task_id": str},
    answers=answers.AttemptPageOut,
    paged=True,
)
def list_job_attempts(call: Call) -> Answer:
    """List the attempts of a job, oldest first, the running one among them."""
    principal = principal_of(call)
    found = queries.read_job(principal=principal, **call.identity)
    of_job = Attempt.objects.filter(job_id=found.job.pk).only("number")
    page = page_of(of_job, call.query, key="number")
    whole = principal.kind == "agent"

    def readable(numbers: list[int]) -> list[answers.AttemptOut | answers.UnreadableAttemptOut]:
        rows = read_attempts(job_pk=found.job.pk, numbers=numbers, whole=whole)
        return [answers.attempt(row, whole=whole) for row in rows]

    def stub(number: int, error: Exception) -> list[answers.UnreadableAttemptOut]:
        return [answers.unreadable_attempt(number)]

    rows = past_bad_rows([attempt.number for attempt in page.rows], readable, stub)
    return Answer(DONE, answers.attempts(rows, next=page.next, previous=page.previous))


@operation(
    scopes=("read", "submit"),
    identity={"task_id": str},
    answers=answers.EventPageOut,
    paged=True,
)
def list_job_events(call: Call) -> Answer:
    """List the audit events of a job, oldest first."""
    found = queries.read_job(principal=principal_of(call), **call.identity)
    # What is answered stands in the hashed bytes; the columns beside them repeat it.
    events = AuditEvent.objects.filter(subject=found.job.audit_subject).only(
        "subject", "seq", "body", "prev_hash", "hash"
    )
    page = page_of(
        events, call.query, key="seq", weigh=lambda rows: [len(event.body) for event in rows]
    )
    return Answer(DONE, answers.events(page.rows, next=page.next, previous=page.previous))
