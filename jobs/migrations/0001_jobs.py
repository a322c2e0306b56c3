"""The tables of jobs, their attempts and people's decisions as the first release had them."""

from django.db import migrations, models
from django.db.models import F, Q

ID = (
    "id",
    models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
)
CHAIN_HEAD = [
    ("audit_seq", models.PositiveBigIntegerField(default=0, editable=False)),
    ("audit_head", models.BinaryField(default=bytes(32))),
]

#: As `governance.core.characters.UNSEEN` was then.
UNSEEN = (
    r"\u0001-\u001f\u007f-\u009f\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e"
    r"\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000110bd\U000110cd"
    r"\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001"
    r"\U000e0020-\U000e007f"
)

# Hot rows: room on the page for the next version, and vacuum before bloat is felt.
STORAGE = """
ALTER TABLE jobs_job SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE jobs_lease SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02,
                            autovacuum_vacuum_cost_delay = 0);
"""
USUAL_STORAGE = """
ALTER TABLE jobs_lease RESET (fillfactor, autovacuum_vacuum_scale_factor,
                              autovacuum_vacuum_cost_delay);
ALTER TABLE jobs_job RESET (fillfactor, autovacuum_vacuum_scale_factor);
"""


class Migration(migrations.Migration):
    initial = True
    replaces = [
        ("jobs", "0001_initial"),
        ("jobs", "0006_index_paused"),
        ("jobs", "0007_approvals_end"),
        ("jobs", "0009_kinds_on_the_chain"),
        ("jobs", "0011_task_id_is_plain"),
        ("jobs", "0012_task_id_was_plain"),
    ]

    dependencies = [("agents", "0001_agents")]

    operations = [
        migrations.CreateModel(
            name="JobType",
            fields=[
                ID,
                ("name", models.SlugField(max_length=60, unique=True)),
                ("runtime", models.CharField(default="command", max_length=40)),
                ("uses_model", models.BooleanField(default=False)),
                ("inputs_schema", models.JSONField(blank=True, default=dict)),
                ("max_attempts", models.PositiveIntegerField(default=3)),
                ("max_attempts_ceiling", models.PositiveIntegerField(default=10)),
                ("lease_seconds", models.PositiveIntegerField(default=900)),
                ("attempt_timeout_seconds", models.PositiveIntegerField(blank=True, null=True)),
                ("backoff_base_seconds", models.PositiveIntegerField(default=10)),
                ("backoff_cap_seconds", models.PositiveIntegerField(default=3600)),
                ("approval_valid_seconds", models.PositiveIntegerField(default=86400)),
                ("enabled", models.BooleanField(default=True)),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=models.PROTECT, related_name="job_types", to="agents.agent"
                    ),
                ),
                ("audit_head", models.BinaryField(default=bytes(32))),
                ("audit_seq", models.PositiveBigIntegerField(default=0, editable=False)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=Q(
                            max_attempts__gte=1, max_attempts_ceiling__gte=F("max_attempts")
                        ),
                        name="job_type_ceiling_above_default",
                    ),
                    models.CheckConstraint(
                        condition=Q(lease_seconds__gte=60, lease_seconds__lte=3600),
                        name="job_type_lease_in_range",
                    ),
                    models.CheckConstraint(
                        condition=Q(backoff_cap_seconds__gte=F("backoff_base_seconds")),
                        name="job_type_backoff_below_cap",
                    ),
                    models.CheckConstraint(
                        condition=Q(approval_valid_seconds__gte=1)
                        & (Q(attempt_timeout_seconds=None) | Q(attempt_timeout_seconds__gte=1)),
                        name="job_type_times_are_positive",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Source",
            fields=[
                ID,
                ("name", models.SlugField(max_length=60, unique=True)),
                ("enabled", models.BooleanField(default=True)),
                ("audit_head", models.BinaryField(default=bytes(32))),
                ("audit_seq", models.PositiveBigIntegerField(default=0, editable=False)),
            ],
        ),
        migrations.CreateModel(
            name="Job",
            fields=[
                ID,
                *CHAIN_HEAD,
                ("job_id", models.UUIDField(unique=True)),
                ("task_id", models.CharField(max_length=100, unique=True)),
                (
                    "risk_tier",
                    models.CharField(
                        choices=[("low", "Low"), ("medium", "Medium"), ("high", "High")],
                        max_length=6,
                    ),
                ),
                (
                    "priority",
                    models.SmallIntegerField(
                        choices=[(0, "low"), (1, "normal"), (2, "high"), (3, "urgent")], default=1
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("held", "Held"),
                            ("queued", "Queued"),
                            ("active", "Active"),
                            ("review_required", "Review Required"),
                            ("needs_rework", "Needs Rework"),
                            ("in_doubt", "In Doubt"),
                            ("escalated", "Escalated"),
                            ("completed", "Completed"),
                            ("stopped", "Stopped"),
                            ("failed", "Failed"),
                        ],
                        max_length=16,
                    ),
                ),
                ("paused", models.BooleanField(default=False)),
                ("available_at", models.DateTimeField()),
                ("attempt", models.PositiveIntegerField(default=0)),
                ("max_attempts", models.PositiveIntegerField()),
                ("fencing_token", models.PositiveBigIntegerField(default=0)),
                ("revision", models.PositiveBigIntegerField(default=1)),
                ("fact_sequence", models.PositiveBigIntegerField(default=0)),
                ("reflection_count", models.PositiveIntegerField(default=0)),
                ("unresolved_executions", models.PositiveIntegerField(default=0)),
                ("review_required", models.BooleanField(default=False)),
                ("execution_approval_required", models.BooleanField(default=False)),
                ("approval_valid_until", models.DateTimeField(blank=True, null=True)),
                ("submitted_by", models.CharField(max_length=160)),
                ("requested_by", models.CharField(blank=True, max_length=160)),
                ("asked_again_by", models.CharField(blank=True, max_length=160)),
                ("deadline_at", models.DateTimeField(blank=True, null=True)),
                ("expires_if_not_started_at", models.DateTimeField(blank=True, null=True)),
                ("attempt_timeout_seconds", models.PositiveIntegerField(blank=True, null=True)),
                ("created_at", models.DateTimeField()),
                ("state_since", models.DateTimeField()),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                (
                    "agent",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=models.PROTECT,
                        to="agents.agent",
                    ),
                ),
                (
                    "job_type",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=models.PROTECT,
                        to="jobs.jobtype",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        F("agent"),
                        models.OrderBy(F("priority"), descending=True),
                        F("available_at"),
                        F("id"),
                        condition=Q(paused=False, state="queued"),
                        name="job_claim_idx",
                    ),
                    models.Index(
                        condition=Q(
                            state__in=[
                                "held",
                                "review_required",
                                "needs_rework",
                                "in_doubt",
                                "escalated",
                            ]
                        ),
                        fields=["state", "state_since"],
                        name="job_inbox_idx",
                    ),
                    models.Index(
                        condition=Q(deadline_at__isnull=False, finished_at=None),
                        fields=["deadline_at"],
                        name="job_deadline_idx",
                    ),
                    models.Index(
                        condition=Q(
                            attempt=0, expires_if_not_started_at__isnull=False, state="queued"
                        ),
                        fields=["expires_if_not_started_at"],
                        name="job_queue_wait_idx",
                    ),
                    models.Index(fields=["state", "-id"], name="job_by_state_idx"),
                    models.Index(fields=["agent", "-id"], name="job_by_agent_idx"),
                    models.Index(fields=["submitted_by", "-id"], name="job_by_submitter_idx"),
                    models.Index(
                        condition=Q(finished_at__isnull=False),
                        fields=["finished_at"],
                        name="job_finished_idx",
                    ),
                    models.Index(condition=Q(paused=True), fields=["-id"], name="job_paused_idx"),
                    models.Index(
                        condition=Q(approval_valid_until__isnull=False, state="queued"),
                        fields=["approval_valid_until"],
                        name="job_approval_idx",
                    ),
                    models.Index(
                        condition=Q(risk_tier="high"), fields=["-id"], name="job_high_risk_idx"
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=Q(
                            state__in=[
                                "held",
                                "queued",
                                "active",
                                "review_required",
                                "needs_rework",
                                "in_doubt",
                                "escalated",
                                "completed",
                                "stopped",
                                "failed",
                            ]
                        ),
                        name="job_state_is_known",
                    ),
                    models.CheckConstraint(
                        condition=Q(risk_tier__in=("low", "medium", "high")),
                        name="job_risk_tier_is_known",
                    ),
                    models.CheckConstraint(
                        condition=Q(priority__gte=0, priority__lte=3), name="job_priority_is_known"
                    ),
                    models.CheckConstraint(
                        condition=Q(
                            finished_at__isnull=False, state__in=["completed", "stopped", "failed"]
                        )
                        | ~Q(state__in=["completed", "stopped", "failed"]) & Q(finished_at=None),
                        name="job_finished_iff_dated",
                    ),
                    models.CheckConstraint(
                        condition=Q(attempt__lte=F("max_attempts")), name="job_attempts_are_bounded"
                    ),
                    models.CheckConstraint(
                        condition=Q(fencing_token__gte=F("attempt")),
                        name="job_token_at_least_attempt",
                    ),
                    models.CheckConstraint(
                        condition=~Q(state="active") | Q(attempt__gte=1),
                        name="job_active_has_attempt",
                    ),
                    models.CheckConstraint(
                        condition=~Q(risk_tier="high")
                        | Q(execution_approval_required=True, review_required=True),
                        name="job_high_risk_is_reviewed_and_approved",
                    ),
                    models.CheckConstraint(
                        condition=~Q(state__in=["queued", "active"])
                        | Q(execution_approval_required=False)
                        | Q(approval_valid_until__isnull=False),
                        name="job_approved_before_queued",
                    ),
                    models.CheckConstraint(
                        condition=~Q(state__in=["held", "queued", "needs_rework"])
                        | Q(unresolved_executions=0),
                        name="job_unresolved_is_not_claimable",
                    ),
                    models.CheckConstraint(
                        condition=~Q(task_id__regex=f"[/{UNSEEN}]"),
                        name="job_task_id_is_plain",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Task",
            fields=[
                (
                    "job",
                    models.OneToOneField(
                        on_delete=models.PROTECT,
                        primary_key=True,
                        related_name="task",
                        serialize=False,
                        to="jobs.job",
                    ),
                ),
                ("source", models.CharField(max_length=60)),
                ("title", models.CharField(max_length=200)),
                ("goal", models.TextField()),
                ("inputs", models.JSONField(default=dict)),
                ("output_required", models.BooleanField(default=False)),
                ("rollback_required", models.BooleanField(default=False)),
                ("labels", models.JSONField(default=dict)),
                ("submitted_at", models.DateTimeField(blank=True, null=True)),
                ("content_sha256", models.CharField(max_length=64)),
                ("envelope", models.JSONField()),
                ("execution_digest", models.CharField(max_length=64)),
            ],
        ),
        migrations.CreateModel(
            name="Attempt",
            fields=[
                ID,
                ("number", models.PositiveIntegerField()),
                ("fencing_token", models.PositiveBigIntegerField()),
                ("worker_id", models.CharField(max_length=120)),
                ("runtime", models.CharField(max_length=40)),
                ("lease_seconds", models.PositiveIntegerField()),
                ("claimed_at", models.DateTimeField()),
                ("deadline_at", models.DateTimeField(blank=True, null=True)),
                ("claim_key", models.UUIDField(blank=True, null=True)),
                ("claim_answers", models.PositiveIntegerField(default=1)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                (
                    "outcome",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("completed", "Completed"),
                            ("failed", "Failed"),
                            ("escalated", "Escalated"),
                            ("lease_expired", "Lease Expired"),
                            ("superseded", "Superseded"),
                            ("timed_out", "Timed Out"),
                            ("deadline_exceeded", "Deadline Exceeded"),
                            ("stopped", "Stopped"),
                        ],
                        max_length=20,
                        null=True,
                    ),
                ),
                ("outcome_sha256", models.CharField(blank=True, max_length=64)),
                ("needs_review", models.BooleanField(default=False)),
                ("retryable", models.BooleanField(blank=True, null=True)),
                ("error_code", models.CharField(blank=True, max_length=80)),
                ("error_message", models.TextField(blank=True)),
                ("result", models.JSONField(blank=True, null=True)),
                ("result_pointer", models.CharField(blank=True, max_length=1000)),
                ("progress", models.JSONField(blank=True, null=True)),
                (
                    "session",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=models.PROTECT,
                        to="agents.session",
                    ),
                ),
                (
                    "job",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.PROTECT,
                        related_name="attempts",
                        to="jobs.job",
                    ),
                ),
                ("governed", models.BooleanField(default=False)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=Q(deadline_at__isnull=False, ended_at=None),
                        fields=["deadline_at"],
                        name="attempt_deadline_idx",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("job", "number"), name="attempt_number_once"),
                    models.UniqueConstraint(
                        fields=("job", "fencing_token"), name="attempt_token_once"
                    ),
                    models.UniqueConstraint(
                        condition=Q(ended_at=None), fields=("job",), name="attempt_one_open_per_job"
                    ),
                    models.CheckConstraint(
                        condition=Q(ended_at=None, outcome=None)
                        | Q(ended_at__isnull=False, outcome__isnull=False),
                        name="attempt_outcome_iff_ended",
                    ),
                    models.CheckConstraint(
                        condition=Q(number__gte=1), name="attempt_counts_from_1"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Lease",
            fields=[
                (
                    "job",
                    models.OneToOneField(
                        on_delete=models.PROTECT,
                        primary_key=True,
                        related_name="lease",
                        serialize=False,
                        to="jobs.job",
                    ),
                ),
                ("attempt", models.PositiveIntegerField()),
                ("fencing_token", models.PositiveBigIntegerField()),
                ("worker_id", models.CharField(max_length=120)),
                ("lease_seconds", models.PositiveIntegerField()),
                ("granted_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("heartbeat_at", models.DateTimeField()),
                ("progress", models.JSONField(blank=True, null=True)),
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
        ),
        migrations.CreateModel(
            name="Approval",
            fields=[
                ID,
                ("execution_digest", models.CharField(max_length=64)),
                (
                    "decision",
                    models.CharField(
                        choices=[
                            ("approved", "Approved"),
                            ("rejected", "Rejected"),
                            ("withdrawn", "Withdrawn"),
                            ("expired", "Expired"),
                        ],
                        max_length=10,
                    ),
                ),
                ("decided_by", models.CharField(max_length=160)),
                ("decided_at", models.DateTimeField()),
                ("reason", models.TextField()),
                ("valid_until", models.DateTimeField(blank=True, null=True)),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=models.PROTECT, related_name="approvals", to="jobs.job"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(condition=~Q(reason=""), name="approval_has_reason"),
                    models.CheckConstraint(
                        condition=~Q(decision="approved") | Q(valid_until__gt=F("decided_at")),
                        name="approval_is_valid_until",
                    ),
                    models.CheckConstraint(
                        condition=~Q(decision="expired") | Q(valid_until__lte=F("decided_at")),
                        name="approval_expires_after_its_end",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Review",
            fields=[
                ID,
                ("attempt", models.PositiveIntegerField()),
                (
                    "verdict",
                    models.CharField(
                        choices=[
                            ("accepted", "Accepted"),
                            ("needs_rework", "Needs Rework"),
                            ("rejected", "Rejected"),
                        ],
                        max_length=12,
                    ),
                ),
                ("decided_by", models.CharField(max_length=160)),
                ("decided_at", models.DateTimeField()),
                ("reason", models.TextField()),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=models.PROTECT, related_name="reviews", to="jobs.job"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(condition=~Q(reason=""), name="review_has_reason"),
                ],
            },
        ),
        migrations.CreateModel(
            name="RetryExtension",
            fields=[
                ID,
                ("from_max", models.PositiveIntegerField()),
                ("to_max", models.PositiveIntegerField()),
                ("ceiling", models.PositiveIntegerField()),
                ("granted_by", models.CharField(max_length=160)),
                ("granted_at", models.DateTimeField()),
                ("reason", models.TextField()),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=models.PROTECT, related_name="extensions", to="jobs.job"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("job", "to_max"), name="extension_step_once"),
                    models.CheckConstraint(
                        condition=Q(to_max__gt=F("from_max"), to_max__lte=F("ceiling")),
                        name="extension_raises_within_ceiling",
                    ),
                    models.CheckConstraint(condition=~Q(reason=""), name="extension_has_reason"),
                ],
            },
        ),
        migrations.RunSQL(STORAGE, reverse_sql=USUAL_STORAGE),
    ]
