"""The API description: made of the same data by which operations are judged and found."""

from __future__ import annotations

from inspect import cleandoc
from typing import Any, get_args

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ResolvedComponent
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework import serializers

from governance.core.errors import Problem
from governance.core.idempotency import OPERATION_ID_CHARS_MAX
from governance.operations.operation import Operation
from governance.operations.shapes import Shape, TextOrFlag
from governance.web.answer_schemas import object_schema, schema_of
from governance.web.bindings import NOT_MODIFIED
from governance.web.problems import PROBLEM_TYPE
from governance.web.reading import JSON_TYPE, TIMEOUT_SECONDS_MAX

_UUID = {"type": "string", "format": "uuid"}
_HEADERS: dict[str, tuple[str, dict[str, Any] | None]] = {
    "Request-Id": ("Names the request in logs and events; made when absent, and echoed.", None),
    "Fencepost-Protocol": ("Version of the protocol that the caller speaks.", None),
    "Request-Timeout-Seconds": (
        "How long the caller waits; then the call ends, and is undone where it is not committed.",
        {"type": "integer", "minimum": 1, "maximum": TIMEOUT_SECONDS_MAX},
    ),
}
_SESSION_HEADERS: dict[str, tuple[str, dict[str, Any] | None]] = {
    "Fencepost-Session": ("The activated session of the caller.", _UUID),
    "Fencepost-Epoch": ("The dispatcher epoch that the caller knows.", _UUID),
}


class OperationSchema(AutoSchema):
    """Describes an `OperationView` from its `bindings`."""

    @property
    def _binding(self) -> Any:
        return self.view.bindings.get(self.method)  # type: ignore[attr-defined]

    @property
    def _operation(self) -> Operation:
        operation: Operation = self._binding.operation
        return operation

    def is_excluded(self) -> bool:
        return self._binding is None

    def get_operation_id(self) -> str:
        return self._operation.name

    def get_tags(self) -> list[str]:
        return [self._tokenize_path()[0]]

    def get_summary(self) -> str:
        return self._operation.summary

    def get_description(self) -> str:  # type: ignore[override]
        return cleandoc(self._operation.run.__doc__ or "").partition("\n")[2].strip()

    def get_auth(self) -> list[dict[str, list[str]]]:
        return super().get_auth() if self._operation.scopes else []

    def get_extensions(self) -> dict[str, Any]:
        scopes = list(self._operation.scopes)
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
        operation = self._operation
        headers = dict(_HEADERS)
        if operation.sessions:
            headers |= _SESSION_HEADERS
        if operation.if_match:
            headers["If-Match"] = ("The revision that is expected, as an ETag.", None)
        if operation.if_none_match:
            headers["If-None-Match"] = ("The revision that the caller has, as an ETag.", None)
        parameters = [
            _parameter(name, OpenApiParameter.HEADER, text, schema)
            for name, (text, schema) in headers.items()
        ]
        if operation.key:
            text = (
                "A UUID that names this request (best of version 7); the same again gives the same"
                " answer."
            )
            key = _parameter("Idempotency-Key", OpenApiParameter.HEADER, text, _UUID)
            key.required = operation.key == "required"
            parameters.append(key)
            text = (
                f"Up to {OPERATION_ID_CHARS_MAX} printable characters that name the operation, as a"
                " part of what the key is unique in; by default the operation's own name."
            )
            parameters.append(_parameter("Operation-Id", OpenApiParameter.HEADER, text, None))
        return parameters + _query_parameters(operation)

    def get_request_serializer(self) -> Any:
        return self._operation.reads

    def get_response_serializers(self) -> Any:
        answers = self._operation.answers
        described = answers if isinstance(answers, type) else get_args(answers)[0]
        description = (described.__doc__ or "").partition("\n")[0]
        responses: dict[Any, Any] = {
            str(status): OpenApiResponse(schema_of(answers, self._refer), description=description)
            for status in self._binding.documented_statuses
            if status != NOT_MODIFIED
        }
        if NOT_MODIFIED in self._binding.documented_statuses:
            responses[str(NOT_MODIFIED)] = OpenApiResponse(description="The caller has it already.")
        problem = OpenApiResponse(
            self._refer(Problem), description="The request was refused or failed."
        )
        responses["default", PROBLEM_TYPE] = problem
        return responses

    def _refer(self, answer: type) -> dict[str, Any]:
        """Return the reference to an answer's schema, which is a component of its name."""
        component = ResolvedComponent(
            name=answer.__name__, type=ResolvedComponent.SCHEMA, object=answer
        )
        if component not in self.registry:
            self.registry.register(component)
            component.schema = object_schema(answer, self._refer)
        return component.ref

    def _map_serializer_field(
        self, field: Any, direction: Any, bypass_extensions: bool = False
    ) -> dict[str, Any]:
        if isinstance(field, serializers.JSONField):
            # Any value, null among them; "any or null" would match null twice.
            return {"description": field.help_text} if field.help_text else {}
        schema = super()._map_serializer_field(field, direction, bypass_extensions)
        if isinstance(field, TextOrFlag):
            schema["type"] = ["string", "boolean"] + ["null"] * field.allow_null
        return schema

    def _map_basic_serializer(self, serializer: Any, direction: Any) -> dict[str, Any]:
        schema = super()._map_basic_serializer(serializer, direction)
        if isinstance(serializer, Shape):
            schema["additionalProperties"] = False
        return schema

    def _get_request_body(self, direction: Any = "request") -> dict[str, Any] | None:
        body = super()._get_request_body(direction)
        operation = self._operation
        if body is not None and operation.batch_max:
            content = body["content"][JSON_TYPE]
            items = {
                "type": "array",
                "items": content["schema"],
                "minItems": 1,
                "maxItems": operation.batch_max,
            }
            content["schema"] = {
                "type": "object",
                "properties": {operation.batch_name: items} | self._beside(operation),
                "required": [operation.batch_name],
                "additionalProperties": False,
            }
            body["required"] = True
        return body

    def _beside(self, operation: Operation) -> dict[str, Any]:
        """Return the properties of what a batch says of all its items."""
        if operation.beside is None:
            return {}
        properties: dict[str, Any] = self._map_basic_serializer(operation.beside(), "request")[
            "properties"
        ]
        return properties


