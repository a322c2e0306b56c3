"""The rows of the relay: sinks, the streams that they hold, and the pulse of its processes."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from governance.core.models import ChainHead, Fact


class FactSink(ChainHead):
    """A place that facts are relayed to: the audit subject of what is parked and released there."""

    name = models.CharField(max_length=40, unique=True)

    def __str__(self) -> str:
        return self.name

    @property
    def audit_subject(self) -> str:
        return f"sink:{self.name}"


class StreamHold(models.Model):
    """A stream that a sink did not take: it is tried again later, or parked after bounded tries.

    `fact` is the one that was refused, to which `tries` and `last_error` belong.  While the row is
    there no later fact of the stream overtakes it, and other streams go on.
    """

    sink = models.CharField(max_length=40)
    stream = models.CharField(max_length=160)
    fact = models.ForeignKey(Fact, models.CASCADE, related_name="+")
    tries = models.PositiveIntegerField(default=0)
    last_error = models.TextField()
    failed_at = models.DateTimeField()
    next_try_at = models.DateTimeField()
    parked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["sink", "stream"], name="stream_hold_once_per_sink")
        ]
        indexes = [
            # What waits for a person, oldest first, without what is only tried again.
            models.Index(
                fields=["parked_at", "stream"],
                name="stream_hold_parked_idx",
                condition=Q(parked_at__isnull=False),
            )
        ]
        verbose_name = "held fact stream"

    def __str__(self) -> str:
        return f"{self.stream} at {self.sink}"


class Pulse(models.Model):
    """When a background process last finished a round; its age says whether one is alive."""

    name = models.CharField(max_length=40, unique=True)
    at = models.DateTimeField()
    details = models.JSONField(default=dict)

    def __str__(self) -> str:
        return self.name
