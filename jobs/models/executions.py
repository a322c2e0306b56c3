"""External effects: who may begin one, that it began, and what became of it."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q

from agents.models import Agent, Session
from jobs.models.jobs import Job
from jobs.models.types import Effects


class ExecutionMode(models.TextChoices):
    MOCK = "mock"
    LIVE = "live"


class LiveAuthorization(models.Model):
    """A governor's word that an agent may execute live under a runtime, until a time.

    Without one a live execution is refused; there is no fallback from one mode to the other.
    """

    agent = models.ForeignKey(Agent, models.PROTECT, related_name="live_authorizations")
    runtime = models.CharField(max_length=40)
    granted_by = models.CharField(max_length=160)
    granted_at = models.DateTimeField()
    reason = models.TextField()
    ends_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)
    revoked_by = models.CharField(max_length=160, blank=True)
    revoke_reason = models.TextField(blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(ends_at__gt=F("granted_at")), name="live_authorization_ends"
            ),
            models.CheckConstraint(condition=~Q(reason=""), name="live_authorization_has_reason"),
        ]
        indexes = [
            models.Index(
                fields=["agent", "runtime"],
                name="live_authorization_idx",
                condition=Q(revoked_at=None),
            )
        ]

    def __str__(self) -> str:
        return f"{self.agent} live under {self.runtime} until {self.ends_at}"


class Permit(models.Model):
    """A single-use right to start one execution of one attempt.

    Bound to session, epoch, generation, token and reservation; `deadline_at` is exclusive.
    """

    class State(models.TextChoices):
        ISSUED = "issued"
        SPENT = "spent"
        REVOKED = "revoked"
        EXPIRED = "expired"

    permit_id = models.UUIDField(unique=True)
    job = models.ForeignKey(Job, models.PROTECT, related_name="permits", db_index=False)
    attempt = models.PositiveIntegerField()
    fencing_token = models.PositiveBigIntegerField()
    external_request_id = models.CharField(max_length=80)
    session = models.ForeignKey(Session, models.PROTECT, db_constraint=False, db_index=False)
    session_generation = models.PositiveBigIntegerField()
    dispatcher_epoch = models.UUIDField()
    mode = models.CharField(max_length=4, choices=ExecutionMode)
    reservation_id = models.UUIDField(null=True, blank=True)
    state = models.CharField(max_length=8, choices=State, default=State.ISSUED)
    issued_at = models.DateTimeField()
    deadline_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["job", "attempt"],
                condition=Q(state__in=["issued", "spent"]),
                name="permit_one_open_or_spent_per_attempt",
            ),
            models.CheckConstraint(
                condition=Q(state="issued", ended_at=None)
                | (~Q(state="issued") & Q(ended_at__isnull=False)),
                name="permit_ended_iff_not_issued",
            ),
        ]
        indexes = [models.Index(fields=["job", "attempt"], name="permit_of_attempt_idx")]

    def __str__(self) -> str:
        return f"permit {self.permit_id}"


class Execution(models.Model):
    """One external effect of one attempt. `unknown` from before it may begin until its result.

    A reconciliation is a row beside it and does not change `state`.
    """

    class State(models.TextChoices):
        REFUSED = "refused"
        UNKNOWN = "unknown"
        SUCCEEDED = "succeeded"
        FAILED = "failed"
        NOT_STARTED = "not_started"

    external_request_id = models.CharField(max_length=80, unique=True)
    job = models.ForeignKey(Job, models.PROTECT, related_name="executions", db_index=False)
    attempt = models.PositiveIntegerField()
    fencing_token = models.PositiveBigIntegerField()
    permit = models.OneToOneField(Permit, models.PROTECT, related_name="execution")
    reservation_id = models.UUIDField(null=True, blank=True)
    mode = models.CharField(max_length=4, choices=ExecutionMode)
    #: What it touches, as its job type said when it was started.
    effects = models.CharField(
        max_length=10, choices=Effects, default=Effects.EXTERNAL, db_default="external"
    )
    runtime = models.CharField(max_length=40)
    execution_digest = models.CharField(max_length=64)
    request_sha256 = models.CharField(max_length=64)
    state = models.CharField(max_length=12, choices=State)
    refusal_reason = models.CharField(max_length=60, blank=True)
    decided_at = models.DateTimeField()
    deadline_at = models.DateTimeField()
    resulted_at = models.DateTimeField(null=True, blank=True)
    result_sha256 = models.CharField(max_length=64, blank=True)
    outcome_sha256 = models.CharField(max_length=64, blank=True)
    result = models.JSONField(null=True, blank=True)
    result_pointer = models.CharField(max_length=1000, blank=True)
    usage = models.JSONField(null=True, blank=True)
    error_code = models.CharField(max_length=80, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "attempt"], name="execution_one_per_attempt"),
            models.CheckConstraint(
                condition=Q(state__in=["unknown", "refused"], resulted_at=None)
                | Q(state__in=["succeeded", "failed", "not_started"], resulted_at__isnull=False),
                name="execution_result_iff_dated",
            ),
        ]
        indexes = [
            # What waits to be reported or reconciled.
            models.Index(fields=["id"], name="execution_unknown_idx", condition=Q(state="unknown"))
        ]

    def __str__(self) -> str:
        return self.external_request_id


class ExecutionEvidence(models.Model):
    """A report on an execution that was no longer its writer's to decide. Append-only."""

    execution = models.ForeignKey(Execution, models.PROTECT, related_name="evidence")
    given_by = models.CharField(max_length=160)
    given_at = models.DateTimeField()
    attempt = models.PositiveIntegerField()
    fencing_token = models.PositiveBigIntegerField()
    outcome = models.CharField(max_length=12)
    content_sha256 = models.CharField(max_length=64)
    content = models.JSONField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["execution", "content_sha256"], name="execution_evidence_once"
            )
        ]

    def __str__(self) -> str:
        return f"evidence on {self.execution_id}: {self.outcome}"


class Reconciliation(models.Model):
    """A person's verdict on an execution whose outcome was unknown. Append-only.

    `undetermined` leaves it open; of the other two there is one at most.
    """

    class Verdict(models.TextChoices):
        HAPPENED = "happened"
        NOT_HAPPENED = "not_happened"
        UNDETERMINED = "undetermined"

    execution = models.ForeignKey(Execution, models.PROTECT, related_name="reconciliations")
    verdict = models.CharField(max_length=12, choices=Verdict)
    decided_by = models.CharField(max_length=160)
    decided_at = models.DateTimeField()
    reason = models.TextField()
    evidence = models.JSONField(default=dict)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["execution"],
                condition=~Q(verdict="undetermined"),
                name="reconciliation_final_once",
            ),
            models.CheckConstraint(condition=~Q(reason=""), name="reconciliation_has_reason"),
        ]

    def __str__(self) -> str:
        return f"{self.verdict} by {self.decided_by}"
