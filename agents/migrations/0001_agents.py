"""The tables of who may act as the first release had them."""

import uuid

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
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

# Written at every heartbeat: room on the page keeps the updates HOT.
STORAGE = """
ALTER TABLE agents_presence SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02)
"""
USUAL_STORAGE = """
ALTER TABLE agents_presence RESET (fillfactor, autovacuum_vacuum_scale_factor)
"""


class Migration(migrations.Migration):
    initial = True
    replaces = [
        ("agents", "0001_initial"),
        ("agents", "0003_operator_verbs"),
        ("agents", "0004_acting_agents"),
        ("agents", "0006_export_lists"),
        ("agents", "0007_configure_verb"),
        ("agents", "0008_named_in_lists"),
        ("agents", "0009_release_verb"),
        ("agents", "0010_intake_verb"),
        ("agents", "0011_pending_sessions_index"),
    ]

    dependencies = [
        # Its last: `migrate` of one app alone then finds the accounts' tables whole.
        ("auth", "0012_alter_user_first_name_max_length"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Fleet",
            fields=[
                ID,
                *CHAIN_HEAD,
                ("dispatcher_epoch", models.UUIDField(default=uuid.uuid4)),
                ("epoch_rotated_at", models.DateTimeField()),
            ],
            options={
                "permissions": (
                    (
                        "approve_execution",
                        "Can approve, reject or withdraw the execution of a held job",
                    ),
                    ("review_job", "Can accept, reject or send back what a job delivered"),
                    (
                        "extend_retries",
                        "Can send a failed job back for rework and extend its attempts",
                    ),
                    ("stop_job", "Can stop a job"),
                    ("pause_job", "Can pause and resume a job"),
                    ("resolve_escalation", "Can resolve an escalated job"),
                    ("reconcile_execution", "Can reconcile an execution whose outcome is unknown"),
                    ("view_payloads", "Can see inputs, results and error texts"),
                    ("export_lists", "Can export lists"),
                    ("set_admission", "Can open, drain and close an agent"),
                    ("inhibit_fleet", "Can set and lift a maintenance inhibit"),
                    ("switch_runtime", "Can switch the runtime of an agent"),
                    ("configure_agent", "Can change the settings of an agent"),
                    ("configure_intake", "Can add and change job types and sources"),
                    ("approve_cell", "Can approve a cell of an agent"),
                    ("manage_credentials", "Can create, rotate and revoke credentials"),
                    ("rotate_epoch", "Can rotate the dispatcher epoch"),
                    ("adjust_budget", "Can change budgets, model routes and prices"),
                    ("authorize_live", "Can authorize live execution"),
                    ("release_facts", "Can release a held stream of facts"),
                ),
                "verbose_name_plural": "fleet",
                "constraints": [
                    models.CheckConstraint(condition=Q(id=1), name="fleet_is_one_row"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Agent",
            fields=[
                ID,
                *CHAIN_HEAD,
                ("name", models.SlugField(max_length=60, unique=True)),
                (
                    "max_risk_tier",
                    models.CharField(
                        choices=[("low", "Low"), ("medium", "Medium"), ("high", "High")],
                        default="medium",
                        max_length=6,
                    ),
                ),
                ("runtime", models.CharField(default="command", max_length=40)),
                ("enabled", models.BooleanField(default=True)),
                ("expected", models.BooleanField(default=True)),
                ("approve_cells", models.BooleanField(default=False)),
                ("fresh_seconds", models.PositiveIntegerField(default=60)),
                ("stale_seconds", models.PositiveIntegerField(default=180)),
                (
                    "admission",
                    models.CharField(
                        choices=[("open", "Open"), ("draining", "Draining"), ("closed", "Closed")],
                        default="open",
                        max_length=8,
                    ),
                ),
                ("admission_generation", models.PositiveBigIntegerField(default=1)),
                ("barrier_id", models.CharField(blank=True, max_length=120)),
                ("created_at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=Q(admission__in=["open", "draining", "closed"]),
                        name="agent_admission_is_known",
                    ),
                    models.CheckConstraint(
                        condition=Q(max_risk_tier__in=("low", "medium", "high")),
                        name="agent_risk_tier_is_known",
                    ),
                    models.CheckConstraint(
                        condition=Q(stale_seconds__gte=F("fresh_seconds")),
                        name="agent_stale_after_fresh",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Submitter",
            fields=[
                ID,
                *CHAIN_HEAD,
                ("name", models.SlugField(max_length=60, unique=True)),
                ("created_at", models.DateTimeField()),
                (
                    "owner",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=models.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Credential",
            fields=[
                ID,
                ("prefix", models.CharField(max_length=16, unique=True)),
                ("hashed_key", models.CharField(max_length=160)),
                (
                    "scopes",
                    ArrayField(
                        base_field=models.CharField(
                            choices=[
                                ("work", "Work"),
                                ("submit", "Submit"),
                                ("control", "Control"),
                                ("admit", "Admit"),
                                ("read", "Read"),
                            ],
                            max_length=10,
                        ),
                        size=None,
                    ),
                ),
                ("created_at", models.DateTimeField()),
                ("created_by", models.CharField(max_length=160)),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
                ("revoked_by", models.CharField(blank=True, max_length=160)),
                ("last_used_at", models.DateTimeField(blank=True, null=True)),
                ("certificate_sha256", models.CharField(blank=True, max_length=64)),
                ("note", models.CharField(blank=True, max_length=200)),
                (
                    "agent",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=models.PROTECT,
                        related_name="credentials",
                        to="agents.agent",
                    ),
                ),
                (
                    "submitter",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=models.PROTECT,
                        related_name="credentials",
                        to="agents.submitter",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=Q(agent__isnull=False, submitter=None)
                        | Q(agent=None, submitter__isnull=False),
                        name="credential_of_one_principal",
                    ),
                    models.CheckConstraint(
                        condition=Q(
                            scopes__contained_by=["work", "submit", "control", "admit", "read"]
                        ),
                        name="credential_scopes_are_known",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Session",
            fields=[
                ID,
                ("session_id", models.UUIDField(unique=True)),
                (
                    "kind",
                    models.CharField(
                        choices=[("implicit", "Implicit"), ("activated", "Activated")],
                        max_length=10,
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("pending", "Pending"),
                            ("current", "Current"),
                            ("superseded", "Superseded"),
                        ],
                        default="current",
                        max_length=10,
                    ),
                ),
                ("worker_id", models.CharField(blank=True, max_length=120)),
                ("cell_id", models.CharField(blank=True, max_length=120)),
                ("boot_id", models.CharField(blank=True, max_length=120)),
                ("generation", models.PositiveBigIntegerField(default=1)),
                ("dispatcher_epoch", models.UUIDField()),
                ("activation_operation_id", models.CharField(blank=True, max_length=120)),
                ("protocol_version", models.CharField(blank=True, max_length=20)),
                ("runtime", models.CharField(blank=True, max_length=40)),
                ("capabilities", models.JSONField(default=dict)),
                ("created_at", models.DateTimeField()),
                ("superseded_at", models.DateTimeField(blank=True, null=True)),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=models.PROTECT, related_name="sessions", to="agents.agent"
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=Q(state="pending"),
                        fields=["created_at"],
                        name="session_pending_idx",
                    ),
                    models.Index(
                        condition=Q(kind="implicit"),
                        fields=["agent", "created_at"],
                        name="session_implicit_made_idx",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=Q(kind="implicit"),
                        fields=("agent", "worker_id"),
                        name="session_one_implicit_per_worker",
                    ),
                    models.UniqueConstraint(
                        condition=Q(kind="activated", state="current"),
                        fields=("agent", "cell_id"),
                        name="session_one_current_per_cell",
                    ),
                    models.UniqueConstraint(
                        condition=Q(kind="activated"),
                        fields=("agent", "cell_id", "generation"),
                        name="session_generation_once",
                    ),
                    models.CheckConstraint(
                        condition=Q(state="superseded", superseded_at__isnull=False)
                        | Q(state__in=["current", "pending"], superseded_at=None),
                        name="session_superseded_iff_dated",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Presence",
            fields=[
                (
                    "session",
                    models.OneToOneField(
                        on_delete=models.PROTECT,
                        primary_key=True,
                        related_name="presence",
                        serialize=False,
                        to="agents.session",
                    ),
                ),
                ("last_heartbeat_at", models.DateTimeField()),
                ("last_claim_at", models.DateTimeField(null=True)),
                ("runtime", models.CharField(blank=True, max_length=40)),
            ],
        ),
        migrations.CreateModel(
            name="Activation",
            fields=[
                ID,
                ("operation_id", models.CharField(max_length=120)),
                ("request_sha256", models.CharField(max_length=64)),
                ("answer", models.JSONField()),
                ("created_at", models.DateTimeField()),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=models.PROTECT, related_name="activations", to="agents.agent"
                    ),
                ),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=models.PROTECT, related_name="activations", to="agents.session"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("agent", "operation_id"), name="activation_operation_once"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="CellApproval",
            fields=[
                ID,
                ("cell_id", models.CharField(max_length=120)),
                ("approved_by", models.CharField(max_length=160)),
                ("approved_at", models.DateTimeField()),
                ("reason", models.TextField()),
                ("withdrawn_at", models.DateTimeField(blank=True, null=True)),
                ("withdrawn_by", models.CharField(blank=True, max_length=160)),
                ("withdraw_reason", models.TextField(blank=True)),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=models.PROTECT, related_name="cell_approvals", to="agents.agent"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=Q(withdrawn_at=None),
                        fields=("agent", "cell_id"),
                        name="cell_approval_one_in_force",
                    ),
                    models.CheckConstraint(
                        condition=~Q(reason=""), name="cell_approval_has_reason"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="AdmissionChange",
            fields=[
                ID,
                ("barrier_id", models.CharField(max_length=120)),
                ("expected_generation", models.PositiveBigIntegerField()),
                (
                    "state",
                    models.CharField(
                        choices=[("open", "Open"), ("draining", "Draining"), ("closed", "Closed")],
                        max_length=8,
                    ),
                ),
                ("generation", models.PositiveBigIntegerField()),
                ("actor", models.CharField(max_length=160)),
                ("reason", models.TextField()),
                ("at", models.DateTimeField()),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=models.PROTECT,
                        related_name="admission_changes",
                        to="agents.agent",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("agent", "barrier_id"), name="admission_barrier_once"
                    ),
                    models.UniqueConstraint(
                        fields=("agent", "generation"), name="admission_generation_once"
                    ),
                    models.CheckConstraint(
                        condition=Q(generation=F("expected_generation") + 1),
                        name="admission_generation_follows",
                    ),
                    models.CheckConstraint(condition=~Q(reason=""), name="admission_has_reason"),
                ],
            },
        ),
        migrations.CreateModel(
            name="MaintenanceInhibit",
            fields=[
                ID,
                ("owner", models.CharField(max_length=160)),
                ("reason", models.TextField()),
                ("starts_at", models.DateTimeField()),
                ("ends_at", models.DateTimeField(blank=True, null=True)),
                ("lifted_at", models.DateTimeField(blank=True, null=True)),
                ("lifted_by", models.CharField(blank=True, max_length=160)),
                ("lift_reason", models.TextField(blank=True)),
                (
                    "agent",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=models.PROTECT,
                        related_name="inhibits",
                        to="agents.agent",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=Q(lifted_at=None), fields=["agent"], name="inhibit_open_idx"
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=Q(ends_at=None) | Q(ends_at__gt=F("starts_at")),
                        name="inhibit_ends_after_start",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="RuntimeSwitch",
            fields=[
                ID,
                ("from_runtime", models.CharField(max_length=40)),
                ("to_runtime", models.CharField(max_length=40)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("running", "Running"),
                            ("verified", "Verified"),
                            ("failed", "Failed"),
                        ],
                        default="running",
                        max_length=8,
                    ),
                ),
                (
                    "step",
                    models.CharField(
                        choices=[
                            ("drain", "Drain"),
                            ("switch", "Switch"),
                            ("fresh", "Fresh"),
                            ("guard", "Guard"),
                        ],
                        default="drain",
                        max_length=8,
                    ),
                ),
                ("reopen", models.BooleanField()),
                ("started_by", models.CharField(max_length=160)),
                ("reason", models.TextField()),
                ("started_at", models.DateTimeField()),
                ("switched_at", models.DateTimeField(blank=True, null=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                ("error", models.TextField(blank=True)),
                ("steps", models.JSONField(default=list)),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=models.PROTECT, related_name="runtime_switches", to="agents.agent"
                    ),
                ),
                (
                    "inhibit",
                    models.ForeignKey(
                        on_delete=models.PROTECT, related_name="+", to="agents.maintenanceinhibit"
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "runtime switches",
                "constraints": [
                    models.UniqueConstraint(
                        condition=Q(state="running"),
                        fields=("agent",),
                        name="runtime_switch_one_at_a_time",
                    ),
                    models.CheckConstraint(
                        condition=Q(finished_at=None, state="running")
                        | Q(finished_at__isnull=False, state__in=["verified", "failed"]),
                        name="runtime_switch_finished_iff_dated",
                    ),
                ],
            },
        ),
        migrations.RunSQL(STORAGE, reverse_sql=USUAL_STORAGE),
    ]
