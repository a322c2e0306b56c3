"""Grants for effects: model and budget, permit, start; contract, sections 4 to 6.

Each call and its key are durable in the exchange before they are sent, so that a restart sends
the same ones.  Only a start that is answered `may_begin` lets the effect begin; where the answer
is a repeated one, our own mark (`Exchange.begin`), which is durable before the effect, says
whether we have begun it.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
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
from fencepost_worker.identity import canonical, route_request_id
from fencepost_worker.lease import Lease

log = logging.getLogger("fencepost_worker")

#: A token is about four bytes of English text; three make an estimate that errs upwards.
BYTES_PER_TOKEN = 3
#: The effect begins this much before the permit's deadline, or not at all.
DEADLINE_MARGIN_SECONDS = 1.0
#: So many permits of one attempt are asked for, where each before was revoked unspent.
PERMITS_MAX = 3


@dataclass(frozen=True)
class ModelNeeds:
    """The most that a model call of a job may use."""

    max_output_tokens: int
    #: Tokens of the instructions that go with every request, over the task's own text.
    overhead_tokens: int = 200

    def estimated_input_tokens(self, job: Job) -> int:
        """Return an upper estimate of the tokens that describe the job to a model."""
        claim = job.claim.document
        size = len(canonical(job.task)) + len(canonical(claim.get("rework")))
        size += len(canonical(story)) if (story := claim.get("story")) else 0
        return size // BYTES_PER_TOKEN + self.overhead_tokens


class ControlPlaneAuthority:
    """Obtains grants over HTTP; the `Authority` of `ExternalAgentExecutor`."""

    def __init__(
        self, *, plane: ControlPlane, mode: str, model_needs: ModelNeeds | None = None
    ) -> None:
        """Make an authority.

        :param mode: `mock` or `live`; never changed on the way.
        :param model_needs: what the runtime needs of a model; None when it uses none.
        """
        self._plane = plane
        self._mode = mode
        self._needs = model_needs

    def obtain(self, exchange: Exchange, job: Job, *, lease: Lease) -> Grant:
        """Return the grant to begin this attempt's effect.

        :raises NoRoom: there is no room for it now.
        :raises Refused: the control plane said no; the effect must not begin.
        :raises GaveUp: the lease, or the authority to begin, ended before an answer came.
        """
        binding = {
            "task_id": job.claim.task_id,
            **job.claim.authority,
            "external_request_id": exchange.request.external_request_id,
        }
        reservation_id = None
        try:
            route = self._route(exchange, job, binding, lease=lease)
            reservation_id = ((route or {}).get("reservation") or {}).get("reservation_id")
            started = self._start_by_permit(
                exchange, job, binding, reservation_id=reservation_id, lease=lease
            )
        except Refused as error:
            if error.problem.rule != DEFER:
                raise
            release = _release(binding, reservation_id) if reservation_id else None
            raise NoRoom(error.problem, release=release) from error
        seconds = float(started.body.get("deadline_seconds", 0))
        return Grant(
            deadline=started.requested_at + seconds - DEADLINE_MARGIN_SECONDS,
            model=(route or {}).get("model"),
        )

    def _route(
        self, exchange: Exchange, job: Job, binding: dict[str, Any], *, lease: Lease
    ) -> dict[str, Any] | None:
        if self._needs is None:
            return None
        body = binding | {
            "route_request_id": route_request_id(binding["external_request_id"]),
            "estimated_input_tokens": self._needs.estimated_input_tokens(job),
            "max_output_tokens": self._needs.max_output_tokens,
        }
        answer = self._once(exchange, "route", "/v1/routes", body, wait=lease.carry_on)
        if answer.body.get("decision") != "issued":
            raise Refused(_decided_against(answer))
        return answer.body

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
        for again in range(PERMITS_MAX):
            name = f"-{again + 1}" if again else ""
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
            raise Refused(_decided_against(answer))
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


def _release(binding: dict[str, Any], reservation_id: str) -> Call:
    """Return the call that ends a reservation under which nothing was started."""
    path = f"/v1/reservations/{reservation_id}/resolve"
    return Call("POST", path, binding | {"end": "released"}, key=str(uuid7()))


def _decided_against(answer: Answer) -> Problem:
    """Return a decision that is a refusal as the problem that it would be by itself."""
    reason = str(answer.body.get("reason") or answer.body.get("refusal_reason") or "REFUSED")
    return Problem(
        status=answer.status,
        code="PERMISSION_DENIED",
        reason=reason,
        detail="the control plane decided against it",
        rule="stop",
        effect="none",
    )
