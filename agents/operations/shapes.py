"""Shapes of the agents API: what its requests must look like, and what its answers do."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from agents.models import Agent
from agents.transitions.presence import WORKERS_MAX
from governance.core.reasons import REASON_CHARS_MAX
from governance.web.shapes import Choice, Object, Shape, Text, Uuid, Whole

NAME_CHARS_MAX = 120
RUNTIME_CHARS_MAX = 40
CAPABILITIES_MAX = 64


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


class HeartbeatIn(Shape):
    """A sign of life of a session, or of workers of the older contract."""

    runtime = Text(plain=True, max_length=RUNTIME_CHARS_MAX, allow_blank=True, required=False)
    worker_ids = serializers.ListField(
        child=Name(), max_length=WORKERS_MAX, required=False, allow_empty=True
    )


class AdmissionIn(Shape):
    """A change of an agent's admission, by the barrier that makes it final."""

    state = Choice(choices=Agent.Admission.values)
    barrier_id = Name()
    expected_generation = Whole(min_value=1)
    reason = Text(min_length=1, max_length=REASON_CHARS_MAX)


class CredentialOut(serializers.Serializer):
    """The credential that the activation was made with."""

    prefix = serializers.CharField()
    scopes = serializers.ListField(child=serializers.CharField())
    expires_at = serializers.DateTimeField(allow_null=True)


class SessionStateOut(serializers.Serializer):
    """The session that the process has from now on."""

    session_id = serializers.UUIDField()
    session_generation = serializers.IntegerField()
    dispatcher_epoch = serializers.UUIDField()
    heartbeat_interval_seconds = serializers.IntegerField()
    state = serializers.ChoiceField(choices=["current", "pending"])
    agent = serializers.CharField()
    cell_id = serializers.CharField()
    boot_id = serializers.CharField()
    rebound = serializers.BooleanField(help_text="whether live leases were bound to a new epoch")
    credential = CredentialOut()


class GateOut(serializers.Serializer):
    """Whether the agent may take new work."""

    state = serializers.ChoiceField(choices=Agent.Admission.values)
    generation = serializers.IntegerField()
    barrier_id = serializers.CharField(required=False, allow_blank=True)


class InhibitOut(serializers.Serializer):
    """A maintenance inhibit that is in force."""

    reason = serializers.CharField()
    owner = serializers.CharField()
    ends_at = serializers.DateTimeField(allow_null=True)


class StandingOut(serializers.Serializer):
    """What a process is told when it says that it lives."""

    admission = GateOut()
    inhibit = InhibitOut(allow_null=True)
    dispatcher_epoch = serializers.UUIDField()
    heartbeat_interval_seconds = serializers.IntegerField()


class AdmissionOut(serializers.Serializer):
    """How the admission stands after the change."""

    state = serializers.ChoiceField(choices=Agent.Admission.values)
    generation = serializers.IntegerField()
    barrier_id = serializers.CharField()
    active_leases = serializers.IntegerField()


class LiveSessionOut(serializers.Serializer):
    """A session that may act, or waits for approval."""

    session_id = serializers.UUIDField()
    kind = serializers.ChoiceField(choices=["implicit", "activated"])
    state = serializers.ChoiceField(choices=["current", "pending"])
    worker_id = serializers.CharField(allow_blank=True)
    cell_id = serializers.CharField(allow_blank=True)
    boot_id = serializers.CharField(allow_blank=True)
    session_generation = serializers.IntegerField()
    dispatcher_epoch = serializers.UUIDField()
    runtime = serializers.CharField(allow_blank=True)
    last_heartbeat_at = serializers.DateTimeField(allow_null=True)


class StatusOut(serializers.Serializer):
    """How an agent stands."""

    agent = serializers.CharField()
    enabled = serializers.BooleanField()
    runtime = serializers.CharField()
    dispatcher_epoch = serializers.UUIDField()
    admission = GateOut()
    inhibit = InhibitOut(allow_null=True)
    active_leases = serializers.IntegerField()
    freshness = serializers.ChoiceField(choices=["fresh", "late", "stale", "never"])
    last_heartbeat_at = serializers.DateTimeField(allow_null=True)
    last_heartbeat_age_seconds = serializers.FloatField(allow_null=True)
    heartbeat_interval_seconds = serializers.IntegerField()
    sessions = LiveSessionOut(many=True)
    as_of = serializers.DateTimeField()


class JobTypeOut(serializers.Serializer):
    """A kind of task that the agent is given."""

    task_type = serializers.CharField()
    runtime = serializers.CharField()
    uses_model = serializers.BooleanField()
    lease_seconds = serializers.IntegerField()
    attempt_timeout_seconds = serializers.IntegerField(allow_null=True)
    max_attempts = serializers.IntegerField()
    max_attempts_ceiling = serializers.IntegerField()
    inputs_schema = serializers.DictField()


class BootstrapOut(serializers.Serializer):
    """What an agent may do, and what it verifies envelopes with."""

    agent = serializers.CharField()
    runtime = serializers.CharField()
    max_risk_tier = serializers.ChoiceField(choices=["low", "medium", "high"])
    cells_need_approval = serializers.BooleanField()
    dispatcher_epoch = serializers.UUIDField()
    admission = GateOut()
    inhibit = InhibitOut(allow_null=True)
    heartbeat_interval_seconds = serializers.IntegerField()
    job_types = JobTypeOut(many=True)
    limits = serializers.DictField(child=serializers.IntegerField())
    protocol = serializers.DictField(child=serializers.CharField())
    keys = serializers.DictField(help_text="public keys, as /.well-known/fencepost/keys.json")
