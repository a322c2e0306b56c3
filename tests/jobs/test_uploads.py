"""Artifacts: granted, put, confirmed by the store, told to the outside."""

from __future__ import annotations

import hashlib
import io
import json
import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.core import signing
from django.test import Client
from structlog.stdlib import ProcessorFormatter
from uuid_utils.compat import uuid7

from agents.models import Session
from governance.core import clock
from governance.core.models import AuditEvent, Fact, IdempotencyRecord
from governance.settings import LOGGING
from jobs import objects, transitions
from jobs.models import Job, Lease, Upload
from jobs.objects import Stored
from jobs.transitions import uploads
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

    def call(path: str, body: dict[str, Any], **headers: str) -> tuple[int, dict[str, Any]]:
        answer = client.post(
            f"/v1/{path}",
            body,
            content_type="application/json",
            headers={
                "Authorization": f"Bearer {hermes_token}",
                "Idempotency-Key": str(uuid7()),
            }
            | headers,
        )
        return answer.status_code, answer.json()

    return call


@pytest.fixture
def acting(post: Callable[..., Any]) -> Callable[..., Any]:
    """Call the API as hermes in an activated session."""
    boot = {
        "activation_operation_id": "op-1",
        "cell_id": "cell-1",
        "boot_id": "boot-1",
        "protocol_version": "1.0",
    }
    _, told = post("agents/hermes/activate", boot)
    session = {"Fencepost-Session": told["session_id"], "Fencepost-Epoch": told["dispatcher_epoch"]}
    return lambda path, body, **headers: post(path, body, **(session | headers))


@pytest.fixture
def authority(make_job: MakeJob, acting: Callable[..., Any]) -> dict[str, Any]:
    job = make_job()
    status, told = acting(f"jobs/{job.task_id}/claim", {})
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
    client: Client, acting: Callable[..., Any], authority: dict[str, Any]
) -> None:
    status, grant = acting("uploads", authority | announced())
    assert (status, grant["method"], grant["max_bytes"]) == (201, "PUT", len(BYTES))
    assert f"/{authority['fencing_token']}/" in grant["object_key"]
    assert put(client, grant, BYTES).status_code == 201

    status, receipt = acting(f"uploads/{grant['upload_id']}/complete", done(authority))

    assert (status, receipt["outcome"], receipt["result_code"]) == (200, "recorded", "APPLIED")
    fact = Fact.objects.get(fact_id=receipt["fact_id"])
    assert fact.type == "dev.fencepost.artifact.uploaded"
    assert fact.data["sha256"] == SHA256
    assert b"".join(objects.store().read(key=grant["object_key"])) == BYTES
    again = acting(f"uploads/{grant['upload_id']}/complete", done(authority))
    assert again == (200, receipt | {"outcome": "already_recorded"})


@pytest.mark.parametrize("body", [b"# Another thing\n\n", BYTES + b"more", BYTES[:-1], b""])
def test_other_bytes_than_announced_are_not_kept(
    client: Client, acting: Callable[..., Any], authority: dict[str, Any], body: bytes
) -> None:
    _, grant = acting("uploads", authority | announced())
    assert put(client, grant, body).status_code in (409, 413)
    status, refused = acting(f"uploads/{grant['upload_id']}/complete", done(authority))
    assert (status, refused["reason"]) == (409, "CHECKSUM_MISMATCH")
    assert Upload.objects.get().state == "granted"
    assert not Fact.objects.filter(type__endswith="artifact.uploaded").exists()


@pytest.mark.parametrize(
    "found", [Stored(len(BYTES), "00" * 32), Stored(len(BYTES) + 1, SHA256)], ids=["sum", "size"]
)
def test_an_artifact_of_which_the_store_holds_something_else_is_not_accepted(
    client: Client,
    acting: Callable[..., Any],
    authority: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    found: Stored,
) -> None:
    _, grant = acting("uploads", authority | announced())
    assert put(client, grant, BYTES).status_code == 201
    monkeypatch.setattr(type(objects.store()), "stat", lambda self, *, key: found)

    status, refused = acting(f"uploads/{grant['upload_id']}/complete", done(authority))

    assert (status, refused["reason"]) == (409, "CHECKSUM_MISMATCH")
    assert Upload.objects.get().state == "granted"
    assert not Fact.objects.filter(type__endswith="artifact.uploaded").exists()


