"""Operations that read: jobs, and what happened to them."""

from __future__ import annotations

from agents.operations.callers import principal_of
from governance.core.idempotency import Answer
from governance.core.models import AuditEvent
from governance.operations.operation import DONE, Call, operation
from governance.operations.pages import page_of
from jobs import queries
from jobs.filters import JobFilter
from jobs.models import Attempt
from jobs.operations import answers
from jobs.transitions.story import read_attempts


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
    records = queries.read_listed(job_pks=[job.pk for job in page.rows])
    found = [records[job.pk] for job in page.rows]
    return Answer(DONE, answers.page(found, next=page.next, previous=page.previous))


@operation(scopes=("read", "submit"), identity={"task_id": str}, answers=answers.JobOut)
def get_job(call: Call) -> Answer:
    """Read a job."""
    found = queries.read_job(principal=principal_of(call), **call.identity)
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
    numbers = [attempt.number for attempt in page.rows]
    rows = read_attempts(job_pk=found.job.pk, numbers=numbers, whole=whole)
    return Answer(DONE, answers.attempts(rows, whole=whole, next=page.next, previous=page.previous))


@operation(
    scopes=("read", "submit"),
    identity={"task_id": str},
    answers=answers.EventPageOut,
    paged=True,
)
def list_job_events(call: Call) -> Answer:
    """List the audit events of a job, oldest first."""
    found = queries.read_job(principal=principal_of(call), **call.identity)
    events = AuditEvent.objects.filter(subject=found.job.audit_subject)
    page = page_of(
        events, call.query, key="seq", weigh=lambda rows: [len(event.body) for event in rows]
    )
    return Answer(DONE, answers.events(page.rows, next=page.next, previous=page.previous))
