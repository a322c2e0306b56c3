"""Who may act: agents, submitters, their credentials and sessions, and what holds them back."""

from __future__ import annotations

import re
import uuid
from datetime import datetime
from typing import NamedTuple

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.functions import RandomUUID
from django.db import models
from django.db.models import F, Q

from governance.core.characters import UNSEEN
from governance.core.models import ChainHead

#: How an operator names a runtime.
RUNTIME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,39}")
RUNTIME_FAULT = "1 to 40 of letters, digits and ._:-"


class RiskTier(models.TextChoices):
    """How much harm a task can do, from the least."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"

    def allows(self, tier: str) -> bool:
        """Return whether an agent whose highest tier is this one may work at `tier`."""
        return RISK_TIERS.index(tier) <= RISK_TIERS.index(self.value)


RISK_TIERS = tuple(RiskTier.values)
#: The place of a risk tier among all, in SQL, of the expression in the braces.
RISK_RANK = f"array_position(ARRAY{list(RISK_TIERS)}, {{}}::text)"


class Fleet(ChainHead):
    """The whole control plane: one row, which holds the dispatcher epoch."""

    dispatcher_epoch = models.UUIDField(default=uuid.uuid4)
    epoch_rotated_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "fleet"
        constraints = [models.CheckConstraint(condition=Q(id=1), name="fleet_is_one_row")]

    def __str__(self) -> str:
        return "fleet"

    @property
    def audit_subject(self) -> str:
        return "fleet"


class Agent(ChainHead):
    """A named worker identity that jobs are routed to.

    Durations are seconds. `fresh_seconds` and `stale_seconds` are the ages of the last heartbeat
    at which the agent counts as late and as stale. Where it is `expected`, the guard wants
    `workers_expected` of its workers fresh.
    """

    class Admission(models.TextChoices):
        OPEN = "open"
        DRAINING = "draining"
        CLOSED = "closed"

    name = models.SlugField(max_length=60, unique=True)
    max_risk_tier = models.CharField(max_length=6, choices=RiskTier, default=RiskTier.MEDIUM)
    runtime = models.CharField(max_length=40, default="command")
    enabled = models.BooleanField(default=True)
    expected = models.BooleanField(default=True)
    workers_expected = models.PositiveSmallIntegerField(default=1, db_default=1)
    approve_cells = models.BooleanField(default=False)
    require_certificates = models.BooleanField(default=False, db_default=False)
    fresh_seconds = models.PositiveIntegerField(default=60)
    stale_seconds = models.PositiveIntegerField(default=180)
    admission = models.CharField(max_length=8, choices=Admission, default=Admission.OPEN)
    admission_generation = models.PositiveBigIntegerField(default=1)
    barrier_id = models.CharField(max_length=120, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(admission__in=["open", "draining", "closed"]),
                name="agent_admission_is_known",
            ),
            models.CheckConstraint(
                condition=Q(max_risk_tier__in=RISK_TIERS),
                name="agent_risk_tier_is_known",
            ),
            models.CheckConstraint(
                condition=Q(stale_seconds__gte=F("fresh_seconds")),
                name="agent_stale_after_fresh",
            ),
            models.CheckConstraint(
                condition=Q(workers_expected__gte=1), name="agent_expects_a_worker"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def principal(self) -> str:
        return f"agent:{self.name}"

    @property
    def audit_subject(self) -> str:
        return f"agent:{self.name}"


class Submitter(ChainHead):
    """A named system that queues work. `owner` is the person who answers for it."""

    name = models.SlugField(max_length=60, unique=True)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
    )
    created_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name

    @property
    def principal(self) -> str:
        return f"submitter:{self.name}"

    @property
    def audit_subject(self) -> str:
        return f"submitter:{self.name}"


#: A prefix: 3 characters or more, seen and plain, of which the last one ends a word.
PREFIX_CHARS_MIN, PREFIX_CHARS_MAX = 3, 99
PREFIX_ENDS = "-_.:/"
PREFIX = rf"^[^{UNSEEN}]{{{PREFIX_CHARS_MIN - 1},{PREFIX_CHARS_MAX - 1}}}[{PREFIX_ENDS[1:]}-]$"


class TaskPrefix(models.Model):
    """A prefix of task ids that only its submitter may use; contract section 5.

    No prefix contains another, which a trigger holds. One is added or taken away, never changed.
    """

    submitter = models.ForeignKey(Submitter, models.PROTECT, related_name="task_prefixes")
    prefix = models.CharField(max_length=PREFIX_CHARS_MAX, unique=True)
    created_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "task prefixes"
        constraints = [
            models.CheckConstraint(
                condition=Q(prefix__regex=PREFIX), name="task_prefix_ends_a_word"
            ),
        ]

    def __str__(self) -> str:
        return self.prefix


class Scope(models.TextChoices):
    """What a credential may call; contract section 0."""

    WORK = "work"
    SUBMIT = "submit"
    CONTROL = "control"
    ADMIT = "admit"
    READ = "read"


class Credential(models.Model):
    """A bearer token of one principal: only its prefix and a SHA-512 of it are kept.

    `lineage` is the same for a credential and its rotations. `former_certificate_sha256` is the
    fingerprint that its predecessor was bound to, taken beside its own.
    """

    agent = models.ForeignKey(
        Agent, models.PROTECT, null=True, blank=True, related_name="credentials"
    )
    submitter = models.ForeignKey(
        Submitter, models.PROTECT, null=True, blank=True, related_name="credentials"
    )
    lineage = models.UUIDField(default=uuid.uuid4, db_default=RandomUUID(), editable=False)
    prefix = models.CharField(max_length=16, unique=True)
    hashed_key = models.CharField(max_length=160)
    scopes = ArrayField(models.CharField(max_length=10, choices=Scope))
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=160)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    revoked_by = models.CharField(max_length=160, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    certificate_sha256 = models.CharField(max_length=64, blank=True)
    former_certificate_sha256 = models.CharField(
        max_length=64, blank=True, default="", db_default=""
    )
    note = models.CharField(max_length=200, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(agent__isnull=False, submitter=None)
                | Q(agent=None, submitter__isnull=False),
                name="credential_of_one_principal",
            ),
            models.CheckConstraint(
                condition=Q(scopes__contained_by=["work", "submit", "control", "admit", "read"]),
                name="credential_scopes_are_known",
            ),
        ]
        indexes = [models.Index(fields=["lineage"], name="credential_lineage_idx")]

    def __str__(self) -> str:
        return f"{self.prefix}… of {self.agent or self.submitter}"


class Session(models.Model):
    """An agent process: activated under a dispatcher epoch, or implied by a `worker_id`.

    It belongs to the lineage of the credential that it came with, and to the client certificate,
    empty without one. `lineage` is NULL in rows of before, until the first lineage takes them.
    `session_id` changes with every epoch that it is bound to; see `FormerSession`.

    Never deleted (attempts point at it without a database constraint, so that a claim need not
    lock a row that every claim of the process shares).
    """

    class Kind(models.TextChoices):
        IMPLICIT = "implicit"
        ACTIVATED = "activated"

    class State(models.TextChoices):
        PENDING = "pending"
        CURRENT = "current"
        SUPERSEDED = "superseded"

    session_id = models.UUIDField(unique=True)
    agent = models.ForeignKey(Agent, models.PROTECT, related_name="sessions")
    kind = models.CharField(max_length=10, choices=Kind)
    state = models.CharField(max_length=10, choices=State, default=State.CURRENT)
    lineage = models.UUIDField(null=True, editable=False)
    certificate_sha256 = models.CharField(max_length=64, blank=True, default="", db_default="")
    worker_id = models.CharField(max_length=120, blank=True)
    cell_id = models.CharField(max_length=120, blank=True)
    boot_id = models.CharField(max_length=120, blank=True)
    generation = models.PositiveBigIntegerField(default=1)
    dispatcher_epoch = models.UUIDField()
    activation_operation_id = models.CharField(max_length=120, blank=True)
    protocol_version = models.CharField(max_length=20, blank=True)
    runtime = models.CharField(max_length=40, blank=True)
    capabilities = models.JSONField(default=dict)
    created_at = models.DateTimeField()
    superseded_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "worker_id", "lineage"],
                condition=Q(kind="implicit"),
                nulls_distinct=False,
                name="session_one_implicit_per_holder",
            ),
            models.UniqueConstraint(
                fields=["agent", "cell_id"],
                condition=Q(kind="activated", state="current"),
                name="session_one_current_per_cell",
            ),
            models.UniqueConstraint(
                fields=["agent", "cell_id", "generation"],
                condition=Q(kind="activated"),
                name="session_generation_once",
            ),
            models.CheckConstraint(
                condition=Q(state="superseded", superseded_at__isnull=False)
                | Q(state__in=["current", "pending"], superseded_at=None),
                name="session_superseded_iff_dated",
            ),
        ]
        indexes = [
            # How many names an agent took in a day.
            models.Index(
                fields=["agent", "created_at"],
                name="session_implicit_made_idx",
                condition=Q(kind="implicit"),
            ),
            # The few that wait for an operator, for the inbox.
            models.Index(
                fields=["created_at"], name="session_pending_idx", condition=Q(state="pending")
            ),
            # What is revoked with the last credential of a lineage.
            models.Index(
                fields=["lineage"], name="session_lineage_idx", condition=~Q(state="superseded")
            ),
        ]

    def __str__(self) -> str:
        return f"{self.agent_id}/{self.worker_id or self.cell_id}"


class FormerSession(models.Model):
    """A `session_id` that a session had under an older epoch. Append-only.

    Who still calls by it is told to activate again, not that it was superseded.
    """

    former_id = models.UUIDField(unique=True)
    session = models.ForeignKey(Session, models.PROTECT, related_name="former")
    generation = models.PositiveBigIntegerField()
    dispatcher_epoch = models.UUIDField()
    ended_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.former_id} until generation {self.generation}"


class NotAsked(NamedTuple):
    """A type of job that a process does not ask for until then."""

    task_type: str
    reason: str
    until: datetime


class Presence(models.Model):
    """When a session was last heard of: a row apart, since it is written at every heartbeat."""

    session = models.OneToOneField(
        Session, models.PROTECT, primary_key=True, related_name="presence"
    )
    last_heartbeat_at = models.DateTimeField()
    last_claim_at = models.DateTimeField(null=True)
    runtime = models.CharField(max_length=40, blank=True)
    #: Objects of `task_type, reason, until`, as the last heartbeat said; null where it said none.
    not_asking = models.JSONField(null=True, blank=True)

    def __str__(self) -> str:
        return f"presence of {self.session_id}"

    def not_asked_for(self, *, at: datetime) -> list[NotAsked]:
        """Return the types that the process does not ask for at that instant, as it says."""
        types = (
            NotAsked(each["task_type"], each["reason"], datetime.fromisoformat(each["until"]))
            for each in self.not_asking or ()
        )
        return [each for each in types if each.until > at]


class MaintenanceInhibit(models.Model):
    """A named stop of new work, for one agent or (`agent` NULL) for the fleet.

    `ends_at` NULL: until an operator lifts it.
    """

    agent = models.ForeignKey(Agent, models.PROTECT, null=True, blank=True, related_name="inhibits")
    owner = models.CharField(max_length=160)
    reason = models.TextField()
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField(null=True, blank=True)
    lifted_at = models.DateTimeField(null=True, blank=True)
    lifted_by = models.CharField(max_length=160, blank=True)
    lift_reason = models.TextField(blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(ends_at=None) | Q(ends_at__gt=F("starts_at")),
                name="inhibit_ends_after_start",
            ),
        ]
        indexes = [
            models.Index(fields=["agent"], name="inhibit_open_idx", condition=Q(lifted_at=None))
        ]

    def __str__(self) -> str:
        return f"inhibit of {self.agent or 'the fleet'}: {self.reason[:40]}"


class Activation(models.Model):
    """The answer of an activation, by its `activation_operation_id`. Append-only."""

    agent = models.ForeignKey(Agent, models.PROTECT, related_name="activations")
    operation_id = models.CharField(max_length=120)
    request_sha256 = models.CharField(max_length=64)
    session = models.ForeignKey(Session, models.PROTECT, related_name="activations")
    answer = models.JSONField()
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "operation_id"], name="activation_operation_once"
            )
        ]

    def __str__(self) -> str:
        return self.operation_id


class CellApproval(models.Model):
    """A person's word that a cell may act for an agent, where the agent asks for that.

    It is for one lineage and the certificate that this came with, empty for none. `lineage` NULL:
    nobody has come yet; it is for the first that does.
    """

    agent = models.ForeignKey(Agent, models.PROTECT, related_name="cell_approvals")
    cell_id = models.CharField(max_length=120)
    lineage = models.UUIDField(null=True, blank=True, editable=False)
    certificate_sha256 = models.CharField(max_length=64, blank=True, default="", db_default="")
    approved_by = models.CharField(max_length=160)
    approved_at = models.DateTimeField()
    reason = models.TextField()
    withdrawn_at = models.DateTimeField(null=True, blank=True)
    withdrawn_by = models.CharField(max_length=160, blank=True)
    withdraw_reason = models.TextField(blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "cell_id"],
                condition=Q(withdrawn_at=None),
                name="cell_approval_one_in_force",
            ),
            models.CheckConstraint(condition=~Q(reason=""), name="cell_approval_has_reason"),
        ]

    def __str__(self) -> str:
        return f"approval of {self.cell_id}"


class AdmissionChange(models.Model):
    """One change of an agent's admission, by its barrier: a replay finds it. Append-only."""

    agent = models.ForeignKey(Agent, models.PROTECT, related_name="admission_changes")
    barrier_id = models.CharField(max_length=120)
    expected_generation = models.PositiveBigIntegerField()
    state = models.CharField(max_length=8, choices=Agent.Admission)
    generation = models.PositiveBigIntegerField()
    actor = models.CharField(max_length=160)
    reason = models.TextField()
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["agent", "barrier_id"], name="admission_barrier_once"),
            models.UniqueConstraint(
                fields=["agent", "generation"], name="admission_generation_once"
            ),
            models.CheckConstraint(
                condition=Q(generation=F("expected_generation") + 1),
                name="admission_generation_follows",
            ),
            models.CheckConstraint(condition=~Q(reason=""), name="admission_has_reason"),
        ]

    def __str__(self) -> str:
        return f"{self.state} at {self.generation}"