def _query_parameters(operation: Operation) -> list[OpenApiParameter]:
    parameters = [
        _parameter(name, OpenApiParameter.QUERY, found)
        if isinstance(found, str)
        else _parameter(name, OpenApiParameter.QUERY, found.explained, found.schema)
        for name, found in operation.query.items()
    ]
    if operation.filters is not None:
        for name, found in operation.filters.base_filters.items():
            text = str(found.extra.get("help_text") or "")
            parameters.append(_parameter(name, OpenApiParameter.QUERY, text, _of_filter(found)))
    if operation.paged:
        size = {"type": "integer", "minimum": 1}
        text = "50 by default; above 200 it is 200."
        parameters += [
            _parameter("cursor", OpenApiParameter.QUERY, "From `next` or `previous`."),
            _parameter("page_size", OpenApiParameter.QUERY, text, size),
        ]
    return parameters


def _parameter(
    name: str, location: Any, text: str, schema: dict[str, Any] | None = None
) -> OpenApiParameter:
    return OpenApiParameter(
        name, schema or {"type": "string"}, location, description=text, required=False
    )


def _of_filter(found: Any) -> dict[str, Any]:
    if getattr(found, "repeatable", False):
        return {"type": "array", "items": {"type": "string"}}
    choices = found.extra.get("choices")
    if choices:
        values = [value for value, _ in (choices() if callable(choices) else choices)]
        return {"type": "string", "enum": values}
    return {"type": "string"}