def test_an_object_is_put_once(
    client: Client, acting: Callable[..., Any], authority: dict[str, Any]
) -> None:
    _, grant = acting("uploads", authority | announced())
    assert put(client, grant, BYTES).status_code == 201
    assert put(client, grant, BYTES).status_code == 412


def test_the_refusal_of_an_upload_that_is_nobodys_is_kept_under_its_key(
    acting: Callable[..., Any],
    client: Client,
    hermes_token: str,
    authority: dict[str, Any],
) -> None:
    headers = {"Authorization": f"Bearer {hermes_token}", "Idempotency-Key": str(uuid7())}
    headers["Fencepost-Session"] = str(Session.objects.get(kind="activated").session_id)
    path = f"/v1/uploads/{uuid7()}/complete"

    first, again = (
        client.post(path, done(authority), content_type="application/json", headers=headers)
        for _ in range(2)
    )

    assert (first.status_code, first.json()["reason"]) == (404, "NOT_FOUND")
    assert (again.status_code, again.content) == (404, first.content)
    assert again["Idempotent-Replayed"] == "true"


def test_an_attempt_has_a_bounded_number_of_grants(
    acting: Callable[..., Any], authority: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "GRANTS_MAX", 2)
    for name in ("a", "b"):
        assert acting("uploads", authority | announced(name=name))[0] == 201
    events = AuditEvent.objects.count()

    status, refused = acting("uploads", authority | announced(name="c"))

    assert (status, refused["code"], refused["reason"]) == (
        429,
        "RESOURCE_EXHAUSTED",
        "RATE_LIMITED",
    )
    assert refused["retry"] == {"rule": "wait", "after_seconds": objects.GRANT_SECONDS}
    assert (Upload.objects.count(), AuditEvent.objects.count()) == (2, events)
    Upload.objects.filter(name="a").update(expires_at=clock.now())
    assert acting("uploads", authority | announced(name="c"))[0] == 201


