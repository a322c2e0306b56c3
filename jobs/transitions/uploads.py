"""Artifacts: a grant to put one object, and its acceptance once the store confirms it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from uuid_utils.compat import uuid7

from agents.entry import Entry
from governance.core.characters import unseen
from governance.core.errors import (
    ArtifactExists,
    ChecksumMismatch,
    DomainError,
    FieldFault,
    GrantExpired,
    InvalidArgument,
    NotFound,
    RateLimited,
)
from jobs import objects
from jobs.models import Upload
from jobs.objects import OBJECT_BYTES_MAX, Grant, Stored
from jobs.transitions.preconditions import check_token, need_active, need_lease, need_session
from jobs.transitions.work import LockedJob, Work, lock

#: Of one attempt, stored or still open; a grant that ran out unused makes room again.
GRANTS_MAX = 200


@dataclass(frozen=True)
class Announced:
    """The object that a worker says it will put."""

    name: str
    media_type: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True)
class UploadGrant:
    """An upload that is granted, and the store's grant for it."""

    upload: Upload
    grant: Grant


@dataclass(frozen=True)
class UploadOutcome:
    """An artifact that is accepted: `recorded`, or `already_recorded`."""

    outcome: str
    upload: Upload


@transaction.atomic
def grant_upload(
    *, entry: Entry, task_id: str, attempt: int, fencing_token: int, announced: Announced
) -> UploadGrant:
    """Grant the running attempt the right to put one object of exactly that size and checksum.

    :raises SessionRequired: the caller has no activated session.
    :raises LeaseExpired, StaleFencingToken, InvalidTransition: the attempt may not act.
    :raises InvalidArgument: the object is too large, or its name could lead elsewhere.
    :raises RateLimited: the attempt has `GRANTS_MAX` artifacts and open grants.
    """
    _check(announced)
    work = lock([task_id], entry=entry, numbers=[attempt])
    locked = work.get(task_id)
    _need_acting(work, locked, attempt, fencing_token)
    _check_room(work, locked)
    key = objects.object_key(
        job_id=str(locked.job.job_id), fencing_token=fencing_token, sha256=announced.sha256
    )
    grant = objects.store().grant(
        key=key,
        size_bytes=announced.size_bytes,
        sha256=announced.sha256,
        media_type=announced.media_type,
    )
    upload = Upload(
        upload_id=uuid7(),
        job_id=locked.job.pk,
        attempt=attempt,
        fencing_token=fencing_token,
        name=announced.name,
        media_type=announced.media_type,
        size_bytes=announced.size_bytes,
        sha256=announced.sha256,
        object_key=key,
        granted_at=work.now,
        expires_at=work.now + timedelta(seconds=objects.GRANT_SECONDS),
    )
    work.add(upload)
    work.note(
        locked,
        action="upload.granted",
        actor=work.worker.actor,
        details={"upload_id": str(upload.upload_id), "name": upload.name, "sha256": upload.sha256},
    )
    work.save()
    return UploadGrant(upload, grant)


@transaction.atomic
def granted_before(
    *, entry: Entry, upload_id: UUID, task_id: str, attempt: int, fencing_token: int
) -> Grant | None:
    """Return the store's grant of an upload again, for as long as the first one has left.

    None where its time is over, or the attempt may no longer act: what was put is still accepted.

    :raises NotFound: there is no upload of that id for this task.
    """
    work = lock([task_id], entry=entry, numbers=[attempt])
    locked = work.get(task_id)
    upload = Upload.objects.filter(upload_id=upload_id, job_id=locked.job.pk).first()
    if upload is None:
        raise NotFound("There is no upload of that id for this task.")
    seconds = int((upload.expires_at - work.now).total_seconds())
    try:
        _need_acting(work, locked, attempt, fencing_token)
    except DomainError:
        return None
    if seconds < 1:
        return None
    return objects.store().grant(
        key=upload.object_key,
        size_bytes=upload.size_bytes,
        sha256=upload.sha256,
        media_type=upload.media_type,
        seconds=seconds,
    )


def look_at_store(*, upload_id: UUID, agent_id: int) -> Stored | None:
    """Ask the store what it holds for an upload. Before the transaction, never under a lock.

    Nobody's and other agents' uploads are not asked for: `complete_upload` refuses them, so that
    the refusal is kept under the request's key.
    """
    upload = Upload.objects.filter(upload_id=upload_id, job__agent_id=agent_id).first()
    if upload is None:
        return None
    if upload.artifact_id is not None:
        # It was confirmed once, and a repetition of the call needs no store.
        return Stored(upload.size_bytes, upload.sha256)
    return objects.store().stat(key=upload.object_key)


