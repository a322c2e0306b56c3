"""The API description: made of the same data that the views judge requests by."""

from __future__ import annotations

from typing import Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework import serializers

from governance.core.errors import EFFECTS, RETRY_RULES
from governance.core.precedence import PRECEDENCE
from governance.web.shapes import Shape

PROBLEM_TYPE = "application/problem+json"
JSON_TYPE = "application/json"

_UUID = {"type": "string", "format": "uuid"}
_HEADERS: dict[str, tuple[str, dict[str, str] | None]] = {
    "Request-Id": ("Names the request in logs and events; made when absent, and echoed.", None),
    "Fencepost-Protocol": ("Version of the protocol that the caller speaks.", None),
}
_SESSION_HEADERS: dict[str, tuple[str, dict[str, str] | None]] = {
    "Fencepost-Session": ("The activated session of the caller.", _UUID),
    "Fencepost-Epoch": ("The dispatcher epoch that the caller knows.", _UUID),
}


class RetryOut(serializers.Serializer):
    """Whether and how to send the request again."""

    rule = serializers.ChoiceField(choices=RETRY_RULES)
    after_seconds = serializers.IntegerField(allow_null=True)


class FaultOut(serializers.Serializer):
    """One fault of the request."""

    pointer = serializers.CharField(allow_blank=True, help_text="RFC 6901 JSON pointer")
    detail = serializers.CharField()


class Problem(serializers.Serializer):
    """A failure (RFC 9457)."""

    type = serializers.URLField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    instance = serializers.CharField()
    code = serializers.ChoiceField(choices=sorted({refusal.code for refusal in PRECEDENCE}))
    reason = serializers.CharField(help_text="finer than `code`, and as stable")
    effect = serializers.ChoiceField(choices=EFFECTS)
    retry = RetryOut()
    current = serializers.DictField(help_text="what the caller should have had")
    errors = FaultOut(many=True)  # type: ignore[assignment]


class ProblemSchema(AutoSchema):
    """Describes a `WorkerView` from its `calls`."""

    def _call(self) -> Any:
        return self.view.calls.get(  # type: ignore[attr-defined]
            self.method.lower()
        )

    def is_excluded(self) -> bool:
        return self._call() is None

    def get_operation_id(self) -> str:
        return str(self._call().operation)

    def get_tags(self) -> list[str]:
        return [self._call().tag or self._tokenize_path()[0]]

    def get_summary(self) -> str:
        handler = getattr(self.view, self.method.lower())
        return _first_line(handler.__doc__ or type(self.view).__doc__).rstrip(".")

    def get_description(self) -> str:  # type: ignore[override]
        handler = getattr(self.view, self.method.lower())
        return (handler.__doc__ or "").partition("\n")[2].strip()

    def get_auth(self) -> list[dict[str, list[str]]]:
        return super().get_auth() if self._call().scopes else []

    def get_extensions(self) -> dict[str, Any]:
        scopes = list(self._call().scopes)
        return {"x-scopes": scopes} if scopes else {}

    def map_parsers(self) -> list[str]:
        return [JSON_TYPE]

    def map_renderers(self, attribute: str) -> list[str]:
        return [JSON_TYPE] if attribute == "media_type" else ["json"]

    def get_filter_backends(self) -> list[Any]:
        return []

    def _is_list_view(self, serializer: Any = None) -> bool:
        # Lists are objects here, with their page beside them.
        return False

    def get_override_parameters(self) -> list[Any]:
        call = self._call()
        headers = dict(_HEADERS)
        if call.sessions:
            headers |= _SESSION_HEADERS
        if call.if_match:
            headers["If-Match"] = ("The revision that is expected, as an ETag.", None)
        parameters = [
            _parameter(name, OpenApiParameter.HEADER, text, schema)
            for name, (text, schema) in headers.items()
        ]
        if call.key:
            text = "UUIDv7 that names this request; the same again gives the same answer."
            key = _parameter("Idempotency-Key", OpenApiParameter.HEADER, text, _UUID)
            key.required = call.key == "required"
            parameters.append(key)
        for name, text in call.query.items():
            parameters.append(_parameter(name, OpenApiParameter.QUERY, text))
        if call.filters is not None:
            for name, found in call.filters.base_filters.items():
                text = str(found.extra.get("help_text") or "")
                parameters.append(_parameter(name, OpenApiParameter.QUERY, text, _of_filter(found)))
        if call.paged:
            parameters += [
                _parameter("cursor", OpenApiParameter.QUERY, "From `next` or `previous`."),
                _parameter(
                    "page_size",
                    OpenApiParameter.QUERY,
                    "50 by default; above 200 it is 200.",
                    {"type": "integer", "minimum": 1},
                ),
            ]
        return parameters

    def get_request_serializer(self) -> Any:
        return self._call().reads

    def get_response_serializers(self) -> Any:
        answers: dict[Any, Any] = {
            str(status): OpenApiResponse(
                shape, description=(shape.__doc__ or "").partition("\n")[0]
            )
            for status, shape in self._call().answers.items()
        }
        problem = OpenApiResponse(Problem, description="The request was refused or failed.")
        answers["default", PROBLEM_TYPE] = problem
        return answers

    def _map_serializer_field(
        self, field: Any, direction: Any, bypass_extensions: bool = False
    ) -> dict[str, Any]:
        if isinstance(field, serializers.JSONField):
            # Any value, null among them; "any or null" would match null twice.
            return {"description": field.help_text} if field.help_text else {}
        return super()._map_serializer_field(field, direction, bypass_extensions)

    def _map_basic_serializer(self, serializer: Any, direction: Any) -> dict[str, Any]:
        schema = super()._map_basic_serializer(serializer, direction)
        if isinstance(serializer, Shape):
            schema["additionalProperties"] = False
        return schema

    def _get_request_body(self, direction: Any = "request") -> dict[str, Any] | None:
        body = super()._get_request_body(direction)
        call = self._call()
        if body is not None and call.batch_max:
            content = body["content"][JSON_TYPE]
            items = {
                "type": "array",
                "items": content["schema"],
                "minItems": 1,
                "maxItems": call.batch_max,
            }
            content["schema"] = {
                "type": "object",
                "properties": {call.batch_name: items},
                "required": [call.batch_name],
                "additionalProperties": False,
            }
            body["required"] = True
        return body


def _first_line(text: str | None) -> str:
    return (text or "").partition("\n")[0]


def _parameter(
    name: str, location: Any, text: str, schema: dict[str, Any] | None = None
) -> OpenApiParameter:
    return OpenApiParameter(
        name, schema or {"type": "string"}, location, description=text, required=False
    )


def _of_filter(found: Any) -> dict[str, Any]:
    choices = found.extra.get("choices")
    if choices:
        values = [value for value, _ in (choices() if callable(choices) else choices)]
        return {"type": "string", "enum": values}
    return {"type": "string"}
