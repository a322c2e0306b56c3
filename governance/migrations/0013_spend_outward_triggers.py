from django.db import migrations

FORWARD = """
CREATE TRIGGER governance_agedreservation_append_only
    BEFORE DELETE OR UPDATE OR TRUNCATE ON governance_agedreservation
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
"""

BACKWARD = """
DROP TRIGGER governance_agedreservation_append_only ON governance_agedreservation;
"""


class Migration(migrations.Migration):
    dependencies = [("governance", "0012_spend_outward")]

    operations = [migrations.RunSQL(FORWARD, reverse_sql=BACKWARD)]
