from django.db import migrations

# A sink carries an audit chain, and a stream's counter is what keeps its numbers from being used
# twice: neither row goes away, and a counter never falls.
GUARD = """
CREATE TRIGGER governance_factsink_never_deleted BEFORE DELETE OR TRUNCATE ON governance_factsink
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
CREATE TRIGGER governance_factstream_never_deleted
    BEFORE DELETE OR TRUNCATE ON governance_factstream
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();

CREATE FUNCTION governance_factstream_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.sequence < OLD.sequence OR NEW.name <> OLD.name THEN
        RAISE EXCEPTION 'stream %: its counter never falls', OLD.name
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER governance_factstream_guard BEFORE UPDATE ON governance_factstream
    FOR EACH ROW EXECUTE FUNCTION governance_factstream_guard();
"""

UNGUARD = """
DROP FUNCTION governance_factstream_guard() CASCADE;
DROP TRIGGER governance_factstream_never_deleted ON governance_factstream;
DROP TRIGGER governance_factsink_never_deleted ON governance_factsink;
"""


class Migration(migrations.Migration):
    dependencies = [("governance", "0007_doubt_is_not_released")]
    operations = [migrations.RunSQL(GUARD, reverse_sql=UNGUARD)]
