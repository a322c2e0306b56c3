"""The answers that are given again when a request is repeated."""

from __future__ import annotations

from django.db import models


class IdempotencyRecord(models.Model):
    """What a keyed request was answered with, kept in the transaction of its effect.

    `body` is dropped after the retention of full answers (a tombstone stays), so that a late
    repetition is still refused and never executed again.
    """

    principal = models.CharField(max_length=160)
    operation = models.CharField(max_length=80)
    key = models.UUIDField()
    digest = models.BinaryField()
    status = models.PositiveSmallIntegerField()
    headers = models.JSONField(default=dict)
    body = models.BinaryField(null=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["principal", "operation", "key"], name="idempotency_key_once"
            ),
            models.CheckConstraint(
                condition=models.Q(status__gte=200, status__lt=500),
                name="idempotency_final_answers_only",
            ),
        ]
        indexes = [
            models.Index(fields=["created_at"], name="idempotency_age_idx"),
            # Retention drops the bodies first: only those that still have one.
            models.Index(
                fields=["created_at"],
                name="idempotency_body_age_idx",
                condition=models.Q(body__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.operation} {self.key}"
