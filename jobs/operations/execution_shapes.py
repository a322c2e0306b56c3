"""Shapes of the governed calls: routes, reservations, permits, executions, results."""

from __future__ import annotations

import re
from typing import Any

from rest_framework import serializers

from governance.money.apis import Api
from governance.operations.shapes import AnyJson, Choice, Text, Uuid, Whole
from jobs.executions import RESULTS
from jobs.models import ExecutionMode
from jobs.operations.shapes import AuthorityIn

REQUEST_ID_CHARS_MAX = 90
TOKENS_MAX = 2**40

#: What the description of the API says of usage.
USAGE = (
    "What the provider counted: an object of integers from 0, `input_tokens` (the whole, with what "
    "was cached, written to a cache or audio inside it), `cached_input_tokens`, "
    "`cache_write_tokens` (all that was written, `cache_write_1h_tokens` a part of it), "
    "`output_tokens` (with `reasoning_tokens` inside it), `input_audio_tokens` (with "
    "`cached_audio_tokens` inside it), `output_audio_tokens`, `searches`; and of texts that the "
    "answer names: `service_tier`, `processing` (`batch`), `speed`. `input_tokens` is required, "
    "and `output_tokens` of a model that has output. Anything else is kept and flagged, and the "
    "call is settled at what was held: it refuses nothing."
)
INPUT = (
    "At least so much is held, and no less than a third of `request_bytes` with what the "
    "requirements `images=N`, `pages=N` and `audio_seconds=N` say. Where neither is known, and "
    "with `content=by_reference`, the whole context of the model is held, and a model without a "
    "known one is refused. `content=at_provider` is that, and takes no model of another provider "
    "than the wanted one's."
)
OUTPUT = (
    "The limit that the request states. Without one, that of the policy is held, or what the model "
    "can: write the answer's `max_output_tokens` into the request."
)
WANTED = (
    "The model that the program asks for, by its name or as `provider/name`. It is taken where it "
    "is allowed and there is room, else the first of the policy."
)
API = "The API that the program speaks: only a model that is called over it is taken."
FALLBACK = (
    "The `route_request_id` of the failed call that this one is in place of. Models that failed "
    "there, or in the calls that it was in place of, are not taken. Without it and without `api` "
    "none is that failed in any earlier call of the attempt."
)
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)


class Sha256(Text):
    """A SHA-256 as 64 lower-case hexadecimal digits."""

    default_error_messages = {"sha256": "64 lower-case hexadecimal digits."}

    def to_internal_value(self, data: object) -> str:
        text = super().to_internal_value(data)
        if not _SHA256.fullmatch(text):
            self.fail("sha256")
        return text


class Usage(AnyJson):
    """What the provider counted. It is judged where it is booked, since no result is lost by it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(help_text=USAGE, required=False, allow_null=True, **options)


class BindingIn(AuthorityIn):
    """What every governed call names."""

    external_request_id = Text(max_length=REQUEST_ID_CHARS_MAX)


class RouteIn(BindingIn):
    """A call of a model that is to be decided and reserved."""

    route_request_id = Text(max_length=REQUEST_ID_CHARS_MAX)
    estimated_input_tokens = Whole(
        min_value=0, max_value=TOKENS_MAX, required=False, allow_null=True, help_text=INPUT
    )
    max_output_tokens = Whole(
        min_value=0, max_value=TOKENS_MAX, required=False, allow_null=True, help_text=OUTPUT
    )
    request_bytes = Whole(min_value=0, max_value=TOKENS_MAX, required=False, allow_null=True)
    requirements = serializers.ListField(
        child=Text(min_length=1, max_length=60), required=False, allow_null=True, max_length=20
    )
    wanted_model = Text(
        min_length=1, max_length=200, required=False, allow_null=True, help_text=WANTED
    )
    api = Choice(choices=Api.values, required=False, allow_null=True, help_text=API)
    fallback_of = Text(
        max_length=REQUEST_ID_CHARS_MAX, required=False, allow_null=True, help_text=FALLBACK
    )
    request_sha256 = Sha256(
        required=False,
        allow_null=True,
        help_text="Of what is sent to the model. It tells apart two calls that are made at once.",
    )


class ResolveIn(BindingIn):
    """How a reservation ends."""

    end = Choice(choices=("settled", "released", "failed"))
    usage = Usage()
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
    usage = Usage()
    error_code = Text(max_length=80, required=False, allow_null=True)