def test_no_log_line_has_the_signature_of_a_grant(
    client: Client,
    acting: Callable[..., Any],
    authority: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, grant = acting("uploads", authority | announced())
    signed = urlsplit(grant["url"]).path.removeprefix("/objects/")
    handler = logging.StreamHandler(lines := io.StringIO())
    said = {name: what for name, what in LOGGING["formatters"]["json"].items() if name != "()"}
    handler.setFormatter(ProcessorFormatter(**said))
    for name in ("django_structlog.middlewares.request", "django.request"):
        monkeypatch.setattr(logging.getLogger(name), "handlers", [handler])
        monkeypatch.setattr(logging.getLogger(name), "level", logging.INFO)
    client.raise_request_exception = False

    put(client, grant, BYTES)
    monkeypatch.setattr(objects.FolderStore, "receive", lambda self, **_: {}["away"])
    assert put(client, grant, BYTES).status_code == 500

    told = lines.getvalue()
    assert told.count("/objects/[signed]") >= 3
    assert signed not in told and signed[:40] not in told


def test_a_grant_that_is_not_ours_opens_nothing(
    client: Client, acting: Callable[..., Any], authority: dict[str, Any]
) -> None:
    _, grant = acting("uploads", authority | announced())
    forged = {"url": grant["url"][:-2] + "xx"}
    assert put(client, forged, BYTES).status_code == 404


def test_an_object_in_chunks_is_told_what_is_wrong(
    client: Client, acting: Callable[..., Any], authority: dict[str, Any]
) -> None:
    _, grant = acting("uploads", authority | announced())
    path = grant["url"].partition("/objects/")[2]
    answer = client.generic("PUT", f"/objects/{path}", headers={"Transfer-Encoding": "chunked"})
    assert (answer.status_code, answer.json()["reason"]) == (400, "INVALID_ARGUMENT")
    assert "Content-Length" in answer.json()["detail"]


def test_the_path_of_a_grant_takes_objects_and_gives_them_and_nothing_else(client: Client) -> None:
    answer = client.post("/objects/x")
    assert (answer.status_code, answer["Allow"]) == (405, "GET, HEAD, PUT")


@pytest.mark.parametrize("name", ["../x", "a/b", "..", "a\\b", "x\ny", "txt.\u202egpj"])
def test_a_name_cannot_lead_elsewhere(
    acting: Callable[..., Any], authority: dict[str, Any], name: str
) -> None:
    status, refused = acting("uploads", authority | announced(name=name))
    assert (status, refused["code"]) == (400, "INVALID_ARGUMENT")
    assert not Upload.objects.exists()


def test_a_stopped_attempt_gets_its_artifact_in_no_more(
    client: Client, acting: Callable[..., Any], authority: dict[str, Any]
) -> None:
    _, grant = acting("uploads", authority | announced())
    assert put(client, grant, BYTES).status_code == 201
    transitions.stop(task_id=authority["task_id"], **TEST)
    # The token comes first, also where size and checksum are others than granted.
    for said in (done(authority), done(authority) | {"size_bytes": 1}):
        status, refused = acting(f"uploads/{grant['upload_id']}/complete", said)
        assert (status, refused["reason"]) == (409, "STALE_FENCING_TOKEN")
    assert Upload.objects.get().state == "granted"


def test_an_attempt_whose_lease_has_run_out_is_granted_no_upload(
    acting: Callable[..., Any], authority: dict[str, Any]
) -> None:
    lease = Lease.objects.get()
    Lease.objects.update(expires_at=lease.granted_at + timedelta(microseconds=1))
    facts = Fact.objects.count()

    status, refused = acting("uploads", authority | announced())

    assert (status, refused["reason"]) == (409, "LEASE_EXPIRED")
    assert not Upload.objects.exists()
    assert Fact.objects.count() == facts


def test_an_upload_needs_an_activated_session(
    post: Callable[..., Any], authority: dict[str, Any]
) -> None:
    status, refused = post("uploads", authority | announced())
    assert (status, refused["reason"]) == (401, "SESSION_REQUIRED")
    assert not Upload.objects.exists()


def test_a_second_artifact_of_the_same_name_is_refused(
    client: Client, acting: Callable[..., Any], authority: dict[str, Any]
) -> None:
    other = b"# Another specification\n"
    wanted = {"size_bytes": len(other), "sha256": hashlib.sha256(other).hexdigest()}
    _, first = acting("uploads", authority | announced())
    _, second = acting("uploads", authority | announced(**wanted))
    put(client, first, BYTES)
    put(client, second, other)
    _, receipt = acting(f"uploads/{first['upload_id']}/complete", done(authority))

    status, refused = acting(f"uploads/{second['upload_id']}/complete", authority | wanted)

    assert (status, refused["reason"]) == (409, "ARTIFACT_EXISTS")
    assert refused["current"] == {"artifact_id": receipt["artifact_id"]}
    assert Upload.objects.filter(state="stored").count() == 1
    assert Fact.objects.filter(type__endswith="artifact.uploaded").count() == 1


def test_a_repeated_completion_needs_no_store(
    client: Client, acting: Callable[..., Any], authority: dict[str, Any], monkeypatch: Any
) -> None:
    _, grant = acting("uploads", authority | announced())
    put(client, grant, BYTES)
    first = acting(f"uploads/{grant['upload_id']}/complete", done(authority))
    monkeypatch.setattr(objects.FolderStore, "stat", None)
    again = acting(f"uploads/{grant['upload_id']}/complete", done(authority))
    assert again == (200, first[1] | {"outcome": "already_recorded"})


def test_another_agents_upload_is_forbidden(
    client: Client,
    acting: Callable[..., Any],
    authority: dict[str, Any],
    openclaw_token: str,
) -> None:
    _, grant = acting("uploads", authority | announced())
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


# --- a grant that is asked for again under its key ------------------------------------------------


@pytest.fixture
def again(acting: Callable[..., Any], authority: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """Ask for the same grant under one key; return the answer, which is the first one's facts."""
    key = str(uuid7())
    first: dict[str, Any] = {}

    def ask() -> dict[str, Any]:
        status, grant = acting("uploads", authority | announced(), **{"Idempotency-Key": key})
        assert status == 201
        facts = {name: value for name, value in grant.items() if name not in ("url", "headers")}
        assert first.setdefault("facts", facts) == facts
        return dict(grant)

    return ask


def test_nothing_that_lets_its_holder_act_is_kept_of_a_grant(again: Callable[[], Any]) -> None:
    grant = again()
    record = IdempotencyRecord.objects.get(operation="grant_upload")
    kept = json.loads(bytes(record.body or b""))
    assert kept.keys() == grant.keys() - {"url", "headers"}


def test_a_grant_is_given_again_for_the_time_that_it_has_left(
    client: Client, again: Callable[[], Any]
) -> None:
    headers = again()["headers"]
    Upload.objects.update(expires_at=clock.now() + timedelta(seconds=30))
    # The facts are those of the row that was granted, whatever it says now.
    grant = again()

    assert (grant["headers"], Upload.objects.count()) == (headers, 1)
    signed = urlsplit(grant["url"]).path.rpartition("/")[2]
    granted = signing.loads(signed, salt=objects.FolderStore.SALT)
    assert 0 < granted["seconds"] <= 30
    assert put(client, grant, BYTES).status_code == 201


def test_an_address_is_good_for_no_longer_than_its_grant_has_left(client: Client) -> None:
    wanted = {"key": f"jobs/{uuid7()}/1/{SHA256}", "size_bytes": len(BYTES), "sha256": SHA256}
    for seconds, status in ((60, 201), (-1, 409)):
        grant = objects.store().grant(**wanted, media_type="text/markdown", seconds=seconds)
        assert put(client, {"url": grant.url}, BYTES).status_code == status


def lease_expired() -> None:
    Lease.objects.update(expires_at=clock.now())


def attempt_over() -> None:
    transitions.stop(task_id="task-1", **TEST)


def grant_over() -> None:
    Upload.objects.update(expires_at=clock.now())


@pytest.mark.parametrize("end", [lease_expired, attempt_over, grant_over])
def test_a_grant_whose_time_or_attempt_is_over_gives_no_address_again(
    again: Callable[[], Any], end: Callable[[], None]
) -> None:
    again()
    end()
    grant = again()
    assert (grant["url"], grant["headers"]) == (None, {})


def test_what_was_put_is_accepted_though_its_grant_gives_no_address_again(
    client: Client, acting: Callable[..., Any], authority: dict[str, Any], again: Callable[[], Any]
) -> None:
    put(client, again(), BYTES)
    lease_expired()

    grant = again()
    status, receipt = acting(f"uploads/{grant['upload_id']}/complete", done(authority))

    assert (grant["url"], status, receipt["outcome"]) == (None, 200, "recorded")


def test_a_grant_that_an_earlier_release_kept_whole_is_judged_anew(
    again: Callable[[], Any],
) -> None:
    whole = again()
    IdempotencyRecord.objects.filter(operation="grant_upload").update(
        body=json.dumps(whole).encode()
    )
    attempt_over()
    assert again()["url"] is None


def test_what_was_granted_to_another_attempt_is_not_completed_by_this_one(
    authority: dict[str, Any], acting: Callable[..., Any], client: Client
) -> None:
    """The object is the one that was announced; the grant was another attempt's all the same."""
    _, grant = acting("uploads", authority | announced())
    put(client, grant, BYTES)
    failure = {"error_message": "no", "error_code": "E", "retryable": True}
    held = {name: authority[name] for name in ("attempt", "fencing_token")}
    acting(f"jobs/{authority['task_id']}/fail", held | failure)
    Job.objects.update(available_at=clock.now() - timedelta(seconds=1))
    _, told = acting(f"jobs/{authority['task_id']}/claim", {})
    second = {
        "task_id": authority["task_id"],
        "attempt": told["job"]["attempt"],
        "fencing_token": told["fencing_token"],
    }
    events = AuditEvent.objects.count()

    for sent in (second, second | {"attempt": authority["attempt"]}):
        status, _ = acting(f"uploads/{grant['upload_id']}/complete", done(sent))
        assert status in (404, 409)

    assert Upload.objects.get().state == "granted"
    assert AuditEvent.objects.count() == events
