import django.db.models.deletion
from django.db import migrations, models

WRITTEN_ONCE = """
CREATE TRIGGER governance_disputeduse_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON governance_disputeduse
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
CREATE TRIGGER governance_disputeverdict_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON governance_disputeverdict
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
"""
NO_RULE = """
DROP TRIGGER governance_disputeduse_append_only ON governance_disputeduse;
DROP TRIGGER governance_disputeverdict_append_only ON governance_disputeverdict;
"""


class Migration(migrations.Migration):
    """Keep what is reported beyond what a model can do, and what people say of it."""

    dependencies = [
        ("governance", "0016_apis_and_outputs"),
    ]

    operations = [
        migrations.AddField(
            model_name="resolution",
            name="disputed",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name="unreserveduse",
            name="disputed",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.CreateModel(
            name="DisputedUse",
            fields=[
                ("dispute_id", models.UUIDField(primary_key=True, serialize=False)),
                ("external_request_id", models.CharField(max_length=70)),
                ("task_id", models.CharField(max_length=100)),
                ("job_id", models.UUIDField()),
                ("attempt", models.PositiveIntegerField()),
                ("agent", models.CharField(max_length=60)),
                ("job_type", models.CharField(max_length=60)),
                ("counts", models.JSONField()),
                ("cost", models.DecimalField(decimal_places=12, max_digits=24, null=True)),
                ("recorded_by", models.CharField(max_length=160)),
                ("recorded_at", models.DateTimeField()),
                (
                    "model",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="governance.languagemodel",
                    ),
                ),
                (
                    "price",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="governance.price",
                    ),
                ),
                (
                    "resolution",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="dispute",
                        to="governance.resolution",
                    ),
                ),
                (
                    "use",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="dispute",
                        to="governance.unreserveduse",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="DisputeVerdict",
            fields=[
                (
                    "dispute",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="verdict",
                        serialize=False,
                        to="governance.disputeduse",
                    ),
                ),
                (
                    "verdict",
                    models.CharField(
                        choices=[("accepted", "Accepted"), ("dismissed", "Dismissed")], max_length=9
                    ),
                ),
                ("reason", models.TextField()),
                ("decided_by", models.CharField(max_length=160)),
                ("decided_at", models.DateTimeField()),
                (
                    "use",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="accepted",
                        to="governance.unreserveduse",
                    ),
                ),
            ],
        ),
        migrations.AddIndex(
            model_name="disputeduse",
            index=models.Index(fields=["external_request_id"], name="disputed_use_execution_idx"),
        ),
        migrations.AddIndex(
            model_name="disputeduse",
            index=models.Index(fields=["recorded_at"], name="disputed_use_recorded_idx"),
        ),
        migrations.AddConstraint(
            model_name="disputeduse",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("resolution", None), ("use__isnull", False)),
                    models.Q(("resolution__isnull", False), ("use", None)),
                    _connector="OR",
                ),
                name="disputed_use_is_beside_one_row",
            ),
        ),
        migrations.AddConstraint(
            model_name="disputeduse",
            constraint=models.CheckConstraint(
                condition=models.Q(("cost", None), ("cost__gte", 0), _connector="OR"),
                name="disputed_use_is_not_negative",
            ),
        ),
        migrations.AddConstraint(
            model_name="disputeverdict",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("use__isnull", False), ("verdict", "accepted")),
                    models.Q(("use", None), ("verdict", "dismissed")),
                    _connector="OR",
                ),
                name="dispute_verdict_books_what_is_accepted",
            ),
        ),
        migrations.AddConstraint(
            model_name="disputeverdict",
            constraint=models.CheckConstraint(
                condition=models.Q(("reason", ""), _negated=True), name="dispute_verdict_has_reason"
            ),
        ),
        migrations.RunSQL(WRITTEN_ONCE, reverse_sql=NO_RULE),
    ]
