"""Reads: the shapes in which jobs are answered."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from agents.principals import Principal
from governance.core import sql
from governance.core.errors import NotFound, WrongOwner
from jobs.models import Attempt, Job, Lease, Priority, Task

#: A lease is renewed this many times before it would expire, at most every 60 s.
BEATS_PER_LEASE = 3
HEARTBEAT_SECONDS_MAX = 60


def heartbeat_interval_seconds(lease_seconds: int) -> int:
    """Return how often the holder of such a lease should be heard of."""
    return max(5, min(HEARTBEAT_SECONDS_MAX, lease_seconds // BEATS_PER_LEASE))


def job_view(
    *, job: Job, task: Task, owner: str, task_type: str, attempt: Attempt | None
) -> dict[str, Any]:
    """Return the job as the API answers it; contract section 1, "Shapes"."""
    return {
        "job_id": str(job.job_id),
        "task_id": job.task_id,
        "owner": owner,
        "state": job.state,
        "status": job.state,
        "paused": job.paused,
        "task_type": task_type,
        "risk_tier": job.risk_tier,
        "priority": Priority(job.priority).label,
        "source": task.source,
        "title": task.title,
        "goal": task.goal,
        "inputs": task.inputs,
        "labels": task.labels,
        "output_required": task.output_required,
        "rollback_required": task.rollback_required,
        "review_required": job.review_required,
        "execution_approval_required": job.execution_approval_required,
        "attempt": job.attempt,
        "attempt_number": job.attempt,
        "max_attempts": job.max_attempts,
        "revision": job.revision,
        "claimed_by": attempt.worker_id if attempt and job.state == "active" else None,
        "result": attempt.result if attempt else None,
        "result_pointer": (attempt.result_pointer or None) if attempt else None,
        "error_code": (attempt.error_code or None) if attempt else None,
        "error_message": (attempt.error_message or None) if attempt else None,
        "execution_digest": task.execution_digest,
        "available_at": instant(job.available_at),
        "deadline_at": instant(job.deadline_at),
        "expires_if_not_started_at": instant(job.expires_if_not_started_at),
        "created_at": instant(job.created_at),
        "state_since": instant(job.state_since),
        "finished_at": instant(job.finished_at),
    }


def lease_view(lease: Lease, *, now: datetime) -> dict[str, Any]:
    """Return the lease as a claim answers it. `ttl_seconds` is what the holder reckons with."""
    return {
        "ttl_seconds": max(0, int((lease.expires_at - now) / timedelta(seconds=1))),
        "heartbeat_interval_seconds": heartbeat_interval_seconds(lease.lease_seconds),
        "expires_at": instant(lease.expires_at),
    }


def instant(at: datetime | None) -> str | None:
    """Return an instant as RFC 3339 UTC with microseconds."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if at else None


_GET = (
    f"SELECT {sql.select_list(Job, 'j')}, {sql.select_list(Task, 't')}, "
    f"{sql.select_list(Attempt, 'p')}, y.name AS task_type, a.name AS owner FROM jobs_job j"
    " JOIN jobs_task t ON t.job_id = j.id JOIN jobs_jobtype y ON y.id = j.job_type_id"
    " JOIN agents_agent a ON a.id = j.agent_id"
    " LEFT JOIN jobs_attempt p ON p.job_id = j.id AND p.number = j.attempt "
)


def read_job(*, principal: Principal, task_id: str) -> tuple[Job, dict[str, Any]]:
    """Return a job that the principal may see, and its API shape.

    :raises WrongOwner: an agent asks for another agent's job.
    :raises NotFound: there is none, or it is not the submitter's: the same answer for both.
    """
    [rows] = sql.pipeline(sql.Statement(_GET + "WHERE j.task_id = %s", (task_id,)))
    if not rows:
        raise NotFound("There is no job of that task_id.")
    [row] = rows
    job = sql.build(Job, row, "j")
    if principal.kind == "agent" and job.agent_id != principal.id:
        raise WrongOwner()
    if principal.kind == "submitter" and job.submitted_by != principal.text:
        raise NotFound("There is no job of that task_id.")
    return job, _view(row, job)


def views_of(*, job_pks: list[int]) -> dict[int, dict[str, Any]]:
    """Return the API shapes of jobs by primary key, in one query."""
    [rows] = sql.pipeline(sql.any_of(_GET + "WHERE j.id = ANY(%s::bigint[])", job_pks))
    return {row["j_id"]: _view(row, sql.build(Job, row, "j")) for row in rows}


def _view(row: sql.Row, job: Job) -> dict[str, Any]:
    return job_view(
        job=job,
        task=sql.build(Task, row, "t"),
        owner=row["owner"],
        task_type=row["task_type"],
        attempt=sql.build(Attempt, row, "p") if row["p_id"] is not None else None,
    )
