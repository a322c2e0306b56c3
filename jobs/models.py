"""What is to be done: job types, jobs and their attempts, and every human decision on them.

The hot rows are narrow and apart: `Job` (state) beside `Task` (payload, never changed), `Lease`
(written at every heartbeat, exists only while a job is active) beside `Attempt` (history).
"""

from __future__ import annotations

from datetime import datetime

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Greatest

from agents.models import RISK_TIERS, Agent, RiskTier, Session
from governance.core.characters import UNSEEN
from governance.core.fields import INSTANT_MAX, INSTANT_MIN
from governance.core.models import ChainHead


class JobType(ChainHead):
    """A kind of task: who does it, what its inputs look like, how often and how long it may try.

    Never deleted; a type that is no longer wanted is disabled.
    """

    name = models.SlugField(max_length=60, unique=True)
    agent = models.ForeignKey(Agent, models.PROTECT, related_name="job_types")
    runtime = models.CharField(max_length=40, default="command")
    uses_model = models.BooleanField(default=False)
    inputs_schema = models.JSONField(default=dict, blank=True)
    max_attempts = models.PositiveIntegerField(default=3)
    max_attempts_ceiling = models.PositiveIntegerField(default=10)
    lease_seconds = models.PositiveIntegerField(default=900)
    attempt_timeout_seconds = models.PositiveIntegerField(null=True, blank=True)
    backoff_base_seconds = models.PositiveIntegerField(default=10)
    backoff_cap_seconds = models.PositiveIntegerField(default=3600)
    approval_valid_seconds = models.PositiveIntegerField(default=24 * 3600)
    enabled = models.BooleanField(default=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(max_attempts__gte=1, max_attempts_ceiling__gte=F("max_attempts")),
                name="job_type_ceiling_above_default",
            ),
            models.CheckConstraint(
                condition=Q(lease_seconds__gte=60, lease_seconds__lte=3600),
                name="job_type_lease_in_range",
            ),
            models.CheckConstraint(
                condition=Q(backoff_cap_seconds__gte=F("backoff_base_seconds")),
                name="job_type_backoff_below_cap",
            ),
            models.CheckConstraint(
                condition=Q(approval_valid_seconds__gte=1)
                & (Q(attempt_timeout_seconds=None) | Q(attempt_timeout_seconds__gte=1)),
                name="job_type_times_are_positive",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def audit_subject(self) -> str:
        return f"job_type:{self.name}"


class Source(ChainHead):
    """Where tasks come from; a submitter names one at intake. Never deleted, but disabled."""

    name = models.SlugField(max_length=60, unique=True)
    enabled = models.BooleanField(default=True)

    def __str__(self) -> str:
        return self.name

    @property
    def audit_subject(self) -> str:
        return f"source:{self.name}"


class Priority(models.IntegerChoices):
    LOW = 0, "low"
    NORMAL = 1, "normal"
    HIGH = 2, "high"
    URGENT = 3, "urgent"


class Job(ChainHead):
    """The durable record that carries a task through its life; contract section 1.

    `agent` and `job_type` carry no database constraint: their rows are never deleted (a trigger
    refuses it), and a constraint would lock one shared row in every intake.
    """

    class State(models.TextChoices):
        HELD = "held"
        QUEUED = "queued"
        ACTIVE = "active"
        REVIEW_REQUIRED = "review_required"
        NEEDS_REWORK = "needs_rework"
        IN_DOUBT = "in_doubt"
        ESCALATED = "escalated"
        COMPLETED = "completed"
        STOPPED = "stopped"
        FAILED = "failed"

    #: Every move that exists. The trigger `jobs_job_guard` holds the same table; a test compares.
    MOVES: dict[str, frozenset[str]] = {
        "held": frozenset({"queued", "stopped", "failed"}),
        "queued": frozenset({"active", "held", "stopped", "failed"}),
        "active": frozenset(
            {
                "completed",
                "review_required",
                "queued",
                "failed",
                "escalated",
                "in_doubt",
                "stopped",
            }
        ),
        "review_required": frozenset({"completed", "needs_rework", "failed", "stopped"}),
        "needs_rework": frozenset({"queued", "held", "stopped", "failed"}),
        "in_doubt": frozenset({"completed", "review_required", "queued", "failed", "stopped"}),
        "escalated": frozenset(
            {"queued", "held", "needs_rework", "completed", "failed", "stopped"}
        ),
        "failed": frozenset({"needs_rework"}),
        "completed": frozenset(),
        "stopped": frozenset(),
    }
    FINISHED = frozenset({State.COMPLETED, State.STOPPED, State.FAILED})
    #: States in which a job has yet to be claimed; a hold ends with them.
    UNCLAIMED = frozenset({State.HELD, State.QUEUED})
    #: `claimable_at` in SQL, of the table in the braces; job_claim_idx is in this order.
    CLAIMABLE_AT = "GREATEST({0}.available_at, {0}.hold_until)"

    job_id = models.UUIDField(unique=True)
    task_id = models.CharField(max_length=100, unique=True)
    agent = models.ForeignKey(Agent, models.PROTECT, db_constraint=False, db_index=False)
    job_type = models.ForeignKey(JobType, models.PROTECT, db_constraint=False, db_index=False)
    risk_tier = models.CharField(max_length=6, choices=RiskTier)
    priority = models.SmallIntegerField(choices=Priority, default=Priority.NORMAL)
    state = models.CharField(max_length=16, choices=State)
    paused = models.BooleanField(default=False)
    available_at = models.DateTimeField()
    #: Somebody holds the job back until then; a hold that is past is in force no more.
    hold_until = models.DateTimeField(null=True, blank=True)
    attempt = models.PositiveIntegerField(default=0)
    max_attempts = models.PositiveIntegerField()
    fencing_token = models.PositiveBigIntegerField(default=0)
    revision = models.PositiveBigIntegerField(default=1)
    fact_sequence = models.PositiveBigIntegerField(default=0)
    reflection_count = models.PositiveIntegerField(default=0)
    #: Executions that were started and whose outcome is neither reported nor reconciled.
    unresolved_executions = models.PositiveIntegerField(default=0)
    review_required = models.BooleanField(default=False)
    execution_approval_required = models.BooleanField(default=False)
    approval_valid_until = models.DateTimeField(null=True, blank=True)
    submitted_by = models.CharField(max_length=160)
    #: The person who answers for the submitter, as `user:NAME`; empty where nobody is named.
    requested_by = models.CharField(max_length=160, blank=True)
    #: The person who last asked for the work to be tried again.
    asked_again_by = models.CharField(max_length=160, blank=True)
    deadline_at = models.DateTimeField(null=True, blank=True)
    expires_if_not_started_at = models.DateTimeField(null=True, blank=True)
    attempt_timeout_seconds = models.PositiveIntegerField(null=True, blank=True)
    created_at = models.DateTimeField()
    state_since = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(
                    state__in=[
                        "held",
                        "queued",
                        "active",
                        "review_required",
                        "needs_rework",
                        "in_doubt",
                        "escalated",
                        "completed",
                        "stopped",
                        "failed",
                    ]
                ),
                name="job_state_is_known",
            ),
            # No path addresses a slash, and nobody reads what is not seen.
            models.CheckConstraint(
                condition=~Q(task_id__regex=f"[/{UNSEEN}]"), name="job_task_id_is_plain"
            ),
            models.CheckConstraint(
                condition=Q(risk_tier__in=RISK_TIERS), name="job_risk_tier_is_known"
            ),
            models.CheckConstraint(
                condition=Q(priority__gte=0, priority__lte=3),
                name="job_priority_is_known",
            ),
            models.CheckConstraint(
                condition=Q(
                    state__in=["completed", "stopped", "failed"],
                    finished_at__isnull=False,
                )
                | (~Q(state__in=["completed", "stopped", "failed"]) & Q(finished_at=None)),
                name="job_finished_iff_dated",
            ),
            models.CheckConstraint(
                condition=Q(attempt__lte=F("max_attempts")),
                name="job_attempts_are_bounded",
            ),
            models.CheckConstraint(
                condition=Q(fencing_token__gte=F("attempt")),
                name="job_token_at_least_attempt",
            ),
            models.CheckConstraint(
                condition=~Q(state="active") | Q(attempt__gte=1),
                name="job_active_has_attempt",
            ),
            models.CheckConstraint(
                condition=~Q(risk_tier="high")
                | Q(review_required=True, execution_approval_required=True),
                name="job_high_risk_is_reviewed_and_approved",
            ),
            models.CheckConstraint(
                condition=~Q(state__in=["queued", "active"])
                | Q(execution_approval_required=False)
                | Q(approval_valid_until__isnull=False),
                name="job_approved_before_queued",
            ),
            models.CheckConstraint(
                condition=~Q(state__in=["held", "queued", "needs_rework"])
                | Q(unresolved_executions=0),
                name="job_unresolved_is_not_claimable",
            ),
            models.CheckConstraint(
                condition=Q(hold_until=None)
                | Q(
                    state__in=["held", "queued"],
                    hold_until__gte=INSTANT_MIN,
                    hold_until__lt=INSTANT_MAX,
                ),
                name="job_hold_ends_while_unclaimed",
            ),
        ]
        indexes = [
            # Claim order, per agent. Claims walk it from its start and need no sort.
            models.Index(
                F("agent"),
                F("priority").desc(),
                Greatest("available_at", "hold_until"),
                F("id"),
                name="job_claim_idx",
                condition=Q(state="queued", paused=False),
            ),
            # What waits for a person, oldest first.
            models.Index(
                fields=["state", "state_since"],
                name="job_inbox_idx",
                condition=Q(
                    state__in=[
                        "held",
                        "review_required",
                        "needs_rework",
                        "in_doubt",
                        "escalated",
                    ]
                ),
            ),
            models.Index(
                fields=["deadline_at"],
                name="job_deadline_idx",
                condition=Q(deadline_at__isnull=False, finished_at=None),
            ),
            models.Index(
                fields=["expires_if_not_started_at"],
                name="job_queue_wait_idx",
                condition=Q(expires_if_not_started_at__isnull=False, state="queued", attempt=0),
            ),
            # Approvals that run out while their job waits in the queue.
            models.Index(
                fields=["approval_valid_until"],
                name="job_approval_idx",
                condition=Q(approval_valid_until__isnull=False, state="queued"),
            ),
            models.Index(fields=["state", "-id"], name="job_by_state_idx"),
            # The few that are paused, for the console's list.
            models.Index(fields=["-id"], name="job_paused_idx", condition=Q(paused=True)),
            # The few that were put on hold, for the console's list and the API's.
            models.Index(
                fields=["-id"], name="job_hold_idx", condition=Q(hold_until__isnull=False)
            ),
            # Few jobs are of high risk; among many others their list must not look for them.
            models.Index(fields=["-id"], name="job_high_risk_idx", condition=Q(risk_tier="high")),
            models.Index(fields=["agent", "-id"], name="job_by_agent_idx"),
            models.Index(fields=["submitted_by", "-id"], name="job_by_submitter_idx"),
            models.Index(
                fields=["finished_at"],
                name="job_finished_idx",
                condition=Q(finished_at__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return self.task_id

    @property
    def audit_subject(self) -> str:
        return f"job:{self.job_id}"

    @property
    def attempts_left(self) -> int:
        return self.max_attempts - self.attempt

    @property
    def claimable_at(self) -> datetime:
        """Return from when on the job may be claimed, as far as time goes."""
        return max(self.available_at, self.hold_until or self.available_at)

    def on_hold(self, *, at: datetime) -> bool:
        """Return whether somebody holds the job back at that instant."""
        return self.hold_until is not None and self.hold_until > at

    def move_to(self, state: str, *, at: datetime) -> None:
        """Put the job into `state` at the instant `at`: the only place that assigns a state.

        :raises ValueError: the move is not in `MOVES`; guards refuse it politely before.
        """
        if state not in self.MOVES[self.state]:
            raise ValueError(f"{self.state} -> {state} is not a move")
        self.state = state
        self.state_since = at
        self.finished_at = at if state in self.FINISHED else None
        if state not in self.UNCLAIMED:
            self.hold_until = None
        self.revision += 1


class Task(models.Model):
    """What the submitter asked for: the payload of a job, never changed."""

    job = models.OneToOneField(Job, models.PROTECT, primary_key=True, related_name="task")
    source = models.CharField(max_length=60)
    title = models.CharField(max_length=200)
    goal = models.TextField()
    inputs = models.JSONField(default=dict)
    output_required = models.BooleanField(default=False)
    rollback_required = models.BooleanField(default=False)
    labels = models.JSONField(default=dict)
    submitted_at = models.DateTimeField(null=True, blank=True)
    content_sha256 = models.CharField(max_length=64)
    envelope = models.JSONField()
    execution_digest = models.CharField(max_length=64)

    def __str__(self) -> str:
        return self.title


class Attempt(models.Model):
    """One official try of a job. Every claim makes one, and none is ever taken back.

    `outcome_sha256` is the digest of the request that ended it, by which a repeated request is
    told from another one.
    """

    class Outcome(models.TextChoices):
        COMPLETED = "completed"
        FAILED = "failed"
        ESCALATED = "escalated"
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
            )
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


class Reflection(models.Model):
    """A worker's note on a job: numbered per job, append-only."""

    job = models.ForeignKey(Job, models.PROTECT, related_name="reflections", db_index=False)
    number = models.PositiveIntegerField()
    attempt = models.PositiveIntegerField()
    agent = models.ForeignKey(Agent, models.PROTECT, related_name="reflections")
    what_worked = models.TextField(blank=True)
    what_failed = models.TextField(blank=True)
    pattern_observed = models.TextField(blank=True)
    context_type = models.CharField(max_length=100, blank=True)
    tool_sequence = models.JSONField(default=list)
    success_signal = models.TextField(blank=True)
    failure_signal = models.TextField(blank=True)
    sensitivity_level = models.CharField(max_length=20, default="internal")
    content_sha256 = models.CharField(max_length=64)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "number"], name="reflection_number_once"),
            models.CheckConstraint(condition=Q(number__gte=1), name="reflection_counts_from_1"),
        ]

    def __str__(self) -> str:
        return f"reflection {self.number} of job {self.job_id}"


class Skill(models.Model):
    """A pattern that recurred in reflections of an agent, with how well it served since.

    `confidence` is in [0, 1].
    """

    agent = models.ForeignKey(Agent, models.PROTECT, related_name="skills")
    task_type = models.CharField(max_length=60)
    context_type = models.CharField(max_length=100, blank=True)
    pattern = models.TextField()
    pattern_sha256 = models.CharField(max_length=64)
    tool_sequence = models.JSONField(default=list)
    occurrences = models.PositiveIntegerField()
    successes = models.PositiveIntegerField(default=0)
    failures = models.PositiveIntegerField(default=0)
    confidence = models.FloatField()
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "task_type", "context_type", "pattern_sha256"],
                name="skill_pattern_once",
            ),
            models.CheckConstraint(
                condition=Q(confidence__gte=0, confidence__lte=1),
                name="skill_confidence_is_share",
            ),
        ]
        indexes = [
            models.Index(
                fields=["task_type", "context_type", "-confidence"],
                name="skill_find_idx",
            )
        ]

    def __str__(self) -> str:
        return self.pattern[:60]


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
    """What somebody said about an execution that was no longer theirs to decide. Append-only."""

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
