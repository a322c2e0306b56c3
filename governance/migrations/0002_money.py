"""The tables of money as the first release had them: prices, routes, reservations, budgets."""

from decimal import Decimal

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

# Room for the counters to be updated in place.
STORAGE = "ALTER TABLE governance_budgetwindow SET (fillfactor = 50)"
USUAL_STORAGE = "ALTER TABLE governance_budgetwindow RESET (fillfactor)"


class Migration(migrations.Migration):
    replaces = [
        ("governance", "0005_money"),
    ]

    dependencies = [("governance", "0001_ground")]

    operations = [
        migrations.CreateModel(
            name="LanguageModel",
            fields=[
                ID,
                *CHAIN_HEAD,
                ("provider", models.CharField(max_length=60)),
                ("name", models.CharField(max_length=120)),
                ("enabled", models.BooleanField(default=True)),
                ("capabilities", models.JSONField(blank=True, default=list)),
                ("context_tokens_max", models.PositiveIntegerField(blank=True, null=True)),
                ("output_tokens_max", models.PositiveIntegerField(blank=True, null=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("provider", "name"), name="language_model_once"
                    ),
                    models.CheckConstraint(
                        condition=~Q(provider="") & ~Q(name=""), name="language_model_is_named"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Price",
            fields=[
                ID,
                ("input_rate", models.DecimalField(decimal_places=12, max_digits=24)),
                (
                    "cached_input_rate",
                    models.DecimalField(blank=True, decimal_places=12, max_digits=24, null=True),
                ),
                ("output_rate", models.DecimalField(decimal_places=12, max_digits=24)),
                (
                    "reasoning_rate",
                    models.DecimalField(blank=True, decimal_places=12, max_digits=24, null=True),
                ),
                (
                    "source",
                    models.CharField(
                        choices=[("genai-prices", "Genai Prices"), ("override", "Override")],
                        max_length=20,
                    ),
                ),
                ("version", models.CharField(max_length=80)),
                ("starts_at", models.DateTimeField()),
                ("ends_at", models.DateTimeField(blank=True, null=True)),
                (
                    "call_rate",
                    models.DecimalField(
                        decimal_places=12,
                        default=Decimal("0"),
                        help_text="Per call.",
                        max_digits=24,
                    ),
                ),
                ("currency", models.CharField(default="USD", max_length=3)),
                (
                    "model",
                    models.ForeignKey(
                        on_delete=models.PROTECT,
                        related_name="prices",
                        to="governance.languagemodel",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("model", "source", "starts_at"), name="price_start_once"
                    ),
                    models.CheckConstraint(
                        condition=Q(ends_at=None) | Q(ends_at__gte=F("starts_at")),
                        name="price_ends_after_start",
                    ),
                    models.CheckConstraint(
                        condition=Q(call_rate__gte=0)
                        & Q(input_rate__gte=0)
                        & Q(output_rate__gte=0)
                        & (Q(cached_input_rate=None) | Q(cached_input_rate__gte=0))
                        & (Q(reasoning_rate=None) | Q(reasoning_rate__gte=0)),
                        name="price_is_not_negative",
                    ),
                    models.CheckConstraint(
                        condition=Q(currency="USD"), name="price_in_one_currency"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="PriceTier",
            fields=[
                ID,
                ("input_rate", models.DecimalField(decimal_places=12, max_digits=24)),
                (
                    "cached_input_rate",
                    models.DecimalField(blank=True, decimal_places=12, max_digits=24, null=True),
                ),
                ("output_rate", models.DecimalField(decimal_places=12, max_digits=24)),
                (
                    "reasoning_rate",
                    models.DecimalField(blank=True, decimal_places=12, max_digits=24, null=True),
                ),
                ("above_input_tokens", models.PositiveIntegerField()),
                (
                    "price",
                    models.ForeignKey(
                        on_delete=models.PROTECT, related_name="tiers", to="governance.price"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("price", "above_input_tokens"), name="price_tier_threshold_once"
                    ),
                    models.CheckConstraint(
                        condition=Q(input_rate__gte=0)
                        & Q(output_rate__gte=0)
                        & (Q(cached_input_rate=None) | Q(cached_input_rate__gte=0))
                        & (Q(reasoning_rate=None) | Q(reasoning_rate__gte=0)),
                        name="price_tier_is_not_negative",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="RoutePolicy",
            fields=[
                ID,
                *CHAIN_HEAD,
                ("agent", models.CharField(blank=True, max_length=60)),
                ("job_type", models.CharField(blank=True, max_length=60)),
                ("risk_tier", models.CharField(blank=True, max_length=6)),
                ("created_at", models.DateTimeField()),
                ("retired_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "verbose_name_plural": "route policies",
                "constraints": [
                    models.UniqueConstraint(
                        condition=Q(retired_at=None),
                        fields=("agent", "job_type", "risk_tier"),
                        name="route_policy_one_in_force",
                    ),
                    models.CheckConstraint(
                        condition=Q(risk_tier__in=["", "low", "medium", "high"]),
                        name="route_policy_risk_tier_is_known",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="RoutePolicyModel",
            fields=[
                ID,
                ("position", models.PositiveSmallIntegerField()),
                (
                    "model",
                    models.ForeignKey(
                        on_delete=models.PROTECT, related_name="+", to="governance.languagemodel"
                    ),
                ),
                (
                    "policy",
                    models.ForeignKey(
                        on_delete=models.PROTECT, related_name="lines", to="governance.routepolicy"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("policy", "position"), name="route_policy_position_once"
                    ),
                    models.UniqueConstraint(
                        fields=("policy", "model"), name="route_policy_model_once"
                    ),
                    models.CheckConstraint(
                        condition=Q(position__gte=1), name="route_policy_position_from_1"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="RouteDecision",
            fields=[
                ("decision_id", models.UUIDField(primary_key=True, serialize=False)),
                ("route_request_id", models.CharField(max_length=90, unique=True)),
                ("external_request_id", models.CharField(max_length=70)),
                ("call", models.PositiveIntegerField()),
                ("task_id", models.CharField(max_length=100)),
                ("job_id", models.UUIDField()),
                ("attempt", models.PositiveIntegerField()),
                ("fencing_token", models.PositiveBigIntegerField()),
                ("agent", models.CharField(max_length=60)),
                ("job_type", models.CharField(max_length=60)),
                ("risk_tier", models.CharField(max_length=6)),
                ("runtime", models.CharField(max_length=40)),
                ("estimated_input_tokens", models.PositiveBigIntegerField()),
                ("max_output_tokens", models.PositiveBigIntegerField()),
                ("requirements", models.JSONField(default=list)),
                ("content_sha256", models.CharField(max_length=64)),
                (
                    "decision",
                    models.CharField(
                        choices=[("issued", "Issued"), ("refused", "Refused")], max_length=8
                    ),
                ),
                ("reason", models.CharField(blank=True, max_length=60)),
                ("position", models.PositiveSmallIntegerField(null=True)),
                ("price_version", models.CharField(blank=True, max_length=80)),
                ("considered", models.JSONField(default=list)),
                ("decided_at", models.DateTimeField()),
                (
                    "model",
                    models.ForeignKey(
                        null=True,
                        on_delete=models.PROTECT,
                        related_name="decisions",
                        to="governance.languagemodel",
                    ),
                ),
                (
                    "price",
                    models.ForeignKey(
                        null=True,
                        on_delete=models.PROTECT,
                        related_name="decisions",
                        to="governance.price",
                    ),
                ),
                (
                    "policy",
                    models.ForeignKey(
                        null=True,
                        on_delete=models.PROTECT,
                        related_name="decisions",
                        to="governance.routepolicy",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["job_id", "attempt"], name="route_decision_job_idx"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=Q(
                            decision="issued",
                            model__isnull=False,
                            policy__isnull=False,
                            position__gte=1,
                            price__isnull=False,
                            reason="",
                        )
                        | Q(decision="refused")
                        & Q(model=None)
                        & Q(position=None)
                        & Q(price=None)
                        & ~Q(reason=""),
                        name="route_decision_model_iff_issued",
                    ),
                    models.CheckConstraint(
                        condition=Q(attempt__gte=1, call__gte=1),
                        name="route_decision_counts_from_1",
                    ),
                    models.UniqueConstraint(
                        fields=("external_request_id", "call"), name="route_decision_call_once"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Reservation",
            fields=[
                ("reservation_id", models.UUIDField(primary_key=True, serialize=False)),
                ("route_request_id", models.CharField(max_length=90, unique=True)),
                ("external_request_id", models.CharField(max_length=70)),
                ("task_id", models.CharField(max_length=100)),
                ("job_id", models.UUIDField()),
                ("attempt", models.PositiveIntegerField()),
                ("fencing_token", models.PositiveBigIntegerField()),
                ("agent", models.CharField(max_length=60)),
                ("amount", models.DecimalField(decimal_places=12, max_digits=24)),
                ("currency", models.CharField(default="USD", max_length=3)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("held", "Held"),
                            ("in_doubt", "In Doubt"),
                            ("settled", "Settled"),
                            ("released", "Released"),
                            ("failed", "Failed"),
                        ],
                        max_length=8,
                    ),
                ),
                ("reserved_at", models.DateTimeField()),
                (
                    "decision",
                    models.OneToOneField(
                        on_delete=models.PROTECT,
                        related_name="reservation",
                        to="governance.routedecision",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["job_id", "attempt"], name="reservation_job_idx"),
                    models.Index(fields=["external_request_id"], name="reservation_execution_idx"),
                    models.Index(
                        condition=Q(state__in=["held", "in_doubt"]),
                        fields=["job_id"],
                        name="reservation_open_idx",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=Q(amount__gte=0), name="reservation_not_negative"
                    ),
                    models.CheckConstraint(
                        condition=Q(
                            state__in=["held", "in_doubt", "settled", "released", "failed"]
                        ),
                        name="reservation_state_is_known",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Resolution",
            fields=[
                (
                    "reservation",
                    models.OneToOneField(
                        on_delete=models.PROTECT,
                        primary_key=True,
                        related_name="resolution",
                        serialize=False,
                        to="governance.reservation",
                    ),
                ),
                (
                    "ended_as",
                    models.CharField(
                        choices=[
                            ("held", "Held"),
                            ("in_doubt", "In Doubt"),
                            ("settled", "Settled"),
                            ("released", "Released"),
                            ("failed", "Failed"),
                        ],
                        max_length=8,
                    ),
                ),
                ("cost", models.DecimalField(decimal_places=12, max_digits=24)),
                (
                    "cost_basis",
                    models.CharField(
                        choices=[("usage", "Usage"), ("estimate", "Estimate"), ("none", "None")],
                        max_length=8,
                    ),
                ),
                ("input_tokens", models.PositiveBigIntegerField(null=True)),
                ("cached_input_tokens", models.PositiveBigIntegerField(null=True)),
                ("output_tokens", models.PositiveBigIntegerField(null=True)),
                ("reasoning_tokens", models.PositiveBigIntegerField(null=True)),
                ("overrun", models.BooleanField()),
                ("usage_missing", models.BooleanField()),
                ("provider_response_id", models.CharField(blank=True, max_length=200)),
                ("error_code", models.CharField(blank=True, max_length=100)),
                ("content_sha256", models.CharField(max_length=64)),
                ("resolved_by", models.CharField(max_length=160)),
                ("reason", models.TextField(blank=True)),
                ("resolved_at", models.DateTimeField()),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=Q(overrun=True) | Q(usage_missing=True),
                        fields=["resolved_at"],
                        name="resolution_flagged_idx",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=Q(ended_as__in=["settled", "released", "failed"]),
                        name="resolution_end_is_known",
                    ),
                    models.CheckConstraint(
                        condition=Q(cost__gte=0), name="resolution_not_negative"
                    ),
                    models.CheckConstraint(
                        condition=~Q(cost_basis="none") | Q(cost=0),
                        name="resolution_nothing_costs_nothing",
                    ),
                    models.CheckConstraint(
                        condition=~Q(ended_as="released") | Q(cost_basis="none"),
                        name="resolution_released_costs_nothing",
                    ),
                    models.CheckConstraint(
                        condition=Q(input_tokens=None, output_tokens=None)
                        | Q(input_tokens__isnull=False, output_tokens__isnull=False),
                        name="resolution_usage_is_whole",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Budget",
            fields=[
                ID,
                *CHAIN_HEAD,
                (
                    "scope",
                    models.CharField(
                        choices=[
                            ("global", "Global"),
                            ("agent", "Agent"),
                            ("job_type", "Job Type"),
                            ("job", "Job"),
                        ],
                        max_length=8,
                    ),
                ),
                ("key", models.CharField(blank=True, max_length=100)),
                (
                    "window",
                    models.CharField(
                        choices=[("day", "Day"), ("month", "Month"), ("none", "None")], max_length=5
                    ),
                ),
                (
                    "cap",
                    models.DecimalField(blank=True, decimal_places=12, max_digits=24, null=True),
                ),
                (
                    "soft_cap",
                    models.DecimalField(
                        blank=True,
                        decimal_places=12,
                        help_text="A warning, never a refusal.",
                        max_digits=24,
                        null=True,
                    ),
                ),
                ("enabled", models.BooleanField(default=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("scope", "key", "window"), name="budget_once"),
                    models.CheckConstraint(
                        condition=Q(key="", scope="global")
                        | Q(scope__in=["agent", "job_type", "job"]) & ~Q(key=""),
                        name="budget_key_iff_scoped",
                    ),
                    models.CheckConstraint(
                        condition=Q(window__in=["day", "month", "none"]),
                        name="budget_window_is_known",
                    ),
                    models.CheckConstraint(
                        condition=(Q(cap=None) | Q(cap__gte=0))
                        & (Q(soft_cap=None) | Q(soft_cap__gte=0)),
                        name="budget_cap_is_not_negative",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="BudgetWindow",
            fields=[
                ID,
                ("counted_for", models.CharField(blank=True, max_length=100)),
                (
                    "kind",
                    models.CharField(
                        choices=[("day", "Day"), ("month", "Month"), ("none", "None")], max_length=5
                    ),
                ),
                ("starts_at", models.DateTimeField()),
                ("ends_at", models.DateTimeField(null=True)),
                (
                    "held",
                    models.DecimalField(decimal_places=12, default=Decimal("0"), max_digits=24),
                ),
                (
                    "spent",
                    models.DecimalField(decimal_places=12, default=Decimal("0"), max_digits=24),
                ),
                ("warned_at", models.DateTimeField(null=True)),
                (
                    "budget",
                    models.ForeignKey(
                        on_delete=models.PROTECT, related_name="windows", to="governance.budget"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("budget", "counted_for", "kind", "starts_at"),
                        name="budget_window_once",
                    ),
                    models.CheckConstraint(
                        condition=Q(held__gte=0, spent__gte=0), name="budget_window_is_not_negative"
                    ),
                    models.CheckConstraint(
                        condition=Q(ends_at=None, kind="none")
                        | Q(ends_at__gt=F("starts_at"), kind__in=["day", "month"]),
                        name="budget_window_ends",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ReservationHold",
            fields=[
                ID,
                (
                    "reservation",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.PROTECT,
                        related_name="holds",
                        to="governance.reservation",
                    ),
                ),
                (
                    "window",
                    models.ForeignKey(
                        on_delete=models.PROTECT, related_name="holds", to="governance.budgetwindow"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("reservation", "window"), name="reservation_hold_once"
                    ),
                ],
            },
        ),
        migrations.RunSQL(STORAGE, reverse_sql=USUAL_STORAGE),
    ]
