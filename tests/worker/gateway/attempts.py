"""Attempts that call models, made from a claim alone."""

from pathlib import Path
from typing import Any

from fencepost_worker.claim import Claim, Job
from fencepost_worker.exchange import Request
from fencepost_worker.gateway.attempts import GovernedAttempt
from fencepost_worker.timing import steady_now


def attempt_of(claim: Claim, folder: Path, **over: Any) -> GovernedAttempt:
    """Return the attempt of a claim that was granted just now, of a command."""
    job = Job(claim, {})
    lease = claim.lease(requested_at=steady_now())
    return GovernedAttempt(
        job=job,
        lease=lease,
        external_request_id=Request.of(
            job, runtime="command", attempt=claim.attempt
        ).external_request_id,
        folder=folder,
        **over,
    )
