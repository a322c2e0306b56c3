from django.db import migrations

GUARD = """
-- A permit is used once; what was spent, revoked or has expired stays so.
CREATE FUNCTION jobs_permit_guard() RETURNS trigger LANGUAGE plpgsql AS $$
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
END $$;
CREATE TRIGGER jobs_permit_guard BEFORE UPDATE ON jobs_permit
    FOR EACH ROW EXECUTE FUNCTION jobs_permit_guard();

-- Only an unknown execution gets a result, and it gets one.
CREATE FUNCTION jobs_execution_guard() RETURNS trigger LANGUAGE plpgsql AS $$
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
END $$;
CREATE TRIGGER jobs_execution_guard BEFORE UPDATE ON jobs_execution
    FOR EACH ROW EXECUTE FUNCTION jobs_execution_guard();

CREATE TRIGGER jobs_execution_never_deleted BEFORE DELETE OR TRUNCATE ON jobs_execution
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_never_deleted();
CREATE TRIGGER jobs_permit_never_deleted BEFORE DELETE OR TRUNCATE ON jobs_permit
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_never_deleted();
CREATE TRIGGER jobs_executionevidence_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON jobs_executionevidence
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
CREATE TRIGGER jobs_reconciliation_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON jobs_reconciliation
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
"""

UNGUARD = """
DROP TRIGGER jobs_reconciliation_append_only ON jobs_reconciliation;
DROP TRIGGER jobs_executionevidence_append_only ON jobs_executionevidence;
DROP TRIGGER jobs_permit_never_deleted ON jobs_permit;
DROP TRIGGER jobs_execution_never_deleted ON jobs_execution;
DROP FUNCTION jobs_execution_guard() CASCADE;
DROP FUNCTION jobs_permit_guard() CASCADE;
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0003_executions")]
    operations = [migrations.RunSQL(GUARD, reverse_sql=UNGUARD)]
