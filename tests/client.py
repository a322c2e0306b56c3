"""The API client of the tests: says who calls, speaks JSON, checks that failures are problems."""

from __future__ import annotations

import json
from typing import Any

from django.test import Client

PROBLEM_MEMBERS = {
    "type",
    "title",
    "status",
    "detail",
    "instance",
    "code",
    "reason",
    "effect",
    "retry",
    "current",
    "errors",
}


class Api:
    """Calls of one principal: `Api(token).post("/v1/jobs", {...})` gives the response."""

    def __init__(self, token: str = "", **headers: str) -> None:
        self.headers = ({"Authorization": f"Bearer {token}"} if token else {}) | headers
        self.client = Client(raise_request_exception=False)

    def get(self, path: str, **headers: str) -> Any:
        return self._checked(self.client.get(path, headers=self.headers | _names(headers)), "GET")

    def post(self, path: str, body: Any = None, *, raw: bytes | None = None, **headers: str) -> Any:
        sent = raw if raw is not None else json.dumps(body if body is not None else {}).encode()
        return self._checked(
            self.client.post(
                path,
                data=sent,
                content_type="application/json",
                headers=self.headers | _names(headers),
            ),
            "POST",
        )

    @staticmethod
    def _checked(response: Any, method: str) -> Any:
        if response.status_code >= 400:
            assert response["Content-Type"] == "application/problem+json", response.content
            problem = response.json()
            assert problem.keys() - {"result_code"} == PROBLEM_MEMBERS
            assert problem["status"] == response.status_code
            assert problem.get("result_code") == result_code_of(problem, method)
        assert response["Request-Id"]
        return response


def result_code_of(problem: Any, method: str) -> str | None:
    """Return what the refusal of a request has to say of its receipt; contract section 2."""
    if method == "GET":
        return None
    if problem["effect"] == "unknown":
        return "UNKNOWN"
    return "CONFLICT" if problem["code"] in {"ABORTED", "ALREADY_EXISTS"} else None


def _names(headers: dict[str, str]) -> dict[str, str]:
    """`idempotency_key` is the header `Idempotency-Key`."""
    return {name.replace("_", "-"): value for name, value in headers.items()}


def timeless(content: bytes) -> Any:
    """Return the JSON of an answer without the seconds that a lease has left."""
    return json.loads(content, object_hook=_without_ttl)


def _without_ttl(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if name != "ttl_seconds"}


def refused(response: Any) -> tuple[int, str]:
    """Return the status and the reason of a refusal."""
    return response.status_code, response.json()["reason"]
