"""How often a governed call goes to the database, from the claim to the completion."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from governance.core import digests
from tests.client import Api
from tests.jobs.governed import price_a_model
from tests.jobs.test_round_trips import Trips, key, round_trips  # noqa: F401

pytestmark = pytest.mark.django_db(transaction=True)
USAGE = {"input_tokens": 500, "output_tokens": 100}
BOOT = {
    "cell_id": "cell-1",
    "boot_id": "boot-1",
    "protocol_version": "1.0",
    "runtime": "command",
    "capabilities": {},
}


#: Of each call. The completion of what nothing governs has four; of this one the authority that it
#: had ends with it.
TRIPS = {
    "claim": 4,
    "route": 8,
    "permit": 6,
    "start": 9,
    "resolve": 7,
    "result": 11,
    "complete": 6,
}


class Worker:
    """A worker in a session, whose calls are counted one by one."""

    def __init__(self, token: str, round_trips: Trips) -> None:  # noqa: F811
        self.api, self.counted = Api(token), round_trips
        body = BOOT | {"activation_operation_id": key()}
        made = self.api.post("/v1/agents/hermes/activate", body, Idempotency_Key=key()).json()
        self.session = {
            "Fencepost_Session": made["session_id"],
            "Fencepost_Epoch": made["dispatcher_epoch"],
        }

    def post(self, path: str, body: Any, *, keyed: bool = False) -> Any:
        headers = self.session | ({"Idempotency_Key": key()} if keyed else {})
        answer = self.api.post(path, body, **headers)
        assert answer.status_code < 300, answer.content
        return answer.json()

    def lifecycle(self, job: Any, trips: dict[str, int]) -> None:
        """Bring a job to its end by calls of so many round trips."""

        def call(name: str, path: str, body: Any, *, keyed: bool = False) -> Any:
            with self.counted(trips[name]):
                return self.post(path, body, keyed=keyed)

        claimed = call("claim", f"/v1/jobs/{job.task_id}/claim", {})
        execution = digests.external_request_id(
            task_id=job.task_id,
            job_id=job.job_id,
            execution_digest=claimed["execution_digest"],
            runtime=claimed["runtime"],
            attempt=claimed["attempt"],
        )
        attempt = {name: claimed[name] for name in ("attempt", "fencing_token")}
        binding = attempt | {"task_id": job.task_id, "external_request_id": execution}
        asked = {
            "route_request_id": f"{execution}:model",
            "max_output_tokens": 9,
            "request_bytes": 9,
        }
        reservation = call("route", "/v1/routes", binding | asked)["reservation"]["reservation_id"]
        wanted = {"reservation_id": reservation, "mode": "mock"}
        revision = {"expected_revision": claimed["job"]["revision"]}
        permit = call("permit", "/v1/executions/permits", binding | wanted | revision, keyed=True)
        digest = {"execution_digest": claimed["execution_digest"]}
        start = {"permit_id": permit["permit_id"], "runtime": claimed["runtime"]}
        start |= digest | {"request_sha256": "0" * 64}
        call("start", "/v1/executions", binding | start, keyed=True)
        end = binding | {"end": "settled", "usage": USAGE}
        call("resolve", f"/v1/reservations/{reservation}/resolve", end)
        result = {"outcome": "succeeded", "result_sha256": "0" * 64, "usage": USAGE}
        of_attempt = attempt | {"task_id": job.task_id}
        call("result", f"/v1/executions/{execution}/result", of_attempt | digest | result)
        call("complete", f"/v1/jobs/{job.task_id}/complete", attempt | {"result": 1})


def test_a_governed_lifecycle_takes_so_many_round_trips(
    round_trips: Trips,  # noqa: F811
    hermes_token: str,
    make_job: Any,
) -> None:
    price_a_model()
    worker = Worker(hermes_token, round_trips)
    # The first prepares what is executed, and fills what is remembered.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(worker, "counted", lambda _: nullcontext())
        worker.lifecycle(make_job(), TRIPS)
    worker.lifecycle(make_job(), TRIPS)
