"""The work: job types, jobs and their attempts, and every human decision on them.

The hot rows are narrow and apart: `Job` (state) beside `Task` (payload, never changed), `Lease`
(written at every heartbeat, exists only while a job is active) beside `Attempt` (history).
"""

from jobs.models.attempts import Attempt, Lease
from jobs.models.decisions import Approval, Escalation, RetryExtension, Review
from jobs.models.executions import (
    Execution,
    ExecutionEvidence,
    ExecutionMode,
    LiveAuthorization,
    Permit,
    Reconciliation,
)
from jobs.models.jobs import (
    FINISHED_STATES,
    LABELS_MAX,
    OUTPUT_CHARS_MAX,
    WAITING_STATES,
    Job,
    JobState,
    Priority,
    Task,
)
from jobs.models.reflections import Reflection, Skill
from jobs.models.set_aside import SetAside
from jobs.models.types import Effects, JobType, ModelUse, Source
from jobs.models.uploads import Upload

__all__ = [
    "FINISHED_STATES",
    "LABELS_MAX",
    "OUTPUT_CHARS_MAX",
    "WAITING_STATES",
    "Approval",
    "Attempt",
    "Effects",
    "Escalation",
    "Execution",
    "ExecutionEvidence",
    "ExecutionMode",
    "Job",
    "JobState",
    "JobType",
    "Lease",
    "LiveAuthorization",
    "ModelUse",
    "Permit",
    "Priority",
    "Reconciliation",
    "Reflection",
    "RetryExtension",
    "Review",
    "SetAside",
    "Skill",
    "Source",
    "Task",
    "Upload",
]
