"""Rows of what has no room now: hints that keep workers from jobs whose calls would be refused."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q

from governance.money.limits import Limit
from governance.money.models import Budget, BudgetWindow, money
from governance.money.scopes import KEY_CHARS_MAX, SCOPE_CHARS


class NoRoom(models.Model):
    """A scope for whose calls a budget, or a limit, has no room until then; dropped with its cause.

    `key` is as of a budget, but never for each. `amount` is the least that was asked for and
    refused by a budget.
    """

    scope = models.CharField(max_length=SCOPE_CHARS, choices=Budget.Scope)
    key = models.CharField(max_length=KEY_CHARS_MAX, blank=True)
    budget = models.ForeignKey(Budget, models.PROTECT, null=True, related_name="no_room")
    window = models.ForeignKey(BudgetWindow, models.PROTECT, null=True, related_name="no_room")
    limit = models.ForeignKey(Limit, models.PROTECT, null=True, related_name="no_room")
    amount = money()
    reason = models.CharField(max_length=60)
    noted_at = models.DateTimeField()
    until = models.DateTimeField()

    class Meta:
        verbose_name_plural = "no room"
        constraints = [
            models.UniqueConstraint(fields=["scope", "key"], name="no_room_once"),
            models.CheckConstraint(
                condition=Q(scope="global", key="") | (~Q(scope="global") & ~Q(key="")),
                name="no_room_key_iff_scoped",
            ),
            models.CheckConstraint(
                condition=Q(until__gt=F("noted_at"), amount__gte=0), name="no_room_ends"
            ),
            models.CheckConstraint(
                condition=Q(budget__isnull=False, window__isnull=False, limit=None)
                | Q(budget=None, window=None, limit__isnull=False),
                name="no_room_has_one_cause",
            ),
        ]

    def __str__(self) -> str:
        return f"no room: {self.scope} {self.key}".rstrip()

    @property
    def cause(self) -> Budget | Limit:
        """Return the budget, or the limit, that has no room."""
        cause = self.budget or self.limit
        assert cause is not None
        return cause
