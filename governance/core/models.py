"""The rows of the ground: audit events, idempotency records, facts.

The audit chain is append-only and hashed per subject.  A fact is what the outside world is to be
told, written in the transaction of what it tells.  An idempotency record is the answer of a key.
"""

from __future__ import annotations

from django.db import models
from django.db.models import Q

HASH_BYTES = 32
GENESIS = bytes(HASH_BYTES)
ACTOR_CHARS_MAX = 160


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
    actor = models.CharField(max_length=ACTOR_CHARS_MAX)
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


class OutsideChange(models.Model):
    """A row of configuration that was written by no move of ours; see `governance.core.stated`.

    The database notes it, and appends event `seq` to the chain of `subject`, whose end is row
    `head_id` of `head_table`.  `row_key` is table and id; `before` and `after` are the row as
    events state it.  It stands open until an event of ours states the row again.
    """

    subject = models.CharField(max_length=160)
    head_table = models.CharField(max_length=63)
    head_id = models.BigIntegerField()
    row_key = models.CharField(max_length=100)
    operation = models.CharField(max_length=6)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    role = models.CharField(max_length=63)
    noted_at = models.DateTimeField()
    seq = models.PositiveBigIntegerField(null=True)
    settled_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["noted_at"], name="outside_change_open_idx", condition=Q(settled_at=None)
            ),
            models.Index(
                fields=["row_key"], name="outside_change_row_idx", condition=Q(settled_at=None)
            ),
            # What the commit has yet to append.
            models.Index(fields=["subject"], name="outside_change_new_idx", condition=Q(seq=None)),
        ]

    def __str__(self) -> str:
        return f"{self.operation} {self.row_key} by {self.role}"


class IdempotencyRecord(models.Model):
    """What a keyed request was answered with, kept in the transaction of its effect.

    `outcome` is a word of the operation, for which HTTP and others each have a status of their
    own; `status` is that of a refusal.  Records of the first release have a status and headers
    in place of the outcome, and a digest of version 1.
    `operation_id` is what the caller named the operation, empty for its own name.
    `body` is dropped after the retention of full answers (a tombstone stays), so that a late
    repetition is still refused and never executed again.
    """

    principal = models.CharField(max_length=160)
    operation = models.CharField(max_length=80)
    operation_id = models.CharField(max_length=120, blank=True, db_default="")
    key = models.UUIDField()
    digest = models.BinaryField()
    digest_version = models.SmallIntegerField(db_default=1)
    outcome = models.CharField(max_length=40, blank=True, db_default="")
    status = models.PositiveSmallIntegerField(null=True)
    headers = models.JSONField(default=dict)
    body = models.BinaryField(null=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["principal", "operation", "operation_id", "key"],
                name="idempotency_scope_once",
            ),
            models.CheckConstraint(
                condition=models.Q(status__gte=200, status__lt=500),
                name="idempotency_final_answers_only",
            ),
        ]
        indexes = [
            models.Index(fields=["expires_at"], name="idempotency_expiry_idx"),
            # Retention drops the bodies first: only those that still have one.
            models.Index(
                fields=["created_at"],
                name="idempotency_body_age_idx",
                condition=models.Q(body__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.operation} {self.key}"


class Fact(models.Model):
    """One CloudEvent, written in the transaction of what it tells, relayed later.

    `stream` is the ordering key (`job:<uuid>`); `sequence` counts within it, without gaps.
    `relayed` is false for evidence that is kept and never sent (a fact under a stale token). Its
    content is `stream`, `type` and data; only a fact that is relayed takes its principal's id.
    `delivered_to` names the sinks that have confirmed it; once every configured sink has, it is
    published.
    """

    fact_id = models.CharField(max_length=120)
    principal = models.CharField(max_length=160)
    stream = models.CharField(max_length=160)
    sequence = models.PositiveBigIntegerField(null=True)
    type = models.CharField(max_length=120)
    data = models.JSONField()
    content_sha256 = models.CharField(max_length=64)
    receipt_id = models.UUIDField(unique=True)
    recorded_at = models.DateTimeField()
    relayed = models.BooleanField(default=True)
    published_at = models.DateTimeField(null=True, blank=True)
    delivered_to = models.JSONField(default=list)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["principal", "fact_id"],
                condition=Q(relayed=True),
                name="fact_id_once_stated",
            ),
            # Evidence leaves the id free, but the same evidence is kept once.
            models.UniqueConstraint(
                fields=["principal", "fact_id", "stream", "type", "content_sha256"],
                condition=Q(relayed=False),
                name="fact_kept_once",
            ),
            models.UniqueConstraint(fields=["stream", "sequence"], name="fact_sequence_once"),
            models.CheckConstraint(
                condition=Q(relayed=True, sequence__isnull=False)
                | Q(relayed=False, sequence=None, published_at=None),
                name="fact_sequence_iff_relayed",
            ),
        ]
        indexes = [
            # The relay reads what waits, in order, and nothing else.
            models.Index(
                fields=["id"],
                name="fact_waiting_idx",
                condition=Q(published_at=None, relayed=True),
            )
        ]

    def __str__(self) -> str:
        return f"{self.type} {self.stream}#{self.sequence}"


class PrunedFact(models.Model):
    """The receipt of an agent's fact whose content is no longer kept.

    Its id stays taken: restated, it is told apart from other content and gets the same receipt.
    """

    fact_id = models.CharField(max_length=120)
    principal = models.CharField(max_length=160)
    #: With `type` and digest the content; both are empty where an earlier release kept neither.
    stream = models.CharField(max_length=160, blank=True, db_default="")
    type = models.CharField(max_length=120, blank=True, db_default="")
    content_sha256 = models.CharField(max_length=64)
    receipt_id = models.UUIDField()
    sequence = models.PositiveBigIntegerField()
    recorded_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["principal", "fact_id"], name="pruned_fact_once")
        ]

    def __str__(self) -> str:
        return f"{self.fact_id} of {self.principal}"


class FactStream(models.Model):
    """The counter of a stream that is not a job's: the facts that a principal states of itself.

    A job's counter stands on the job, whose row is locked anyway.
    """

    name = models.CharField(max_length=160, unique=True)
    sequence = models.PositiveBigIntegerField(default=0)

    def __str__(self) -> str:
        return self.name
