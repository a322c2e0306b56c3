"""What model calls may cost and did cost: catalogue, policies, budgets, decisions, reservations.

Amounts are Decimal in `CURRENCY`, rates are per million tokens.  Everything that was decided, held
or spent is a row that never changes; the counters of `BudgetWindow` are sums over those rows,
kept so that a cap can be enforced by one conditional update, and recomputed by `verify_ledger`.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.db import models
from django.db.models import F, Q

from governance.core.models import ChainHead
from governance.money.apis import Api
from governance.money.pricing import OUTPUT_TOKENS_HELD
from governance.money.scopes import KEY_CHARS_MAX, KEYED_SCOPES, SCOPE_CHARS

CURRENCY = "USD"
RISK_TIER_CHARS = 6


def money(**options: Any) -> models.DecimalField[Any, Any]:
    """Return a column for an amount or a rate: a token of the cheapest model costs about 1e-9."""
    return models.DecimalField(max_digits=24, decimal_places=12, **options)


class LanguageModel(ChainHead):
    """A model of the catalogue, named as its provider names it. Disabled, never deleted."""

    provider = models.CharField(max_length=60)
    name = models.CharField(max_length=120)
    enabled = models.BooleanField(default=True)
    api = models.CharField(max_length=9, choices=Api, default=Api.OPENAI, db_default="openai")
    #: What a request may require: `tools`, `vision` ...
    capabilities = models.JSONField(default=list, blank=True)
    context_tokens_max = models.PositiveIntegerField(null=True, blank=True)
    output_tokens_max = models.PositiveIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["provider", "name"], name="language_model_once"),
            models.CheckConstraint(
                condition=~Q(provider="") & ~Q(name=""), name="language_model_is_named"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.provider}/{self.name}"

    @property
    def audit_subject(self) -> str:
        return f"model:{self.provider}/{self.name}"


class Rates(models.Model):
    """Abstract: rates per million tokens. A rate that is null is that of its larger kind.

    Cached tokens are inside the input tokens, reasoning tokens inside the output tokens.  Without
    a rate for output a model has no output.
    """

    input_rate = money()
    cached_input_rate = money(null=True, blank=True)
    output_rate = money(null=True, blank=True)
    reasoning_rate = money(null=True, blank=True)

    class Meta:
        abstract = True


class Price(Rates):
    """What a model costs from an instant on, until a later price of the same source.

    An override wins over a synchronised price. Only `ends_at` is ever set, once.  `document` is
    the whole price (`published.py`); the rates beside it are those that applied when it began, for
    reading.  A price of the first release has no document: it is what its rates and tiers say.
    """

    class Source(models.TextChoices):
        GENAI_PRICES = "genai-prices"
        OVERRIDE = "override"

    model = models.ForeignKey(LanguageModel, models.PROTECT, related_name="prices")
    source = models.CharField(max_length=20, choices=Source)
    version = models.CharField(max_length=80)
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField(null=True, blank=True)
    call_rate = money(default=Decimal(0), help_text="Per call.")
    currency = models.CharField(max_length=3, default=CURRENCY)
    document = models.JSONField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["model", "source", "starts_at"], name="price_start_once"
            ),
            models.CheckConstraint(
                condition=Q(ends_at=None) | Q(ends_at__gte=F("starts_at")),
                name="price_ends_after_start",
            ),
            models.CheckConstraint(
                condition=Q(input_rate__gte=0, output_rate__gte=0, call_rate__gte=0)
                & (Q(cached_input_rate=None) | Q(cached_input_rate__gte=0))
                & (Q(reasoning_rate=None) | Q(reasoning_rate__gte=0)),
                name="price_is_not_negative",
            ),
            models.CheckConstraint(condition=Q(currency=CURRENCY), name="price_in_one_currency"),
        ]

    def __str__(self) -> str:
        return f"{self.version} from {self.starts_at:%Y-%m-%d}"


class PriceTier(Rates):
    """The rates of all tokens of a call whose input is larger than a threshold.

    Of prices of the first release only: since then they stand in the price's document.
    """

    price = models.ForeignKey(Price, models.PROTECT, related_name="tiers")
    above_input_tokens = models.PositiveIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["price", "above_input_tokens"], name="price_tier_threshold_once"
            ),
            models.CheckConstraint(
                condition=Q(input_rate__gte=0, output_rate__gte=0)
                & (Q(cached_input_rate=None) | Q(cached_input_rate__gte=0))
                & (Q(reasoning_rate=None) | Q(reasoning_rate__gte=0)),
                name="price_tier_is_not_negative",
            ),
        ]

    def __str__(self) -> str:
        return f"above {self.above_input_tokens} input tokens"


class RoutePolicy(ChainHead):
    """Which models a kind of work may use, in order. Empty `agent`, `job_type`, `risk_tier`: any.

    The policy that names most applies; of two that name as many, the one that names the agent,
    then the one that names the job type.  A policy never changes: another one takes its place.
    """

    agent = models.CharField(max_length=60, blank=True)
    job_type = models.CharField(max_length=60, blank=True)
    risk_tier = models.CharField(max_length=RISK_TIER_CHARS, blank=True)
    created_at = models.DateTimeField()
    retired_at = models.DateTimeField(null=True, blank=True)
    #: Tokens of output that a call is held at whose request states no limit.
    max_output_tokens = models.PositiveIntegerField(
        default=OUTPUT_TOKENS_HELD, db_default=OUTPUT_TOKENS_HELD
    )

    class Meta:
        verbose_name_plural = "route policies"
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "job_type", "risk_tier"],
                condition=Q(retired_at=None),
                name="route_policy_one_in_force",
            ),
            models.CheckConstraint(
                condition=Q(risk_tier__in=["", "low", "medium", "high"]),
                name="route_policy_risk_tier_is_known",
            ),
        ]

    def __str__(self) -> str:
        named = [part for part in (self.agent, self.job_type, self.risk_tier) if part]
        return " / ".join(named) or "any work"

    @property
    def audit_subject(self) -> str:
        return f"route_policy:{self.pk}"


class RoutePolicyModel(models.Model):
    """One allowed model of a policy, at its position, counted from 1."""

    policy = models.ForeignKey(RoutePolicy, models.PROTECT, related_name="lines")
    position = models.PositiveSmallIntegerField()
    model = models.ForeignKey(LanguageModel, models.PROTECT, related_name="+")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["policy", "position"], name="route_policy_position_once"
            ),
            models.UniqueConstraint(fields=["policy", "model"], name="route_policy_model_once"),
            models.CheckConstraint(
                condition=Q(position__gte=1), name="route_policy_position_from_1"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.position}. {self.model}"


class Budget(ChainHead):
    """A cap over a scope and a window. `cap` null is no cap, 0 is nothing at all.

    `key` is empty for the global scope, else the name of the agent, job type, submitter or
    provider, the `task_id`, a label as `name=value`, or a model as `provider/name`.  `*` counts
    each of them by itself, `name=*` each value of a label.
    """

    class Scope(models.TextChoices):
        GLOBAL = "global"
        AGENT = "agent"
        JOB_TYPE = "job_type"
        JOB = "job"
        SUBMITTER = "submitter"
        LABEL = "label"
        MODEL = "model"
        PROVIDER = "provider"

    class Window(models.TextChoices):
        HOUR = "hour"
        DAY = "day"
        WEEK = "week"
        MONTH = "month"
        NONE = "none"

    scope = models.CharField(max_length=SCOPE_CHARS, choices=Scope)
    key = models.CharField(max_length=KEY_CHARS_MAX, blank=True)
    window = models.CharField(max_length=5, choices=Window)
    cap = money(null=True, blank=True)
    soft_cap = money(null=True, blank=True, help_text="A warning, never a refusal.")
    enabled = models.BooleanField(default=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["scope", "key", "window"], name="budget_once"),
            models.CheckConstraint(
                condition=Q(scope="global", key="") | (Q(scope__in=KEYED_SCOPES) & ~Q(key="")),
                name="budget_key_iff_scoped",
            ),
            models.CheckConstraint(
                condition=~Q(scope="label") | Q(key__regex="^[^=]+=."),
                name="budget_label_has_a_value",
            ),
            models.CheckConstraint(
                condition=Q(window__in=["hour", "day", "week", "month", "none"]),
                name="budget_window_is_known",
            ),
            models.CheckConstraint(
                condition=(Q(cap=None) | Q(cap__gte=0)) & (Q(soft_cap=None) | Q(soft_cap__gte=0)),
                name="budget_cap_is_not_negative",
            ),
            models.CheckConstraint(
                condition=Q(cap=None) | Q(soft_cap=None) | Q(soft_cap__lte=F("cap")),
                name="budget_warns_before_its_cap",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.scope} {self.key} per {self.window}".replace("  ", " ")

    @property
    def audit_subject(self) -> str:
        return f"budget:{self.pk}"


class BudgetWindow(models.Model):
    """The counters of a budget over `[starts_at, ends_at)`, in UTC. Without window: no end.

    The truth is never refused: an over-run may carry `held + spent` past the cap.
    """

    budget = models.ForeignKey(Budget, models.PROTECT, related_name="windows")
    counted_for = models.CharField(max_length=KEY_CHARS_MAX, blank=True)
    kind = models.CharField(max_length=5, choices=Budget.Window)
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField(null=True)
    held = money(default=Decimal(0))
    spent = money(default=Decimal(0))
    #: When its soft cap was first passed, and when there was first no room; each is told once.
    warned_at = models.DateTimeField(null=True)
    exhausted_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            # A budget for each has a window for each: what is shown looks at the newest only.
            models.Index(
                fields=["budget", "kind", "starts_at", "-id"], name="budget_window_newest_idx"
            ),
            # The few that have come to a bound; those of now are at its end.
            models.Index(
                fields=["ends_at"],
                name="budget_window_told_idx",
                condition=Q(warned_at__isnull=False) | Q(exhausted_at__isnull=False),
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["budget", "counted_for", "kind", "starts_at"], name="budget_window_once"
            ),
            models.CheckConstraint(
                condition=Q(held__gte=0, spent__gte=0), name="budget_window_is_not_negative"
            ),
            models.CheckConstraint(
                condition=Q(ends_at=None, kind="none")
                | (Q(kind__in=["hour", "day", "week", "month"], ends_at__gt=F("starts_at"))),
                name="budget_window_ends",
            ),
        ]

    def __str__(self) -> str:
        return f"budget {self.budget_id} {self.counted_for} from {self.starts_at:%Y-%m-%d}"


class RouteDecision(models.Model):
    """Which model a call may use, or that it may use none, and why. Never changed.

    A request is issued one at most. Refusals use nothing up: asked again it is decided again, and
    each other reason is a row.  `considered` lists every allowed model in order with what became
    of it.
    """

    class Decision(models.TextChoices):
        ISSUED = "issued"
        REFUSED = "refused"

    decision_id = models.UUIDField(primary_key=True)
    route_request_id = models.CharField(max_length=90)
    external_request_id = models.CharField(max_length=70)
    call = models.PositiveIntegerField()
    #: The call of the attempt that failed and that this one is in place of.
    fallback_of = models.PositiveIntegerField(null=True)
    task_id = models.CharField(max_length=100)
    job_id = models.UUIDField()
    attempt = models.PositiveIntegerField()
    fencing_token = models.PositiveBigIntegerField()
    agent = models.CharField(max_length=60)
    job_type = models.CharField(max_length=60)
    risk_tier = models.CharField(max_length=RISK_TIER_CHARS)
    runtime = models.CharField(max_length=40)
    #: Tokens that the call is held at, where it was issued; else those that were stated.
    estimated_input_tokens = models.PositiveBigIntegerField()
    max_output_tokens = models.PositiveBigIntegerField()
    request_bytes = models.BigIntegerField(null=True)
    requirements = models.JSONField(default=list)
    content_sha256 = models.CharField(max_length=64)
    decision = models.CharField(max_length=8, choices=Decision)
    reason = models.CharField(max_length=60, blank=True)
    policy = models.ForeignKey(RoutePolicy, models.PROTECT, null=True, related_name="decisions")
    position = models.PositiveSmallIntegerField(null=True)
    model = models.ForeignKey(LanguageModel, models.PROTECT, null=True, related_name="decisions")
    price = models.ForeignKey(Price, models.PROTECT, null=True, related_name="decisions")
    price_version = models.CharField(max_length=80, blank=True)
    considered = models.JSONField(default=list)
    decided_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(
                    decision="issued",
                    reason="",
                    policy__isnull=False,
                    position__gte=1,
                    model__isnull=False,
                    price__isnull=False,
                )
                | (Q(decision="refused", position=None, model=None, price=None) & ~Q(reason="")),
                name="route_decision_model_iff_issued",
            ),
            models.CheckConstraint(
                condition=Q(call__gte=1, attempt__gte=1), name="route_decision_counts_from_1"
            ),
            models.UniqueConstraint(
                fields=["route_request_id"],
                condition=Q(decision="issued"),
                name="route_decision_issued_once",
            ),
        ]
        indexes = [
            models.Index(fields=["job_id", "attempt"], name="route_decision_job_idx"),
            models.Index(fields=["external_request_id", "call"], name="route_decision_call_idx"),
        ]

    def __str__(self) -> str:
        return f"{self.decision} {self.route_request_id}"


class Reservation(models.Model):
    """Model budget held for one call. Only its state changes, once, from open to ended.

    `in_doubt`: the execution was started and there is no result yet.
    """

    class State(models.TextChoices):
        HELD = "held"
        IN_DOUBT = "in_doubt"
        SETTLED = "settled"
        RELEASED = "released"
        FAILED = "failed"

    OPEN = frozenset({State.HELD, State.IN_DOUBT})

    reservation_id = models.UUIDField(primary_key=True)
    decision = models.OneToOneField(RouteDecision, models.PROTECT, related_name="reservation")
    route_request_id = models.CharField(max_length=90, unique=True)
    external_request_id = models.CharField(max_length=70)
    task_id = models.CharField(max_length=100)
    job_id = models.UUIDField()
    attempt = models.PositiveIntegerField()
    fencing_token = models.PositiveBigIntegerField()
    agent = models.CharField(max_length=60)
    amount = money()
    currency = models.CharField(max_length=3, default=CURRENCY)
    state = models.CharField(max_length=8, choices=State)
    reserved_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(amount__gte=0), name="reservation_not_negative"),
            models.CheckConstraint(
                condition=Q(state__in=["held", "in_doubt", "settled", "released", "failed"]),
                name="reservation_state_is_known",
            ),
        ]
        indexes = [
            models.Index(fields=["job_id", "attempt"], name="reservation_job_idx"),
            models.Index(fields=["external_request_id"], name="reservation_execution_idx"),
            # What an ending attempt has to end, and what an operator has to reconcile.
            models.Index(
                fields=["job_id"],
                name="reservation_open_idx",
                condition=Q(state__in=["held", "in_doubt"]),
            ),
            # What has been in doubt for long.
            models.Index(
                fields=["reserved_at"],
                name="reservation_doubt_idx",
                condition=Q(state="in_doubt"),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.state} {self.amount} {self.currency} for {self.route_request_id}"


class AgedReservation(models.Model):
    """That a reservation has been in doubt for long: told once, and never changed."""

    reservation = models.OneToOneField(
        Reservation, models.PROTECT, primary_key=True, related_name="aged"
    )
    aged_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.reservation_id} in doubt"


class ReservationHold(models.Model):
    """A budget window in which a reservation is held, and to which its end posts."""

    reservation = models.ForeignKey(
        Reservation, models.PROTECT, related_name="holds", db_index=False
    )
    window = models.ForeignKey(BudgetWindow, models.PROTECT, related_name="holds")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["reservation", "window"], name="reservation_hold_once")
        ]

    def __str__(self) -> str:
        return f"{self.reservation_id} in window {self.window_id}"


class Resolution(models.Model):
    """The one end of a reservation. Never changed.

    `cost` is what was posted, whatever the estimate was.  `cost_basis` says where it comes from:
    the usage that was reported, the estimate that was held (never below what was counted), or
    nothing billed.  `cost_split` is the cost by the counter whose rate it is.  `usage_odd`: what
    was reported could not be settled by; `disputed`: it is more than the model can do, which is
    what is counted here; `usage_sent` keeps it as it came.
    """

    #: What a person should look at.
    FLAGS = ("overrun", "usage_missing", "usage_odd", "disputed")

    class Basis(models.TextChoices):
        USAGE = "usage"
        ESTIMATE = "estimate"
        NONE = "none"

    reservation = models.OneToOneField(
        Reservation, models.PROTECT, primary_key=True, related_name="resolution"
    )
    ended_as = models.CharField(max_length=8, choices=Reservation.State)
    cost = money()
    cost_basis = models.CharField(max_length=8, choices=Basis)
    input_tokens = models.PositiveBigIntegerField(null=True)
    cached_input_tokens = models.PositiveBigIntegerField(null=True)
    output_tokens = models.PositiveBigIntegerField(null=True)
    reasoning_tokens = models.PositiveBigIntegerField(null=True)
    cache_write_tokens = models.BigIntegerField(null=True)
    cache_write_1h_tokens = models.BigIntegerField(null=True)
    input_audio_tokens = models.BigIntegerField(null=True)
    cached_audio_tokens = models.BigIntegerField(null=True)
    output_audio_tokens = models.BigIntegerField(null=True)
    searches = models.BigIntegerField(null=True)
    service_tier = models.CharField(max_length=60, blank=True, db_default="", default="")
    processing = models.CharField(max_length=60, blank=True, db_default="", default="")
    speed = models.CharField(max_length=60, blank=True, db_default="", default="")
    cost_split = models.JSONField(null=True)
    overrun = models.BooleanField()
    usage_missing = models.BooleanField()
    usage_odd = models.BooleanField(db_default=False, default=False)
    disputed = models.BooleanField(db_default=False, default=False)
    usage_sent = models.JSONField(null=True)
    provider_response_id = models.CharField(max_length=200, blank=True)
    error_code = models.CharField(max_length=100, blank=True)
    content_sha256 = models.CharField(max_length=64)
    resolved_by = models.CharField(max_length=160)
    reason = models.TextField(blank=True)
    resolved_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(ended_as__in=["settled", "released", "failed"]),
                name="resolution_end_is_known",
            ),
            models.CheckConstraint(condition=Q(cost__gte=0), name="resolution_not_negative"),
            models.CheckConstraint(
                condition=~Q(cost_basis="none") | Q(cost=0), name="resolution_nothing_costs_nothing"
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
            models.CheckConstraint(
                condition=(Q(cache_write_tokens=None) | Q(cache_write_tokens__gte=0))
                & (Q(cache_write_1h_tokens=None) | Q(cache_write_1h_tokens__gte=0))
                & (Q(input_audio_tokens=None) | Q(input_audio_tokens__gte=0))
                & (Q(cached_audio_tokens=None) | Q(cached_audio_tokens__gte=0))
                & (Q(output_audio_tokens=None) | Q(output_audio_tokens__gte=0))
                & (Q(searches=None) | Q(searches__gte=0)),
                name="resolution_counts_are_not_negative",
            ),
            models.CheckConstraint(
                condition=Q(usage_odd=False) | Q(usage_missing=True, cost_basis="estimate"),
                name="resolution_odd_usage_is_estimated",
            ),
        ]
        indexes = [
            models.Index(
                fields=["resolved_at"],
                name="resolution_flagged_idx",
                condition=Q(overrun=True) | Q(usage_missing=True),
            ),
            # What was spent from day to day, and in a day's order.
            models.Index(fields=["resolved_at", "reservation"], name="resolution_time_idx"),
        ]

    def __str__(self) -> str:
        return f"{self.ended_as} at {self.cost} ({self.cost_basis})"

    @property
    def flags(self) -> list[str]:
        """Return which of `FLAGS` it has."""
        return [name for name in self.FLAGS if getattr(self, name)]
