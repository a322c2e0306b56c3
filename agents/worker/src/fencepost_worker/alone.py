"""The gateway alone: an agent that claims for itself over the API calls models under its job.

The agent activates its session, claims, beats and reports by itself.  This process has the same
session: it asks for the claim that the agent has again, hears by heartbeats of its own when the
attempt is paused or ends, and lets calls of models through for as long.
"""

import argparse
import contextlib
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from fencepost_worker.assembly import network_of, pinned_keys, providers_of, token_of
from fencepost_worker.claim import Claim, ClaimUnreadable, Job
from fencepost_worker.client import Call, ControlPlane, GaveUp, Refused, Session
from fencepost_worker.envelopes import (
    EnvelopeUnverified,
    KeyRing,
    KeysUnavailable,
    verified_job,
)
from fencepost_worker.exchange import AlreadyStarted, Exchange, ExternalAgentExchange, Request
from fencepost_worker.gateway.attempts import Spent
from fencepost_worker.gateway.server import Gateway
from fencepost_worker.governed import ControlPlaneAuthority
from fencepost_worker.heartbeats import HeartbeatLoop
from fencepost_worker.lease import Lease
from fencepost_worker.model_access import attempt_of
from fencepost_worker.options import Unusable
from fencepost_worker.timing import steady_now

log = logging.getLogger("fencepost_worker")

#: So long for the control plane to answer, before anything is let through.
PATIENCE_SECONDS = 60.0
#: So long for calls to be booked at the end; what is not is booked by the next start.
BOOKING_SECONDS = 30.0


class BorrowedSession(Session):
    """The session of an agent that activates and renews it by itself."""

    def __init__(
        self,
        *,
        worker_id: str,
        session_id: str,
        epoch: str,
        token: str = "",
        token_file: Path | None = None,
    ) -> None:
        """Take the session by its id and the epoch that it is bound to."""
        super().__init__(worker_id=worker_id, token=token, token_file=token_file)
        self._own = {"Fencepost-Session": session_id, "Fencepost-Epoch": epoch}

    def headers(self) -> dict[str, str]:
        """Return the headers that say who calls, and in which session."""
        return super().headers() | self._own


@dataclass(frozen=True)
class Held:
    """An attempt that the agent holds, as this process may act for it."""

    job: Job
    exchange: Exchange
    lease: Lease


def serve(
    options: argparse.Namespace, *, until: threading.Event, say: Callable[[str], None]
) -> int:
    """Let the agent's attempt call models until it ends, or `until` is set; return the exit code.

    :param say: takes each variable that the agent needs, as `NAME=value`.
    :raises Unusable: the options are not enough, or the agent does not hold the job.
    """
    missing = [
        name for name in ("task", "session_id", "epoch", "config") if not getattr(options, name)
    ]
    if missing:
        raise Unusable(f"--{missing[0].replace('_', '-')} is needed")
    providers = providers_of(options)
    if not providers:
        raise Unusable("--config: it names no providers")
    session = BorrowedSession(
        worker_id=options.worker_id or f"{options.agent}-gateway",
        session_id=options.session_id,
        epoch=options.epoch,
        **token_of(options),
    )
    plane = ControlPlane(url=options.url, session=session, network=network_of(options))
    try:
        held = _held(options, plane)
        gateway = Gateway(plane, providers)
        gateway.start()
        try:
            authority = ControlPlaneAuthority(
                plane=plane, mode=options.mode, always=False, has_models=True
            )
            spent = _admitted(held, gateway, authority, plane=plane, until=until, say=say)
        finally:
            gateway.close()
    finally:
        plane.close()
    log.info(
        "%s: %s model calls, %s at a cost", held.job.claim.task_id, spent.calls, spent.at_a_cost
    )
    if spent.open:
        log.warning("%s calls are not booked yet: start this again for the same job", spent.open)
    return int(bool(spent.open))


def _admitted(
    held: Held,
    gateway: Gateway,
    authority: ControlPlaneAuthority,
    *,
    plane: ControlPlane,
    until: threading.Event,
    say: Callable[[str], None],
) -> Spent:
    heartbeats = HeartbeatLoop(plane=plane)
    heartbeats.add(held.lease)
    heartbeats.start()
    try:
        admitted = gateway.admit(attempt_of(held.job, held.exchange, held.lease, authority))
        for name, value in admitted.environment.items():
            say(f"{name}={value}")
        held.lease.on_change(lambda: until.set() if held.lease.ended else None)
        while held.lease.ended is None and not until.wait(max(held.lease.left_seconds, 0.1)):
            continue
        ended = held.lease.ended
        why = ended.value if ended else "the gateway was told to end"
        return admitted.end(why, patience_s=BOOKING_SECONDS)
    finally:
        heartbeats.close()


def _held(options: argparse.Namespace, plane: ControlPlane) -> Held:
    """Return the attempt of the job that the agent's session holds.

    :raises Unusable: it holds none, or the control plane does not say.
    """
    path = f"/v1/jobs/{quote(options.task, safe='')}"
    until = steady_now() + PATIENCE_SECONDS

    def wait(seconds: float) -> bool:
        return not threading.Event().wait(seconds) and steady_now() < until

    try:
        job = plane.deliver(Call("GET", path), wait=wait).body
        if job.get("state") != "active":
            raise Unusable(f"--task: nobody holds {options.task}: it is {job.get('state')}")
        body = {"worker_id": plane.session.worker_id, "owner": options.agent}
        answer = plane.deliver(Call("POST", f"{path}/claim", body), wait=wait)
        claim = Claim.from_answer(answer.body)
        verified = verified_job(
            claim,
            agent=options.agent,
            keys=KeyRing(plane=plane, pinned=pinned_keys(options.trusted_keys)),
            wait=wait,
        )
    except (
        Refused,
        GaveUp,
        ClaimUnreadable,
        KeyError,
        EnvelopeUnverified,
        KeysUnavailable,
    ) as error:
        raise Unusable(f"--task: {options.task} cannot be taken up: {error}") from error
    runtime = str(claim.document.get("runtime") or "")
    request = Request.of(verified, runtime=runtime, attempt=claim.attempt)
    exchange = ExternalAgentExchange(options.data.resolve() / "exchange").open(request)
    with contextlib.suppress(AlreadyStarted):
        exchange.begin()
    return Held(verified, exchange, claim.lease(requested_at=answer.requested_at))
