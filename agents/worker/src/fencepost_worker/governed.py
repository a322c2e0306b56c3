"""Grants for effects: permit and start; contract, sections 4 to 6.

Each call and its key are durable in the exchange before they are sent, so that a restart sends
the same ones.  Only a start that is answered `may_begin` lets the effect begin; where the answer
is a repeated one, our own mark (`Exchange.begin`), which is durable before the effect, says
whether we have begun it.
"""

import logging
from collections.abc import Callable
from typing import Any

from uuid_utils.compat import uuid7

from fencepost_worker.claim import Job
from fencepost_worker.client import (
    DEFER,
    Answer,
    Call,
    ControlPlane,
    GaveUp,
    NoRoom,
    Problem,
    Refused,
)
from fencepost_worker.exchange import Exchange
from fencepost_worker.executor import Grant
from fencepost_worker.lease import Lease

log = logging.getLogger("fencepost_worker")

#: The effect begins this much before the permit's deadline, or not at all.
DEADLINE_MARGIN_SECONDS = 1.0
#: So many permits of one attempt are asked for, where each before was revoked unspent.
PERMITS_MAX = 3


class ControlPlaneAuthority:
    """Obtains grants over HTTP; the `Authority` of `ExternalAgentExecutor`."""

    def __init__(
        self, *, plane: ControlPlane, mode: str, always: bool = True, has_models: bool = False
    ) -> None:
        """Make an authority.

        :param mode: `mock` or `live`; never changed on the way.
        :param always: effects need a permit whatever the type of the job is.
        :param has_models: work that may call models calls them through the worker's gateway.
        """
        self._plane = plane
        self._mode = mode
        self.always = always
        self._has_models = has_models

    def comes_first(self, job: Job) -> bool:
        """Return whether permit and start come before the effect. Source: money, rule 1.

        Where it touches nothing but models they come with its first call, whose reservation the
        permit names.
        """
        claim = job.claim
        if claim.only_models:
            return False
        return self.always or (self._has_models and claim.calls_models)

    def obtain(
        self, exchange: Exchange, job: Job, *, lease: Lease, reservation_id: str | None = None
    ) -> Grant:
        """Return the grant to begin this attempt's effect.

        :param reservation_id: of the first call, where the effect is nothing but model calls.
        :raises NoRoom: there is no room for it now.
        :raises Refused: the control plane said no; the effect must not begin.
        :raises GaveUp: the lease, or the authority to begin, ended before an answer came.
        """
        binding = job.claim.binding(exchange.request.external_request_id)
        try:
            started = self._start_by_permit(
                exchange, job, binding, reservation_id=reservation_id, lease=lease
            )
        except Refused as error:
            if error.problem.rule != DEFER:
                raise
            raise NoRoom(error.problem) from error
        seconds = float(started.body.get("deadline_seconds", 0))
        return Grant(deadline=started.requested_at + seconds - DEADLINE_MARGIN_SECONDS)

    def starter(self, exchange: Exchange, job: Job, *, lease: Lease) -> Callable[[str], Grant]:
        """Return what starts the execution by the reservation of its first model call.

        Its mark is that of the program that makes the calls, which is durable by then.
        """
        return lambda reservation_id: self.obtain(
            exchange, job, lease=lease, reservation_id=reservation_id
        )

    def _start_by_permit(
        self,
        exchange: Exchange,
        job: Job,
        binding: dict[str, Any],
        *,
        reservation_id: str | None,
        lease: Lease,
    ) -> Answer:
        """Start by a permit, or by another where the first was revoked unspent: a new epoch does.

        :raises Refused, GaveUp: as `obtain` does.
        """
        by = f"-{reservation_id}" if reservation_id else ""
        for again in range(PERMITS_MAX):
            name = by + (f"-{again + 1}" if again else "")
            permit = self._permit(
                exchange, job, binding, reservation_id=reservation_id, lease=lease, name=name
            )
            try:
                return self._start(
                    exchange, binding, permit_id=permit["permit_id"], lease=lease, name=name
                )
            except Refused as error:
                if error.problem.reason != "PERMIT_REVOKED" or again + 1 == PERMITS_MAX:
                    raise
            log.info("%s: its permit was revoked unspent", binding["task_id"])
        raise AssertionError("the last round returns or raises")

    def _permit(
        self,
        exchange: Exchange,
        job: Job,
        binding: dict[str, Any],
        *,
        reservation_id: str | None,
        lease: Lease,
        name: str,
    ) -> dict[str, Any]:
        body = binding | {
            "reservation_id": reservation_id,
            "mode": self._mode,
            "expected_revision": job.claim.revision,
        }
        path = "/v1/executions/permits"
        try:
            return self._once(exchange, f"permit{name}", path, body, wait=lease.carry_on).body
        except Refused as error:
            revision = error.problem.current.get("revision")
            if error.problem.reason != "REVISION_MISMATCH" or type(revision) is not int:
                raise
        # Something was decided about the job since the claim. Our token is judged with the permit,
        # so asking anew under the newer revision cannot act in a successor's place.
        log.info("%s moved on since the claim", binding["task_id"])
        body |= {"expected_revision": revision}
        return self._once(exchange, f"permit{name}-again", path, body, wait=lease.carry_on).body

    def _start(
        self,
        exchange: Exchange,
        binding: dict[str, Any],
        *,
        permit_id: str,
        lease: Lease,
        name: str,
    ) -> Answer:
        request = exchange.request
        body = binding | {
            "permit_id": permit_id,
            "execution_digest": request.document["execution_digest"],
            "runtime": request.document["runtime"],
            "request_sha256": request.sha256,
        }
        answer = self._once(exchange, f"start{name}", "/v1/executions", body, wait=lease.carry_on)
        issued = answer.body.get("decision") == "issued" and answer.body.get("state") == "unknown"
        if not issued:
            reason = answer.body.get("reason") or answer.body.get("refusal_reason")
            raise Refused(Problem.decided(reason, status=answer.status))
        if answer.body.get("may_begin") is not True:
            raise GaveUp("the authority to begin ended before the start was answered")
        return answer

    def _once(
        self,
        exchange: Exchange,
        name: str,
        path: str,
        body: dict[str, Any],
        *,
        wait: Callable[[float], bool],
    ) -> Answer:
        call, _ = exchange.once(name, Call("POST", path, body, key=str(uuid7())))
        return self._plane.deliver(call, wait=wait)
