"""Usage over HTTP: whatever a provider counted, no result is lost by it."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from json import dumps
from typing import Any

import pytest

from governance.core.models import AuditEvent
from governance.money import ledger
from governance.money.models import Resolution
from jobs.models import Execution, ExecutionEvidence, Job
from tests.client import Api
from tests.jobs.governed import Governed, governed  # noqa: F401
from tests.work import expire_lease

pytestmark = pytest.mark.django_db

#: A thousand tokens of each direction at the rates of the governed model.
HELD = Decimal("0.003")
ODD = [
    {"input_tokens": 10, "output_tokens": 5, "cached_input_tokens": 11},
    {"input_tokens": -10, "output_tokens": 5},
    {"input_tokens": "10", "output_tokens": 5},
    {"input_tokens": None, "output_tokens": None},
    {"input_tokens": 10**10, "output_tokens": 5},
    {"input_tokens": 10.5, "output_tokens": 5},
    {"output_tokens": 5},
    {"input_tokens": 10, "output_tokens": 5, "thoughts": {"a": [1]}},
    [],
    "none",
]


@pytest.fixture
def begun(governed: Governed, make_job: Callable[..., Job]) -> Execution:  # noqa: F811
    return governed.begin(make_job())


def api_of(worker: Governed, token: str) -> Api:
    session, epoch = str(worker.entry.session_id), str(worker.entry.epoch)
    return Api(token, **{"Fencepost-Session": session, "Fencepost-Epoch": epoch})


def reported(api: Api, execution: Execution, usage: Any) -> Any:
    return api.post(
        f"/v1/executions/{execution.external_request_id}/result",
        {
            "task_id": execution.job.task_id,
            "attempt": execution.attempt,
            "fencing_token": execution.fencing_token,
            "execution_digest": execution.execution_digest,
            "outcome": "succeeded",
            "result_sha256": "cd" * 32,
            "result": {"said": "yes"},
            "usage": usage,
        },
    )


def reported_raw(api: Api, execution: Execution, usage: bytes) -> Any:
    """Report a result whose usage is sent as it stands."""
    body = dumps(
        {
            "task_id": execution.job.task_id,
            "attempt": execution.attempt,
            "fencing_token": execution.fencing_token,
            "execution_digest": execution.execution_digest,
            "outcome": "succeeded",
            "result_sha256": "cd" * 32,
            "usage": 0,
        }
    ).replace('"usage": 0', '"usage": ' + usage.decode())
    return api.post(f"/v1/executions/{execution.external_request_id}/result", raw=body.encode())


@pytest.mark.parametrize("usage", ODD)
def test_a_result_with_odd_usage_is_bound_and_its_usage_kept(
    governed: Governed,  # noqa: F811
    hermes_token: str,
    begun: Execution,
    usage: Any,
) -> None:
    api = api_of(governed, hermes_token)

    first, again = reported(api, begun, usage), reported(api, begun, usage)

    assert (first.status_code, first.json()["outcome"]) == (200, "recorded")
    assert again.json()["outcome"] == "already_recorded"
    begun.refresh_from_db()
    assert (begun.state, begun.result, begun.usage) == ("succeeded", {"said": "yes"}, usage)
    assert first.json()["execution"]["usage"] == usage
    end = Resolution.objects.get()
    assert (end.cost, end.cost_basis, end.usage_sent) == (HELD, "estimate", usage)
    assert end.flags == ["usage_missing", "usage_odd"]
    event = AuditEvent.objects.get(subject=begun.job.audit_subject, action="reservation.settled")
    assert b'"usage_odd":true' in bytes(event.body)
    assert list(ledger.verify()) == []


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (b'{"input_tokens": 9007199254740992}', {"input_tokens": "9007199254740992"}),
        (b'{"input_tokens": 1e400}', {"input_tokens": "Infinity"}),
        (b'{"input_tokens": 5, "said": "\\u0000"}', {"input_tokens": 5, "said": '"\\u0000"'}),
        (b'{"input_tokens": 5, "input_tokens": 6}', '{"input_tokens": 6}'),
    ],
)
def test_usage_that_is_no_i_json_loses_no_result(
    governed: Governed,  # noqa: F811
    hermes_token: str,
    begun: Execution,
    sent: bytes,
    kept: Any,
) -> None:
    api = api_of(governed, hermes_token)

    answer = reported_raw(api, begun, sent)

    assert (answer.status_code, answer.json()["outcome"]) == (200, "recorded"), answer.content
    begun.refresh_from_db()
    assert (begun.state, begun.usage) == ("succeeded", kept)
    assert Resolution.objects.get().flags == ["usage_missing", "usage_odd"]
    assert list(ledger.verify()) == []


def test_a_result_that_is_no_i_json_is_refused_with_whatever_usage(
    governed: Governed,  # noqa: F811
    hermes_token: str,
    begun: Execution,
) -> None:
    """The control: only what is inside `usage` may be odd."""
    answer = reported_raw(api_of(governed, hermes_token), begun, b"{}, " + b'"x": 1e400')

    assert answer.status_code == 400
    begun.refresh_from_db()
    assert begun.state == "unknown"


def test_late_odd_usage_is_kept_as_evidence_and_ends_what_a_person_settles(
    governed: Governed,  # noqa: F811
    hermes_token: str,
    begun: Execution,
) -> None:
    from jobs import executions
    from jobs.transitions.sweeping import end_if_due
    from tests.jobs.governed import TEST

    expire_lease(begun.job)
    end_if_due(task_id=begun.job.task_id)

    answer = reported(api_of(governed, hermes_token), begun, ODD[0])

    assert (answer.status_code, answer.json()["result_code"]) == (202, "ACCEPTED")
    assert ExecutionEvidence.objects.get().content["usage"] == ODD[0]
    executions.reconcile(
        external_request_id=begun.external_request_id, verdict="happened", result=None, **TEST
    )
    end = Resolution.objects.get()
    assert (end.cost, end.usage_odd, end.usage_sent) == (HELD, True, ODD[0])


def test_a_reservation_is_resolved_with_every_counter_and_says_its_basis(
    governed: Governed,  # noqa: F811
    hermes_token: str,
    make_job: Callable[..., Job],
) -> None:
    job = make_job()
    governed.claim(job)
    of = governed.route(job).reservation.reservation_id
    body = {
        **vars(governed.binding(job)),
        "end": "settled",
        "usage": {
            "input_tokens": 100, "cached_input_tokens": 50, "cache_write_tokens": 20,
            "cache_write_1h_tokens": 10, "output_tokens": 30, "reasoning_tokens": 5,
            "input_audio_tokens": 20, "cached_audio_tokens": 10, "output_audio_tokens": 3,
            "searches": 0, "service_tier": "default",
        },
    }  # fmt: skip

    answer = api_of(governed, hermes_token).post(f"/v1/reservations/{of}/resolve", body)

    assert answer.status_code == 200
    assert answer.json() == {
        "outcome": "recorded",
        "result_code": "APPLIED",
        "state": "settled",
        "actual": "0.00016",
        "cost_basis": "actual",
        "overrun": False,
        "usage_missing": False,
        "flags": [],
    }
    end = Resolution.objects.get()
    assert (end.cached_audio_tokens, end.output_audio_tokens, end.service_tier) == (
        10,
        3,
        "default",
    )


@pytest.mark.parametrize("usage", ODD)
def test_a_reservation_is_resolved_by_odd_usage_at_the_estimate(
    governed: Governed,  # noqa: F811
    hermes_token: str,
    make_job: Callable[..., Job],
    usage: Any,
) -> None:
    job = make_job()
    governed.claim(job)
    of = governed.route(job).reservation.reservation_id
    body = {**vars(governed.binding(job)), "end": "settled", "usage": usage}

    answer = api_of(governed, hermes_token).post(f"/v1/reservations/{of}/resolve", body)

    assert answer.status_code == 200
    assert answer.json() | {"outcome": ""} == {
        "outcome": "",
        "result_code": "APPLIED",
        "state": "settled",
        "actual": "0.003",
        "cost_basis": "estimate",
        "overrun": False,
        "usage_missing": True,
        "flags": ["usage_missing", "usage_odd"],
    }


def test_a_route_whose_tool_has_no_rate_is_refused_by_itself(
    governed: Governed,  # noqa: F811
    make_job: Callable[..., Job],
) -> None:
    job = make_job()
    governed.claim(job)

    refused = governed.route(job, requirements=("tool=code_execution",))

    assert refused.refusal is not None
    assert refused.refusal.reason == "MODEL_UNPRICED"
