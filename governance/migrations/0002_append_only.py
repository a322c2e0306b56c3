from django.db import migrations

FORBID_REWRITES = """
CREATE FUNCTION fencepost_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;

CREATE TRIGGER governance_auditevent_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON governance_auditevent
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
CREATE TRIGGER governance_auditcheckpoint_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON governance_auditcheckpoint
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
CREATE TRIGGER governance_auditcheckpointleaf_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON governance_auditcheckpointleaf
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();

-- A fact's content never changes; only its way outside is noted. Published ones may be pruned.
CREATE FUNCTION governance_fact_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF OLD.published_at IS NULL THEN
            RAISE EXCEPTION 'a fact that was not published is not deleted'
                USING ERRCODE = 'restrict_violation';
        END IF;
        RETURN OLD;
    END IF;
    IF (NEW.fact_id, NEW.principal, NEW.stream, NEW.sequence, NEW.type, NEW.data,
        NEW.content_sha256, NEW.receipt_id, NEW.recorded_at, NEW.relayed)
       IS DISTINCT FROM
       (OLD.fact_id, OLD.principal, OLD.stream, OLD.sequence, OLD.type, OLD.data,
        OLD.content_sha256, OLD.receipt_id, OLD.recorded_at, OLD.relayed) THEN
        RAISE EXCEPTION 'the content of a fact does not change'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER governance_fact_guard BEFORE UPDATE OR DELETE ON governance_fact
    FOR EACH ROW EXECUTE FUNCTION governance_fact_guard();
CREATE TRIGGER governance_fact_no_truncate BEFORE TRUNCATE ON governance_fact
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
"""

ALLOW_REWRITES = """
DROP TRIGGER governance_fact_no_truncate ON governance_fact;
DROP FUNCTION governance_fact_guard() CASCADE;
DROP FUNCTION fencepost_append_only() CASCADE;
"""


class Migration(migrations.Migration):
    dependencies = [("governance", "0001_initial")]
    operations = [migrations.RunSQL(FORBID_REWRITES, reverse_sql=ALLOW_REWRITES)]
