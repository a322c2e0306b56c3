"""The outbox: what the outside world is to be told."""

from __future__ import annotations

from django.db import models
from django.db.models import Q


class Fact(models.Model):
    """One CloudEvent, written in the transaction of what it tells, relayed later.

    `stream` is the ordering key (`job:<uuid>`); `sequence` counts within it, without gaps.
    `relayed` is false for evidence that is kept and never sent (a fact under a stale token).
    """

    fact_id = models.CharField(max_length=120)
    principal = models.CharField(max_length=160)
    stream = models.CharField(max_length=160)
    sequence = models.PositiveBigIntegerField(null=True)
    type = models.CharField(max_length=120)
    data = models.JSONField()
    content_sha256 = models.CharField(max_length=64)
    receipt_id = models.UUIDField(unique=True)
    recorded_at = models.DateTimeField()
    relayed = models.BooleanField(default=True)
    published_at = models.DateTimeField(null=True, blank=True)
    tries = models.PositiveIntegerField(default=0)
    last_error = models.TextField(blank=True)
    parked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["principal", "fact_id"], name="fact_id_once"),
            models.UniqueConstraint(fields=["stream", "sequence"], name="fact_sequence_once"),
            models.CheckConstraint(
                condition=Q(relayed=True, sequence__isnull=False)
                | Q(relayed=False, sequence=None, published_at=None),
                name="fact_sequence_iff_relayed",
            ),
        ]
        indexes = [
            # The relay reads what waits, in order, and nothing else.
            models.Index(
                fields=["id"],
                name="fact_waiting_idx",
                condition=Q(published_at=None, relayed=True),
            )
        ]

    def __str__(self) -> str:
        return f"{self.type} {self.stream}#{self.sequence}"
