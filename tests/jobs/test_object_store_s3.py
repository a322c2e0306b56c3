"""The S3 side of artifacts, against a real S3 server on this machine."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3
import httpx2
import pytest

from jobs.objects import Grant, S3Store, Stored

WEED = shutil.which("weed", path=str(Path(sys.executable).parent))
pytestmark = pytest.mark.skipif(WEED is None, reason="the S3 server has no wheel for this machine")

BUCKET = "artifacts"
KEY = "jobs/01a22867-62f8-7275-ac7d-fdbf60d52bbd/3/" + "ab" * 32
BYTES = b"bytes of an artifact"
SHA256 = hashlib.sha256(BYTES).hexdigest()
ACCESS = {"accessKey": "fencepost-test", "secretKey": "not-a-secret-of-anything"}


def free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("s3")
    identity = {"name": "test", "credentials": [ACCESS], "actions": ["Admin", "Read", "Write"]}
    config = folder / "s3.json"
    config.write_text(json.dumps({"identities": [identity]}))
    master, master_grpc, volume, volume_grpc, filer, filer_grpc, s3, s3_grpc = free_ports(8)
    assert WEED is not None
    command = [
        WEED, "server", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
        f"-master.port={master}", f"-master.port.grpc={master_grpc}",
        f"-volume.port={volume}", f"-volume.port.grpc={volume_grpc}",
        "-filer", f"-filer.port={filer}", f"-filer.port.grpc={filer_grpc}",
        "-s3", f"-s3.port={s3}", f"-s3.port.grpc={s3_grpc}", f"-s3.config={config}",
    ]  # fmt: skip
    log = (folder / "log").open("wb")
    server = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    try:
        url = f"http://127.0.0.1:{s3}"
        transport = httpx2.HTTPTransport(retries=50)
        with httpx2.Client(transport=transport, timeout=20) as client:
            client.get(url)
        yield url
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(timeout=5)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        log.close()


@pytest.fixture
def store(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> S3Store:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS["accessKey"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", ACCESS["secretKey"])
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    made = S3Store(bucket=BUCKET, endpoint=endpoint)
    client = boto3.client("s3", endpoint_url=endpoint)
    if BUCKET not in [each["Name"] for each in client.list_buckets()["Buckets"]]:
        client.create_bucket(Bucket=BUCKET)
    client.delete_object(Bucket=BUCKET, Key=KEY)
    return made


@pytest.fixture
def grant(store: S3Store) -> Grant:
    return store.grant(key=KEY, size_bytes=len(BYTES), sha256=SHA256, media_type="text/plain")


def put(grant: Grant, body: bytes, **over: str) -> int:
    answer = httpx2.put(grant.url, content=body, headers=grant.headers | over, timeout=10)
    return answer.status_code


def test_what_was_granted_can_be_put_once_and_is_confirmed(store: S3Store, grant: Grant) -> None:
    assert store.stat(key=KEY) is None
    assert put(grant, BYTES) == 200
    assert store.stat(key=KEY) == Stored(len(BYTES), SHA256)
    assert put(grant, BYTES) == 412
    assert b"".join(store.read(key=KEY)) == BYTES


def test_an_address_gives_the_bytes_as_a_file_for_a_minute(store: S3Store, grant: Grant) -> None:
    assert put(grant, BYTES) == 200
    url = store.address(key=KEY, name="Über.txt")

    answer = httpx2.get(url, timeout=10)

    assert (answer.status_code, answer.content) == (200, BYTES)
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Content-Disposition"] == "attachment; filename*=utf-8''%C3%9Cber.txt"
    assert httpx2.URL(url).params["X-Amz-Expires"] == "60"
    # What a browser would do with it is signed as well.
    rendered = url.replace("application%2Foctet-stream", "text%2Fhtml")
    assert rendered != url and httpx2.get(rendered, timeout=10).status_code == 403


def test_other_bytes_of_the_same_size_are_refused(store: S3Store, grant: Grant) -> None:
    assert put(grant, BYTES[::-1]) == 400
    assert store.stat(key=KEY) is None


def test_what_the_signature_binds_cannot_be_changed(store: S3Store, grant: Grant) -> None:
    other = hashlib.sha256(BYTES[::-1]).digest()
    checksum = base64.b64encode(other).decode()
    assert put(grant, BYTES[::-1], **{"x-amz-checksum-sha256": checksum}) == 403
    longer = BYTES + b" and more"
    assert put(grant, longer, **{"Content-Length": str(len(longer))}) == 403
    elsewhere = httpx2.URL(grant.url)
    moved = str(elsewhere.copy_with(path=elsewhere.path.replace("/3/", "/4/")))
    assert httpx2.put(moved, content=BYTES, headers=grant.headers, timeout=10).status_code == 403
    assert store.stat(key=KEY) is None
