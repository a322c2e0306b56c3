from django.db import migrations

FORWARD = """
CREATE OR REPLACE FUNCTION jobs_execution_guard() RETURNS trigger LANGUAGE plpgsql AS $$
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
$$;
"""

BACKWARD = """
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
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0030_model_use")]

    operations = [migrations.RunSQL(FORWARD, reverse_sql=BACKWARD)]
