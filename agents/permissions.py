"""What an operator may do: one permission per verb, and the four groups that are ready to use.

All verbs are permissions of the app `agents` (`agents.stop_job`), whatever they act on: who may do
what is one table, here.
"""

from __future__ import annotations

VERBS: dict[str, str] = {
    "approve_execution": "Can approve, reject or withdraw the execution of a held job",
    "review_job": "Can accept, reject or send back what a job delivered",
    "extend_retries": "Can send a failed job back for rework and extend its attempts",
    "stop_job": "Can stop a job",
    "pause_job": "Can pause and resume a job",
    "resolve_escalation": "Can resolve an escalated job",
    "reconcile_execution": "Can reconcile an execution whose outcome is unknown",
    "view_payloads": "Can see inputs, results and error texts",
    "export_lists": "Can export lists",
    "set_admission": "Can open, drain and close an agent",
    "inhibit_fleet": "Can set and lift a maintenance inhibit",
    "switch_runtime": "Can switch the runtime of an agent",
    "configure_agent": "Can change the settings of an agent",
    "configure_intake": "Can add and change job types and sources",
    "approve_cell": "Can approve a cell of an agent",
    "manage_credentials": "Can create, rotate and revoke credentials",
    "rotate_epoch": "Can rotate the dispatcher epoch",
    "adjust_budget": "Can change budgets, model routes and prices",
    "authorize_live": "Can authorize live execution",
    "release_facts": "Can release a held stream of facts",
}

_OPERATOR = {
    "extend_retries",
    "stop_job",
    "pause_job",
    "resolve_escalation",
    "reconcile_execution",
    "view_payloads",
    "export_lists",
    "set_admission",
    "inhibit_fleet",
    "release_facts",
}
_APPROVER = {"approve_execution", "review_job", "view_payloads"}

#: The verbs of each ready group; every group may also look at all rows.
GROUPS: dict[str, frozenset[str]] = {
    "viewer": frozenset(),
    "operator": frozenset(_OPERATOR | {"review_job"}),
    "approver": frozenset(_APPROVER),
    "governor": frozenset(VERBS),
}
