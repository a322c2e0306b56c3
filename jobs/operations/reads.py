"""Operations that read: jobs, and what happened to them."""

from __future__ import annotations

from agents.operations.callers import principal_of
from governance.core.idempotency import Answer
from governance.core.models import AuditEvent
from governance.operations.operation import DONE, Call, operation
from governance.operations.pages import page_of
from jobs import queries
from jobs.filters import JobFilter
from jobs.operations import answers


@operation(
    scopes=("read", "submit"),
    answers=answers.JobPageOut,
    filters=JobFilter,
    paged=True,
)
def list_jobs(call: Call) -> Answer:
    """List one's own jobs, newest first."""
    jobs = call.filtered(queries.visible_jobs(principal=principal_of(call))).only("pk")
    page = page_of(jobs, call.query, key="-id")
    records = queries.read_jobs(job_pks=[job.pk for job in page.rows])
    found = [records[job.pk] for job in page.rows]
    return Answer(DONE, answers.page(found, next=page.next, previous=page.previous))


@operation(scopes=("read", "submit"), identity={"task_id": str}, answers=answers.JobOut)
def get_job(call: Call) -> Answer:
    """Read a job."""
    found = queries.read_job(principal=principal_of(call), **call.identity)
    return Answer(DONE, answers.job(found))


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
    page = page_of(events, call.query, key="seq")
    return Answer(DONE, answers.events(page.rows, next=page.next, previous=page.previous))
