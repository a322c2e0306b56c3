"""The tables of what attempts leave as the first release had them."""

from django.db import migrations, models
from django.db.models import F, Q

ID = (
    "id",
    models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
)


class Migration(migrations.Migration):
    replaces = [
        ("jobs", "0003_executions"),
        ("jobs", "0005_upload"),
    ]

    dependencies = [("jobs", "0001_jobs")]

    operations = [
        migrations.CreateModel(
            name="Escalation",
            fields=[
                ID,
                ("attempt", models.PositiveIntegerField()),
                ("raised_by", models.CharField(max_length=160)),
                ("raised_at", models.DateTimeField()),
                ("reason", models.TextField()),
                ("notify_to", models.CharField(blank=True, max_length=200)),
                (
                    "resolution",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("requeue", "Requeue"),
                            ("complete", "Complete"),
                            ("fail", "Fail"),
                            ("stop", "Stop"),
                            ("ended", "Ended"),
                        ],
                        max_length=10,
                        null=True,
                    ),
                ),
                ("resolved_by", models.CharField(blank=True, max_length=160)),
                ("resolved_at", models.DateTimeField(blank=True, null=True)),
                ("resolve_reason", models.TextField(blank=True)),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=models.PROTECT, related_name="escalations", to="jobs.job"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=Q(resolved_at=None),
                        fields=("job",),
                        name="escalation_one_open_per_job",
                    ),
                    models.CheckConstraint(
                        condition=Q(resolution=None, resolved_at=None)
                        | Q(resolution__isnull=False, resolved_at__isnull=False),
                        name="escalation_resolution_iff_dated",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Reflection",
            fields=[
                ID,
                ("number", models.PositiveIntegerField()),
                ("attempt", models.PositiveIntegerField()),
                ("what_worked", models.TextField(blank=True)),
                ("what_failed", models.TextField(blank=True)),
                ("pattern_observed", models.TextField(blank=True)),
                ("context_type", models.CharField(blank=True, max_length=100)),
                ("tool_sequence", models.JSONField(default=list)),
                ("success_signal", models.TextField(blank=True)),
                ("failure_signal", models.TextField(blank=True)),
                ("sensitivity_level", models.CharField(default="internal", max_length=20)),
                ("content_sha256", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField()),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=models.PROTECT, related_name="reflections", to="agents.agent"
                    ),
                ),
                (
                    "job",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.PROTECT,
                        related_name="reflections",
                        to="jobs.job",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("job", "number"), name="reflection_number_once"
                    ),
                    models.CheckConstraint(
                        condition=Q(number__gte=1), name="reflection_counts_from_1"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Skill",
            fields=[
                ID,
                ("task_type", models.CharField(max_length=60)),
                ("context_type", models.CharField(blank=True, max_length=100)),
                ("pattern", models.TextField()),
                ("pattern_sha256", models.CharField(max_length=64)),
                ("tool_sequence", models.JSONField(default=list)),
                ("occurrences", models.PositiveIntegerField()),
                ("successes", models.PositiveIntegerField(default=0)),
                ("failures", models.PositiveIntegerField(default=0)),
                ("confidence", models.FloatField()),
                ("created_at", models.DateTimeField()),
                ("updated_at", models.DateTimeField()),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=models.PROTECT, related_name="skills", to="agents.agent"
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        fields=["task_type", "context_type", "-confidence"], name="skill_find_idx"
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("agent", "task_type", "context_type", "pattern_sha256"),
                        name="skill_pattern_once",
                    ),
                    models.CheckConstraint(
                        condition=Q(confidence__gte=0, confidence__lte=1),
                        name="skill_confidence_is_share",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Permit",
            fields=[
                ID,
                ("permit_id", models.UUIDField(unique=True)),
                ("attempt", models.PositiveIntegerField()),
                ("fencing_token", models.PositiveBigIntegerField()),
                ("external_request_id", models.CharField(max_length=80)),
                ("session_generation", models.PositiveBigIntegerField()),
                ("dispatcher_epoch", models.UUIDField()),
                (
                    "mode",
                    models.CharField(choices=[("mock", "Mock"), ("live", "Live")], max_length=4),
                ),
                ("reservation_id", models.UUIDField(blank=True, null=True)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("issued", "Issued"),
                            ("spent", "Spent"),
                            ("revoked", "Revoked"),
                            ("expired", "Expired"),
                        ],
                        default="issued",
                        max_length=8,
                    ),
                ),
                ("issued_at", models.DateTimeField()),
                ("deadline_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                (
                    "job",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.PROTECT,
                        related_name="permits",
                        to="jobs.job",
                    ),
                ),
                (
                    "session",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=models.PROTECT,
                        to="agents.session",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["job", "attempt"], name="permit_of_attempt_idx"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=Q(state__in=["issued", "spent"]),
                        fields=("job", "attempt"),
                        name="permit_one_open_or_spent_per_attempt",
                    ),
                    models.CheckConstraint(
                        condition=Q(ended_at=None, state="issued")
                        | ~Q(state="issued") & Q(ended_at__isnull=False),
                        name="permit_ended_iff_not_issued",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Execution",
            fields=[
                ID,
                ("external_request_id", models.CharField(max_length=80, unique=True)),
                ("attempt", models.PositiveIntegerField()),
                ("fencing_token", models.PositiveBigIntegerField()),
                ("reservation_id", models.UUIDField(blank=True, null=True)),
                (
                    "mode",
                    models.CharField(choices=[("mock", "Mock"), ("live", "Live")], max_length=4),
                ),
                ("runtime", models.CharField(max_length=40)),
                ("execution_digest", models.CharField(max_length=64)),
                ("request_sha256", models.CharField(max_length=64)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("refused", "Refused"),
                            ("unknown", "Unknown"),
                            ("succeeded", "Succeeded"),
                            ("failed", "Failed"),
                            ("not_started", "Not Started"),
                        ],
                        max_length=12,
                    ),
                ),
                ("refusal_reason", models.CharField(blank=True, max_length=60)),
                ("decided_at", models.DateTimeField()),
                ("deadline_at", models.DateTimeField()),
                ("resulted_at", models.DateTimeField(blank=True, null=True)),
                ("result_sha256", models.CharField(blank=True, max_length=64)),
                ("outcome_sha256", models.CharField(blank=True, max_length=64)),
                ("result", models.JSONField(blank=True, null=True)),
                ("result_pointer", models.CharField(blank=True, max_length=1000)),
                ("usage", models.JSONField(blank=True, null=True)),
                ("error_code", models.CharField(blank=True, max_length=80)),
                (
                    "job",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.PROTECT,
                        related_name="executions",
                        to="jobs.job",
                    ),
                ),
                (
                    "permit",
                    models.OneToOneField(
                        on_delete=models.PROTECT, related_name="execution", to="jobs.permit"
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=Q(state="unknown"), fields=["id"], name="execution_unknown_idx"
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("job", "attempt"), name="execution_one_per_attempt"
                    ),
                    models.CheckConstraint(
                        condition=Q(resulted_at=None, state__in=["unknown", "refused"])
                        | Q(
                            resulted_at__isnull=False,
                            state__in=["succeeded", "failed", "not_started"],
                        ),
                        name="execution_result_iff_dated",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ExecutionEvidence",
            fields=[
                ID,
                ("given_by", models.CharField(max_length=160)),
                ("given_at", models.DateTimeField()),
                ("attempt", models.PositiveIntegerField()),
                ("fencing_token", models.PositiveBigIntegerField()),
                ("outcome", models.CharField(max_length=12)),
                ("content_sha256", models.CharField(max_length=64)),
                ("content", models.JSONField()),
                (
                    "execution",
                    models.ForeignKey(
                        on_delete=models.PROTECT, related_name="evidence", to="jobs.execution"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("execution", "content_sha256"), name="execution_evidence_once"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Reconciliation",
            fields=[
                ID,
                (
                    "verdict",
                    models.CharField(
                        choices=[
                            ("happened", "Happened"),
                            ("not_happened", "Not Happened"),
                            ("undetermined", "Undetermined"),
                        ],
                        max_length=12,
                    ),
                ),
                ("decided_by", models.CharField(max_length=160)),
                ("decided_at", models.DateTimeField()),
                ("reason", models.TextField()),
                ("evidence", models.JSONField(default=dict)),
                (
                    "execution",
                    models.ForeignKey(
                        on_delete=models.PROTECT,
                        related_name="reconciliations",
                        to="jobs.execution",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=~Q(verdict="undetermined"),
                        fields=("execution",),
                        name="reconciliation_final_once",
                    ),
                    models.CheckConstraint(
                        condition=~Q(reason=""), name="reconciliation_has_reason"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="LiveAuthorization",
            fields=[
                ID,
                ("runtime", models.CharField(max_length=40)),
                ("granted_by", models.CharField(max_length=160)),
                ("granted_at", models.DateTimeField()),
                ("reason", models.TextField()),
                ("ends_at", models.DateTimeField()),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
                ("revoked_by", models.CharField(blank=True, max_length=160)),
                ("revoke_reason", models.TextField(blank=True)),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=models.PROTECT,
                        related_name="live_authorizations",
                        to="agents.agent",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=Q(revoked_at=None),
                        fields=["agent", "runtime"],
                        name="live_authorization_idx",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=Q(ends_at__gt=F("granted_at")), name="live_authorization_ends"
                    ),
                    models.CheckConstraint(
                        condition=~Q(reason=""), name="live_authorization_has_reason"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Upload",
            fields=[
                ID,
                ("upload_id", models.UUIDField(unique=True)),
                ("artifact_id", models.UUIDField(blank=True, null=True, unique=True)),
                ("attempt", models.PositiveIntegerField()),
                ("fencing_token", models.PositiveBigIntegerField()),
                ("name", models.CharField(max_length=200)),
                ("media_type", models.CharField(max_length=100)),
                ("size_bytes", models.PositiveBigIntegerField()),
                ("sha256", models.CharField(max_length=64)),
                ("object_key", models.CharField(max_length=200)),
                (
                    "state",
                    models.CharField(
                        choices=[("granted", "Granted"), ("stored", "Stored")],
                        default="granted",
                        max_length=8,
                    ),
                ),
                ("granted_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("stored_at", models.DateTimeField(blank=True, null=True)),
                ("fact_id", models.CharField(blank=True, max_length=120)),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=models.PROTECT, related_name="uploads", to="jobs.job"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=Q(artifact_id=None, state="granted", stored_at=None)
                        | Q(artifact_id__isnull=False, state="stored", stored_at__isnull=False),
                        name="upload_artifact_iff_stored",
                    ),
                    models.UniqueConstraint(
                        condition=Q(state="stored"),
                        fields=("job", "fencing_token", "name"),
                        name="upload_name_once_per_attempt",
                    ),
                ],
            },
        ),
    ]
