"""Rows of what was used and not reserved, and of the windows that it was counted in."""

from __future__ import annotations

from decimal import Decimal

from django.db import models
from django.db.models import Q

from governance.money.models import (
    CURRENCY,
    BudgetWindow,
    LanguageModel,
    Price,
    Reservation,
    Resolution,
    money,
)


class UnreservedUse(models.Model):
    """What a worker reports that was not reserved, or beyond what its calls were booked at.

    Never changed. The counters are the excess alone; `cost` is null where nobody knows a price,
    `cost_split` the cost by counter, where each of them has a rate.
    `reservation`: the ended one that it was reported beside, where it was reported of one call.
    """

    use_id = models.UUIDField(primary_key=True)
    external_request_id = models.CharField(max_length=70)
    task_id = models.CharField(max_length=100)
    job_id = models.UUIDField()
    attempt = models.PositiveIntegerField()
    agent = models.CharField(max_length=60)
    job_type = models.CharField(max_length=60)
    reservation = models.ForeignKey(
        Reservation, models.PROTECT, null=True, related_name="unreserved", db_index=False
    )
    model = models.ForeignKey(LanguageModel, models.PROTECT, null=True, related_name="+")
    price = models.ForeignKey(Price, models.PROTECT, null=True, related_name="+")
    input_tokens = models.BigIntegerField()
    cached_input_tokens = models.BigIntegerField()
    output_tokens = models.BigIntegerField()
    reasoning_tokens = models.BigIntegerField()
    cache_write_tokens = models.BigIntegerField()
    cache_write_1h_tokens = models.BigIntegerField()
    input_audio_tokens = models.BigIntegerField()
    cached_audio_tokens = models.BigIntegerField()
    output_audio_tokens = models.BigIntegerField()
    searches = models.BigIntegerField()
    service_tier = models.CharField(max_length=60, blank=True)
    processing = models.CharField(max_length=60, blank=True)
    speed = models.CharField(max_length=60, blank=True)
    cost = money(null=True)
    cost_basis = models.CharField(max_length=8, choices=Resolution.Basis)
    cost_split = models.JSONField(null=True)
    usage_odd = models.BooleanField()
    #: More was reported than the model can do: the rest is in dispute, and booked nowhere.
    disputed = models.BooleanField(db_default=False, default=False)
    usage_sent = models.JSONField()
    content_sha256 = models.CharField(max_length=64)
    recorded_by = models.CharField(max_length=160)
    recorded_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["external_request_id", "content_sha256"], name="unreserved_use_once"
            ),
            models.CheckConstraint(
                condition=Q(cost=None, price=None)
                | Q(cost__gte=0, price__isnull=False, model__isnull=False),
                name="unreserved_use_is_priced_or_unknown",
            ),
            models.CheckConstraint(
                condition=Q(
                    input_tokens__gte=0,
                    cached_input_tokens__gte=0,
                    output_tokens__gte=0,
                    reasoning_tokens__gte=0,
                    cache_write_tokens__gte=0,
                    cache_write_1h_tokens__gte=0,
                    input_audio_tokens__gte=0,
                    cached_audio_tokens__gte=0,
                    output_audio_tokens__gte=0,
                    searches__gte=0,
                ),
                name="unreserved_use_is_not_negative",
            ),
            models.CheckConstraint(
                condition=Q(cost_basis__in=["usage", "estimate"]),
                name="unreserved_use_is_not_nothing",
            ),
        ]
        indexes = [
            models.Index(fields=["job_id", "attempt"], name="unreserved_use_job_idx"),
            models.Index(fields=["recorded_at"], name="unreserved_use_recorded_idx"),
        ]

    def __str__(self) -> str:
        cost = "an unknown cost" if self.cost is None else f"{self.cost} {CURRENCY}"
        return f"{cost} of {self.external_request_id}"

    @property
    def flags(self) -> list[str]:
        """Return what a person should look at: `unreserved`, `unpriced`, `usage_odd` ..."""
        return self.flags_of(cost=self.cost, odd=self.usage_odd, disputed=self.disputed)

    @staticmethod
    def flags_of(*, cost: Decimal | None, odd: bool, disputed: bool) -> list[str]:
        """Return the flags of a use of that cost, whose usage was odd, or in part disputed."""
        return [
            "unreserved",
            *(["unpriced"] if cost is None else []),
            *(["usage_odd"] if odd else []),
            *(["disputed"] if disputed else []),
        ]


class UnreservedPosting(models.Model):
    """A budget window that an unreserved use was counted in."""

    use = models.ForeignKey(UnreservedUse, models.PROTECT, related_name="postings", db_index=False)
    window = models.ForeignKey(BudgetWindow, models.PROTECT, related_name="unreserved")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["use", "window"], name="unreserved_posting_once")
        ]

    def __str__(self) -> str:
        return f"{self.use_id} in window {self.window_id}"