@transaction.atomic
def complete_upload(
    *,
    entry: Entry,
    upload_id: UUID,
    task_id: str,
    attempt: int,
    fencing_token: int,
    sha256: str,
    size_bytes: int,
    stored: Stored | None,
) -> UploadOutcome:
    """Accept an object that the store confirmed; its fact is durably queued when this commits.

    :param stored: what `look_at_store` found.
    :raises SessionRequired: the caller has no activated session.
    :raises ChecksumMismatch: request, grant and store do not agree on size and checksum.
    :raises GrantExpired: nothing is stored, and the grant's time is over.
    :raises ArtifactExists: another upload of the attempt has that name.
    :raises StaleFencingToken: the attempt is not the current one.
    """
    work = lock([task_id], entry=entry, numbers=[attempt])
    locked = work.get(task_id)
    need_session(work)
    upload = (
        Upload.objects.select_for_update(no_key=True)
        .filter(upload_id=upload_id, job_id=locked.job.pk)
        .first()
    )
    if upload is None:
        raise NotFound("There is no upload of that id for this task.")
    wanted, reported = Stored(upload.size_bytes, upload.sha256), Stored(size_bytes, sha256)
    mine = (upload.attempt, upload.fencing_token) == (attempt, fencing_token)
    if mine and upload.artifact_id and reported == wanted:
        return UploadOutcome("already_recorded", upload)
    check_token(work, locked, attempt, fencing_token)
    if reported != wanted:
        raise ChecksumMismatch("Size or checksum are not those of the grant.")
    if upload.fencing_token != fencing_token:
        raise NotFound("The upload was granted to another attempt.")
    if stored is None:
        if upload.expires_at <= work.now:
            raise GrantExpired()
        raise ChecksumMismatch("Nothing is stored under the granted key yet.")
    if stored != wanted:
        raise ChecksumMismatch()
    # Under the job's lock; index: upload_name_once_per_attempt.
    rival = Upload.objects.filter(
        job_id=locked.job.pk, fencing_token=fencing_token, name=upload.name, state="stored"
    ).first()
    if rival is not None:
        raise ArtifactExists(current={"artifact_id": str(rival.artifact_id)})
    upload.artifact_id = uuid7()
    upload.state, upload.stored_at = Upload.State.STORED, work.now
    fact_id = work.note(
        locked,
        action="artifact.uploaded",
        actor=work.worker.actor,
        details={
            "artifact_id": str(upload.artifact_id),
            "name": upload.name,
            "media_type": upload.media_type,
            "size_bytes": upload.size_bytes,
            "sha256": upload.sha256,
            "object_key": upload.object_key,
        },
    )
    upload.fact_id = fact_id
    upload.save(update_fields=["artifact_id", "state", "stored_at", "fact_id"])
    work.save()
    return UploadOutcome("recorded", upload)


def _need_acting(work: Work, locked: LockedJob, attempt: int, fencing_token: int) -> None:
    """Refuse an attempt that may put nothing: session, token, state, lease.

    :raises SessionRequired, StaleFencingToken, InvalidTransition, LeaseExpired: it may not.
    """
    need_session(work)
    check_token(work, locked, attempt, fencing_token)
    need_active(locked)
    need_lease(work, locked)


def _check(announced: Announced) -> None:
    faults = []
    bare = announced.name.replace("/", "").replace("\\", "")
    if bare != announced.name or announced.name in {"", ".", ".."}:
        faults.append(FieldFault("/name", "a file name without a folder"))
    elif which := unseen(bare):
        faults.append(FieldFault("/name", f"without unseen characters: {', '.join(which[:5])}"))
    if announced.size_bytes > OBJECT_BYTES_MAX:
        faults.append(FieldFault("/size_bytes", f"{OBJECT_BYTES_MAX} at most"))
    if faults:
        raise InvalidArgument("This upload cannot be granted.", errors=faults)


def _check_room(work: Work, locked: LockedJob) -> None:
    """Refuse a grant too many. Under the job's lock; index: the foreign key's."""
    taken = Q(state=Upload.State.STORED) | Q(expires_at__gt=work.now)
    of_attempt = Upload.objects.filter(
        taken, job_id=locked.job.pk, fencing_token=locked.job.fencing_token
    )
    if of_attempt.count() >= GRANTS_MAX:
        raise RateLimited(
            f"An attempt has {GRANTS_MAX} artifacts and open grants at most.",
            after_seconds=objects.GRANT_SECONDS,
        )
