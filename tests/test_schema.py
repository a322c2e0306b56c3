"""The API description: complete, valid, and the same as the committed one."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.test import Client
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.validation import validate_schema

from governance.core.precedence import PRECEDENCE
from governance.management.commands.write_reference import documents
from governance.web import reference
from governance.web.views import OperationView

REFERENCE = Path(settings.BASE_DIR) / "docs" / "reference"


@pytest.mark.parametrize(
    "name",
    [
        "openapi.yaml",
        "errors.md",
        "permissions.md",
        "verbs.md",
        "execution-request.schema.json",
        "execution-result.schema.json",
    ],
)
def test_a_committed_reference_page_is_the_generated_one(name):
    """Where this fails: `manage.py write_reference`."""
    assert (REFERENCE / name).read_text(encoding="utf-8") == documents()[name]


def test_the_description_is_valid_openapi_and_was_made_without_a_warning():
    reference.api_description.cache_clear()
    GENERATOR_STATS.reset()

    description = reference.api_description()

    validate_schema(description)
    assert description["openapi"].startswith("3.1")
    assert not GENERATOR_STATS, "warnings of the generator"


def test_every_operation_describes_its_failure_and_has_a_name_of_its_own():
    operations = [
        operation
        for path in reference.api_description()["paths"].values()
        for operation in path.values()
    ]

    assert all(
        list(operation["responses"]["default"]["content"]) == ["application/problem+json"]
        for operation in operations
    )
    names = [operation["operationId"] for operation in operations]
    assert len(names) == len(set(names))


def test_every_write_describes_its_idempotency_key_where_it_has_one():
    for path in reference.api_description()["paths"].values():
        for method, operation in path.items():
            headers = {p["name"] for p in operation.get("parameters", []) if p["in"] == "header"}
            heartbeat = operation["operationId"].startswith(("heartbeat", "agent_heartbeat"))
            assert ("Idempotency-Key" in headers) == (method == "post" and not heartbeat), operation


def test_every_path_of_the_api_is_bound_to_operations_and_none_is_open():
    def patterns(of, prefix=""):
        for pattern in of:
            path = prefix + str(pattern.pattern)
            if hasattr(pattern, "url_patterns"):
                yield from patterns(pattern.url_patterns, path)
            else:
                yield path, pattern.callback

    from governance.urls import urlpatterns

    api = {path: view for path, view in patterns(urlpatterns) if path.startswith("v1/")}
    # The description itself is the one path that asks for no credential.
    assert api.pop("v1/openapi.json") is reference.openapi_document
    assert api
    for path, view in api.items():
        assert view.cls is OperationView, path
        for method, binding in view.initkwargs["bindings"].items():
            assert hasattr(OperationView, method.lower()), path
            assert binding.operation.scopes, path
            assert set(binding.statuses) <= set(binding.operation.outcomes), path


def test_every_reason_is_stable_and_unique():
    reasons = [refusal.reason for refusal in PRECEDENCE]

    shared = {
        "REVISION_MISMATCH",  # 409, and 412 where If-Match was sent
        "DEADLINE_EXCEEDED",  # effect none, and unknown
        "ADMISSION_CLOSED",  # of a claim, and `defer` of what was claimed before
        "MODEL_NOT_ALLOWED",  # of this request, and `defer` where no model is in force
        "RATE_LIMITED",  # of this caller's requests, and `defer` of a model's calls
    }
    assert {reason for reason in reasons if reasons.count(reason) > 1} == shared


def test_the_check_of_the_reference_pages_fails_on_a_change(tmp_path, settings):
    settings.BASE_DIR = tmp_path
    (tmp_path / "docs" / "reference").mkdir(parents=True)

    with pytest.raises(CommandError):
        call_command("write_reference", check=True)
    call_command("write_reference", stdout=StringIO())
    call_command("write_reference", check=True)


@pytest.mark.django_db
def test_the_description_and_its_page_are_served_to_anybody():
    assert Client().get("/v1/openapi.json").json()["info"]["title"] == "Fencepost"
    page = Client().get("/docs/")
    assert page.status_code == 200
    assert b"http" not in page.content.replace(b"http-equiv", b"")