class RuntimeSwitch(models.Model):
    """The operation that moves an agent to another runtime, step by step.

    `steps` are the steps taken: objects of `step`, `at`, `detail`.
    """

    class State(models.TextChoices):
        RUNNING = "running"
        VERIFIED = "verified"
        FAILED = "failed"

    class Step(models.TextChoices):
        DRAIN = "drain"
        SWITCH = "switch"
        FRESH = "fresh"
        GUARD = "guard"

    agent = models.ForeignKey(Agent, models.PROTECT, related_name="runtime_switches")
    from_runtime = models.CharField(max_length=40)
    to_runtime = models.CharField(max_length=40)
    state = models.CharField(max_length=8, choices=State, default=State.RUNNING)
    #: What is waited for; the step that failed, once failed.
    step = models.CharField(max_length=8, choices=Step, default=Step.DRAIN)
    inhibit = models.ForeignKey(MaintenanceInhibit, models.PROTECT, related_name="+")
    reopen = models.BooleanField()
    started_by = models.CharField(max_length=160)
    reason = models.TextField()
    started_at = models.DateTimeField()
    switched_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    error = models.TextField(blank=True)
    steps = models.JSONField(default=list)

    class Meta:
        verbose_name_plural = "runtime switches"
        constraints = [
            models.UniqueConstraint(
                fields=["agent"],
                condition=Q(state="running"),
                name="runtime_switch_one_at_a_time",
            ),
            models.CheckConstraint(
                condition=Q(state="running", finished_at=None)
                | Q(state__in=["verified", "failed"], finished_at__isnull=False),
                name="runtime_switch_finished_iff_dated",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.agent}: {self.from_runtime} -> {self.to_runtime}"
