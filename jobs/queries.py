"""Reads: jobs and executions, with what they are answered with."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from django.db.models import QuerySet

from agents.principals import Principal
from governance.core import sql
from governance.core.errors import NotFound, WrongOwner
from governance.money.models import Reservation
from jobs.models import Attempt, Execution, ExecutionEvidence, Job, Reconciliation, Task

#: A lease is renewed this many times before it would expire, at most every 60 s.
BEATS_PER_LEASE = 3
HEARTBEAT_SECONDS_MAX = 60


@dataclass
class JobRecord:
    """A job with its task, its agent's name, its type's name, and its attempts by number.

    Of the attempts those that were read: the running or last one at least, where there is one.
    """

    job: Job
    task: Task
    owner: str
    job_type: str
    attempts: dict[int, Attempt] = field(default_factory=dict)

    @property
    def last_attempt(self) -> Attempt | None:
        """Return the running attempt, or the last one that ended."""
        return self.attempts.get(self.job.attempt)


@dataclass(frozen=True)
class ExecutionRecord:
    """An execution (with its permit), what was reserved for it and said of it."""

    execution: Execution
    reservations: list[Reservation]
    evidence: list[ExecutionEvidence]
    reconciliations: list[Reconciliation]


def heartbeat_interval_seconds(lease_seconds: int) -> int:
    """Return how often the holder of such a lease should be heard of."""
    return max(5, min(HEARTBEAT_SECONDS_MAX, lease_seconds // BEATS_PER_LEASE))


#: What `record_of` reads: a job, its task, its running or last attempt, two names.
JOB_COLUMNS = (
    f"{sql.select_list(Job, 'j')}, {sql.select_list(Task, 't')}, "
    f"{sql.select_list(Attempt, 'p')}, y.name AS job_type, a.name AS owner"
)
JOB_TABLES = (
    " FROM jobs_job j"
    " JOIN jobs_task t ON t.job_id = j.id JOIN jobs_jobtype y ON y.id = j.job_type_id"
    " JOIN agents_agent a ON a.id = j.agent_id"
    " LEFT JOIN jobs_attempt p ON p.job_id = j.id AND p.number = j.attempt "
)
_GET = f"SELECT {JOB_COLUMNS}{JOB_TABLES}"


def visible_jobs(*, principal: Principal) -> QuerySet[Job]:
    """Return the jobs that the caller may see: those of its agent, or those that it submitted."""
    if principal.kind == "agent":
        return Job.objects.filter(agent_id=principal.id)
    return Job.objects.filter(submitted_by=principal.text)


def read_job(*, principal: Principal, task_id: str) -> JobRecord:
    """Return a job that the principal may see.

    :raises WrongOwner: an agent asks for another agent's job.
    :raises NotFound: there is none, or it is not the submitter's: the same answer for both.
    """
    [rows] = sql.pipeline(sql.Statement(_GET + "WHERE j.task_id = %s", (task_id,)))
    if not rows:
        raise NotFound("There is no job of that task_id.")
    record = record_of(rows[0])
    if principal.kind == "agent" and record.job.agent_id != principal.id:
        raise WrongOwner()
    if principal.kind == "submitter" and record.job.submitted_by != principal.text:
        raise NotFound("There is no job of that task_id.")
    return record


def read_jobs(*, job_pks: list[int]) -> dict[int, JobRecord]:
    """Return jobs by primary key, in one query."""
    if not job_pks:
        return {}
    [rows] = sql.pipeline(sql.any_of(_GET + "WHERE j.id = ANY(%s::bigint[])", job_pks))
    return {row["j_id"]: record_of(row) for row in rows}


def read_execution(*, principal: Principal, external_request_id: str) -> ExecutionRecord:
    """Return an execution with its permit, reservations and evidence.

    :raises WrongOwner: an agent asks for another agent's.
    :raises NotFound: there is none, or it is not one of the submitter's jobs'.
    """
    execution = (
        Execution.objects.select_related("permit", "job")
        .filter(external_request_id=external_request_id)
        .first()
    )
    if execution is None:
        raise NotFound("There is no execution of that id.")
    if principal.kind == "agent":
        if execution.job.agent_id != principal.id:
            raise WrongOwner()
    elif execution.job.submitted_by != principal.text:
        raise NotFound("There is no execution of that id.")
    reservations = Reservation.objects.filter(external_request_id=external_request_id)
    return ExecutionRecord(
        execution=execution,
        reservations=list(reservations.order_by("reservation_id")),
        evidence=list(execution.evidence.order_by("id")),
        reconciliations=list(execution.reconciliations.order_by("id")),
    )


def record_of(row: sql.Row) -> JobRecord:
    """Return the job of a row of `JOB_COLUMNS`."""
    attempts = {}
    if row["p_id"] is not None:
        attempts[row["p_number"]] = sql.build(Attempt, row, "p")
    return JobRecord(
        job=sql.build(Job, row, "j"),
        task=sql.build(Task, row, "t"),
        owner=row["owner"],
        job_type=row["job_type"],
        attempts=attempts,
    )


def task_of(*, job_id: UUID) -> str:
    """Return the task_id of a job: as unique as its `job_id`, and as constant.

    :raises NotFound: there is no such job.
    """
    found = Job.objects.filter(job_id=job_id).values_list("task_id", flat=True).first()
    if found is None:
        raise NotFound("There is no job of that job_id.")
    return found
