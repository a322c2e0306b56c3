"""Sections 5, 6 and 9: routes, reservations, and permits that rest on them."""

from __future__ import annotations

from decimal import Decimal
from uuid import uuid4

import pytest

from tests.contract.conftest import request_id

USAGE = {"input_tokens": 500, "output_tokens": 100}


@pytest.fixture
def route(acting):
    """Ask for the route of the attempt's first call; `call=N` for a further one."""

    def ask(call=1, **over):
        suffix = ":model" if call == 1 else f":model:{call}"
        body = acting.binding | {
            "route_request_id": acting.id + suffix,
            "estimated_input_tokens": 1000,
            "max_output_tokens": 1000,
        }
        return acting.post("/v1/routes", body | over)

    return ask


@pytest.fixture
def resolve(acting):
    def end(reservation, how, **more):
        path = f"/v1/reservations/{reservation['reservation_id']}/resolve"
        return acting.post(path, acting.binding | {"end": how} | more)

    return end


@pytest.fixture
def reserved(target, route):
    if not target.models:
        pytest.skip("CONTRACT_MODELS is not set: no model is known to be allowed")
    decided = route()
    assert decided.status == 200
    return decided.body["reservation"]


def test_a_route_is_decided_and_reserved_once(route, reserved):
    again = route().body
    assert again["decision"] == "issued"
    assert again.keys() >= {
        *("decision_id", "reason", "provider", "model", "price_version", "position", "policy_id"),
    }
    assert again["reservation"] == reserved
    assert (reserved["state"], reserved["currency"]) == ("held", "USD")
    assert Decimal(reserved["amount"]) > 0
    other = route(max_output_tokens=2000)
    assert other.refusal == (409, "ROUTE_CONTENT_MISMATCH")
    assert other.body["retry"]["rule"] == "read"


def test_what_no_model_can_is_refused_by_policy_and_stays_refused(route):
    for _ in range(2):
        refused = route(requirements=["telepathy"])
        assert refused.refusal == (403, "MODEL_NOT_ALLOWED")
        assert refused.body["retry"]["rule"] == "stop"


def test_the_server_computes_the_route_request_id(acting, route):
    for foreign in (
        request_id(acting.held.job, attempt=2) + ":model",
        acting.id,
        acting.id + ":model:1",
        acting.id + ":model:02",
        acting.id + ":tool",
    ):
        assert route(route_request_id=foreign).refusal == (400, "BINDING_MISMATCH")


def test_calls_run_beside_each_other_under_the_next_free_number(route, reserved):
    early = route(call=3)
    assert early.refusal == (409, "MODEL_RESERVATION_STATE_INVALID")
    assert early.body["current"] == {"next_call": 2}
    second = route(call=2).body["reservation"]
    assert second["reservation_id"] != reserved["reservation_id"]


def test_no_more_than_eight_calls_are_open(route):
    for call in range(1, 9):
        assert route(call=call).status == 200
    assert route(call=9).refusal == (409, "MODEL_RESERVATION_STATE_INVALID")


def test_what_is_sent_tells_two_calls_apart(route):
    first = route(request_sha256="ab" * 32)
    assert first.status == 200
    assert route(request_sha256="cd" * 32).refusal == (409, "ROUTE_CONTENT_MISMATCH")
    assert route(request_sha256="AB" * 32).status == 400


def test_a_stale_token_gets_no_route(acting, route):
    stale = route(fencing_token=acting.held.job["fencing_token"] + 1)
    assert stale.refusal == (409, "STALE_FENCING_TOKEN")


def test_a_reservation_ends_once(reserved, resolve):
    first = resolve(reserved, "released")
    assert first.body.keys() >= {"outcome", "state", "actual", "overrun", "usage_missing"}
    assert (first.body["outcome"], first.body["state"]) == ("recorded", "released")
    again = resolve(reserved, "released")
    assert (again.status, again.body["outcome"]) == (200, "already_recorded")
    assert resolve(reserved, "settled", usage=USAGE).refusal == (
        409,
        "MODEL_RESERVATION_STATE_INVALID",
    )


def test_a_started_reservation_is_not_released_and_settles_with_the_result(
    acting, reserved, resolve
):
    permit = acting.permit(reservation_id=reserved["reservation_id"])
    assert permit.body["reservation_id"] == reserved["reservation_id"]
    assert acting.start(permit.body["permit_id"]).status == 201
    assert resolve(reserved, "released").refusal == (409, "MODEL_RESERVATION_STATE_INVALID")
    assert acting.result(usage=USAGE).status == 200
    told = acting.caller.get(f"/v1/executions/{acting.id}").body["reservations"]
    assert [each["state"] for each in told] == ["settled"]


def test_there_is_no_permit_on_a_reservation_that_has_ended(acting, reserved, resolve):
    resolve(reserved, "released")
    refused = acting.permit(reservation_id=reserved["reservation_id"])
    assert refused.refusal == (409, "MODEL_RESERVATION_STATE_INVALID")


def test_nobody_ends_what_is_not_theirs(acting, resolve):
    absent = resolve({"reservation_id": str(uuid4())}, "released")
    assert (absent.status, absent.body["code"]) == (404, "NOT_FOUND")


@pytest.mark.parametrize(
    "over", [{"estimated_input_tokens": -1}, {"max_output_tokens": "1"}, {"unknown": 1}]
)
def test_a_malformed_route_is_refused(route, over):
    assert route(**over).status == 400
