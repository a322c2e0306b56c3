"""Jobs: the state of each on a hot row, and beside it its payload, which never changes."""

from __future__ import annotations

from datetime import datetime

from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVector
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Coalesce, Greatest

from agents.models import RISK_TIERS, Agent, RiskTier
from governance.core.characters import UNSEEN
from governance.core.fields import INSTANT_MAX, INSTANT_MIN
from governance.core.models import ChainHead
from jobs.models.types import JobType


class JobState(models.TextChoices):
    """The states of a job; contract section 1."""

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


OUTPUT_CHARS_MAX = 4000
LABELS_MAX = 64
#: In these a job waits for a person.
WAITING_STATES = ("held", "review_required", "needs_rework", "in_doubt", "escalated")
#: In these it is over; `failed` for its workers, whom a person may overrule.
FINISHED_STATES = ("completed", "stopped", "failed")


def _bounded(*columns: str) -> Q:
    """Return the condition that the instants of these columns can be read, where there are any."""
    condition = Q()
    for column in columns:
        condition &= Q(**{f"{column}__gte": INSTANT_MIN, f"{column}__lt": INSTANT_MAX})
    return condition


def title_words(title: str) -> SearchVector:
    """Return the words of a title, as they stand: in small letters, in no language.

    :param title: the column; task_title_idx is over this very expression.
    """
    return SearchVector(title, config="simple")


