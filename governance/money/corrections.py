"""What the books take over and correct: rows beside what was counted, which nothing edits."""

from __future__ import annotations

from uuid import UUID

from django.db import models
from django.db.models import Q

from governance.money.models import CURRENCY, BudgetWindow, Resolution, money
from governance.money.uses import UnreservedUse


class BudgetOpening(models.Model):
    """What a window had seen before its budget counted it. Never changed.

    `spent` is the cost of the calls of that window which ended uncounted; `verify_ledger` adds them
    up again.  Those that were open then are held in it like any other (`ReservationHold`).
    """

    window = models.ForeignKey(BudgetWindow, models.PROTECT, related_name="openings")
    spent = money()
    opened_by = models.CharField(max_length=160)
    opened_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(spent__gte=0), name="budget_opening_not_negative")
        ]

    def __str__(self) -> str:
        return f"{self.spent} seen before in window {self.window_id}"


class Adjustment(models.Model):
    """A correction of what was booked, by a governor, as a row of its own. Never changed.

    It is of a call that has ended (`resolution`), or of a `use` that was not reserved.
    It counts at once, or, where it `needs_confirmation`, when another governor has confirmed it.
    No cost falls below 0 by those that count.
    """

    adjustment_id = models.UUIDField(primary_key=True)
    resolution = models.ForeignKey(
        Resolution, models.PROTECT, null=True, related_name="adjustments"
    )
    use = models.ForeignKey(UnreservedUse, models.PROTECT, null=True, related_name="adjustments")
    amount = money()
    needs_confirmation = models.BooleanField()
    reason = models.TextField()
    made_by = models.CharField(max_length=160)
    made_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=~Q(amount=0), name="adjustment_moves_something"),
            models.CheckConstraint(condition=~Q(reason=""), name="adjustment_has_reason"),
            models.CheckConstraint(
                condition=Q(resolution__isnull=False, use__isnull=True)
                | Q(resolution__isnull=True, use__isnull=False),
                name="adjustment_is_of_one",
            ),
        ]
        indexes = [
            # What may wait for a second governor.
            models.Index(
                fields=["made_at"],
                name="adjustment_confirmed_idx",
                condition=Q(needs_confirmation=True),
            )
        ]

    def __str__(self) -> str:
        return f"{self.amount} {CURRENCY} on {self.subject}"

    @property
    def of(self) -> dict[str, UUID]:
        """Return what it corrects, by the name of its id: `reservation_id`, or `use_id`."""
        if self.resolution_id is not None:
            return {"reservation_id": self.resolution_id}
        assert self.use_id is not None  # one of the two, by a constraint
        return {"use_id": self.use_id}

    @property
    def subject(self) -> str:
        """Return in words what it corrects."""
        kind = "reservation" if self.resolution_id else "unreserved use"
        return f"{kind} {self.resolution_id or self.use_id}"

    @property
    def task_id(self) -> str:
        """Return the task whose money it is."""
        if self.use is not None:
            return self.use.task_id
        assert self.resolution is not None
        return self.resolution.reservation.task_id


#: Which adjustments count.
COUNTS = Q(needs_confirmation=False) | Q(verdict__verdict="confirmed")


class AdjustmentVerdict(models.Model):
    """A second governor's word on an adjustment. Never changed."""

    class Verdict(models.TextChoices):
        CONFIRMED = "confirmed"
        DECLINED = "declined"

    adjustment = models.OneToOneField(
        Adjustment, models.PROTECT, primary_key=True, related_name="verdict"
    )
    verdict = models.CharField(max_length=9, choices=Verdict)
    reason = models.TextField()
    decided_by = models.CharField(max_length=160)
    decided_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(verdict__in=["confirmed", "declined"]),
                name="adjustment_verdict_is_known",
            ),
            models.CheckConstraint(condition=~Q(reason=""), name="adjustment_verdict_has_reason"),
        ]

    def __str__(self) -> str:
        return f"{self.verdict} by {self.decided_by}"


class AdjustmentPosting(models.Model):
    """A budget window to which an adjustment was posted: those that count its call."""

    adjustment = models.ForeignKey(
        Adjustment, models.PROTECT, related_name="postings", db_index=False
    )
    window = models.ForeignKey(BudgetWindow, models.PROTECT, related_name="adjustments")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["adjustment", "window"], name="adjustment_posting_once")
        ]

    def __str__(self) -> str:
        return f"{self.adjustment_id} in window {self.window_id}"
