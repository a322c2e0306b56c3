"""Artifacts that are handed out: to whom, for how long, and as what."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import pytest
from django.core import signing
from django.db import transaction
from django.test import Client
from uuid_utils.compat import uuid7

from agents import principals
from agents.models import Credential
from agents.principals import Principal, identify
from agents.transitions import credentials
from governance.core import clock
from governance.core.clock import instant
from governance.core.errors import Unauthenticated
from governance.core.models import AuditEvent, Fact
from jobs import objects
from jobs.models import Job, Upload
from jobs.transitions import artifacts
from tests.client import Api, refused
from tests.world import TEST

BYTES = b"<html><script>alert(1)</script></html>"
MakeArtifact = Callable[..., UUID]


@pytest.fixture(autouse=True)
def own_folder(settings: Any, tmp_path: Path) -> Iterator[None]:
    settings.DATA_DIR = tmp_path
    objects.store.cache_clear()
    yield
    objects.store.cache_clear()


@pytest.fixture
def artifact(make_job: Callable[..., Job]) -> MakeArtifact:
    """Put an artifact of a new job into the store, by row and file; return its id."""

    def make(name: str = "spec.html", *, state: str = "stored") -> UUID:
        job = make_job()
        key = objects.object_key(job_id=str(job.job_id), fencing_token=1, sha256="ab" * 32)
        store = objects.store()
        assert isinstance(store, objects.FolderStore)
        (store.folder / key).parent.mkdir(parents=True)
        (store.folder / key).write_bytes(BYTES)
        stored = state == "stored"
        made = Upload.objects.create(
            upload_id=uuid7(),
            artifact_id=uuid7() if stored else None,
            job=job,
            attempt=1,
            fencing_token=1,
            name=name,
            media_type="text/html",
            size_bytes=len(BYTES),
            sha256="ab" * 32,
            object_key=key,
            state=state,
            granted_at=clock.now(),
            expires_at=clock.now(),
            stored_at=clock.now() if stored else None,
        )
        return made.artifact_id or made.upload_id

    return make


def path_of(answer: Any) -> str:
    return urlsplit(answer.json()["url"]).path


def events() -> list[AuditEvent]:
    return list(AuditEvent.objects.filter(action="artifact.address_issued"))


# --- to whom -------------------------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.parametrize("who", ["submitter", "agent"])
def test_submitter_and_agent_get_an_address_that_is_audited_and_changes_nothing(
    artifact: MakeArtifact, submitter_token: str, hermes_token: str, client: Client, who: str
) -> None:
    found = artifact()
    before, facts = Job.objects.get(), Fact.objects.count()
    token = {"submitter": submitter_token, "agent": hermes_token}[who]

    started = clock.now()
    answer = Api(token).get(f"/v1/artifacts/{found}")

    assert answer.status_code == 200
    assert answer.json().keys() == {"url", "expires_at"}
    assert instant(started) < answer.json()["expires_at"]
    assert answer["Cache-Control"] == "no-store"
    assert b"".join(client.get(path_of(answer)).streaming_content) == BYTES
    [event] = events()
    assert event.actor == {"submitter": "submitter:ops", "agent": "agent:hermes"}[who]
    assert event.subject == before.audit_subject
    assert str(found).encode() in bytes(event.body)
    assert path_of(answer).removeprefix("/objects/")[:20].encode() not in bytes(event.body)
    after = Job.objects.get()
    assert (after.revision, after.updated_at) == (before.revision, before.updated_at)
    assert (after.audit_seq, Fact.objects.count()) == (before.audit_seq + 1, facts)


@pytest.mark.django_db
def test_to_others_it_is_not_there_or_not_theirs(
    artifact: MakeArtifact, submitter_token: str, openclaw_token: str, issue: Any
) -> None:
    found, granted = artifact(), artifact(state="granted")
    stranger = Api(issue(submitter="stranger"))

    foreign = stranger.get(f"/v1/artifacts/{found}")
    absent = stranger.get(f"/v1/artifacts/{uuid7()}")
    assert refused(foreign) == refused(absent) == (404, "NOT_FOUND")
    assert foreign.json()["detail"] == absent.json()["detail"]
    assert refused(Api(openclaw_token).get(f"/v1/artifacts/{found}")) == (403, "WRONG_OWNER")
    # A grant is no artifact before its upload is completed.
    assert refused(Api(submitter_token).get(f"/v1/artifacts/{granted}")) == (404, "NOT_FOUND")
    assert events() == []


@pytest.mark.django_db
def test_without_the_scope_it_is_refused_before_anything_is_looked_up(
    artifact: MakeArtifact, issue: Any
) -> None:
    found = artifact()
    token = issue(agent="hermes", scopes=["work"])
    assert refused(Api(token).get(f"/v1/artifacts/{found}")) == (403, "PERMISSION_DENIED")


# --- for how long, and as what -------------------------------------------------------------------


@pytest.mark.django_db
def test_the_bytes_come_as_a_file_that_nothing_renders(
    artifact: MakeArtifact, submitter_token: str, client: Client
) -> None:
    found = artifact("Über »uns«.html")
    answer = client.get(path_of(Api(submitter_token).get(f"/v1/artifacts/{found}")))

    assert answer.status_code == 200
    assert answer["Content-Type"] == "application/octet-stream"
    assert answer["Content-Disposition"].startswith("attachment; filename*=utf-8''%C3%9Cber")
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert answer["Cache-Control"] == "no-store"
    assert answer["Content-Length"] == str(len(BYTES))
    b"".join(answer.streaming_content)


@pytest.mark.django_db
def test_an_address_is_good_for_a_minute(
    artifact: MakeArtifact, submitter_token: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = path_of(Api(submitter_token).get(f"/v1/artifacts/{artifact()}"))
    now = signing.time.time()

    monkeypatch.setattr(signing.time, "time", lambda: now + objects.ADDRESS_SECONDS + 1)
    late = client.get(path)
    assert (late.status_code, late.json()["reason"]) == (409, "GRANT_EXPIRED")
    assert "result_code" not in late.json()
    assert objects.ADDRESS_SECONDS <= 60


@pytest.mark.django_db
def test_an_address_puts_nothing_and_a_grant_gives_nothing_away(
    artifact: MakeArtifact, submitter_token: str, client: Client
) -> None:
    path = path_of(Api(submitter_token).get(f"/v1/artifacts/{artifact()}"))
    upload = Upload.objects.get()
    grant = objects.store().grant(
        key=upload.object_key, size_bytes=len(BYTES), sha256="ab" * 32, media_type="text/plain"
    )

    assert client.put(path, b"other", content_type="text/plain").status_code == 404
    assert client.get(urlsplit(grant.url).path).status_code == 404
    assert client.get(path[:-2] + "xx").status_code == 404


@pytest.mark.django_db
def test_an_artifact_that_the_store_has_lost_is_not_found(
    artifact: MakeArtifact, submitter_token: str, client: Client
) -> None:
    path = path_of(Api(submitter_token).get(f"/v1/artifacts/{artifact()}"))
    store = objects.store()
    assert isinstance(store, objects.FolderStore)
    (store.folder / Upload.objects.get().object_key).unlink()
    assert client.get(path).status_code == 404


# --- beside the revocation of the credential -----------------------------------------------------


@pytest.fixture
def caller(submitter_token: str) -> Principal:
    return identify(token=submitter_token)


def revoke(caller: Principal) -> None:
    credentials.revoke(prefix=caller.credential_prefix, **TEST)


@pytest.mark.django_db
def test_who_was_revoked_since_it_was_identified_gets_nothing(
    artifact: MakeArtifact, caller: Principal
) -> None:
    found = artifact()
    revoke(caller)
    with pytest.raises(Unauthenticated):
        artifacts.issue_address(principal=caller, artifact_id=found)
    assert events() == []


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("held", [True, False], ids=["held", "control: not held"])
def test_once_a_revocation_is_answered_no_address_is_given(
    artifact: MakeArtifact,
    caller: Principal,
    on_other_connection: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    held: bool,
) -> None:
    """The address is being issued when the credential is revoked: revocation waits for it."""
    found, revoked = artifact(), threading.Event()
    if not held:
        monkeypatch.setattr(principals, "HOLD", "SELECT id FROM agents_credential WHERE id = %s")

    def revoke_beside() -> None:
        revoke(caller)
        revoked.set()

    def look() -> bool:
        """Whether the revocation is answered while the address is still being issued."""
        try:
            on_other_connection(revoke_beside, seconds=1.0)
        except TimeoutError:
            pass
        return revoked.is_set()

    with transaction.atomic():
        artifacts.issue_address(principal=caller, artifact_id=found)
        overtaken = look()

    assert overtaken is not held
    assert revoked.wait(10)
    assert Credential.objects.get(prefix=caller.credential_prefix).revoked_at is not None
    with pytest.raises(Unauthenticated):
        artifacts.issue_address(principal=caller, artifact_id=found)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("held", [True, False], ids=["held", "control: not held"])
def test_a_revocation_that_is_under_way_is_waited_for(
    artifact: MakeArtifact,
    caller: Principal,
    on_other_connection: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    held: bool,
) -> None:
    found, ended = artifact(), threading.Event()
    if not held:
        monkeypatch.setattr(principals, "HOLD", "SELECT id FROM agents_credential WHERE id = %s")

    def issue_beside() -> None:
        try:
            artifacts.issue_address(principal=caller, artifact_id=found)
        finally:
            ended.set()

    with transaction.atomic():
        revoke(caller)
        if held:
            with pytest.raises(TimeoutError):
                on_other_connection(issue_beside, seconds=1.0)
        else:
            on_other_connection(issue_beside)

    assert ended.wait(10)
    assert len(events()) == (0 if held else 1)
