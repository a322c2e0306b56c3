from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations
from django.db.models import CheckConstraint, Q

#: As `governance.characters.UNSEEN` was then.
UNSEEN = (
    r"\u0001-\u001f\u007f-\u009f\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e"
    r"\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000110bd\U000110cd"
    r"\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001"
    r"\U000e0020-\U000e007f"
)
LOOK_FIRST = rf"""
DO $$
DECLARE
    found text;
BEGIN
    SELECT string_agg(quote_literal(job_id::text), ', ') INTO found
      FROM (SELECT job_id FROM jobs_job WHERE task_id ~ '[/{UNSEEN}]' LIMIT 10) AS few;
    IF found IS NOT NULL THEN
        RAISE EXCEPTION 'a slash or an unseen character is in the task_id of the jobs %', found
            USING HINT = 'Earlier versions took such ids. Rename them past the guards '
                         '(session_replication_role = replica), and migrate again.';
    END IF;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0010_source_never_deleted")]

    operations = [
        migrations.RunSQL(LOOK_FIRST, reverse_sql=migrations.RunSQL.noop),
        AddConstraintNotValid(
            model_name="job",
            constraint=CheckConstraint(
                condition=~Q(task_id__regex=f"[/{UNSEEN}]"), name="job_task_id_is_plain"
            ),
        ),
    ]
