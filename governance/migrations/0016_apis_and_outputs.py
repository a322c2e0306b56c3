from django.db import migrations, models

# The one provider that is known not to speak the API of OpenAI.
FORWARD = """
UPDATE governance_languagemodel SET api = 'anthropic' WHERE provider = 'anthropic';
"""
# What events of before say of these rows, they say with fewer words; nothing is rewritten.
STATED = """
SELECT governance_state_rows('governance_languagemodel',
    'SELECT ''model:'' || m.provider || ''/'' || m.name,
        ''governance_languagemodel'', m.id
        FROM governance_languagemodel m
        WHERE m.id = ($1->>''id'')::bigint',
    '{audit_seq,audit_head}', '{}');
SELECT governance_state_rows('governance_routepolicy',
    'SELECT ''route_policy:'' || p.id,
        ''governance_routepolicy'', p.id
        FROM governance_routepolicy p
        WHERE p.id = ($1->>''id'')::bigint',
    '{audit_seq,audit_head}', '{}');
SET CONSTRAINTS ALL IMMEDIATE;
SET CONSTRAINTS ALL DEFERRED;
"""


class Migration(migrations.Migration):
    """Say over which API a model is called, what a policy holds for output, and what falls back."""

    dependencies = [("governance", "0015_rows_are_stated")]

    operations = [
        migrations.AddField(
            model_name="languagemodel",
            name="api",
            field=models.CharField(
                choices=[("openai", "Openai"), ("anthropic", "Anthropic")],
                db_default="openai",
                default="openai",
                max_length=9,
            ),
        ),
        migrations.AddField(
            model_name="routepolicy",
            name="max_output_tokens",
            field=models.PositiveIntegerField(db_default=16384, default=16384),
        ),
        migrations.AddField(
            model_name="routedecision",
            name="fallback_of",
            field=models.PositiveIntegerField(null=True),
        ),
        migrations.RunSQL(FORWARD, reverse_sql=migrations.RunSQL.noop),
        migrations.RunSQL(STATED, reverse_sql=migrations.RunSQL.noop),
    ]
