from django.db import migrations

GUARD = """
CREATE TRIGGER agents_activation_append_only BEFORE UPDATE OR DELETE OR TRUNCATE
    ON agents_activation FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
CREATE TRIGGER agents_admissionchange_append_only BEFORE UPDATE OR DELETE OR TRUNCATE
    ON agents_admissionchange FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();

-- A switch that has ended is history: neither a later step nor another ending.
CREATE FUNCTION agents_runtimeswitch_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.state <> 'running' THEN
        RAISE EXCEPTION 'a runtime switch that has ended does not change'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER agents_runtimeswitch_guard BEFORE UPDATE ON agents_runtimeswitch
    FOR EACH ROW EXECUTE FUNCTION agents_runtimeswitch_guard();
"""

UNGUARD = """
DROP FUNCTION agents_runtimeswitch_guard() CASCADE;
DROP TRIGGER agents_admissionchange_append_only ON agents_admissionchange;
DROP TRIGGER agents_activation_append_only ON agents_activation;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0004_acting_agents"),
        ("governance", "0002_append_only"),
    ]
    operations = [migrations.RunSQL(GUARD, reverse_sql=UNGUARD)]
