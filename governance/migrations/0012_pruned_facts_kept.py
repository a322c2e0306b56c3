from django.db import migrations

# What keeps the id of a pruned fact taken is there for ever.
GUARD = """
CREATE TRIGGER governance_prunedfact_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON governance_prunedfact
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
"""

UNGUARD = "DROP TRIGGER governance_prunedfact_append_only ON governance_prunedfact;"


class Migration(migrations.Migration):
    dependencies = [("governance", "0011_pruned_facts")]
    operations = [migrations.RunSQL(GUARD, reverse_sql=UNGUARD)]
