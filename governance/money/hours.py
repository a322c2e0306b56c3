"""Rows of what was spent by hour: sums over the ledger, from which the console's page is drawn."""

from __future__ import annotations

from decimal import Decimal

from django.db import models
from django.db.models import Q

from governance.money.models import money


class SpendHour(models.Model):
    """What an agent's work of a type spent on a model in an hour, in UTC.

    `cost` is of calls that ended, `unreserved` of what was used and not reserved, `corrected` of
    corrections that came to count.  `model` is `provider/name`, "" where nobody knows it.
    """

    hour = models.DateTimeField()
    agent = models.CharField(max_length=60)
    job_type = models.CharField(max_length=60)
    model = models.CharField(max_length=181, blank=True)
    cost = money(default=Decimal(0))
    unreserved = money(default=Decimal(0))
    corrected = money(default=Decimal(0))
    calls = models.BigIntegerField()
    uses = models.BigIntegerField()
    corrections = models.BigIntegerField()
    flagged = models.BigIntegerField()
    unpriced = models.BigIntegerField()
    input_tokens = models.DecimalField(max_digits=38, decimal_places=0)
    output_tokens = models.DecimalField(max_digits=38, decimal_places=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["hour", "agent", "job_type", "model"], name="spend_hour_once"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H:00Z} {self.agent} {self.job_type} {self.model}".rstrip()


class SpendHourCursor(models.Model):
    """Up to which hour the sums are final: one row.

    `barrier`: a transaction that began when all hours before `barrier_until` were over for long;
    once all before it have ended, so have those that wrote into these hours.
    """

    settled_until = models.DateTimeField(null=True)
    barrier = models.BigIntegerField(null=True)
    barrier_until = models.DateTimeField(null=True)
    counted_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(id=1), name="spend_hour_cursor_is_one_row"),
            models.CheckConstraint(
                condition=Q(barrier=None, barrier_until=None)
                | Q(barrier__isnull=False, barrier_until__isnull=False),
                name="spend_hour_cursor_barrier_is_whole",
            ),
        ]

    def __str__(self) -> str:
        return f"final until {self.settled_until}"
