from django.db import migrations

FORWARD = """
CREATE OR REPLACE FUNCTION jobs_job_guard() RETURNS trigger LANGUAGE plpgsql AS $$
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
$$;
"""

BACKWARD = """
CREATE OR REPLACE FUNCTION jobs_job_guard() RETURNS trigger LANGUAGE plpgsql AS $$
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
    IF NEW.fencing_token < OLD.fencing_token OR NEW.revision < OLD.revision
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
    RETURN NEW;
END
$$;
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0023_deferrals")]

    operations = [migrations.RunSQL(FORWARD, reverse_sql=BACKWARD)]
