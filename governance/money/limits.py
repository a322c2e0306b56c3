"""Limits of calls: so many requests and tokens a minute, so many calls open at a time.

A limit and its meters say what is let through now; what was spent is told by budgets and rows of
the ledger.  A meter is one row per limit and key: the theoretical arrival times of the generic cell
rate algorithm.  What is open is rows that are there while a call is.
"""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from governance.core.models import ChainHead
from governance.money.models import Budget, Reservation
from governance.money.scopes import KEY_CHARS_MAX, KEYED_SCOPES, SCOPE_CHARS


class Limit(ChainHead):
    """How much may be asked of models at a time, over a scope. Scope and key are as of a budget."""

    #: What it may bound, in the order in which it is judged.
    BOUNDS = ("requests_per_minute", "tokens_per_minute", "open_calls")

    scope = models.CharField(max_length=SCOPE_CHARS, choices=Budget.Scope)
    key = models.CharField(max_length=KEY_CHARS_MAX, blank=True)
    requests_per_minute = models.PositiveIntegerField(null=True, blank=True)
    tokens_per_minute = models.PositiveBigIntegerField(null=True, blank=True)
    open_calls = models.PositiveIntegerField(null=True, blank=True)
    enabled = models.BooleanField(default=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["scope", "key"], name="limit_once"),
            models.CheckConstraint(
                condition=Q(scope="global", key="") | (Q(scope__in=KEYED_SCOPES) & ~Q(key="")),
                name="limit_key_iff_scoped",
            ),
            models.CheckConstraint(
                condition=~Q(scope="label") | Q(key__regex="^[^=]+=."),
                name="limit_label_has_a_value",
            ),
            models.CheckConstraint(
                condition=(Q(requests_per_minute=None) | Q(requests_per_minute__gte=1))
                & (Q(tokens_per_minute=None) | Q(tokens_per_minute__gte=1))
                & (Q(open_calls=None) | Q(open_calls__gte=1))
                & ~Q(requests_per_minute=None, tokens_per_minute=None, open_calls=None),
                name="limit_bounds_something",
            ),
        ]

    def __str__(self) -> str:
        return f"limit of {self.scope} {self.key}".rstrip()

    @property
    def audit_subject(self) -> str:
        return f"limit:{self.pk}"


class LimitMeter(models.Model):
    """What a limit has let through: until when its requests and tokens would be spread evenly."""

    limit = models.ForeignKey(Limit, models.PROTECT, related_name="meters", db_index=False)
    counted_for = models.CharField(max_length=KEY_CHARS_MAX, blank=True)
    requests_until = models.DateTimeField()
    tokens_until = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["limit", "counted_for"], name="limit_meter_once")
        ]

    def __str__(self) -> str:
        return f"limit {self.limit_id} {self.counted_for}".rstrip()


class LimitHold(models.Model):
    """A call that is open under a limit. Gone once it ends.

    `tokens` were metered for it, and are corrected at its end; 0: none were.
    """

    reservation = models.ForeignKey(
        Reservation, models.PROTECT, related_name="limit_holds", db_index=False
    )
    meter = models.ForeignKey(LimitMeter, models.PROTECT, related_name="open")
    tokens = models.PositiveBigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["reservation", "meter"], name="limit_hold_once")
        ]

    def __str__(self) -> str:
        return f"{self.reservation_id} under meter {self.meter_id}"
