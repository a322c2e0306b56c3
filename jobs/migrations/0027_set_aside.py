import django.db.models.deletion
from django.db import migrations, models

FORWARD = """
CREATE TRIGGER jobs_setaside_never_deleted
    BEFORE DELETE OR TRUNCATE ON jobs_setaside
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_never_deleted();
"""
BACKWARD = "DROP TRIGGER jobs_setaside_never_deleted ON jobs_setaside;"


class Migration(migrations.Migration):
    """Keep beside a job that it spoils what is done with it."""

    dependencies = [
        ("jobs", "0026_lists_by_content_and_change"),
    ]

    operations = [
        migrations.CreateModel(
            name="SetAside",
            fields=[
                ("audit_seq", models.PositiveBigIntegerField(default=0, editable=False)),
                ("audit_head", models.BinaryField(default=bytes(32), editable=False)),
                (
                    "job",
                    models.OneToOneField(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="set_aside",
                        serialize=False,
                        to="jobs.job",
                    ),
                ),
                ("task_id", models.CharField(max_length=100, unique=True)),
                ("kind", models.CharField(max_length=60)),
                ("error_class", models.CharField(max_length=100)),
                ("first_seen_at", models.DateTimeField()),
                ("last_seen_at", models.DateTimeField()),
                ("count", models.PositiveIntegerField()),
                ("set_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "verbose_name": "job set aside",
                "verbose_name_plural": "jobs set aside",
                "indexes": [
                    models.Index(
                        condition=models.Q(("set_at__isnull", False)),
                        fields=["set_at"],
                        name="setaside_set_idx",
                    )
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("set_at", None), ("count__gte", 3), _connector="OR"),
                        name="setaside_after_failures",
                    )
                ],
            },
        ),
        migrations.RunSQL(FORWARD, reverse_sql=BACKWARD),
    ]
