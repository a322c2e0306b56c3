"""The object store: grants to put one object of exactly one size and checksum, and the check.

The control plane never carries the bytes: a worker gets a signed request that may create one
object, once, and `stat` asks the store itself what it holds.  Two stores: any S3-compatible one
(`FENCEPOST_S3_BUCKET`), and a folder of this installation behind a signed path, the default.

Sources: AWS Signature Version 4 (presigned requests; signed headers bind size, checksum and
`If-None-Match`); RFC 9110, 13.1.2 (`If-None-Match: *`).
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from django.conf import settings
from django.core import signing
from django.utils.http import content_disposition_header

from governance.core.errors import (
    ChecksumMismatch,
    GrantExpired,
    NotFound,
    PayloadTooLarge,
    Unavailable,
)

GRANT_SECONDS = 900
#: How long the address of an artifact is good.
ADDRESS_SECONDS = 60
#: What an artifact is sent as, whatever its worker called it: nothing that a browser would render.
SENT_AS = "application/octet-stream"
OBJECT_BYTES_MAX = 5 * 2**30
CHUNK_BYTES = 1 << 20
#: `jobs/<job_id>/<fencing_token>/<sha256>`: nothing that a worker chose is part of it.
_KEY = re.compile(r"jobs/[0-9a-f-]{36}/\d{1,16}/[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True)
class Grant:
    """A request that its holder may send to the store, once. `max_bytes` is also the exact size."""

    method: str
    url: str
    headers: dict[str, str]
    object_key: str
    max_bytes: int


@dataclass(frozen=True)
class Stored:
    """What the store says that it holds."""

    size_bytes: int
    sha256: str


class ObjectStore(Protocol):
    """Where artifacts are kept."""

    def grant(
        self,
        *,
        key: str,
        size_bytes: int,
        sha256: str,
        media_type: str,
        seconds: int = GRANT_SECONDS,
    ) -> Grant:
        """Return the signed request that creates the object; local, asks nobody.

        :param seconds: how long it is good for, `GRANT_SECONDS` at most.
        """

    def address(self, *, key: str, name: str) -> str:
        """Return where the object is had, as a file of that name; local, asks nobody."""

    def stat(self, *, key: str) -> Stored | None:
        """Return what is stored under the key, or None. Talks to the store: never under a lock."""

    def read(self, *, key: str) -> Iterator[bytes]:
        """Yield the object's bytes, for an operator who may see them."""


def object_key(*, job_id: str, fencing_token: int, sha256: str) -> str:
    """Return the key of an artifact: job and token in it, so a late worker overwrites nothing."""
    return f"jobs/{job_id}/{fencing_token}/{sha256}"


@lru_cache
def store() -> ObjectStore:
    """Return the installation's store."""
    if settings.S3_BUCKET:
        return S3Store(bucket=settings.S3_BUCKET, endpoint=settings.S3_ENDPOINT)
    return FolderStore(folder=settings.DATA_DIR / "objects")


class S3Store:
    """A bucket of an S3-compatible store. Credentials come from boto3's usual places."""

    def __init__(self, *, bucket: str, endpoint: str = "") -> None:
        import boto3
        from botocore.config import Config

        self.bucket = bucket
        config = Config(
            signature_version="s3v4",
            connect_timeout=3,
            read_timeout=10,
            retries={"max_attempts": 2},
            s3={"addressing_style": "path" if endpoint else "auto"},
        )
        self._client = boto3.client("s3", endpoint_url=endpoint or None, config=config)

    def grant(
        self,
        *,
        key: str,
        size_bytes: int,
        sha256: str,
        media_type: str,
        seconds: int = GRANT_SECONDS,
    ) -> Grant:
        checksum = base64.b64encode(bytes.fromhex(sha256)).decode()
        params = {
            "Bucket": self.bucket,
            "Key": key,
            "ContentLength": size_bytes,
            "ContentType": media_type,
            "ChecksumSHA256": checksum,
            "IfNoneMatch": "*",
        }
        url = self._client.generate_presigned_url("put_object", Params=params, ExpiresIn=seconds)
        headers = {
            "Content-Length": str(size_bytes),
            "Content-Type": media_type,
            "If-None-Match": "*",
            "x-amz-checksum-sha256": checksum,
        }
        return Grant("PUT", url, headers, key, size_bytes)

    def address(self, *, key: str, name: str) -> str:
        params = {
            "Bucket": self.bucket,
            "Key": key,
            "ResponseContentType": SENT_AS,
            "ResponseContentDisposition": content_disposition_header(True, name),
        }
        url: str = self._client.generate_presigned_url(
            "get_object", Params=params, ExpiresIn=ADDRESS_SECONDS
        )
        return url

    def stat(self, *, key: str) -> Stored | None:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            head = self._client.head_object(Bucket=self.bucket, Key=key, ChecksumMode="ENABLED")
            checksum = head.get("ChecksumSHA256")
            if checksum:
                return Stored(head["ContentLength"], base64.b64decode(checksum).hex())
            # A store that keeps no checksum is asked for the bytes: its word is not enough.
            digest = hashlib.sha256()
            for chunk in self.read(key=key):
                digest.update(chunk)
            return Stored(head["ContentLength"], digest.hexdigest())
        except ClientError as error:
            if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") == 404:
                return None
            raise Unavailable("The object store refused to answer.") from error
        except BotoCoreError as error:
            raise Unavailable("The object store cannot be reached.") from error

    def read(self, *, key: str) -> Iterator[bytes]:
        body = self._client.get_object(Bucket=self.bucket, Key=key)["Body"]
        yield from body.iter_chunks(CHUNK_BYTES)


