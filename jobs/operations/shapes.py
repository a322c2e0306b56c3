"""Shapes of the jobs API: what its requests must look like."""

from __future__ import annotations

import json
from typing import Any

from rest_framework import serializers

from agents.models import RISK_TIERS
from governance.core.characters import unseen
from governance.core.reasons import REASON_CHARS_MAX
from governance.operations.shapes import (
    UNSEEN_TOLD_MAX,
    AnyJson,
    Choice,
    Flag,
    Instant,
    Object,
    Shape,
    Text,
    TextOrFlag,
    Uuid,
    Whole,
    member_of,
)
from jobs.models import LABELS_MAX, OUTPUT_CHARS_MAX, Priority
from jobs.transitions.claims import CLAIM_LIMIT_MAX, LEASE_SECONDS_MAX, LEASE_SECONDS_MIN
from jobs.transitions.deferrals import DEFER_SECONDS_MAX
from jobs.verbs import CONTROLS

TASK_ID_CHARS_MAX = 100
WORKER_ID_CHARS_MAX = 120
WAIT_SECONDS_MAX = 30
TASK_TYPES_MAX = 50
LABEL_CHARS_MAX = 200
TOOLS_MAX = 200
TEXT_CHARS_MAX = 20_000
PROGRESS_BYTES_MAX = 64 * 1024
#: A worker that numbers its reflections leaves room for the numbers that the server gives.
REFLECTION_NUMBER_MAX = 1_000_000_000

#: Words that stand in the place of a task id in paths, or that HTTP clients resolve away.
RESERVED_TASK_IDS = frozenset({".", "..", "batch"})


class TaskId(Text):
    """The submitter's name of a task."""

    default_error_messages = {
        "unaddressable": "No path could address it: it has a slash, or is a word of our paths."
    }

    def __init__(self, **options: Any) -> None:
        super().__init__(plain=True, min_length=1, max_length=TASK_ID_CHARS_MAX, **options)

    def to_internal_value(self, data: Any) -> str:
        text = super().to_internal_value(data)
        if "/" in text or text in RESERVED_TASK_IDS:
            self.fail("unaddressable")
        return text


