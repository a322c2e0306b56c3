"""Job types, and the sources that tasks come from."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q

from agents.models import Agent
from governance.core.models import ChainHead


class ModelUse(models.TextChoices):
    """Whether work of a type may, or must, call models. Source: money, rule 1."""

    NONE = "none"
    ALLOWED = "allowed"
    REQUIRED = "required"


class Effects(models.TextChoices):
    """What an execution of a type touches: nothing but models, or the world outside."""

    MODEL_ONLY = "model_only"
    EXTERNAL = "external"


class JobType(ChainHead):
    """A kind of task: who does it, what its inputs look like, how often and how long it may try.

    Never deleted; a type that is no longer wanted is disabled.
    """

    name = models.SlugField(max_length=60, unique=True)
    agent = models.ForeignKey(Agent, models.PROTECT, related_name="job_types")
    runtime = models.CharField(max_length=40, default="command")
    model_use = models.CharField(
        max_length=8, choices=ModelUse, default=ModelUse.ALLOWED, db_default="allowed"
    )
    effects = models.CharField(
        max_length=10, choices=Effects, default=Effects.EXTERNAL, db_default="external"
    )
    inputs_schema = models.JSONField(default=dict, blank=True)
    max_attempts = models.PositiveIntegerField(default=3)
    max_attempts_ceiling = models.PositiveIntegerField(default=10)
    #: So often may a job be deferred for a cause that the service does not confirm.
    max_deferrals = models.PositiveIntegerField(default=20, db_default=20)
    #: So many model calls of an attempt may be open at a time.
    open_calls_max = models.PositiveIntegerField(default=8, db_default=8)
    lease_seconds = models.PositiveIntegerField(default=900)
    attempt_timeout_seconds = models.PositiveIntegerField(null=True, blank=True)
    backoff_base_seconds = models.PositiveIntegerField(default=10)
    backoff_cap_seconds = models.PositiveIntegerField(default=3600)
    approval_valid_seconds = models.PositiveIntegerField(default=24 * 3600)
    enabled = models.BooleanField(default=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(max_attempts__gte=1, max_attempts_ceiling__gte=F("max_attempts")),
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
            models.CheckConstraint(
                condition=Q(open_calls_max__gte=1), name="job_type_may_call_a_model"
            ),
            models.CheckConstraint(
                condition=Q(model_use__in=ModelUse.values, effects__in=Effects.values),
                name="job_type_model_use_is_known",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def audit_subject(self) -> str:
        return f"job_type:{self.name}"


class Source(ChainHead):
    """An origin of tasks; a submitter names one at intake. Never deleted, but disabled."""

    name = models.SlugField(max_length=60, unique=True)
    enabled = models.BooleanField(default=True)

    def __str__(self) -> str:
        return self.name

    @property
    def audit_subject(self) -> str:
        return f"source:{self.name}"
