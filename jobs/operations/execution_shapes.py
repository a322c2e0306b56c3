"""Shapes of the governed calls: routes, reservations, permits, executions, results."""

from __future__ import annotations

import re

from rest_framework import serializers

from governance.operations.shapes import AnyJson, Choice, Shape, Text, Uuid, Whole
from jobs.executions import RESULTS
from jobs.models import ExecutionMode
from jobs.operations.shapes import AuthorityIn

REQUEST_ID_CHARS_MAX = 90
TOKENS_MAX = 2**40

_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)


class Sha256(Text):
    """A SHA-256 as 64 lower-case hexadecimal digits."""

    default_error_messages = {"sha256": "64 lower-case hexadecimal digits."}

    def to_internal_value(self, data: object) -> str:
        text = super().to_internal_value(data)
        if not _SHA256.fullmatch(text):
            self.fail("sha256")
        return text


class UsageIn(Shape):
    """Tokens as the provider counted them; cached ones are inside the input tokens."""

    input_tokens = Whole(min_value=0, max_value=TOKENS_MAX)
    cached_input_tokens = Whole(min_value=0, max_value=TOKENS_MAX, required=False)
    output_tokens = Whole(min_value=0, max_value=TOKENS_MAX)
    reasoning_tokens = Whole(min_value=0, max_value=TOKENS_MAX, required=False)


class BindingIn(AuthorityIn):
    """What every governed call names."""

    external_request_id = Text(max_length=REQUEST_ID_CHARS_MAX)


class RouteIn(BindingIn):
    """A call of a model that is to be decided and reserved."""

    route_request_id = Text(max_length=REQUEST_ID_CHARS_MAX)
    estimated_input_tokens = Whole(min_value=0, max_value=TOKENS_MAX)
    max_output_tokens = Whole(min_value=0, max_value=TOKENS_MAX)
    requirements = serializers.ListField(
        child=Text(min_length=1, max_length=60), required=False, allow_null=True, max_length=20
    )


class ResolveIn(BindingIn):
    """How a reservation ends."""

    end = Choice(choices=("settled", "released", "failed"))
    usage = UsageIn(required=False, allow_null=True)
    provider_response_id = Text(max_length=200, required=False, allow_null=True)
    error_code = Text(max_length=80, required=False, allow_null=True)
    cost_basis = Text(max_length=20, required=False, allow_null=True)


class PermitIn(BindingIn):
    """The right to start that is asked for."""

    reservation_id = Uuid(allow_null=True)
    mode = Choice(choices=ExecutionMode.values)
    expected_revision = Whole(min_value=1)


class StartIn(BindingIn):
    """The execution that is about to begin."""

    permit_id = Uuid()
    execution_digest = Sha256()
    runtime = Text(max_length=40)
    request_sha256 = Sha256()


class ResultIn(AuthorityIn):
    """What became of an execution."""

    execution_digest = Sha256()
    outcome = Choice(choices=sorted(RESULTS))
    result_sha256 = Sha256()
    result = AnyJson(required=False, allow_null=True)
    result_pointer = Text(max_length=1000, required=False, allow_null=True)
    usage = UsageIn(required=False, allow_null=True)
    error_code = Text(max_length=80, required=False, allow_null=True)
