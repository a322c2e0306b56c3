"""What the database refuses of the tables of who may act."""

from __future__ import annotations

from governance.core.stated import StatedTable, stated_tables
from governance.core.triggers import Function, append_only, declare, never_deleted, row_trigger

AGENT_RULES = Function(
    "agents_agent_guard",
    "Every change of admission raises its generation, and no generation falls.",
    """
BEGIN
    IF NEW.admission_generation < OLD.admission_generation
       OR (NEW.admission <> OLD.admission
           AND NEW.admission_generation = OLD.admission_generation) THEN
        RAISE EXCEPTION 'every change of admission raises its generation'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END
""",
)
SESSION_RULES = Function(
    "agents_session_guard",
    "A superseded session stays superseded, one of a lineage is no other's, and no id is lost.",
    """
BEGIN
    IF OLD.state = 'superseded' AND NEW.state <> 'superseded' THEN
        RAISE EXCEPTION 'a superseded session stays superseded'
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF OLD.lineage IS NOT NULL AND NEW.lineage IS DISTINCT FROM OLD.lineage THEN
        RAISE EXCEPTION 'a session stays with its lineage' USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.session_id <> OLD.session_id AND NOT EXISTS (
        SELECT 1 FROM agents_formersession f
         WHERE f.former_id = OLD.session_id AND f.session_id = OLD.id) THEN
        RAISE EXCEPTION 'the id that a session had is kept' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END
""",
)
CREDENTIAL_RULES = Function(
    "agents_credential_guard",
    "A revoked credential stays revoked, and every credential in its lineage.",
    """
BEGIN
    IF NEW.lineage <> OLD.lineage THEN
        RAISE EXCEPTION 'a credential stays in its lineage' USING ERRCODE = 'restrict_violation';
    END IF;
    IF OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS DISTINCT FROM OLD.revoked_at THEN
        RAISE EXCEPTION 'a revoked credential stays revoked' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END
""",
)
RUNTIMESWITCH_RULES = Function(
    "agents_runtimeswitch_guard",
    "A runtime switch that has ended is history: neither a later step nor another ending.",
    """
BEGIN
    IF OLD.state <> 'running' THEN
        RAISE EXCEPTION 'a runtime switch that has ended does not change'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END
""",
)

# The advisory lock is that of `agents.prefixes`: two inserts at once see each other.
TASKPREFIX_RULES = Function(
    "agents_taskprefix_guard",
    "No prefix of task ids contains another, and none is changed.",
    """
BEGIN
    IF TG_OP = 'UPDATE' THEN
        RAISE EXCEPTION 'a prefix of task ids is not changed' USING ERRCODE = 'restrict_violation';
    END IF;
    PERFORM pg_advisory_xact_lock(9, 0);
    IF EXISTS (SELECT FROM agents_taskprefix p
                WHERE starts_with(p.prefix, NEW.prefix) OR starts_with(NEW.prefix, p.prefix)) THEN
        RAISE EXCEPTION 'the prefix % contains another, or is contained', NEW.prefix
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END
""",
)

FUNCTIONS = (AGENT_RULES, SESSION_RULES, CREDENTIAL_RULES, RUNTIMESWITCH_RULES, TASKPREFIX_RULES)

_AGENT = (
    "SELECT 'agent:' || a.name, 'agents_agent', a.id FROM agents_agent a WHERE a.id ="
    " ($1->>'{}')::bigint"
)
_SUBMITTER = (
    "SELECT 'submitter:' || s.name, 'agents_submitter', s.id FROM agents_submitter s WHERE s.id ="
    " ($1->>'{}')::bigint"
)
_FLEET = "SELECT 'fleet', 'agents_fleet', f.id FROM agents_fleet f"
STATED_TABLES = (
    StatedTable("agents_fleet", _FLEET),
    StatedTable("agents_agent", _AGENT.format("id")),
    StatedTable("agents_submitter", _SUBMITTER.format("id")),
    StatedTable("agents_taskprefix", _SUBMITTER.format("submitter_id")),
    # The key is a hash already, and no business of who reads the trail.
    StatedTable(
        "agents_credential",
        f"{_AGENT.format('agent_id')} UNION ALL {_SUBMITTER.format('submitter_id')}",
        left_out=("last_used_at",),
        digested=("hashed_key",),
    ),
    StatedTable(
        "agents_maintenanceinhibit",
        f"{_AGENT.format('agent_id')} UNION ALL {_FLEET} WHERE $1->>'agent_id' IS NULL",
    ),
    StatedTable("agents_cellapproval", _AGENT.format("agent_id")),
)

TRIGGERS = (
    *stated_tables(*STATED_TABLES),
    # Jobs, attempts and leases point at these rows without a foreign key, which would lock one
    # shared row in every intake and claim.
    *never_deleted("agents_agent", "agents_session", "agents_submitter", "agents_fleet"),
    row_trigger("agents_agent", AGENT_RULES, "UPDATE"),
    row_trigger("agents_session", SESSION_RULES, "UPDATE"),
    row_trigger("agents_credential", CREDENTIAL_RULES, "UPDATE"),
    row_trigger("agents_runtimeswitch", RUNTIMESWITCH_RULES, "UPDATE"),
    row_trigger("agents_taskprefix", TASKPREFIX_RULES, "INSERT", "UPDATE"),
    *append_only("agents_activation", "agents_admissionchange", "agents_formersession"),
)

declare("agents", FUNCTIONS, TRIGGERS)