class FolderStore:
    """A folder of this installation; `receive` and `deliver` are the far ends of signed paths."""

    SALT = "fencepost.objects"
    #: Another one, so that an address puts nothing, and a grant gives nothing away.
    ADDRESS_SALT = "fencepost.objects.address"

    def __init__(self, *, folder: Path) -> None:
        self.folder = folder

    def grant(
        self,
        *,
        key: str,
        size_bytes: int,
        sha256: str,
        media_type: str,
        seconds: int = GRANT_SECONDS,
    ) -> Grant:
        granted = {"key": key, "size": size_bytes, "sha256": sha256, "seconds": seconds}
        signed = signing.dumps(granted, salt=self.SALT, compress=False)
        url = f"{settings.PUBLIC_URL}/objects/{signed}"
        headers = {
            "Content-Length": str(size_bytes),
            "Content-Type": media_type,
            "If-None-Match": "*",
        }
        return Grant("PUT", url, headers, key, size_bytes)

    def receive(self, *, signed: str, body: BinaryIO) -> bool:
        """Store the body that a grant allows; False where the object is there already.

        :raises NotFound: the signature is not ours.
        :raises GrantExpired: the grant's time is over.
        :raises PayloadTooLarge: there is more than the grant allows; nothing is kept.
        :raises ChecksumMismatch: size or checksum are others; nothing is kept.
        """
        grant = self._opened(signed, self.SALT, GRANT_SECONDS)
        path = self._path(grant["key"])
        if path.exists():
            return False
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = path.with_name(f".{secrets.token_hex(8)}")
        try:
            size, sha256 = _written(draft, body, grant["size"])
            if (size, sha256) != (grant["size"], grant["sha256"]):
                raise ChecksumMismatch()
            os.link(draft, path)
            _name_durably(path.parent, self.folder)
        except FileExistsError:
            return False
        finally:
            draft.unlink(missing_ok=True)
        return True

    def stat(self, *, key: str) -> Stored | None:
        path = self._path(key)
        if not path.is_file():
            return None
        with path.open("rb") as file:
            return Stored(path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())

    def read(self, *, key: str) -> Iterator[bytes]:
        with self._path(key).open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk

    def address(self, *, key: str, name: str) -> str:
        signed = signing.dumps({"key": key, "name": name}, salt=self.ADDRESS_SALT, compress=False)
        return f"{settings.PUBLIC_URL}/objects/{signed}"

    def deliver(self, *, signed: str) -> tuple[str, BinaryIO]:
        """Return the name and the open file of the object that an address leads to.

        :raises NotFound: the signature is not ours, or the object is gone.
        :raises GrantExpired: the address is no longer good.
        """
        named = self._opened(signed, self.ADDRESS_SALT, ADDRESS_SECONDS)
        try:
            return named["name"], self._path(named["key"]).open("rb")
        except FileNotFoundError as error:
            raise NotFound("The object is not in the store.") from error

    def _opened(self, signed: str, salt: str, seconds: int) -> dict[str, Any]:
        try:
            named = signing.loads(signed, salt=salt, max_age=seconds)
            # A grant may be good for less; one of before says nothing of its time.
            if (less := named.get("seconds")) is not None and less < seconds:
                signing.loads(signed, salt=salt, max_age=less)
            return named
        except signing.SignatureExpired as error:
            raise GrantExpired("The address is no longer good; ask for another.") from error
        except signing.BadSignature as error:
            raise NotFound() from error

    def _path(self, key: str) -> Path:
        # The keys are made by us; one of another form could only come from a changed row.
        if not _KEY.fullmatch(key):
            raise NotFound("This is no key of an artifact.")
        return self.folder / key


def _name_durably(folder: Path, above: Path) -> None:
    """Make the entries of the folder, and of those above it, survive a power cut."""
    while True:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if folder == above:
            return
        folder = folder.parent


def _written(draft: Path, body: BinaryIO, size_max: int) -> tuple[int, str]:
    """Write the body to a file that is durable when this returns; its size and SHA-256."""
    digest, size = hashlib.sha256(), 0
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        while chunk := body.read(CHUNK_BYTES):
            size += len(chunk)
            if size > size_max:
                raise PayloadTooLarge()
            digest.update(chunk)
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    return size, digest.hexdigest()
