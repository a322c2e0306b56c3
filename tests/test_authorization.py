"""Who may call what: the matrix of contract section 0, as data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from uuid_utils.compat import uuid7

from governance.operations.operation import Operation
from governance.urls import urlpatterns
from governance.web.views import OperationView
from tests.client import Api, refused

pytestmark = pytest.mark.django_db

#: Operation -> the scopes any one of which is enough.
MATRIX: dict[str, frozenset[str]] = {
    name: frozenset(scopes.split())
    for name, scopes in {
        # intake, and reads of what was submitted
        "queue_job": "submit",
        "queue_jobs": "submit",
        "intake_task": "submit",
        "list_jobs": "read submit",
        "get_job": "read submit",
        "list_job_attempts": "read submit work",
        "list_job_events": "read submit",
        # work on its own agent's jobs
        "claim_job": "work",
        "claim_jobs": "work",
        "heartbeat_leases": "work",
        "complete_job": "work",
        "complete_jobs": "work",
        "fail_job": "work",
        "escalate_job": "work",
        "defer_job": "work",
        "reflect_on_job": "work",
        "reflect": "work",
        "extract_skills": "work",
        "rate_skill": "work",
        "list_skills": "work read",
        "get_skill": "work read",
        # control
        "control_job": "control",
        # agents
        "activate": "work",
        "agent_heartbeat": "work",
        "set_admission": "admit",
        "agent_status": "read admit",
        "agent_bootstrap": "read work",
        # executions, money, evidence
        "decide_route": "work",
        "resolve_reservation": "work",
        "issue_permit": "work",
        "start_execution": "work",
        "get_execution": "work read",
        "report_result": "work",
        "grant_upload": "work",
        "complete_upload": "work",
        "record_fact": "work",
        "get_artifact": "read",
        "get_spend": "read",
    }.items()
}
KINDS = {"agent": ("work", "read", "admit"), "submitter": ("submit", "read", "control", "admit")}


def calls() -> Iterator[tuple[str, str, Operation]]:
    """Give path, method and operation of everything that the API binds."""

    def walk(patterns: Any, prefix: str) -> Iterator[tuple[str, str, Operation]]:
        for pattern in patterns:
            path = prefix + str(pattern.pattern)
            if hasattr(pattern, "url_patterns"):
                yield from walk(pattern.url_patterns, path)
            elif issubclass(getattr(pattern.callback, "cls", object), OperationView):
                for method, binding in pattern.callback.initkwargs["bindings"].items():
                    yield path, method.lower(), binding.operation

    yield from walk(urlpatterns, "/")


CALLS = list(calls())


def filled(path: str) -> str:
    """Put something that does not exist into the path's parameters."""
    for parameter, value in {
        "<str:task_id>": "no-such-task",
        "<str:agent>": "hermes",
        "<int:skill_id>": "999999",
        "<str:external_request_id>": "xr_none",
        "<uuid:reservation_id>": str(uuid7()),
        "<uuid:upload_id>": str(uuid7()),
        "<uuid:artifact_id>": str(uuid7()),
    }.items():
        path = path.replace(parameter, value)
    assert "<" not in path, f"give {path} a value here"
    return path


def test_the_matrix_says_who_may_call_each_operation():
    """A new operation is written into the matrix by hand: nothing is open by accident.

    Names stay: they are in idempotency records, and another name would execute a request again.
    """
    declared = {operation.name: frozenset(operation.scopes) for _, _, operation in CALLS}

    assert declared == MATRIX


@pytest.mark.parametrize(
    ("path", "method", "operation"),
    [(path, method, operation.name) for path, method, operation in CALLS],
    ids=[operation.name for _, _, operation in CALLS],
)
@pytest.mark.parametrize("kind", KINDS)
def test_only_the_named_scopes_pass_the_door(
    kind: str, path: str, method: str, operation: str, issue: Callable[..., str]
):
    """Whoever passes is told what is wrong with the request, or what was found."""
    name = {"agent": "hermes", "submitter": "ops"}[kind]
    allowed = MATRIX[operation] & set(KINDS[kind])
    others = [scope for scope in KINDS[kind] if scope not in allowed]

    # One that has all the wrong scopes is refused before anything is looked at.
    if others:
        response = call(Api(issue(**{kind: name}, scopes=others)), method, filled(path))
        assert refused(response) == (403, "PERMISSION_DENIED")
        assert "scope" in response.json()["detail"]
    if allowed:
        scopes = sorted(allowed)[:1]
        response = call(Api(issue(**{kind: name}, scopes=scopes)), method, filled(path))
        wanted = " or ".join(f"`{scope}`" for scope in declared_scopes(operation))
        assert f"The credential lacks the scope {wanted}." not in response.content.decode()


def declared_scopes(operation: str) -> tuple[str, ...]:
    return next(found.scopes for _, _, found in CALLS if found.name == operation)


def test_nobody_passes_without_a_token(world: None):
    for path, method, _ in CALLS:
        response = call(Api(), method, filled(path))
        assert refused(response) == (401, "UNAUTHENTICATED"), path


def call(api: Api, method: str, path: str) -> Any:
    return api.get(path) if method == "get" else api.post(path, {"unknown": 1})
