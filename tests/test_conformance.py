"""Generated requests: whatever comes in, the answer is one that the API description tells of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from uuid_utils.compat import uuid7

from governance.web.reference import api_description
from governance.wsgi import application
from tests.client import PROBLEM_MEMBERS

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

EXAMPLES = 15
CHECKS: list[Any] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
#: What exists, so that generated requests also get past the look-ups.
KNOWN = {"task_id": "task-1", "agent": "hermes"}

described = schemathesis.openapi.from_dict(api_description())
described.app = application
# Hundreds of requests per operation that differ in a header: too slow for every run.
described.config.phases.coverage.enabled = False


@pytest.fixture
def _one_connection() -> Iterator[None]:
    """Keep the test's connection, and with it its transaction, from request to request."""
    signals = (request_started, request_finished)
    for signal in signals:
        signal.disconnect(close_old_connections)
    yield
    for signal in signals:
        signal.connect(close_old_connections)


@pytest.fixture
def tokens(
    _one_connection: None, issue: Callable[..., str], make_job: Callable[..., Any]
) -> tuple[str, ...]:
    make_job()
    return issue(agent="hermes"), issue(submitter="prober", scopes=["submit", "read", "control"])


@described.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def test_every_answer_is_as_described(case: Any, tokens: tuple[str, ...]) -> None:
    for name, value in KNOWN.items():
        if name in (case.path_parameters or {}):
            case.path_parameters[name] = value
    for token in tokens:
        headers = {
            name: value
            for name, value in (case.headers or {}).items()
            if name not in ("Fencepost-Session", "Fencepost-Epoch", "Fencepost-Protocol")
        }
        case.headers = headers | {
            "Authorization": f"Bearer {token}",
            "Idempotency-Key": str(uuid7()),
            "Request-Id": "generated",
        }
        response = case.call_and_validate(checks=CHECKS)
        if response.status_code >= 400:
            assert response.json().keys() - {"result_code"} == PROBLEM_MEMBERS
