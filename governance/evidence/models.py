"""Checkpoints: signed statements of where the audit chains stood."""

from __future__ import annotations

from django.db import models


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