#: `Job.last_changed_at` as the lists ask for it; job_updated_idx is in this order.
LAST_CHANGED_AT = Coalesce("updated_at", "state_since")


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

    State = JobState
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
    FINISHED = frozenset(FINISHED_STATES)
    #: States in which a job has yet to be claimed; a hold ends with them.
    UNCLAIMED = frozenset({State.HELD, State.QUEUED})
    #: `claimable_at` in SQL, of the table in the braces; job_claim_idx is in this order.
    CLAIMABLE_AT = "GREATEST({0}.available_at, {0}.hold_until)"
    #: The same, as job_claim_type_idx has it.
    CLAIMABLE_AT_OF_TYPE = "GREATEST({0}.hold_until, {0}.available_at)"

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
    #: Attempts that do not count against `max_attempts`: nobody's verdict, and at no cost.
    deferrals = models.IntegerField(default=0, db_default=0)
    #: Attempts deferred for a cause that the service does not confirm, since a person last decided.
    unconfirmed_deferrals = models.IntegerField(default=0, db_default=0)
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
    #: When the revision last rose; null where it has not since there is this column. The place
    #: that sets it is `jobs.transitions.work`; see `last_changed_at`.
    updated_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=JobState.values), name="job_state_is_known"
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
                condition=Q(state__in=list(FINISHED_STATES), finished_at__isnull=False)
                | (~Q(state__in=list(FINISHED_STATES)) & Q(finished_at=None)),
                name="job_finished_iff_dated",
            ),
            models.CheckConstraint(
                condition=Q(finished_at=None) | Q(paused=False),
                name="job_finished_is_not_paused",
            ),
            models.CheckConstraint(
                condition=Q(attempt__lte=F("max_attempts") + F("deferrals")),
                name="job_counted_attempts_are_bounded",
            ),
            models.CheckConstraint(
                condition=Q(
                    deferrals__gte=0, deferrals__lte=F("attempt"), unconfirmed_deferrals__gte=0
                ),
                name="job_deferrals_are_attempts",
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
            # One that no reader can hold would spoil every list, claim and sweep that meets it.
            models.CheckConstraint(
                condition=_bounded("available_at", "deadline_at", "expires_if_not_started_at"),
                name="job_instants_are_bounded",
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
            # The same order within a type, for claims while other types have no room. By an
            # expression of its own, so that no plan takes the other for it, whose first million
            # may be of one type.
            models.Index(
                F("agent"),
                F("job_type"),
                F("priority").desc(),
                Greatest("hold_until", "available_at"),
                F("id"),
                name="job_claim_type_idx",
                condition=Q(state="queued", paused=False),
            ),
            # What waits for a person, oldest first.
            models.Index(
                fields=["state", "state_since"],
                name="job_inbox_idx",
                condition=Q(state__in=list(WAITING_STATES)),
            ),
            models.Index(
                fields=["deadline_at"],
                name="job_deadline_idx",
                condition=Q(deadline_at__isnull=False, finished_at=None),
            ),
            models.Index(
                fields=["expires_if_not_started_at"],
                name="job_queue_wait_idx",
                condition=Q(
                    expires_if_not_started_at__isnull=False,
                    state__in=["held", "queued"],
                    attempt=0,
                ),
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
            # What nobody claims once its agent's highest tier is lowered; `low` is always allowed.
            models.Index(
                fields=["agent", "risk_tier", "state_since"],
                name="job_risk_idx",
                condition=Q(state="queued") & ~Q(risk_tier="low"),
            ),
            models.Index(fields=["agent", "-id"], name="job_by_agent_idx"),
            models.Index(fields=["submitted_by", "-id"], name="job_by_submitter_idx"),
            models.Index(
                fields=["finished_at"],
                name="job_finished_idx",
                condition=Q(finished_at__isnull=False),
            ),
            models.Index(LAST_CHANGED_AT, name="job_updated_idx"),
        ]

    def __str__(self) -> str:
        return self.task_id

    @property
    def audit_subject(self) -> str:
        return f"job:{self.job_id}"

    @property
    def counted_attempts(self) -> int:
        """Return how many attempts count against `max_attempts`."""
        return self.attempt - self.deferrals

    @property
    def attempts_left(self) -> int:
        """Return how many more attempts may end with a verdict: the one statement of that rule.

        `job_counted_attempts_are_bounded` says in the database that it is never negative.
        """
        return self.max_attempts - self.counted_attempts

    @property
    def claimable_at(self) -> datetime:
        """Return from when on the job may be claimed, as far as time goes."""
        return max(self.available_at, self.hold_until or self.available_at)

    @property
    def last_changed_at(self) -> datetime:
        """Return when the revision last rose, or the job came into being."""
        return self.updated_at or self.state_since

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
        if state in self.FINISHED:
            self.paused = False
        if state not in self.UNCLAIMED:
            self.hold_until = None
        self.revision += 1


class Task(models.Model):
    """The payload of a job, as its submitter gave it. Never changed."""

    job = models.OneToOneField(Job, models.PROTECT, primary_key=True, related_name="task")
    source = models.CharField(max_length=60)
    title = models.CharField(max_length=200)
    goal = models.TextField()
    inputs = models.JSONField(default=dict)
    #: Whether something is to be delivered.
    output_required = models.BooleanField(default=False)
    #: What is to be delivered, in the submitter's words; null where only yes or no was said.
    output_text = models.CharField(max_length=OUTPUT_CHARS_MAX, null=True, blank=True)
    rollback_required = models.BooleanField(default=False)
    labels = models.JSONField(default=dict)
    submitted_at = models.DateTimeField(null=True, blank=True)
    content_sha256 = models.CharField(max_length=64)
    envelope = models.JSONField()
    execution_digest = models.CharField(max_length=64)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(output_text=None)
                | Q(output_text="", output_required=False)
                | (~Q(output_text="") & Q(output_required=True)),
                name="task_output_text_requires_output",
            ),
            models.CheckConstraint(
                condition=_bounded("submitted_at"), name="task_instant_is_bounded"
            ),
        ]
        indexes = [
            GinIndex(fields=["labels"], opclasses=["jsonb_path_ops"], name="task_labels_idx"),
            GinIndex(title_words("title"), name="task_title_idx"),
            # The few of a source that is rare, in the order of lists.
            models.Index(fields=["source", "job"], name="task_by_source_idx"),
        ]

    def __str__(self) -> str:
        return self.title

    @property
    def output_as_given(self) -> str | bool:
        """Return `output_required` as the submitter gave it, and as the envelope signs it."""
        return self.output_required if self.output_text is None else self.output_text
