"""Artifacts."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from jobs.models.jobs import Job


class Upload(models.Model):
    """A grant to put one artifact into the object store, and the artifact once it is there.

    `object_key` holds job and token; size and checksum are what the worker announced and what
    the store confirmed.
    """

    class State(models.TextChoices):
        GRANTED = "granted"
        STORED = "stored"

    upload_id = models.UUIDField(unique=True)
    artifact_id = models.UUIDField(unique=True, null=True, blank=True)
    job = models.ForeignKey(Job, models.PROTECT, related_name="uploads")
    attempt = models.PositiveIntegerField()
    fencing_token = models.PositiveBigIntegerField()
    name = models.CharField(max_length=200)
    media_type = models.CharField(max_length=100)
    size_bytes = models.PositiveBigIntegerField()
    sha256 = models.CharField(max_length=64)
    object_key = models.CharField(max_length=200)
    state = models.CharField(max_length=8, choices=State, default=State.GRANTED)
    granted_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    stored_at = models.DateTimeField(null=True, blank=True)
    fact_id = models.CharField(max_length=120, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(state="granted", artifact_id=None, stored_at=None)
                | Q(state="stored", artifact_id__isnull=False, stored_at__isnull=False),
                name="upload_artifact_iff_stored",
            ),
            models.UniqueConstraint(
                fields=["job", "fencing_token", "name"],
                condition=Q(state="stored"),
                name="upload_name_once_per_attempt",
            ),
        ]

    def __str__(self) -> str:
        return self.name
