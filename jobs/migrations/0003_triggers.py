"""What the database refuses of the tables of what is to be done as of the first release."""

from django.db import migrations

FORWARD = """
CREATE OR REPLACE FUNCTION jobs_moves(state text) RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
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

CREATE OR REPLACE FUNCTION jobs_attempt_guard() RETURNS trigger LANGUAGE plpgsql AS $$
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
$$;

CREATE OR REPLACE FUNCTION jobs_person(actor text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT nullif(regexp_replace(actor, '^(user|command):', ''), '')
$$;

CREATE OR REPLACE FUNCTION jobs_approval_guard() RETURNS trigger LANGUAGE plpgsql AS $$
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
$$;

CREATE OR REPLACE FUNCTION jobs_permit_guard() RETURNS trigger LANGUAGE plpgsql AS $$
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
$$;

CREATE OR REPLACE FUNCTION jobs_execution_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.state <> 'unknown' THEN
        RAISE EXCEPTION 'execution %: % is final', OLD.external_request_id, OLD.state
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF (NEW.external_request_id, NEW.job_id, NEW.attempt, NEW.fencing_token, NEW.permit_id,
        NEW.execution_digest, NEW.request_sha256, NEW.mode, NEW.runtime) IS DISTINCT FROM
       (OLD.external_request_id, OLD.job_id, OLD.attempt, OLD.fencing_token, OLD.permit_id,
        OLD.execution_digest, OLD.request_sha256, OLD.mode, OLD.runtime) THEN
        RAISE EXCEPTION 'execution %: its binding does not change', OLD.external_request_id
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER jobs_job_never_deleted
    BEFORE DELETE OR TRUNCATE ON jobs_job
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_never_deleted();

CREATE TRIGGER jobs_jobtype_never_deleted
    BEFORE DELETE OR TRUNCATE ON jobs_jobtype
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_never_deleted();

CREATE TRIGGER jobs_source_never_deleted
    BEFORE DELETE OR TRUNCATE ON jobs_source
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_never_deleted();

CREATE TRIGGER jobs_attempt_never_deleted
    BEFORE DELETE OR TRUNCATE ON jobs_attempt
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_never_deleted();

CREATE TRIGGER jobs_permit_never_deleted
    BEFORE DELETE OR TRUNCATE ON jobs_permit
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_never_deleted();

CREATE TRIGGER jobs_execution_never_deleted
    BEFORE DELETE OR TRUNCATE ON jobs_execution
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_never_deleted();

CREATE TRIGGER jobs_job_guard
    BEFORE UPDATE ON jobs_job
    FOR EACH ROW EXECUTE FUNCTION jobs_job_guard();

CREATE TRIGGER jobs_attempt_guard
    BEFORE UPDATE ON jobs_attempt
    FOR EACH ROW EXECUTE FUNCTION jobs_attempt_guard();

CREATE TRIGGER jobs_approval_guard
    BEFORE INSERT ON jobs_approval
    FOR EACH ROW EXECUTE FUNCTION jobs_approval_guard();

CREATE TRIGGER jobs_permit_guard
    BEFORE UPDATE ON jobs_permit
    FOR EACH ROW EXECUTE FUNCTION jobs_permit_guard();

CREATE TRIGGER jobs_execution_guard
    BEFORE UPDATE ON jobs_execution
    FOR EACH ROW EXECUTE FUNCTION jobs_execution_guard();

CREATE TRIGGER jobs_task_append_only
    BEFORE DELETE OR UPDATE OR TRUNCATE ON jobs_task
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();

CREATE TRIGGER jobs_approval_append_only
    BEFORE DELETE OR UPDATE OR TRUNCATE ON jobs_approval
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();

CREATE TRIGGER jobs_review_append_only
    BEFORE DELETE OR UPDATE OR TRUNCATE ON jobs_review
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();

CREATE TRIGGER jobs_retryextension_append_only
    BEFORE DELETE OR UPDATE OR TRUNCATE ON jobs_retryextension
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();

CREATE TRIGGER jobs_reflection_append_only
    BEFORE DELETE OR UPDATE OR TRUNCATE ON jobs_reflection
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();

CREATE TRIGGER jobs_executionevidence_append_only
    BEFORE DELETE OR UPDATE OR TRUNCATE ON jobs_executionevidence
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();

CREATE TRIGGER jobs_reconciliation_append_only
    BEFORE DELETE OR UPDATE OR TRUNCATE ON jobs_reconciliation
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
"""

BACKWARD = """
DROP TRIGGER jobs_reconciliation_append_only ON jobs_reconciliation;
DROP TRIGGER jobs_executionevidence_append_only ON jobs_executionevidence;
DROP TRIGGER jobs_reflection_append_only ON jobs_reflection;
DROP TRIGGER jobs_retryextension_append_only ON jobs_retryextension;
DROP TRIGGER jobs_review_append_only ON jobs_review;
DROP TRIGGER jobs_approval_append_only ON jobs_approval;
DROP TRIGGER jobs_task_append_only ON jobs_task;
DROP TRIGGER jobs_execution_guard ON jobs_execution;
DROP TRIGGER jobs_permit_guard ON jobs_permit;
DROP TRIGGER jobs_approval_guard ON jobs_approval;
DROP TRIGGER jobs_attempt_guard ON jobs_attempt;
DROP TRIGGER jobs_job_guard ON jobs_job;
DROP TRIGGER jobs_execution_never_deleted ON jobs_execution;
DROP TRIGGER jobs_permit_never_deleted ON jobs_permit;
DROP TRIGGER jobs_attempt_never_deleted ON jobs_attempt;
DROP TRIGGER jobs_source_never_deleted ON jobs_source;
DROP TRIGGER jobs_jobtype_never_deleted ON jobs_jobtype;
DROP TRIGGER jobs_job_never_deleted ON jobs_job;
DROP FUNCTION jobs_execution_guard;
DROP FUNCTION jobs_permit_guard;
DROP FUNCTION jobs_approval_guard;
DROP FUNCTION jobs_person;
DROP FUNCTION jobs_attempt_guard;
DROP FUNCTION jobs_job_guard;
DROP FUNCTION jobs_moves;
"""


class Migration(migrations.Migration):
    replaces = [
        ("jobs", "0002_guards"),
        ("jobs", "0004_execution_guards"),
        ("jobs", "0008_one_person_by_any_door"),
        ("jobs", "0010_source_never_deleted"),
        # The last of all: what depends on it comes after the tables and the triggers.
        ("jobs", "0013_index_high_risk"),
    ]

    dependencies = [
        ("jobs", "0002_effects"),
        ("agents", "0002_triggers"),
    ]

    operations = [migrations.RunSQL(FORWARD, reverse_sql=BACKWARD)]
