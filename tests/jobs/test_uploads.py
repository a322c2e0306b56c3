"""Artifacts: granted, put, confirmed by the store, told to the outside."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.test import Client
from uuid_utils.compat import uuid7

from governance import objects
from governance.models import Fact
from jobs import transitions
from jobs.models import Job, Upload
from tests.world import TEST

BYTES = b"# A specification\n"
SHA256 = hashlib.sha256(BYTES).hexdigest()

MakeJob = Callable[..., Job]


@pytest.fixture(autouse=True)
def own_folder(settings: Any, tmp_path: Path) -> Iterator[None]:
    settings.DATA_DIR = tmp_path
    objects.store.cache_clear()
    yield
    objects.store.cache_clear()


@pytest.fixture
def post(client: Client, hermes_token: str) -> Callable[..., Any]:
    """Call the API as hermes: the status and the JSON of the answer."""

    def call(path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        answer = client.post(
            f"/v1/{path}",
            body,
            content_type="application/json",
            headers={
                "Authorization": f"Bearer {hermes_token}",
                "Idempotency-Key": str(uuid7()),
            },
        )
        return answer.status_code, answer.json()

    return call


@pytest.fixture
def authority(make_job: MakeJob, post: Callable[..., Any]) -> dict[str, Any]:
    job = make_job()
    status, told = post(f"jobs/{job.task_id}/claim", {"worker_id": "w1"})
    assert status == 200
    return {
        "task_id": job.task_id,
        "attempt": told["job"]["attempt"],
        "fencing_token": told["fencing_token"],
    }


def announced(**over: Any) -> dict[str, Any]:
    return {
        "name": "spec.md",
        "media_type": "text/markdown",
        "size_bytes": len(BYTES),
        "sha256": SHA256,
    } | over


def put(client: Client, grant: dict[str, Any], body: bytes) -> Any:
    return client.put(urlsplit(grant["url"]).path, body, content_type="text/markdown")


def done(authority: dict[str, Any]) -> dict[str, Any]:
    return authority | {"sha256": SHA256, "size_bytes": len(BYTES)}


def test_an_artifact_is_granted_put_and_told(
    client: Client, post: Callable[..., Any], authority: dict[str, Any]
) -> None:
    status, grant = post("uploads", authority | announced())
    assert (status, grant["method"], grant["max_bytes"]) == (201, "PUT", len(BYTES))
    assert f"/{authority['fencing_token']}/" in grant["object_key"]
    assert put(client, grant, BYTES).status_code == 201

    status, receipt = post(f"uploads/{grant['upload_id']}/complete", done(authority))

    assert (status, receipt["outcome"], receipt["result_code"]) == (200, "recorded", "APPLIED")
    fact = Fact.objects.get(fact_id=receipt["fact_id"])
    assert fact.type == "dev.fencepost.artifact.uploaded"
    assert fact.data["sha256"] == SHA256
    assert b"".join(objects.store().read(key=grant["object_key"])) == BYTES
    again = post(f"uploads/{grant['upload_id']}/complete", done(authority))
    assert again == (200, receipt | {"outcome": "already_recorded"})


@pytest.mark.parametrize("body", [b"# Another thing\n\n", BYTES + b"more", BYTES[:-1], b""])
def test_other_bytes_than_announced_are_not_kept(
    client: Client, post: Callable[..., Any], authority: dict[str, Any], body: bytes
) -> None:
    _, grant = post("uploads", authority | announced())
    assert put(client, grant, body).status_code in (409, 413)
    status, refused = post(f"uploads/{grant['upload_id']}/complete", done(authority))
    assert (status, refused["reason"]) == (409, "CHECKSUM_MISMATCH")
    assert Upload.objects.get().state == "granted"
    assert not Fact.objects.filter(type__endswith="artifact.uploaded").exists()


def test_an_object_is_put_once(
    client: Client, post: Callable[..., Any], authority: dict[str, Any]
) -> None:
    _, grant = post("uploads", authority | announced())
    assert put(client, grant, BYTES).status_code == 201
    assert put(client, grant, BYTES).status_code == 412


def test_a_grant_that_is_not_ours_opens_nothing(
    client: Client, post: Callable[..., Any], authority: dict[str, Any]
) -> None:
    _, grant = post("uploads", authority | announced())
    forged = {"url": grant["url"][:-2] + "xx"}
    assert put(client, forged, BYTES).status_code == 404


@pytest.mark.parametrize("name", ["../x", "a/b", "..", "a\\b", "x\ny"])
def test_a_name_cannot_lead_elsewhere(
    post: Callable[..., Any], authority: dict[str, Any], name: str
) -> None:
    status, refused = post("uploads", authority | announced(name=name))
    assert (status, refused["code"]) == (400, "INVALID_ARGUMENT")
    assert not Upload.objects.exists()


def test_a_stopped_attempt_gets_its_artifact_in_no_more(
    client: Client, post: Callable[..., Any], authority: dict[str, Any]
) -> None:
    _, grant = post("uploads", authority | announced())
    assert put(client, grant, BYTES).status_code == 201
    transitions.stop(task_id=authority["task_id"], **TEST)
    status, refused = post(f"uploads/{grant['upload_id']}/complete", done(authority))
    assert (status, refused["reason"]) == (409, "STALE_FENCING_TOKEN")
    assert Upload.objects.get().state == "granted"


def test_another_agents_upload_is_forbidden(
    client: Client,
    post: Callable[..., Any],
    authority: dict[str, Any],
    openclaw_token: str,
) -> None:
    _, grant = post("uploads", authority | announced())
    answer = client.post(
        f"/v1/uploads/{grant['upload_id']}/complete",
        done(authority),
        content_type="application/json",
        headers={
            "Authorization": f"Bearer {openclaw_token}",
            "Idempotency-Key": str(uuid7()),
        },
    )
    assert answer.status_code == 403
