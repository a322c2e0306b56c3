"""Decisions of people about jobs: rows that are written once."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q

from jobs.models.jobs import Job


class Approval(models.Model):
    """A decision on a job's execution, for one execution digest and until a time.

    `expired` closes an approval whose `valid_until` has passed; a claim or the sweeper writes it.
    """

    class Decision(models.TextChoices):
        APPROVED = "approved"
        REJECTED = "rejected"
        WITHDRAWN = "withdrawn"
        EXPIRED = "expired"

    job = models.ForeignKey(Job, models.PROTECT, related_name="approvals")
    execution_digest = models.CharField(max_length=64)
    decision = models.CharField(max_length=10, choices=Decision)
    decided_by = models.CharField(max_length=160)
    decided_at = models.DateTimeField()
    reason = models.TextField()
    valid_until = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=~Q(reason=""), name="approval_has_reason"),
            models.CheckConstraint(
                condition=~Q(decision="approved") | Q(valid_until__gt=F("decided_at")),
                name="approval_is_valid_until",
            ),
            models.CheckConstraint(
                condition=~Q(decision="expired") | Q(valid_until__lte=F("decided_at")),
                name="approval_expires_after_its_end",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.decision} by {self.decided_by}"


class Review(models.Model):
    """A person's verdict on what an attempt delivered."""

    class Verdict(models.TextChoices):
        ACCEPTED = "accepted"
        NEEDS_REWORK = "needs_rework"
        REJECTED = "rejected"

    job = models.ForeignKey(Job, models.PROTECT, related_name="reviews")
    attempt = models.PositiveIntegerField()
    verdict = models.CharField(max_length=12, choices=Verdict)
    decided_by = models.CharField(max_length=160)
    decided_at = models.DateTimeField()
    reason = models.TextField()

    class Meta:
        constraints = [models.CheckConstraint(condition=~Q(reason=""), name="review_has_reason")]

    def __str__(self) -> str:
        return f"{self.verdict} by {self.decided_by}"


class Escalation(models.Model):
    """A call for a human, by a worker or the system; open until somebody resolves it."""

    class Resolution(models.TextChoices):
        REQUEUE = "requeue"
        COMPLETE = "complete"
        FAIL = "fail"
        STOP = "stop"
        ENDED = "ended"

    job = models.ForeignKey(Job, models.PROTECT, related_name="escalations")
    attempt = models.PositiveIntegerField()
    raised_by = models.CharField(max_length=160)
    raised_at = models.DateTimeField()
    reason = models.TextField()
    notify_to = models.CharField(max_length=200, blank=True)
    resolution = models.CharField(max_length=10, choices=Resolution, null=True, blank=True)
    resolved_by = models.CharField(max_length=160, blank=True)
    resolved_at = models.DateTimeField(null=True, blank=True)
    resolve_reason = models.TextField(blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["job"],
                condition=Q(resolved_at=None),
                name="escalation_one_open_per_job",
            ),
            models.CheckConstraint(
                condition=Q(resolved_at=None, resolution=None)
                | Q(resolved_at__isnull=False, resolution__isnull=False),
                name="escalation_resolution_iff_dated",
            ),
        ]

    def __str__(self) -> str:
        return f"escalation of job {self.job_id}"


class RetryExtension(models.Model):
    """An operator's grant that raises a job's `max_attempts`: by whom, why, from what to what."""

    job = models.ForeignKey(Job, models.PROTECT, related_name="extensions")
    from_max = models.PositiveIntegerField()
    to_max = models.PositiveIntegerField()
    ceiling = models.PositiveIntegerField()
    granted_by = models.CharField(max_length=160)
    granted_at = models.DateTimeField()
    reason = models.TextField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "to_max"], name="extension_step_once"),
            models.CheckConstraint(
                condition=Q(to_max__gt=F("from_max"), to_max__lte=F("ceiling")),
                name="extension_raises_within_ceiling",
            ),
            models.CheckConstraint(condition=~Q(reason=""), name="extension_has_reason"),
        ]

    def __str__(self) -> str:
        return f"{self.from_max} -> {self.to_max} by {self.granted_by}"
