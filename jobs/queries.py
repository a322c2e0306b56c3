"""Reads: jobs and executions, with what they are answered with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from agents.principals import Principal
from governance.core import sql
from governance.core.errors import NotFound, WrongOwner
from governance.money.models import Reservation
from governance.money.policies import ALLOWED_MODELS
from jobs.models import Attempt, Execution, ExecutionEvidence, Job, Lease, Reconciliation, Task

#: A lease is renewed this many times before it would expire, at most every 60 s.
BEATS_PER_LEASE = 3
HEARTBEAT_SECONDS_MAX = 60


@dataclass
class JobRecord:
    """A job with its task, its agent's name, its type's name, and its attempts by number.

    Of the attempts those that were read: the running or last one at least, where there is one.
    Of several jobs the columns `PAYLOAD` of the task are not read.

    :param escalation_reason: why a person was asked for, of the escalation that is open.
    """

    job: Job
    task: Task
    owner: str
    job_type: str
    attempts: dict[int, Attempt] = field(default_factory=dict)
    lease: Lease | None = None
    escalation_reason: str | None = None

    @property
    def last_attempt(self) -> Attempt | None:
        """Return the running attempt, or the last one that ended."""
        return self.attempts.get(self.job.attempt)

    @property
    def progress(self) -> Any:
        """Return the last progress of the running attempt, or of the last one that ended."""
        if self.lease is not None and self.lease.progress is not None:
            return self.lease.progress
        return self.last_attempt.progress if self.last_attempt else None


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


#: What is as large as the submitter has made it, and is read of one job at a time.
PAYLOAD = ("inputs", "envelope")
OPEN_ESCALATION = "LEFT JOIN jobs_escalation e ON e.job_id = j.id AND e.resolved_at IS NULL"
#: What a claim tells of the model calls of a job, as JSON text: a column beside a job's tables.
MODEL_TERMS = (
    "json_build_object('model_use', y.model_use, 'effects', y.effects,"
    " 'open_calls_max', y.open_calls_max, 'models', "
    + ALLOWED_MODELS.format(agent="a.name", job_type="y.name", risk_tier="j.risk_tier")
    + "::json)::text"
)
_ALL = f"{sql.select_list(Job, 'j')}, {sql.select_list(Attempt, 'p')}, y.name AS job_type, "
_OWN = f"{sql.select_list(Lease, 'l')}, e.reason AS escalation_reason, "
_FROM = (
    "a.name AS owner FROM jobs_job j"
    " JOIN jobs_task t ON t.job_id = j.id JOIN jobs_jobtype y ON y.id = j.job_type_id"
    " JOIN agents_agent a ON a.id = j.agent_id"
    " LEFT JOIN jobs_attempt p ON p.job_id = j.id AND p.number = j.attempt "
)
_OWN_FROM = f"{_FROM} LEFT JOIN jobs_lease l ON l.job_id = j.id {OPEN_ESCALATION} "
#: What `record_of` reads, and from where: a job with all that is told of it alone.
JOB_ROWS = f"{_ALL} {sql.select_list(Task, 't')}, {_OWN} {_OWN_FROM}"
_WHOLE = f"SELECT {JOB_ROWS}"
_LIGHT = f"SELECT {_ALL} {sql.select_list(Task, 't', without=PAYLOAD)}, "
_SEVERAL = f"{_LIGHT} {_OWN} {_OWN_FROM}"
#: Bytes of what a submitter has made as large as it is, of what every answer has; in the form in
#: which it is answered.
TASK_BYTES = (
    "octet_length(to_json(t.goal)::text) + octet_length(t.labels::text)"
    " + coalesce(octet_length(to_json(t.output_text)::text), 0)"
)
# And of what the running or last attempt has.
READ_BYTES = (
    f"SELECT j.id, {TASK_BYTES} + coalesce(octet_length(p.result::text), 0)"
    " + coalesce(octet_length(to_json(p.error_message)::text), 0) AS bytes FROM jobs_job j"
    " JOIN jobs_task t ON t.job_id = j.id"
    " LEFT JOIN jobs_attempt p ON p.job_id = j.id AND p.number = j.attempt"
    " WHERE j.id = ANY(%s::bigint[])"
)
#: Bytes of the members of a job whose size hardly varies.
JOB_BYTES = 4 * 1024
_LISTED = f"{_LIGHT} NULL AS l_job_id, NULL AS escalation_reason, {_FROM}"


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
    [rows] = sql.pipeline(sql.Statement(_WHOLE + "WHERE j.task_id = %s", (task_id,)))
    if not rows:
        raise NotFound("There is no job of that task_id.")
    record = record_of(rows[0])
    if principal.kind == "agent" and record.job.agent_id != principal.id:
        raise WrongOwner()
    if principal.kind == "submitter" and record.job.submitted_by != principal.text:
        raise NotFound("There is no job of that task_id.")
    return record


def read_jobs(*, job_pks: list[int]) -> dict[int, JobRecord]:
    """Return jobs by primary key, in one query; of several without their `PAYLOAD`."""
    return _by_pk(_WHOLE if len(job_pks) == 1 else _SEVERAL, job_pks)


def read_listed(*, job_pks: list[int]) -> dict[int, JobRecord]:
    """Return jobs by primary key, in one query, as lists have them.

    That is without their `PAYLOAD`, and without what only the answer on one job tells: its lease,
    and the reason of its escalation.
    """
    return _by_pk(_LISTED, job_pks)


def sizes_of(*, job_pks: list[int]) -> list[int]:
    """Return the bytes that each of the jobs takes in a list, at most, in the order given."""
    if not job_pks:
        return []
    [rows] = sql.pipeline(sql.any_of(READ_BYTES, job_pks))
    sizes = {row["id"]: row["bytes"] for row in rows}
    return [JOB_BYTES + sizes[pk] for pk in job_pks]


def _by_pk(reading: str, job_pks: list[int]) -> dict[int, JobRecord]:
    if not job_pks:
        return {}
    [rows] = sql.pipeline(sql.any_of(reading + "WHERE j.id = ANY(%s::bigint[])", job_pks))
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
    """Return the job of a row of `JOB_ROWS`."""
    attempts = {}
    if row["p_id"] is not None:
        attempts[row["p_number"]] = sql.build(Attempt, row, "p")
    return JobRecord(
        job=sql.build(Job, row, "j"),
        task=sql.build(Task, row, "t"),
        owner=row["owner"],
        job_type=row["job_type"],
        attempts=attempts,
        lease=sql.build(Lease, row, "l") if row["l_job_id"] is not None else None,
        escalation_reason=row["escalation_reason"],
    )


def task_of(*, job_id: UUID) -> str:
    """Return the task_id of a job: as unique as its `job_id`, and as constant.

    :raises NotFound: there is no such job.
    """
    found = Job.objects.filter(job_id=job_id).values_list("task_id", flat=True).first()
    if found is None:
        raise NotFound("There is no job of that job_id.")
    return found
