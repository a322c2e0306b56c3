"""The audit chain: append-only events, hashed per subject, sealed by signed checkpoints."""

from __future__ import annotations

from django.db import models

HASH_BYTES = 32
GENESIS = bytes(HASH_BYTES)


class ChainHead(models.Model):
    """Abstract: the end of a subject's audit chain, kept on the subject's own row.

    Whoever appends has locked that row anyway, so that the chain needs no lock of its own.
    """

    audit_seq = models.PositiveBigIntegerField(default=0, editable=False)
    audit_head = models.BinaryField(default=GENESIS, editable=False)

    class Meta:
        abstract = True


class AuditEvent(models.Model):
    """One thing that was done, by whom and why. Never updated, deleted or truncated.

    `body` is the canonical JSON that `hash = sha256(prev_hash || body)` covers; the other columns
    repeat parts of it so that it can be listed and searched, and `audit.verify` compares them.
    """

    subject = models.CharField(max_length=160)
    seq = models.PositiveBigIntegerField()
    at = models.DateTimeField()
    action = models.CharField(max_length=60)
    actor = models.CharField(max_length=160)
    reason = models.TextField(blank=True)
    request_id = models.CharField(max_length=64, blank=True)
    body = models.BinaryField()
    prev_hash = models.BinaryField()
    hash = models.BinaryField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["subject", "seq"], name="audit_event_seq_once"),
            models.CheckConstraint(condition=models.Q(seq__gte=1), name="audit_event_seq_from_1"),
        ]

    def __str__(self) -> str:
        return f"{self.subject}#{self.seq} {self.action}"


class AuditCheckpoint(models.Model):
    """A signed statement of where the chains stood.

    Covers the events with `first_event_id <= id <= last_event_id`: one leaf for the newest event
    of each subject that moved, their Merkle `root`, and the hash of the checkpoint before.
    """

    number = models.PositiveBigIntegerField(unique=True)
    at = models.DateTimeField()
    first_event_id = models.PositiveBigIntegerField()
    last_event_id = models.PositiveBigIntegerField()
    leaf_count = models.PositiveIntegerField()
    root = models.BinaryField()
    prev_hash = models.BinaryField()
    hash = models.BinaryField()
    envelope = models.JSONField()

    def __str__(self) -> str:
        return f"checkpoint {self.number}"


class AuditCheckpointLeaf(models.Model):
    """The head of one subject's chain as a checkpoint saw it."""

    checkpoint = models.ForeignKey(AuditCheckpoint, models.PROTECT, related_name="leaves")
    subject = models.CharField(max_length=160)
    seq = models.PositiveBigIntegerField()
    hash = models.BinaryField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["checkpoint", "subject"], name="audit_checkpoint_leaf_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.subject}#{self.seq}"
