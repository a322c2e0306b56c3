"""What operators can do to jobs and to what jobs are made of; by noun."""

from __future__ import annotations

from typing import Any

from governance.core.verbs import Verb
from jobs.transitions import Outcome
from jobs.verbs import dispute, execution, job, job_type, set_aside, spend

VERBS: tuple[Verb[Any], ...] = (
    *job.VERBS,
    *execution.VERBS,
    *job_type.VERBS,
    *set_aside.VERBS,
    *spend.VERBS,
    *dispute.VERBS,
)
#: What submitters may do to their own jobs, by the `action` of the control call.
CONTROLS: dict[str, Verb[Outcome]] = {verb.control: verb for verb in job.VERBS if verb.control}
