"""What Prometheus is told when jobs are claimed, renewed and lost."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from prometheus_client import REGISTRY
from uuid_utils.compat import uuid7

from jobs.models import Lease
from tests.client import Api

pytestmark = pytest.mark.django_db


def count(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"fencepost_{name}_total", labels) or 0.0


def test_claims_heartbeats_and_expiries_are_counted_once(make_job, hermes_token):
    make_job(task_id="m-1")
    worker = Api(hermes_token)
    before = [count("claims", agent="hermes"), count("heartbeats", agent="hermes")]
    expired = count("expiries")

    key = str(uuid7())
    claim = worker.post("/v1/jobs/m-1/claim", {"worker_id": "w1"}, idempotency_key=key).json()
    worker.post(
        "/v1/jobs/m-1/claim", {"worker_id": "w1"}, idempotency_key=key
    )  # a replay is no claim
    beat = {"task_id": "m-1", "attempt": 1, "fencing_token": claim["fencing_token"]}
    stale = beat | {"fencing_token": beat["fencing_token"] - 1}
    worker.post("/v1/leases/heartbeat", {"leases": [beat, stale]})

    assert count("claims", agent="hermes") == before[0] + 1
    assert count("heartbeats", agent="hermes") == before[1] + 1

    Lease.objects.update(expires_at="2020-01-01T00:00:00Z", granted_at="2019-12-31T00:00:00Z")
    call_command("sweep", once=True, prune_interval=0, seal_interval=0)
    assert count("expiries") == expired + 1


def test_deferrals_are_counted_once_by_what_is_made_of_their_cause(make_job, hermes_token):
    make_job(task_id="m-2")
    worker = Api(hermes_token)
    labels = {"agent": "hermes", "cause": "unconfirmed"}
    before = count("deferrals", **labels)
    claim = worker.post("/v1/jobs/m-2/claim", {"worker_id": "w1"}).json()
    said = {"attempt": 1, "fencing_token": claim["fencing_token"], "worker_id": "w1"}

    for _ in range(2):
        answer = worker.post(
            "/v1/jobs/m-2/defer", said | {"reason": "no quota", "retry_after_seconds": 1}
        )
        assert answer.status_code == 200

    assert count("deferrals", **labels) == before + 1
