"""What the database refuses of the tables of what is to be done."""

from __future__ import annotations

from governance.core.stated import StatedTable, stated_tables
from governance.core.triggers import Function, append_only, declare, never_deleted, row_trigger

MOVES = Function(
    "jobs_moves",
    "The states that may follow a state: the table of `Job.MOVES`.",
    """
    SELECT CASE state
        WHEN 'held' THEN ARRAY['queued', 'stopped', 'failed']
        WHEN 'queued' THEN ARRAY['active', 'held', 'stopped', 'failed']
        WHEN 'active' THEN ARRAY['completed', 'review_required', 'queued', 'failed', 'escalated',
                                 'in_doubt', 'stopped']
        WHEN 'review_required' THEN ARRAY['completed', 'needs_rework', 'failed', 'stopped']
        WHEN 'needs_rework' THEN ARRAY['queued', 'held', 'stopped', 'failed']
        WHEN 'in_doubt' THEN ARRAY['completed', 'review_required', 'queued', 'failed', 'stopped']
        WHEN 'escalated' THEN ARRAY['queued', 'held', 'needs_rework', 'completed', 'failed',
                                    'stopped']
        WHEN 'failed' THEN ARRAY['needs_rework']
        ELSE ARRAY[]::text[]
    END
""",
    arguments="state text",
    result="text[]",
    language="sql",
    immutable=True,
)
JOB_RULES = Function(
    "jobs_job_guard",
    "A state follows by a move that exists (a step through `needs_rework` in one transaction "
    "shows as one update); attempts grow by one, with a claim, and deferrals by one; no counter "
    "falls; the end of a job takes its pause; only a retry extension raises `max_attempts`, only "
    "an approval releases a hold; the identity does not change.",
    """
BEGIN
    IF NEW.state <> OLD.state AND NOT (
        NEW.state = ANY (jobs_moves(OLD.state))
        OR ('needs_rework' = ANY (jobs_moves(OLD.state))
            AND NEW.state = ANY (jobs_moves('needs_rework')))
    ) THEN
        RAISE EXCEPTION 'job %: % -> % is not a move', OLD.task_id, OLD.state, NEW.state
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.attempt < OLD.attempt OR NEW.attempt > OLD.attempt + 1
       OR (NEW.attempt > OLD.attempt
           AND (NEW.state <> 'active' OR NEW.fencing_token <= OLD.fencing_token)) THEN
        RAISE EXCEPTION 'job %: attempts grow by one, with a claim', OLD.task_id
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.deferrals > OLD.deferrals + 1 THEN
        RAISE EXCEPTION 'job %: deferrals grow by one', OLD.task_id
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.fencing_token < OLD.fencing_token OR NEW.revision < OLD.revision
       OR NEW.deferrals < OLD.deferrals
       OR NEW.audit_seq < OLD.audit_seq OR NEW.fact_sequence < OLD.fact_sequence
       OR NEW.reflection_count < OLD.reflection_count THEN
        RAISE EXCEPTION 'job %: a counter never falls', OLD.task_id
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.max_attempts <> OLD.max_attempts AND NOT EXISTS (
        SELECT 1 FROM jobs_retryextension e WHERE e.job_id = OLD.id
           AND e.from_max = OLD.max_attempts AND e.to_max = NEW.max_attempts
    ) THEN
        RAISE EXCEPTION 'job %: only a retry extension raises max_attempts', OLD.task_id
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF OLD.state = 'held' AND NEW.state = 'queued' AND NOT EXISTS (
        SELECT 1 FROM jobs_approval a WHERE a.job_id = OLD.id AND a.decision = 'approved'
           AND a.valid_until = NEW.approval_valid_until
    ) THEN
        RAISE EXCEPTION 'job %: only an approval releases a hold', OLD.task_id
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF (NEW.job_id, NEW.task_id, NEW.agent_id, NEW.job_type_id, NEW.risk_tier, NEW.submitted_by,
        NEW.created_at) IS DISTINCT FROM
       (OLD.job_id, OLD.task_id, OLD.agent_id, OLD.job_type_id, OLD.risk_tier, OLD.submitted_by,
        OLD.created_at) THEN
        RAISE EXCEPTION 'job %: its identity does not change', OLD.task_id
            USING ERRCODE = 'restrict_violation';
    END IF;
    -- Processes of an earlier release leave the pause of what they end.
    IF NEW.finished_at IS NOT NULL AND OLD.finished_at IS NULL THEN
        NEW.paused := false;
    END IF;
    RETURN NEW;
END
""",
)
ATTEMPT_RULES = Function(
    "jobs_attempt_guard",
    "An attempt that has ended is history: only a result that it lacks may be bound to it, by "
    "the reconciliation of its execution.",
    """
BEGIN
    IF (NEW.job_id, NEW.number, NEW.fencing_token, NEW.session_id, NEW.worker_id, NEW.runtime,
        NEW.claimed_at) IS DISTINCT FROM
       (OLD.job_id, OLD.number, OLD.fencing_token, OLD.session_id, OLD.worker_id, OLD.runtime,
        OLD.claimed_at)
       OR (OLD.ended_at IS NOT NULL
           AND ((NEW.ended_at, NEW.outcome, NEW.outcome_sha256, NEW.error_code,
                 NEW.error_message) IS DISTINCT FROM
                (OLD.ended_at, OLD.outcome, OLD.outcome_sha256, OLD.error_code,
                 OLD.error_message)
                OR (OLD.result IS NOT NULL AND NEW.result IS DISTINCT FROM OLD.result)
                OR (OLD.result_pointer <> '' AND NEW.result_pointer <> OLD.result_pointer)
                OR (OLD.outcome = 'completed'
                    AND (NEW.result, NEW.result_pointer)
                        IS DISTINCT FROM (OLD.result, OLD.result_pointer)))) THEN
        RAISE EXCEPTION 'an attempt''s identity and its outcome do not change'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END
""",
)
# The transitions hold the same list: `jobs.transitions.preconditions.PERSONS`.
PERSON = Function(
    "jobs_person",
    "Who acts, whichever face they came by: `user:anna` at the console is `command:anna` at a "
    "shell.",
    """
    SELECT nullif(regexp_replace(actor, '^(user|command):', ''), '')
""",
    arguments="actor text",
    result="text",
    language="sql",
    immutable=True,
)
APPROVAL_RULES = Function(
    "jobs_approval_guard",
    "Nobody approves what they asked for themselves.",
    """
BEGIN
    IF NEW.decision = 'approved' AND EXISTS (
        SELECT 1 FROM jobs_job j WHERE j.id = NEW.job_id
           AND jobs_person(NEW.decided_by) IN (jobs_person(j.submitted_by),
                jobs_person(j.requested_by), jobs_person(j.asked_again_by))
    ) THEN
        RAISE EXCEPTION 'nobody approves what they asked for themselves'
            USING ERRCODE = 'restrict_violation', CONSTRAINT = 'approval_by_second_person';
    END IF;
    RETURN NEW;
END
""",
)
PERMIT_RULES = Function(
    "jobs_permit_guard",
    "A permit is used once; what was spent, revoked or has expired stays so, and its binding "
    "does not change.",
    """
BEGIN
    IF OLD.state <> 'issued' AND NEW.state <> OLD.state THEN
        RAISE EXCEPTION 'permit %: % is final', OLD.permit_id, OLD.state
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF (NEW.permit_id, NEW.job_id, NEW.attempt, NEW.fencing_token, NEW.external_request_id,
        NEW.mode, NEW.reservation_id, NEW.deadline_at) IS DISTINCT FROM
       (OLD.permit_id, OLD.job_id, OLD.attempt, OLD.fencing_token, OLD.external_request_id,
        OLD.mode, OLD.reservation_id, OLD.deadline_at) THEN
        RAISE EXCEPTION 'permit %: its binding does not change', OLD.permit_id
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END
""",
)
EXECUTION_RULES = Function(
    "jobs_execution_guard",
    "Only an unknown execution gets a result, once, and its binding does not change.",
    """
BEGIN
    IF OLD.state <> 'unknown' THEN
        RAISE EXCEPTION 'execution %: % is final', OLD.external_request_id, OLD.state
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF (NEW.external_request_id, NEW.job_id, NEW.attempt, NEW.fencing_token, NEW.permit_id,
        NEW.execution_digest, NEW.request_sha256, NEW.mode, NEW.runtime,
        NEW.effects) IS DISTINCT FROM
       (OLD.external_request_id, OLD.job_id, OLD.attempt, OLD.fencing_token, OLD.permit_id,
        OLD.execution_digest, OLD.request_sha256, OLD.mode, OLD.runtime,
        OLD.effects) THEN
        RAISE EXCEPTION 'execution %: its binding does not change', OLD.external_request_id
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END
""",
)

