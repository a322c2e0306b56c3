"""What operators leave behind in the console: runs of verbs with their outcomes, saved views."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q


class BulkRun(models.Model):
    """One verb of an operator on a frozen set of rows, whether one row or a thousand.

    `act` is the verb's name. `run_id` is given when the selection is frozen, so that a form that
    is sent twice acts once. It also is the request id of every audit event that the run causes.
    """

    run_id = models.UUIDField(unique=True)
    act = models.CharField(max_length=60)
    model = models.CharField(max_length=100)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    reason = models.TextField()
    fields = models.JSONField(default=dict)
    total = models.PositiveIntegerField()
    created_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)
    stopped_by = models.CharField(max_length=160, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=~Q(reason=""), name="bulk_run_has_reason"),
        ]
        indexes = [
            models.Index(fields=["id"], name="bulk_run_open_idx", condition=Q(finished_at=None)),
        ]

    def __str__(self) -> str:
        return f"{self.act} on {self.total} by {self.user}"

    @property
    def actor(self) -> str:
        return f"user:{self.user.get_username()}"


class BulkItem(models.Model):
    """One row of a run, and what became of it.

    `revision` is the one that the operator saw, for verbs that judge what was seen.
    """

    class Outcome(models.TextChoices):
        PENDING = "pending"
        DONE = "done"
        SKIPPED = "skipped"
        FAILED = "failed"
        NOT_TRIED = "not_tried"

    run = models.ForeignKey(BulkRun, models.PROTECT, related_name="items", db_index=False)
    position = models.PositiveIntegerField()
    key = models.CharField(max_length=200)
    revision = models.BigIntegerField(null=True, blank=True)
    outcome = models.CharField(max_length=10, choices=Outcome, default=Outcome.PENDING)
    detail = models.TextField(blank=True)
    at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "position"], name="bulk_item_position_once"),
            models.UniqueConstraint(fields=["run", "key"], name="bulk_item_key_once"),
        ]

    def __str__(self) -> str:
        return f"{self.key}: {self.outcome}"


class SavedView(models.Model):
    """A list's filters under a name, for one operator or for all."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    model = models.CharField(max_length=100)
    name = models.CharField(max_length=60)
    query = models.CharField(max_length=1000, blank=True)
    shared = models.BooleanField(default=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["owner", "model", "name"], name="saved_view_name_once"),
        ]

    def __str__(self) -> str:
        return self.name


class EventMinute(models.Model):
    """How many audit events of an action fell into a minute: what charts are drawn from."""

    minute = models.DateTimeField()
    action = models.CharField(max_length=60)
    count = models.PositiveIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["minute", "action"], name="event_minute_once"),
        ]

    def __str__(self) -> str:
        return f"{self.minute} {self.action}: {self.count}"


class EventMinuteCursor(models.Model):
    """Up to which audit event the minutes are counted: one row."""

    last_event_id = models.PositiveBigIntegerField(default=0)
    counted_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(id=1), name="event_minute_cursor_is_one_row"),
        ]

    def __str__(self) -> str:
        return f"counted up to {self.last_event_id}"