class WorkerId(Text):
    """The worker's own name, by which the older worker contract knows it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            plain=True, min_length=1, max_length=WORKER_ID_CHARS_MAX, required=False, **options
        )


class Labels(AnyJson):
    """An object of short strings, or an array of them."""

    default_error_messages = {
        "labels": f"An object or array of at most {LABELS_MAX} strings"
        f" of at most {LABEL_CHARS_MAX} characters, as are the names of an object.",
        "unseen": "Its names have characters that are not seen, or that turn text around: {which}.",
    }

    def to_internal_value(self, data: Any) -> Any:
        members = list(data.values()) if isinstance(data, dict) else data
        if not isinstance(members, list) or len(members) > LABELS_MAX:
            self.fail("labels")
        if any(type(text) is not str or len(text) > LABEL_CHARS_MAX for text in members):
            self.fail("labels")
        if isinstance(data, dict):
            if any(len(name) > LABEL_CHARS_MAX for name in data):
                self.fail("labels")
            if which := unseen("".join(data)):
                self.fail("unseen", which=", ".join(which[:UNSEEN_TOLD_MAX]))
        return data


class Progress(AnyJson):
    """What a worker tells of its work so far; any JSON, but small: it is written at every beat."""

    default_error_messages = {"large": f"At most {PROGRESS_BYTES_MAX} bytes as compact JSON."}

    def __init__(self, **options: Any) -> None:
        text = f"Any JSON of at most {PROGRESS_BYTES_MAX} bytes; kept for the next attempt."
        super().__init__(required=False, allow_null=True, help_text=text, **options)

    def to_internal_value(self, data: Any) -> Any:
        text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
        if len(text.encode()) > PROGRESS_BYTES_MAX:
            self.fail("large")
        return data


class EnvelopeIn(Shape):
    """A task envelope; contract section 1. A member that is null has its default."""

    task_id = TaskId()
    source = Text(max_length=60)  # type: ignore[assignment]
    title = Text(seen=True, min_length=5, max_length=200)
    goal = Text(seen=True, min_length=10, max_length=4000)
    task_type = Text(max_length=60)
    risk_tier = Choice(choices=RISK_TIERS)
    priority = Choice(choices=Priority.labels, default=Priority.NORMAL.label, allow_null=True)
    preferred_owner = Text(max_length=60, required=False, allow_null=True)
    owner_role = Text(max_length=60, required=False, allow_null=True)
    inputs = Object(default=dict, allow_null=True)
    output_required = TextOrFlag(
        max_length=OUTPUT_CHARS_MAX,
        default=False,
        allow_null=True,
        help_text="What is to be delivered, in words, or whether something is.",
    )
    review_required = Flag(default=False, allow_null=True)
    execution_approval_required = Flag(default=False, allow_null=True)
    rollback_required = Flag(default=False, allow_null=True)
    available_at = Instant(required=False, allow_null=True)
    deadline_at = Instant(required=False, allow_null=True)
    expires_if_not_started_at = Instant(required=False, allow_null=True)
    attempt_timeout_seconds = Whole(
        min_value=1, max_value=2**31 - 1, required=False, allow_null=True
    )
    labels = Labels(default=dict, allow_null=True)
    max_attempts = Whole(min_value=1, max_value=1000, required=False, allow_null=True)
    created_at = Instant(
        required=False, allow_null=True, help_text="When the submitter made it; kept, not used."
    )
    status = Choice(choices=("pending",), required=False, help_text="From older clients.")

    def validate(self, data: dict[str, Any]) -> dict[str, Any]:
        role, owner = data.pop("owner_role", None), data.get("preferred_owner")
        if role and owner and role != owner:
            raise serializers.ValidationError(
                {"owner_role": ["It disagrees with preferred_owner."]}
            )
        data["preferred_owner"] = owner or role
        for name, field in self.fields.items():
            if field.default is not serializers.empty and data[name] is None:
                data[name] = field.get_default()
        data.pop("status", None)
        return data


class _WorkerIn(Shape):
    worker_id = WorkerId()
    owner = Text(max_length=60, required=False, allow_null=True)
    runtime = Text(plain=True, min_length=1, max_length=40, required=False, allow_null=True)
    lease_seconds = Whole(
        min_value=LEASE_SECONDS_MIN, max_value=LEASE_SECONDS_MAX, required=False, allow_null=True
    )
    include_inputs = Flag(
        required=False,
        allow_null=True,
        help_text="Give the inputs beside the envelope too; by default to whom has no session.",
    )


class ClaimIn(_WorkerIn):
    """Who wants the lease, and for how long (seconds)."""


class ClaimsIn(_WorkerIn):
    """How many jobs are wanted, of which types, and how long to wait for them (seconds)."""

    limit = Whole(min_value=1, max_value=CLAIM_LIMIT_MAX, default=1)
    task_types = serializers.ListField(
        child=Text(max_length=60), required=False, allow_null=True, max_length=TASK_TYPES_MAX
    )
    wait_seconds = Whole(min_value=0, max_value=WAIT_SECONDS_MAX, default=0)


class AuthorityIn(Shape):
    """The attempt that is meant, and the authority to speak for it."""

    task_id = TaskId()
    attempt = Whole(min_value=1, max_value=2**31 - 1)
    fencing_token = Whole(min_value=1)


class BeatIn(AuthorityIn):
    """One lease that is still worked on."""

    progress = Progress()


class BeatsIn(Shape):
    """Whose leases they are, without an activated session."""

    worker_id = WorkerId()


class _AttemptIn(Shape):
    """The authority that a write carries; both, or neither in the older worker contract.

    `worker_id` names the holder where there is no activated session, and is a label else.
    """

    worker_id = WorkerId()
    attempt = Whole(min_value=1, max_value=2**31 - 1, required=False, allow_null=True)
    fencing_token = Whole(min_value=1, required=False, allow_null=True)


class CompleteIn(_AttemptIn):
    """What an attempt delivered."""

    result = AnyJson(required=False, allow_null=True)
    result_pointer = Text(min_length=1, max_length=1000, required=False, allow_null=True)
    needs_review = Flag(default=False)
    no_model_reason = Text(min_length=1, max_length=TEXT_CHARS_MAX, required=False, allow_null=True)


class CompletionIn(CompleteIn):
    """What an attempt of the named task delivered."""

    task_id = TaskId()


class FailIn(_AttemptIn):
    """Why an attempt failed, and whether another may do better."""

    error_message = Text(min_length=1, max_length=TEXT_CHARS_MAX)
    error_code = Text(plain=True, max_length=80, allow_blank=True, default="")
    retryable = Flag(default=True)
    progress = Progress()


class EscalateIn(_AttemptIn):
    """Why a human is needed, and who should know."""

    reason = Text(min_length=1, max_length=TEXT_CHARS_MAX)
    notify_to = Text(max_length=200, allow_blank=True, default="")


class DeferIn(_AttemptIn):
    """Why there is no room for the work now, and after how many seconds there may be."""

    reason = Text(min_length=1, max_length=TEXT_CHARS_MAX)
    retry_after_seconds = Whole(min_value=1, max_value=DEFER_SECONDS_MAX)


class ReflectionIn(_AttemptIn):
    """What the worker learnt."""

    sequence_number = Whole(
        min_value=1, max_value=REFLECTION_NUMBER_MAX, required=False, allow_null=True
    )
    what_worked = Text(max_length=TEXT_CHARS_MAX, allow_blank=True, required=False)
    what_failed = Text(max_length=TEXT_CHARS_MAX, allow_blank=True, required=False)
    pattern_observed = Text(max_length=TEXT_CHARS_MAX, allow_blank=True, required=False)
    context_type = Text(max_length=100, allow_blank=True, required=False)
    tool_sequence = serializers.ListField(child=AnyJson(), required=False, max_length=TOOLS_MAX)
    success_signal = Text(max_length=TEXT_CHARS_MAX, allow_blank=True, required=False)
    failure_signal = Text(max_length=TEXT_CHARS_MAX, allow_blank=True, required=False)
    sensitivity_level = Text(min_length=1, max_length=20, required=False)


class TaskReflectionIn(ReflectionIn):
    """What the worker learnt, as older clients send it: on the named task, or the named job."""

    task_id = TaskId(required=False, allow_null=True)
    job_id = Uuid(required=False, allow_null=True)
    owner = Text(max_length=60, required=False, allow_null=True)

    def validate(self, data: dict[str, Any]) -> dict[str, Any]:
        if not data.get("task_id") and not data.get("job_id"):
            raise serializers.ValidationError({"task_id": ["This field or job_id is required."]})
        return data


class ExtractSkillsIn(Shape):
    """Which reflections are looked through, and how often a pattern must recur."""

    worker_id = WorkerId()
    task_type = Text(max_length=60, required=False, allow_null=True)
    context_type = Text(max_length=100, required=False, allow_null=True)
    min_occurrences = Whole(min_value=2, max_value=1000, default=2)


class SkillFeedbackIn(Shape):
    """How a skill served."""

    worker_id = WorkerId()
    success = Flag(required=False)
    task_succeeded = Flag(required=False, help_text="The same, from older clients.")
    note = Text(max_length=2000, allow_blank=True, default="")

    def validate(self, data: dict[str, Any]) -> dict[str, Any]:
        words = [data.pop(name) for name in ("success", "task_succeeded") if name in data]
        if len(words) != 1:
            raise serializers.ValidationError({"success": ["This field or task_succeeded, once."]})
        return data | {"success": words[0]}


class ControlIn(Shape):
    """What is to happen to the job, judged against the revision that the caller saw."""

    action = Choice(choices=tuple(CONTROLS))
    expected_task_revision = Whole(min_value=1)
    reason = Text(min_length=1, max_length=REASON_CHARS_MAX)

    def get_fields(self) -> dict[str, serializers.Field]:
        """Return the members of every action, and what any of the verbs asks for."""
        fields = (field for verb in CONTROLS.values() for field in verb.fields)
        return super().get_fields() | {field.name: member_of(field) for field in fields}

    def validate(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return the request with what its verb asks for as `values`."""
        verb = CONTROLS[data["action"]]
        taken = {field.name: field.required for field in verb.fields}
        given = data.keys() - self._declared_fields.keys()
        faults = {name: [f"{verb.control} does not take it."] for name in given - taken.keys()}
        faults |= {
            name: [f"{verb.control} needs it."]
            for name, needed in taken.items()
            if needed and name not in given
        }
        values = {name: data[name] for name in given}
        for rule in () if faults else verb.rules:
            if fault := rule.fault(values):
                faults[rule.names[-1]] = [fault]
        if faults:
            raise serializers.ValidationError(faults)
        common = {name: data[name] for name in self._declared_fields}
        return common | {"values": values}
