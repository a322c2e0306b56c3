"""The ground's tables as the first release had them: audit, answers, facts, relay, console."""

from django.conf import settings
from django.db import migrations, models
from django.db.models import Q

ID = (
    "id",
    models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
)
CHAIN_HEAD = [
    ("audit_seq", models.PositiveBigIntegerField(default=0, editable=False)),
    ("audit_head", models.BinaryField(default=bytes(32))),
]


class Migration(migrations.Migration):
    initial = True
    replaces = [
        ("governance", "0001_initial"),
        ("governance", "0003_console"),
        ("governance", "0004_relay"),
        ("governance", "0009_named_in_lists"),
        ("governance", "0010_held_streams_listed"),
        ("governance", "0011_pruned_facts"),
    ]

    dependencies = [
        # Its last: `migrate` of one app alone then finds the accounts' tables whole.
        ("auth", "0012_alter_user_first_name_max_length"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="AuditEvent",
            fields=[
                ID,
                ("subject", models.CharField(max_length=160)),
                ("seq", models.PositiveBigIntegerField()),
                ("at", models.DateTimeField()),
                ("action", models.CharField(max_length=60)),
                ("actor", models.CharField(max_length=160)),
                ("reason", models.TextField(blank=True)),
                ("request_id", models.CharField(blank=True, max_length=64)),
                ("body", models.BinaryField()),
                ("prev_hash", models.BinaryField()),
                ("hash", models.BinaryField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("subject", "seq"), name="audit_event_seq_once"),
                    models.CheckConstraint(condition=Q(seq__gte=1), name="audit_event_seq_from_1"),
                ],
            },
        ),
        migrations.CreateModel(
            name="AuditCheckpoint",
            fields=[
                ID,
                ("number", models.PositiveBigIntegerField(unique=True)),
                ("at", models.DateTimeField()),
                ("first_event_id", models.PositiveBigIntegerField()),
                ("last_event_id", models.PositiveBigIntegerField()),
                ("leaf_count", models.PositiveIntegerField()),
                ("root", models.BinaryField()),
                ("prev_hash", models.BinaryField()),
                ("hash", models.BinaryField()),
                ("envelope", models.JSONField()),
            ],
        ),
        migrations.CreateModel(
            name="AuditCheckpointLeaf",
            fields=[
                ID,
                ("subject", models.CharField(max_length=160)),
                ("seq", models.PositiveBigIntegerField()),
                ("hash", models.BinaryField()),
                (
                    "checkpoint",
                    models.ForeignKey(
                        on_delete=models.PROTECT,
                        related_name="leaves",
                        to="governance.auditcheckpoint",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("checkpoint", "subject"), name="audit_checkpoint_leaf_once"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="IdempotencyRecord",
            fields=[
                ID,
                ("principal", models.CharField(max_length=160)),
                ("operation", models.CharField(max_length=80)),
                ("key", models.UUIDField()),
                ("digest", models.BinaryField()),
                ("status", models.PositiveSmallIntegerField()),
                ("headers", models.JSONField(default=dict)),
                ("body", models.BinaryField(null=True)),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
            ],
            options={
                "indexes": [
                    models.Index(fields=["created_at"], name="idempotency_age_idx"),
                    models.Index(
                        condition=Q(body__isnull=False),
                        fields=["created_at"],
                        name="idempotency_body_age_idx",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("principal", "operation", "key"), name="idempotency_key_once"
                    ),
                    models.CheckConstraint(
                        condition=Q(status__gte=200, status__lt=500),
                        name="idempotency_final_answers_only",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Fact",
            fields=[
                ID,
                ("fact_id", models.CharField(max_length=120)),
                ("principal", models.CharField(max_length=160)),
                ("stream", models.CharField(max_length=160)),
                ("sequence", models.PositiveBigIntegerField(null=True)),
                ("type", models.CharField(max_length=120)),
                ("data", models.JSONField()),
                ("content_sha256", models.CharField(max_length=64)),
                ("receipt_id", models.UUIDField(unique=True)),
                ("recorded_at", models.DateTimeField()),
                ("relayed", models.BooleanField(default=True)),
                ("published_at", models.DateTimeField(blank=True, null=True)),
                ("delivered_to", models.JSONField(default=list)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=Q(published_at=None, relayed=True),
                        fields=["id"],
                        name="fact_waiting_idx",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("principal", "fact_id"), name="fact_id_once"),
                    models.UniqueConstraint(
                        fields=("stream", "sequence"), name="fact_sequence_once"
                    ),
                    models.CheckConstraint(
                        condition=Q(relayed=True, sequence__isnull=False)
                        | Q(published_at=None, relayed=False, sequence=None),
                        name="fact_sequence_iff_relayed",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="PrunedFact",
            fields=[
                ID,
                ("fact_id", models.CharField(max_length=120)),
                ("principal", models.CharField(max_length=160)),
                ("content_sha256", models.CharField(max_length=64)),
                ("receipt_id", models.UUIDField()),
                ("sequence", models.PositiveBigIntegerField()),
                ("recorded_at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("principal", "fact_id"), name="pruned_fact_once"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="FactStream",
            fields=[
                ID,
                ("name", models.CharField(max_length=160, unique=True)),
                ("sequence", models.PositiveBigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="FactSink",
            fields=[
                ID,
                *CHAIN_HEAD,
                ("name", models.CharField(max_length=40, unique=True)),
            ],
        ),
        migrations.CreateModel(
            name="StreamHold",
            fields=[
                ID,
                ("sink", models.CharField(max_length=40)),
                ("stream", models.CharField(max_length=160)),
                ("tries", models.PositiveIntegerField(default=0)),
                ("last_error", models.TextField()),
                ("failed_at", models.DateTimeField()),
                ("next_try_at", models.DateTimeField()),
                ("parked_at", models.DateTimeField(blank=True, null=True)),
                (
                    "fact",
                    models.ForeignKey(
                        on_delete=models.CASCADE, related_name="+", to="governance.fact"
                    ),
                ),
            ],
            options={
                "verbose_name": "held fact stream",
                "indexes": [
                    models.Index(
                        condition=Q(parked_at__isnull=False),
                        fields=["parked_at", "stream"],
                        name="stream_hold_parked_idx",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("sink", "stream"), name="stream_hold_once_per_sink"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Pulse",
            fields=[
                ID,
                ("name", models.CharField(max_length=40, unique=True)),
                ("at", models.DateTimeField()),
                ("details", models.JSONField(default=dict)),
            ],
        ),
        migrations.CreateModel(
            name="BulkRun",
            fields=[
                ID,
                ("run_id", models.UUIDField(unique=True)),
                ("act", models.CharField(max_length=60)),
                ("model", models.CharField(max_length=100)),
                ("reason", models.TextField()),
                ("fields", models.JSONField(default=dict)),
                ("total", models.PositiveIntegerField()),
                ("created_at", models.DateTimeField()),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                ("stopped_by", models.CharField(blank=True, max_length=160)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=models.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=Q(finished_at=None), fields=["id"], name="bulk_run_open_idx"
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(condition=~Q(reason=""), name="bulk_run_has_reason"),
                ],
            },
        ),
        migrations.CreateModel(
            name="BulkItem",
            fields=[
                ID,
                ("position", models.PositiveIntegerField()),
                ("key", models.CharField(max_length=200)),
                (
                    "outcome",
                    models.CharField(
                        choices=[
                            ("pending", "Pending"),
                            ("done", "Done"),
                            ("skipped", "Skipped"),
                            ("failed", "Failed"),
                            ("not_tried", "Not Tried"),
                        ],
                        default="pending",
                        max_length=10,
                    ),
                ),
                ("detail", models.TextField(blank=True)),
                ("at", models.DateTimeField(blank=True, null=True)),
                (
                    "run",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.PROTECT,
                        related_name="items",
                        to="governance.bulkrun",
                    ),
                ),
                ("revision", models.BigIntegerField(blank=True, null=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("run", "position"), name="bulk_item_position_once"
                    ),
                    models.UniqueConstraint(fields=("run", "key"), name="bulk_item_key_once"),
                ],
            },
        ),
        migrations.CreateModel(
            name="SavedView",
            fields=[
                ID,
                ("model", models.CharField(max_length=100)),
                ("name", models.CharField(max_length=60)),
                ("query", models.CharField(blank=True, max_length=1000)),
                ("shared", models.BooleanField(default=False)),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=models.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("owner", "model", "name"), name="saved_view_name_once"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="EventMinute",
            fields=[
                ID,
                ("minute", models.DateTimeField()),
                ("action", models.CharField(max_length=60)),
                ("count", models.PositiveIntegerField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("minute", "action"), name="event_minute_once"),
                ],
            },
        ),
        migrations.CreateModel(
            name="EventMinuteCursor",
            fields=[
                ID,
                ("last_event_id", models.PositiveBigIntegerField(default=0)),
                ("counted_at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=Q(id=1), name="event_minute_cursor_is_one_row"
                    ),
                ],
            },
        ),
    ]
