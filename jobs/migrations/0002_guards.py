from django.db import migrations

GUARD_JOBS = """
-- The moves that exist, one row of text per state: the same table as Job.MOVES. A step through
-- needs_rework may be taken in one transaction and then shows as one update.
CREATE FUNCTION jobs_moves(state text) RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
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
$$;

CREATE FUNCTION jobs_job_guard() RETURNS trigger LANGUAGE plpgsql AS $$
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
END $$;
CREATE TRIGGER jobs_job_guard BEFORE UPDATE ON jobs_job
    FOR EACH ROW EXECUTE FUNCTION jobs_job_guard();

-- An attempt that has ended is history. Only a result that it lacks may be bound to it later, by
-- the reconciliation of its execution.
CREATE FUNCTION jobs_attempt_guard() RETURNS trigger LANGUAGE plpgsql AS $$
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
END $$;
CREATE TRIGGER jobs_attempt_guard BEFORE UPDATE ON jobs_attempt
    FOR EACH ROW EXECUTE FUNCTION jobs_attempt_guard();

-- Nobody approves what they asked for; a high risk needs a second person to review as well.
CREATE FUNCTION jobs_approval_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.decision = 'approved' AND EXISTS (
        SELECT 1 FROM jobs_job j WHERE j.id = NEW.job_id
           AND NEW.decided_by IN (j.submitted_by, j.requested_by, j.asked_again_by)
    ) THEN
        RAISE EXCEPTION 'nobody approves what they asked for themselves'
            USING ERRCODE = 'restrict_violation', CONSTRAINT = 'approval_by_second_person';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER jobs_approval_guard BEFORE INSERT ON jobs_approval
    FOR EACH ROW EXECUTE FUNCTION jobs_approval_guard();

CREATE TRIGGER jobs_job_never_deleted BEFORE DELETE OR TRUNCATE ON jobs_job
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_never_deleted();
CREATE TRIGGER jobs_jobtype_never_deleted BEFORE DELETE OR TRUNCATE ON jobs_jobtype
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_never_deleted();
CREATE TRIGGER jobs_attempt_never_deleted BEFORE DELETE OR TRUNCATE ON jobs_attempt
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_never_deleted();
CREATE TRIGGER jobs_task_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON jobs_task
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
CREATE TRIGGER jobs_approval_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON jobs_approval
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
CREATE TRIGGER jobs_review_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON jobs_review
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
CREATE TRIGGER jobs_retryextension_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON jobs_retryextension
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
CREATE TRIGGER jobs_reflection_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON jobs_reflection
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();

-- Hot rows: room on the page for the next version, and vacuum before bloat is felt.
ALTER TABLE jobs_job SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE jobs_lease SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02,
                            autovacuum_vacuum_cost_delay = 0);
"""

UNGUARD_JOBS = """
DROP TRIGGER jobs_reflection_append_only ON jobs_reflection;
DROP TRIGGER jobs_retryextension_append_only ON jobs_retryextension;
DROP TRIGGER jobs_review_append_only ON jobs_review;
DROP TRIGGER jobs_approval_append_only ON jobs_approval;
DROP TRIGGER jobs_task_append_only ON jobs_task;
DROP TRIGGER jobs_attempt_never_deleted ON jobs_attempt;
DROP TRIGGER jobs_jobtype_never_deleted ON jobs_jobtype;
DROP TRIGGER jobs_job_never_deleted ON jobs_job;
DROP FUNCTION jobs_approval_guard() CASCADE;
DROP FUNCTION jobs_attempt_guard() CASCADE;
DROP FUNCTION jobs_job_guard() CASCADE;
DROP FUNCTION jobs_moves(text);
"""


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0001_initial"),
        ("agents", "0002_never_deleted"),
        ("governance", "0002_append_only"),
    ]
    operations = [migrations.RunSQL(GUARD_JOBS, reverse_sql=UNGUARD_JOBS)]
