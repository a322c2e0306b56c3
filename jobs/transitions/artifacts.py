"""Artifacts that are handed out: an address for a moment, to who may see the job."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction

from agents import principals
from agents.principals import Principal
from governance.core import audit, clock
from governance.core.errors import NotFound, WrongOwner
from jobs import objects
from jobs.models import Job, Upload


@dataclass(frozen=True)
class Address:
    """Where an artifact is had until `expires_at`."""

    url: str
    expires_at: datetime


@transaction.atomic
def issue_address(*, principal: Principal, artifact_id: UUID) -> Address:
    """Give the address of an artifact to its job's submitter or agent, and record that.

    The job itself is as it was: its revision stays.

    :raises Unauthenticated, PermissionDenied: the credential has been revoked meanwhile.
    :raises WrongOwner: an agent asks for another agent's.
    :raises NotFound: there is none, or it is not one of the submitter's jobs'.
    """
    principals.hold(principal)
    upload = Upload.objects.select_related("job").filter(artifact_id=artifact_id).first()
    nothing = NotFound("There is no artifact of that id.")
    if upload is None:
        raise nothing
    if principal.kind == "agent" and upload.job.agent_id != principal.id:
        raise WrongOwner()
    if principal.kind != "agent" and upload.job.submitted_by != principal.text:
        raise nothing
    job = Job.objects.select_for_update(no_key=True).get(pk=upload.job_id)
    now = clock.now()
    address = Address(
        url=objects.store().address(key=upload.object_key, name=upload.name),
        expires_at=now + timedelta(seconds=objects.ADDRESS_SECONDS),
    )
    audit.record(
        job,
        action="artifact.address_issued",
        actor=principal.text,
        at=now,
        details={
            "artifact_id": str(artifact_id),
            "name": upload.name,
            "expires_at": address.expires_at.isoformat(),
            "credential": principal.credential_prefix,
        },
    )
    return address
