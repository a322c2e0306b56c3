"""The outbox: what the outside world is to be told."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from governance.models.audit import ChainHead


class Fact(models.Model):
    """One CloudEvent, written in the transaction of what it tells, relayed later.

    `stream` is the ordering key (`job:<uuid>`); `sequence` counts within it, without gaps.
    `relayed` is false for evidence that is kept and never sent (a fact under a stale token).
    `delivered_to` names the sinks that have confirmed it; once every configured sink has, it is
    published.
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
    delivered_to = models.JSONField(default=list)

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


class PrunedFact(models.Model):
    """The receipt of an agent's fact whose content is no longer kept.

    Its id stays taken: restated, it is told apart from other content and gets the same receipt.
    """

    fact_id = models.CharField(max_length=120)
    principal = models.CharField(max_length=160)
    content_sha256 = models.CharField(max_length=64)
    receipt_id = models.UUIDField()
    sequence = models.PositiveBigIntegerField()
    recorded_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["principal", "fact_id"], name="pruned_fact_once")
        ]

    def __str__(self) -> str:
        return f"{self.fact_id} of {self.principal}"


class FactStream(models.Model):
    """The counter of a stream that is not a job's: the facts that a principal states of itself.

    A job's counter stands on the job, whose row is locked anyway.
    """

    name = models.CharField(max_length=160, unique=True)
    sequence = models.PositiveBigIntegerField(default=0)

    def __str__(self) -> str:
        return self.name


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
