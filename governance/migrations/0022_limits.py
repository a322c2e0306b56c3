import django.db.models.deletion
from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models

# A hint is worth nothing to a release that knows no limits.
WITHOUT_LIMITS = "DELETE FROM governance_noroom WHERE budget_id IS NULL"
SAID = """
COMMENT ON CONSTRAINT no_room_has_one_cause ON governance_noroom IS
'What has no room has it by a budget or by a limit. It is a hint: DELETE FROM governance_noroom.';
"""
FORWARD = """
CREATE OR REPLACE FUNCTION governance_limit_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.scope, NEW.key) IS DISTINCT FROM (OLD.scope, OLD.key) THEN
        RAISE EXCEPTION 'a limit keeps its scope and key' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END
$$;

CREATE CONSTRAINT TRIGGER governance_limit_stated
    AFTER INSERT OR DELETE ON governance_limit DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW
    EXECUTE FUNCTION governance_needs_event('SELECT ''limit:'' || l.id,
        ''governance_limit'', l.id
        FROM governance_limit l
        WHERE l.id = ($1->>''id'')::bigint',
        '{audit_seq,audit_head}',
        '{}',
        '');

CREATE CONSTRAINT TRIGGER governance_limit_restated
    AFTER UPDATE ON governance_limit DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN ((to_jsonb(old.*) - '{audit_seq,audit_head}'::text[])
    IS DISTINCT FROM (to_jsonb(new.*) - '{audit_seq,audit_head}'::text[]))
    EXECUTE FUNCTION governance_needs_event('SELECT ''limit:'' || l.id,
        ''governance_limit'', l.id
        FROM governance_limit l
        WHERE l.id = ($1->>''id'')::bigint',
        '{audit_seq,audit_head}',
        '{}',
        '');

CREATE TRIGGER governance_limit_no_delete
    BEFORE DELETE OR TRUNCATE ON governance_limit
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();

CREATE TRIGGER governance_limit_guard
    BEFORE UPDATE ON governance_limit
    FOR EACH ROW EXECUTE FUNCTION governance_limit_guard();
"""
BACKWARD = """
DROP TRIGGER governance_limit_guard ON governance_limit;
DROP TRIGGER governance_limit_no_delete ON governance_limit;
DROP TRIGGER governance_limit_restated ON governance_limit;
DROP TRIGGER governance_limit_stated ON governance_limit;
DROP FUNCTION governance_limit_guard;
"""


class Migration(migrations.Migration):
    """Let calls be limited: requests and tokens per minute, and how many are open."""

    dependencies = [
        ("governance", "0021_further_scopes_hold"),
    ]

    operations = [
        migrations.CreateModel(
            name="LimitHold",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("tokens", models.PositiveBigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="LimitMeter",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("counted_for", models.CharField(blank=True, max_length=401)),
                ("requests_until", models.DateTimeField()),
                ("tokens_until", models.DateTimeField()),
            ],
        ),
        migrations.AlterField(
            model_name="noroom",
            name="budget",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="no_room",
                to="governance.budget",
            ),
        ),
        migrations.AlterField(
            model_name="noroom",
            name="window",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="no_room",
                to="governance.budgetwindow",
            ),
        ),
        migrations.CreateModel(
            name="Limit",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("audit_seq", models.PositiveBigIntegerField(default=0, editable=False)),
                (
                    "audit_head",
                    models.BinaryField(
                        default=b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
                    ),
                ),
                (
                    "scope",
                    models.CharField(
                        choices=[
                            ("global", "Global"),
                            ("agent", "Agent"),
                            ("job_type", "Job Type"),
                            ("job", "Job"),
                            ("submitter", "Submitter"),
                            ("label", "Label"),
                            ("model", "Model"),
                            ("provider", "Provider"),
                        ],
                        max_length=9,
                    ),
                ),
                ("key", models.CharField(blank=True, max_length=401)),
                ("requests_per_minute", models.PositiveIntegerField(blank=True, null=True)),
                ("tokens_per_minute", models.PositiveBigIntegerField(blank=True, null=True)),
                ("open_calls", models.PositiveIntegerField(blank=True, null=True)),
                ("enabled", models.BooleanField(default=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("scope", "key"), name="limit_once"),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("key", ""), ("scope", "global")),
                            models.Q(
                                (
                                    "scope__in",
                                    [
                                        "agent",
                                        "job_type",
                                        "job",
                                        "submitter",
                                        "label",
                                        "model",
                                        "provider",
                                    ],
                                ),
                                models.Q(("key", ""), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="limit_key_iff_scoped",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("scope", "label"), _negated=True),
                            ("key__regex", "^[^=]+=."),
                            _connector="OR",
                        ),
                        name="limit_label_has_a_value",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("requests_per_minute", None),
                                ("requests_per_minute__gte", 1),
                                _connector="OR",
                            ),
                            models.Q(
                                ("tokens_per_minute", None),
                                ("tokens_per_minute__gte", 1),
                                _connector="OR",
                            ),
                            models.Q(("open_calls", None), ("open_calls__gte", 1), _connector="OR"),
                            models.Q(
                                ("open_calls", None),
                                ("requests_per_minute", None),
                                ("tokens_per_minute", None),
                                _negated=True,
                            ),
                        ),
                        name="limit_bounds_something",
                    ),
                ],
            },
        ),
        migrations.AddField(
            model_name="noroom",
            name="limit",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="no_room",
                to="governance.limit",
            ),
        ),
        AddConstraintNotValid(
            model_name="noroom",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("budget__isnull", False), ("limit", None), ("window__isnull", False)),
                    models.Q(("budget", None), ("limit__isnull", False), ("window", None)),
                    _connector="OR",
                ),
                name="no_room_has_one_cause",
            ),
        ),
        migrations.AddField(
            model_name="limithold",
            name="reservation",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="limit_holds",
                to="governance.reservation",
            ),
        ),
        migrations.AddField(
            model_name="limitmeter",
            name="limit",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="meters",
                to="governance.limit",
            ),
        ),
        migrations.AddField(
            model_name="limithold",
            name="meter",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="open",
                to="governance.limitmeter",
            ),
        ),
        migrations.AddConstraint(
            model_name="limitmeter",
            constraint=models.UniqueConstraint(
                fields=("limit", "counted_for"), name="limit_meter_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="limithold",
            constraint=models.UniqueConstraint(
                fields=("reservation", "meter"), name="limit_hold_once"
            ),
        ),
        migrations.RunSQL(SAID + FORWARD, reverse_sql=BACKWARD),
        migrations.RunSQL(migrations.RunSQL.noop, reverse_sql=WITHOUT_LIMITS),
    ]
