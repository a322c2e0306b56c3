"""Operations that read: jobs, and what happened to them."""

from __future__ import annotations

from agents.operations.callers import principal_of
from governance.core.idempotency import Answer
from governance.core.isolation import apart, of_a_row
from governance.core.models import AuditEvent
from governance.operations.operation import DONE, Call, operation
from governance.operations.pages import page_of
from jobs import queries
from jobs.filters import JobFilter
from jobs.models import Job
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
    found = _jobs([job.pk for job in page.rows])
    return Answer(DONE, answers.page(found, next=page.next, previous=page.previous))


def _jobs(pks: list[int]) -> list[answers.JobOut | answers.UnreadableOut]:
    """Return the jobs as they are listed; where some row spoils that, each by itself."""
    try:
        return _readable(pks)
    except Exception as error:
        if not of_a_row(error):
            raise
    names = dict(Job.objects.filter(pk__in=pks).values_list("pk", "task_id"))

    def stub(pk: int, error: Exception) -> list[answers.JobOut | answers.UnreadableOut]:
        return [answers.unreadable_job(names[pk])]

    return apart(pks, _readable, stub)


def _readable(pks: list[int]) -> list[answers.JobOut | answers.UnreadableOut]:
    records = queries.read_jobs(job_pks=pks)
    return [answers.job(records[pk]) for pk in pks]


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
    # What is answered stands in the hashed bytes; the columns beside them repeat it.
    events = AuditEvent.objects.filter(subject=found.job.audit_subject).only(
        "subject", "seq", "body", "prev_hash", "hash"
    )
    page = page_of(events, call.query, key="seq")
    return Answer(DONE, answers.events(page.rows, next=page.next, previous=page.previous))
