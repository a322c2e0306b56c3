"""What the database refuses of the tables of who may act as of the first release."""

from django.db import migrations

FORWARD = """
CREATE OR REPLACE FUNCTION agents_agent_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.admission_generation < OLD.admission_generation
       OR (NEW.admission <> OLD.admission
           AND NEW.admission_generation = OLD.admission_generation) THEN
        RAISE EXCEPTION 'every change of admission raises its generation'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END
$$;

CREATE OR REPLACE FUNCTION agents_session_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.state = 'superseded' AND NEW.state <> 'superseded' THEN
        RAISE EXCEPTION 'a superseded session stays superseded'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END
$$;

CREATE OR REPLACE FUNCTION agents_credential_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS DISTINCT FROM OLD.revoked_at THEN
        RAISE EXCEPTION 'a revoked credential stays revoked' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END
$$;

CREATE OR REPLACE FUNCTION agents_runtimeswitch_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.state <> 'running' THEN
        RAISE EXCEPTION 'a runtime switch that has ended does not change'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER agents_agent_never_deleted
    BEFORE DELETE OR TRUNCATE ON agents_agent
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_never_deleted();

CREATE TRIGGER agents_session_never_deleted
    BEFORE DELETE OR TRUNCATE ON agents_session
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_never_deleted();

CREATE TRIGGER agents_submitter_never_deleted
    BEFORE DELETE OR TRUNCATE ON agents_submitter
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_never_deleted();

CREATE TRIGGER agents_fleet_never_deleted
    BEFORE DELETE OR TRUNCATE ON agents_fleet
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_never_deleted();

CREATE TRIGGER agents_agent_guard
    BEFORE UPDATE ON agents_agent
    FOR EACH ROW EXECUTE FUNCTION agents_agent_guard();

CREATE TRIGGER agents_session_guard
    BEFORE UPDATE ON agents_session
    FOR EACH ROW EXECUTE FUNCTION agents_session_guard();

CREATE TRIGGER agents_credential_guard
    BEFORE UPDATE ON agents_credential
    FOR EACH ROW EXECUTE FUNCTION agents_credential_guard();

CREATE TRIGGER agents_runtimeswitch_guard
    BEFORE UPDATE ON agents_runtimeswitch
    FOR EACH ROW EXECUTE FUNCTION agents_runtimeswitch_guard();

CREATE TRIGGER agents_activation_append_only
    BEFORE DELETE OR UPDATE OR TRUNCATE ON agents_activation
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();

CREATE TRIGGER agents_admissionchange_append_only
    BEFORE DELETE OR UPDATE OR TRUNCATE ON agents_admissionchange
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
"""

BACKWARD = """
DROP TRIGGER agents_admissionchange_append_only ON agents_admissionchange;
DROP TRIGGER agents_activation_append_only ON agents_activation;
DROP TRIGGER agents_runtimeswitch_guard ON agents_runtimeswitch;
DROP TRIGGER agents_credential_guard ON agents_credential;
DROP TRIGGER agents_session_guard ON agents_session;
DROP TRIGGER agents_agent_guard ON agents_agent;
DROP TRIGGER agents_fleet_never_deleted ON agents_fleet;
DROP TRIGGER agents_submitter_never_deleted ON agents_submitter;
DROP TRIGGER agents_session_never_deleted ON agents_session;
DROP TRIGGER agents_agent_never_deleted ON agents_agent;
DROP FUNCTION agents_runtimeswitch_guard;
DROP FUNCTION agents_credential_guard;
DROP FUNCTION agents_session_guard;
DROP FUNCTION agents_agent_guard;
"""


class Migration(migrations.Migration):
    replaces = [
        ("agents", "0002_never_deleted"),
        ("agents", "0005_acting_append_only"),
        # The last of all: what depends on it comes after the tables and the triggers.
        ("agents", "0012_implicit_sessions_index"),
    ]

    dependencies = [
        ("agents", "0001_agents"),
        ("governance", "0003_triggers"),
    ]

    operations = [migrations.RunSQL(FORWARD, reverse_sql=BACKWARD)]
