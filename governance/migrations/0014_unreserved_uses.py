import django.db.models.deletion
from django.db import migrations, models

WRITTEN_ONCE = """
CREATE TRIGGER governance_unreserveduse_append_only
    BEFORE DELETE OR UPDATE OR TRUNCATE ON governance_unreserveduse
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();

CREATE TRIGGER governance_unreservedposting_append_only
    BEFORE DELETE OR UPDATE OR TRUNCATE ON governance_unreservedposting
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
"""
NO_RULE = """
DROP TRIGGER governance_unreservedposting_append_only ON governance_unreservedposting;
DROP TRIGGER governance_unreserveduse_append_only ON governance_unreserveduse;
"""


class Migration(migrations.Migration):
    """Keep what was used and not reserved, each as a row of the ledger."""

    dependencies = [
        ("governance", "0013_spend_outward_triggers"),
    ]

    operations = [
        migrations.AddField(
            model_name="routedecision",
            name="request_bytes",
            field=models.BigIntegerField(null=True),
        ),
        migrations.CreateModel(
            name="UnreservedUse",
            fields=[
                ("use_id", models.UUIDField(primary_key=True, serialize=False)),
                ("external_request_id", models.CharField(max_length=70)),
                ("task_id", models.CharField(max_length=100)),
                ("job_id", models.UUIDField()),
                ("attempt", models.PositiveIntegerField()),
                ("agent", models.CharField(max_length=60)),
                ("job_type", models.CharField(max_length=60)),
                ("input_tokens", models.BigIntegerField()),
                ("cached_input_tokens", models.BigIntegerField()),
                ("output_tokens", models.BigIntegerField()),
                ("reasoning_tokens", models.BigIntegerField()),
                ("cache_write_tokens", models.BigIntegerField()),
                ("cache_write_1h_tokens", models.BigIntegerField()),
                ("input_audio_tokens", models.BigIntegerField()),
                ("cached_audio_tokens", models.BigIntegerField()),
                ("output_audio_tokens", models.BigIntegerField()),
                ("searches", models.BigIntegerField()),
                ("service_tier", models.CharField(blank=True, max_length=60)),
                ("processing", models.CharField(blank=True, max_length=60)),
                ("speed", models.CharField(blank=True, max_length=60)),
                ("cost", models.DecimalField(decimal_places=12, max_digits=24, null=True)),
                (
                    "cost_basis",
                    models.CharField(
                        choices=[("usage", "Usage"), ("estimate", "Estimate"), ("none", "None")],
                        max_length=8,
                    ),
                ),
                ("usage_odd", models.BooleanField()),
                ("usage_sent", models.JSONField()),
                ("content_sha256", models.CharField(max_length=64)),
                ("recorded_by", models.CharField(max_length=160)),
                ("recorded_at", models.DateTimeField()),
                (
                    "model",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="governance.languagemodel",
                    ),
                ),
                (
                    "price",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="governance.price",
                    ),
                ),
                (
                    "reservation",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="unreserved",
                        to="governance.reservation",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="UnreservedPosting",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "window",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="unreserved",
                        to="governance.budgetwindow",
                    ),
                ),
                (
                    "use",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="postings",
                        to="governance.unreserveduse",
                    ),
                ),
            ],
        ),
        migrations.AddIndex(
            model_name="unreserveduse",
            index=models.Index(fields=["job_id", "attempt"], name="unreserved_use_job_idx"),
        ),
        migrations.AddIndex(
            model_name="unreserveduse",
            index=models.Index(fields=["recorded_at"], name="unreserved_use_recorded_idx"),
        ),
        migrations.AddConstraint(
            model_name="unreserveduse",
            constraint=models.UniqueConstraint(
                fields=("external_request_id", "content_sha256"), name="unreserved_use_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="unreserveduse",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("cost", None), ("price", None)),
                    models.Q(("cost__gte", 0), ("model__isnull", False), ("price__isnull", False)),
                    _connector="OR",
                ),
                name="unreserved_use_is_priced_or_unknown",
            ),
        ),
        migrations.AddConstraint(
            model_name="unreserveduse",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("cache_write_1h_tokens__gte", 0),
                    ("cache_write_tokens__gte", 0),
                    ("cached_audio_tokens__gte", 0),
                    ("cached_input_tokens__gte", 0),
                    ("input_audio_tokens__gte", 0),
                    ("input_tokens__gte", 0),
                    ("output_audio_tokens__gte", 0),
                    ("output_tokens__gte", 0),
                    ("reasoning_tokens__gte", 0),
                    ("searches__gte", 0),
                ),
                name="unreserved_use_is_not_negative",
            ),
        ),
        migrations.AddConstraint(
            model_name="unreserveduse",
            constraint=models.CheckConstraint(
                condition=models.Q(("cost_basis__in", ["usage", "estimate"])),
                name="unreserved_use_is_not_nothing",
            ),
        ),
        migrations.AddConstraint(
            model_name="unreservedposting",
            constraint=models.UniqueConstraint(
                fields=("use", "window"), name="unreserved_posting_once"
            ),
        ),
        migrations.RunSQL(WRITTEN_ONCE, reverse_sql=NO_RULE),
    ]
