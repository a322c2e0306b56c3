from django.db import migrations

KEEP_SOURCES = """
CREATE TRIGGER jobs_source_never_deleted BEFORE DELETE OR TRUNCATE ON jobs_source
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_never_deleted();
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0009_kinds_on_the_chain")]

    operations = [
        migrations.RunSQL(
            KEEP_SOURCES, reverse_sql="DROP TRIGGER jobs_source_never_deleted ON jobs_source"
        )
    ]
