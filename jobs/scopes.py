"""What a job counts as, in the scopes of budgets that the ground cannot tell of it."""

from __future__ import annotations

from typing import TypedDict

from jobs.models import Job, Task

SUBMITTER = "submitter:"
# The same in SQL, of calls of before. Indexes: the unique one on job_id, and the primary key.
READ_OF_JOB = f"""
SELECT 'submitter' AS scope, substr(j.submitted_by, {len(SUBMITTER) + 1}) AS key, '*' AS every
  FROM jobs_job j
 WHERE j.job_id = {{job_id}} AND starts_with(j.submitted_by, '{SUBMITTER}')
UNION ALL
SELECT 'label', l.key || '=' || l.value, l.key || '=*'
  FROM jobs_job j
  JOIN jobs_task t ON t.job_id = j.id
 CROSS JOIN LATERAL jsonb_each_text(
       CASE jsonb_typeof(t.labels) WHEN 'object' THEN t.labels ELSE jsonb_build_object() END) l
 WHERE j.job_id = {{job_id}} AND l.key <> '' AND strpos(l.key, '=') = 0"""


class OfJob(TypedDict):
    """The parts of a call's scopes that its job says; `labels` are each as `name=value`."""

    submitter: str
    labels: tuple[str, ...]


def of_job(job: Job, task: Task) -> OfJob:
    """Return what a job says of the scopes of its calls.

    Labels without a value (those of an array), and those whose name has an equals sign, are under
    no budget: no key says them.
    """
    submitter = job.submitted_by.removeprefix(SUBMITTER)
    labels = task.labels if isinstance(task.labels, dict) else {}
    return OfJob(
        submitter="" if submitter == job.submitted_by else submitter,
        labels=tuple(
            f"{name}={value}" for name, value in labels.items() if name and "=" not in name
        ),
    )
