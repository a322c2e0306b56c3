"""Attempts, which are history, and leases, which live as long as a job is active."""

from __future__ import annotations

from datetime import datetime

from django.db import models
from django.db.models import Q

from agents.models import Session
from jobs.models.jobs import Job


class Attempt(models.Model):
    """One official try of a job. Every claim makes one, and none is ever taken back.

    `outcome_sha256` is the digest of the request that ended it: a repeated request has the same.
    """

    class Outcome(models.TextChoices):
        COMPLETED = "completed"
        FAILED = "failed"
        ESCALATED = "escalated"
        DEFERRED = "deferred"
        LEASE_EXPIRED = "lease_expired"
        SUPERSEDED = "superseded"
        TIMED_OUT = "timed_out"
        DEADLINE_EXCEEDED = "deadline_exceeded"
        STOPPED = "stopped"

    job = models.ForeignKey(Job, models.PROTECT, related_name="attempts", db_index=False)
    number = models.PositiveIntegerField()
    fencing_token = models.PositiveBigIntegerField()
    session = models.ForeignKey(Session, models.PROTECT, db_constraint=False, db_index=False)
    worker_id = models.CharField(max_length=120)
    runtime = models.CharField(max_length=40)
    lease_seconds = models.PositiveIntegerField()
    claimed_at = models.DateTimeField()
    deadline_at = models.DateTimeField(null=True, blank=True)
    claim_key = models.UUIDField(null=True, blank=True)
    claim_answers = models.PositiveIntegerField(default=1)
    #: Whether routes were decided or permits issued: their authority must end with the attempt.
    governed = models.BooleanField(default=False)
    ended_at = models.DateTimeField(null=True, blank=True)
    outcome = models.CharField(max_length=20, choices=Outcome, null=True, blank=True)
    outcome_sha256 = models.CharField(max_length=64, blank=True)
    needs_review = models.BooleanField(default=False)
    retryable = models.BooleanField(null=True, blank=True)
    error_code = models.CharField(max_length=80, blank=True)
    error_message = models.TextField(blank=True)
    result = models.JSONField(null=True, blank=True)
    result_pointer = models.CharField(max_length=1000, blank=True)
    progress = models.JSONField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "number"], name="attempt_number_once"),
            models.UniqueConstraint(fields=["job", "fencing_token"], name="attempt_token_once"),
            models.UniqueConstraint(
                fields=["job"],
                condition=Q(ended_at=None),
                name="attempt_one_open_per_job",
            ),
            models.CheckConstraint(
                condition=Q(ended_at=None, outcome=None)
                | Q(ended_at__isnull=False, outcome__isnull=False),
                name="attempt_outcome_iff_ended",
            ),
            models.CheckConstraint(condition=Q(number__gte=1), name="attempt_counts_from_1"),
        ]
        indexes = [
            # Attempt deadlines of the few that run.
            models.Index(
                fields=["deadline_at"],
                name="attempt_deadline_idx",
                condition=Q(ended_at=None, deadline_at__isnull=False),
            ),
            # The jobs of a worker, in the order of lists.
            models.Index(fields=["worker_id", "-job"], name="attempt_by_worker_idx"),
        ]

    def __str__(self) -> str:
        return f"attempt {self.number} of job {self.job_id}"

    def close(self, outcome: str, *, at: datetime) -> None:
        """End the attempt with `outcome` at the instant `at`.

        :raises ValueError: it has ended already.
        """
        if self.ended_at is not None:
            raise ValueError(f"{self} has ended")
        self.outcome = outcome
        self.ended_at = at


class Lease(models.Model):
    """The time-bounded right to work on the running attempt of a job.

    The row exists while the job is active and no longer, so there is one lease per job at most.
    No index covers `expires_at`: heartbeats stay HOT updates, and the sweep scans live rows only.
    """

    job = models.OneToOneField(Job, models.PROTECT, primary_key=True, related_name="lease")
    attempt = models.PositiveIntegerField()
    fencing_token = models.PositiveBigIntegerField()
    session = models.ForeignKey(Session, models.PROTECT, db_constraint=False, db_index=False)
    worker_id = models.CharField(max_length=120)
    lease_seconds = models.PositiveIntegerField()
    granted_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    heartbeat_at = models.DateTimeField()
    progress = models.JSONField(null=True, blank=True)

    def __str__(self) -> str:
        return f"lease of job {self.job_id}"
