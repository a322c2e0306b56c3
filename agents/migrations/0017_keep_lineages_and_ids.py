from django.db import migrations

FORWARD = """
CREATE OR REPLACE FUNCTION agents_session_guard() RETURNS trigger LANGUAGE plpgsql AS $$
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
$$;

CREATE OR REPLACE FUNCTION agents_credential_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.lineage <> OLD.lineage THEN
        RAISE EXCEPTION 'a credential stays in its lineage' USING ERRCODE = 'restrict_violation';
    END IF;
    IF OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS DISTINCT FROM OLD.revoked_at THEN
        RAISE EXCEPTION 'a revoked credential stays revoked' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER agents_formersession_append_only
    BEFORE DELETE OR UPDATE OR TRUNCATE ON agents_formersession
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
"""

BACKWARD = """
DROP TRIGGER agents_formersession_append_only ON agents_formersession;
CREATE OR REPLACE FUNCTION agents_credential_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS DISTINCT FROM OLD.revoked_at THEN
        RAISE EXCEPTION 'a revoked credential stays revoked' USING ERRCODE = 'restrict_violation';
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
"""


class Migration(migrations.Migration):
    dependencies = [("agents", "0016_lineages")]

    operations = [migrations.RunSQL(FORWARD, reverse_sql=BACKWARD)]
