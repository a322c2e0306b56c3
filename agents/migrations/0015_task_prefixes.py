import django.db.models.deletion
from django.db import migrations, models

UNSEEN = (
    r"\u0001-\u001f\u007f-\u009f\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e"
    r"\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000110bd\U000110cd"
    r"\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001"
    r"\U000e0020-\U000e007f"
)
PREFIX = rf"^[^{UNSEEN}]{{2,98}}[_.:/-]$"
FORWARD = """
CREATE OR REPLACE FUNCTION agents_taskprefix_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        RAISE EXCEPTION 'a prefix of task ids is not changed' USING ERRCODE = 'restrict_violation';
    END IF;
    PERFORM pg_advisory_xact_lock(9, 0);
    IF EXISTS (SELECT FROM agents_taskprefix p
                WHERE starts_with(p.prefix, NEW.prefix) OR starts_with(NEW.prefix, p.prefix)) THEN
        RAISE EXCEPTION 'the prefix % contains another, or is contained', NEW.prefix
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER agents_taskprefix_guard
    BEFORE INSERT OR UPDATE ON agents_taskprefix
    FOR EACH ROW EXECUTE FUNCTION agents_taskprefix_guard();
"""
BACKWARD = """
DROP TRIGGER agents_taskprefix_guard ON agents_taskprefix;
DROP FUNCTION agents_taskprefix_guard;
"""


class Migration(migrations.Migration):
    """Let a submitter own prefixes of task ids."""

    dependencies = [
        ("agents", "0014_workers_expected_of_agents"),
    ]

    operations = [
        migrations.CreateModel(
            name="TaskPrefix",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("prefix", models.CharField(max_length=99, unique=True)),
                ("created_at", models.DateTimeField()),
                (
                    "submitter",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="task_prefixes",
                        to="agents.submitter",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "task prefixes",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(prefix__regex=PREFIX), name="task_prefix_ends_a_word"
                    )
                ],
            },
        ),
        migrations.RunSQL(FORWARD, reverse_sql=BACKWARD),
    ]
