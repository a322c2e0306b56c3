"""What a model cannot have used: rows of what was reported beyond it, and of what people say."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import models
from django.db.models import Q

from governance.money.models import CURRENCY, LanguageModel, Price, Resolution, money
from governance.money.pricing import text_of
from governance.money.published import COUNTERS
from governance.money.uses import UnreservedUse

#: What the event of a dispute says of it as it stands in the row, beside what is disputed.
STATED = ("task_id", "attempt", "agent", "job_type", "model_id", "price_id", "use_id")


class DisputedUse(models.Model):
    """What was reported of calls beyond what the model can do; it is booked nowhere. Never changed.

    `resolution` or `use` is where the part was booked that it can. `counts` are the rest, as usage
    is sent; `cost` is what they would cost, null where nobody can tell.
    """

    dispute_id = models.UUIDField(primary_key=True)
    resolution = models.OneToOneField(Resolution, models.PROTECT, null=True, related_name="dispute")
    use = models.OneToOneField(UnreservedUse, models.PROTECT, null=True, related_name="dispute")
    external_request_id = models.CharField(max_length=70)
    task_id = models.CharField(max_length=100)
    job_id = models.UUIDField()
    attempt = models.PositiveIntegerField()
    agent = models.CharField(max_length=60)
    job_type = models.CharField(max_length=60)
    model = models.ForeignKey(LanguageModel, models.PROTECT, related_name="+")
    price = models.ForeignKey(Price, models.PROTECT, related_name="+")
    counts = models.JSONField()
    cost = money(null=True)
    recorded_by = models.CharField(max_length=160)
    recorded_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(resolution=None, use__isnull=False)
                | Q(resolution__isnull=False, use=None),
                name="disputed_use_is_beside_one_row",
            ),
            models.CheckConstraint(
                condition=Q(cost=None) | Q(cost__gte=0), name="disputed_use_is_not_negative"
            ),
        ]
        indexes = [
            models.Index(fields=["external_request_id"], name="disputed_use_execution_idx"),
            models.Index(fields=["recorded_at"], name="disputed_use_recorded_idx"),
        ]

    def __str__(self) -> str:
        cost = "an unknown cost" if self.cost is None else f"{self.cost} {CURRENCY}"
        return f"{cost} of {self.external_request_id}, disputed"

    @property
    def reservation_id(self) -> UUID | None:
        """Return the reservation that it was reported of; None: it is of all calls together."""
        return self.use.reservation_id if self.use is not None else self.resolution_id

    def event(self) -> dict[str, Any]:
        """Return `action` and `after` of the audit event that the caller chains to its job."""
        return {
            "action": "ledger.disputed",
            "after": {
                "dispute_id": str(self.dispute_id),
                "external_request_id": self.external_request_id,
                "reservation_id": self.reservation_id and str(self.reservation_id),
                "cost": None if self.cost is None else text_of(self.cost),
                "counts": {name: self.counts.get(name, 0) for name in COUNTERS},
                "task_id": self.task_id,
                "attempt": self.attempt,
                "agent": self.agent,
                "job_type": self.job_type,
                "model_id": self.model_id,
                "price_id": self.price_id,
                "use_id": self.use_id and str(self.use_id),
                "recorded_at": self.recorded_at.isoformat(timespec="microseconds"),
            },
        }


class DisputeVerdict(models.Model):
    """A governor's word on what a model cannot have used. Never changed.

    `accepted`: it was used all the same, and `use` is where it was booked. `dismissed`: it was not.
    """

    class Verdict(models.TextChoices):
        ACCEPTED = "accepted"
        DISMISSED = "dismissed"

    dispute = models.OneToOneField(
        DisputedUse, models.PROTECT, primary_key=True, related_name="verdict"
    )
    verdict = models.CharField(max_length=9, choices=Verdict)
    use = models.OneToOneField(UnreservedUse, models.PROTECT, null=True, related_name="accepted")
    reason = models.TextField()
    decided_by = models.CharField(max_length=160)
    decided_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(verdict="accepted", use__isnull=False)
                | Q(verdict="dismissed", use=None),
                name="dispute_verdict_books_what_is_accepted",
            ),
            models.CheckConstraint(condition=~Q(reason=""), name="dispute_verdict_has_reason"),
        ]

    def __str__(self) -> str:
        return f"{self.verdict} by {self.decided_by}"