FUNCTIONS = (
    MOVES,
    JOB_RULES,
    ATTEMPT_RULES,
    PERSON,
    APPROVAL_RULES,
    PERMIT_RULES,
    EXECUTION_RULES,
)

STATED_TABLES = (
    StatedTable(
        "jobs_jobtype",
        "SELECT 'job_type:' || t.name, 'jobs_jobtype', t.id FROM jobs_jobtype t"
        " WHERE t.id = ($1->>'id')::bigint",
        digested=("inputs_schema",),
    ),
    StatedTable(
        "jobs_source",
        "SELECT 'source:' || s.name, 'jobs_source', s.id FROM jobs_source s"
        " WHERE s.id = ($1->>'id')::bigint",
    ),
    StatedTable(
        "jobs_liveauthorization",
        "SELECT 'agent:' || a.name, 'agents_agent', a.id FROM agents_agent a"
        " WHERE a.id = ($1->>'agent_id')::bigint",
    ),
    # Its event is of the job's move, which says all of it in words of its own.
    StatedTable(
        "jobs_retryextension",
        "SELECT 'job:' || j.job_id, 'jobs_job', j.id FROM jobs_job j"
        " WHERE j.id = ($1->>'job_id')::bigint",
        matches="SELECT $2->>'action' = 'job.extended' AND $2->>'actor' = $1->>'granted_by'"
        " AND $2->>'reason' = $1->>'reason'"
        " AND $2->'details'->'from_max' = $1->'from_max'"
        " AND $2->'details'->'to_max' = $1->'to_max'",
    ),
)

TRIGGERS = (
    *stated_tables(*STATED_TABLES),
    *never_deleted(
        "jobs_job",
        "jobs_jobtype",
        "jobs_source",
        "jobs_attempt",
        "jobs_permit",
        "jobs_execution",
        "jobs_setaside",
    ),
    row_trigger("jobs_job", JOB_RULES, "UPDATE"),
    row_trigger("jobs_attempt", ATTEMPT_RULES, "UPDATE"),
    row_trigger("jobs_approval", APPROVAL_RULES, "INSERT"),
    row_trigger("jobs_permit", PERMIT_RULES, "UPDATE"),
    row_trigger("jobs_execution", EXECUTION_RULES, "UPDATE"),
    *append_only(
        "jobs_task",
        "jobs_approval",
        "jobs_review",
        "jobs_retryextension",
        "jobs_reflection",
        "jobs_executionevidence",
        "jobs_reconciliation",
    ),
)

declare("jobs", FUNCTIONS, TRIGGERS)
