"""Every move of a job, one function each, and the only places that write one."""

from jobs.transitions.aside import note_failure, retry_all_set_aside, retry_set_aside
from jobs.transitions.claims import ClaimOutcome, claim, claim_next, claimable_keys
from jobs.transitions.controls import pause, resume, stop
from jobs.transitions.decisions import (
    approve,
    extend,
    reject,
    resolve,
    review,
    rework,
    withdraw_approval,
)
from jobs.transitions.deferrals import DeferOutcome, defer
from jobs.transitions.intake import intake
from jobs.transitions.job_types import (
    TypeSettings,
    configure_job_type,
    configure_source,
    register_job_type,
    register_source,
)
from jobs.transitions.leases import heartbeat
from jobs.transitions.live import authorize_live, revoke_live
from jobs.transitions.outcomes import complete, escalate, fail
from jobs.transitions.reflections import reflect
from jobs.transitions.sweeping import Failures, SweepReport, end_if_due, sweep
from jobs.transitions.work import Outcome

__all__ = [
    "ClaimOutcome",
    "DeferOutcome",
    "Failures",
    "Outcome",
    "SweepReport",
    "TypeSettings",
    "approve",
    "authorize_live",
    "claim",
    "claim_next",
    "claimable_keys",
    "complete",
    "configure_job_type",
    "configure_source",
    "defer",
    "end_if_due",
    "escalate",
    "extend",
    "fail",
    "heartbeat",
    "intake",
    "note_failure",
    "pause",
    "reflect",
    "register_job_type",
    "register_source",
    "reject",
    "resolve",
    "resume",
    "retry_all_set_aside",
    "retry_set_aside",
    "review",
    "revoke_live",
    "rework",
    "stop",
    "sweep",
    "withdraw_approval",
]
