from django.db import migrations

# Jobs, attempts and leases point at these rows without a foreign key (it would lock one shared
# row in every intake and claim), so the rows may never go away.
GUARD = """
CREATE FUNCTION fencepost_never_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of % are never deleted', TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER agents_agent_never_deleted BEFORE DELETE OR TRUNCATE ON agents_agent
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_never_deleted();
CREATE TRIGGER agents_session_never_deleted BEFORE DELETE OR TRUNCATE ON agents_session
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_never_deleted();
CREATE TRIGGER agents_submitter_never_deleted BEFORE DELETE OR TRUNCATE ON agents_submitter
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_never_deleted();
CREATE TRIGGER agents_fleet_never_deleted BEFORE DELETE OR TRUNCATE ON agents_fleet
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_never_deleted();

-- Generations only grow, a superseded session stays superseded, a revoked token stays revoked.
CREATE FUNCTION agents_agent_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.admission_generation < OLD.admission_generation
       OR (NEW.admission <> OLD.admission
           AND NEW.admission_generation = OLD.admission_generation) THEN
        RAISE EXCEPTION 'every change of admission raises its generation'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER agents_agent_guard BEFORE UPDATE ON agents_agent
    FOR EACH ROW EXECUTE FUNCTION agents_agent_guard();

CREATE FUNCTION agents_session_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.state = 'superseded' AND NEW.state <> 'superseded' THEN
        RAISE EXCEPTION 'a superseded session stays superseded'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER agents_session_guard BEFORE UPDATE ON agents_session
    FOR EACH ROW EXECUTE FUNCTION agents_session_guard();

CREATE FUNCTION agents_credential_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS DISTINCT FROM OLD.revoked_at THEN
        RAISE EXCEPTION 'a revoked credential stays revoked' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER agents_credential_guard BEFORE UPDATE ON agents_credential
    FOR EACH ROW EXECUTE FUNCTION agents_credential_guard();

-- Written at every heartbeat: room on the page keeps the updates HOT.
ALTER TABLE agents_presence SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
"""

UNGUARD = """
DROP FUNCTION agents_credential_guard() CASCADE;
DROP FUNCTION agents_session_guard() CASCADE;
DROP FUNCTION agents_agent_guard() CASCADE;
DROP FUNCTION fencepost_never_deleted() CASCADE;
"""


class Migration(migrations.Migration):
    dependencies = [("agents", "0001_initial")]
    operations = [migrations.RunSQL(GUARD, reverse_sql=UNGUARD)]
