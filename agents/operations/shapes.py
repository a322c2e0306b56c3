"""Shapes of the agents API: what its requests must look like."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from agents.models import Agent
from agents.transitions.presence import WORKERS_MAX
from governance.core.reasons import REASON_CHARS_MAX
from governance.operations.shapes import Choice, Instant, Object, Shape, Text, Uuid, Whole

NAME_CHARS_MAX = 120
RUNTIME_CHARS_MAX = 40
CAPABILITIES_MAX = 64
TYPE_CHARS_MAX = 60
NOT_ASKING_MAX = 64
NOT_ASKING_CHARS_MAX = 200


class Name(Text):
    """A name that a caller chooses."""

    def __init__(self, **options: Any) -> None:
        super().__init__(plain=True, min_length=1, max_length=NAME_CHARS_MAX, **options)


class Capabilities(Object):
    """An object of at most 64 members."""

    default_error_messages = {"many": f"At most {CAPABILITIES_MAX} members."}

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        value = super().to_internal_value(data)
        if len(value) > CAPABILITIES_MAX:
            self.fail("many")
        return value


class ActivateIn(Shape):
    """What a process says of itself. It authorizes nothing by saying so."""

    activation_operation_id = Name()
    cell_id = Name()
    boot_id = Name()
    protocol_version = Text(min_length=1, max_length=20)
    runtime = Text(plain=True, max_length=RUNTIME_CHARS_MAX, allow_blank=True, required=False)
    capabilities = Capabilities(required=False)
    previous_session_id = Uuid(required=False, allow_null=True)


class NotAskingIn(Shape):
    """A type of job that a process does not ask for until then, and why."""

    task_type = Text(plain=True, min_length=1, max_length=TYPE_CHARS_MAX)
    reason = Text(min_length=1, max_length=NOT_ASKING_CHARS_MAX)
    until = Instant()


class HeartbeatIn(Shape):
    """A sign of life of a session, or of workers of the older contract."""

    runtime = Text(plain=True, max_length=RUNTIME_CHARS_MAX, allow_blank=True, required=False)
    worker_ids = serializers.ListField(
        child=Name(), max_length=WORKERS_MAX, required=False, allow_empty=True
    )
    not_asking = serializers.ListField(
        child=NotAskingIn(), max_length=NOT_ASKING_MAX, required=False, allow_empty=True
    )


class AdmissionIn(Shape):
    """A change of an agent's admission, by the barrier that makes it final."""

    state = Choice(choices=Agent.Admission.values)
    barrier_id = Name()
    expected_generation = Whole(min_value=1)
    reason = Text(min_length=1, max_length=REASON_CHARS_MAX)
