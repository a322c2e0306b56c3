"""Refusals at the gateway: of the control plane, of the gateway itself, and of providers."""

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from fencepost_worker.client import NoRoom, Problem
from fencepost_worker.executor import Grant
from fencepost_worker.gateway.faces import Endpoint
from fencepost_worker.testing import Answer
from fencepost_worker.testing.answers import event
from fencepost_worker.testing.provider import TEXT
from tests.worker.conftest import problem
from tests.worker.gateway.conftest import PROVIDER_KEY, Table

ASKED = [{"role": "user", "content": "Say hello."}]
CHAT = {"model": "large", "messages": ASKED}
BUDGET = {"scope": "agent", "key": "hermes", "window": "day", "cap": "5.00", "spent": "1.25"}
BUDGET |= {"held": "3.75", "currency": "USD"}


def exhausted(**over: Any) -> dict[str, Any]:
    return problem(429, "RESOURCE_EXHAUSTED", "BUDGET_EXHAUSTED", "defer", **over)


def test_a_full_budget_is_told_once_with_what_is_held_apart_from_what_is_spent(
    table: Callable[..., Table],
) -> None:
    seat = table()
    seat.books.refusals = [exhausted(budget=BUDGET, after_seconds=3600) for _ in range(2)]

    with seat.openai() as client, pytest.raises(openai.PermissionDeniedError) as refused:
        client.chat.completions.create(**CHAT)
    with seat.anthropic() as other, pytest.raises(anthropic.PermissionDeniedError) as too:
        other.messages.create(model="haiku", max_tokens=9, messages=ASKED)

    assert refused.value.code == "BUDGET_EXHAUSTED"
    assert "of 5.00 USD 1.25 are spent and 3.75 are held" in refused.value.message
    assert "retry-after" not in refused.value.response.headers
    assert "BUDGET_EXHAUSTED" in str(too.value)
    assert seat.books.refusals == [], "each was asked once"
    assert seat.provider.requests == []
    spent = seat.admitted.end("done")
    assert (spent.calls, spent.open, spent.at_a_cost) == (0, 0, 0)
    assert spent.no_room is not None
    assert [each.reason for each in spent.refusals] == ["BUDGET_EXHAUSTED"] * 2


def test_a_limit_that_is_free_again_soon_is_waited_for(table: Callable[..., Table]) -> None:
    seat = table()
    limited = problem(429, "RESOURCE_EXHAUSTED", "RATE_LIMITED", "defer", after_seconds=0.05)
    seat.books.refusals = [limited]

    assert seat.ask(json=CHAT).is_success

    assert len(seat.books.settled()) == 1
    assert seat.admitted.end("done").no_room is None


def test_a_limit_that_is_not_free_soon_is_a_refusal(table: Callable[..., Table]) -> None:
    seat = table()
    seat.books.refusals = [
        problem(429, "RESOURCE_EXHAUSTED", "RATE_LIMITED", "defer", after_seconds=300)
    ]

    answer = seat.ask(json=CHAT)

    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "RATE_LIMITED")
    assert answer.headers["x-should-retry"] == "false"
    assert "retry-after" not in answer.headers


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/files"),
        ("POST", "/v1/images/generations"),
        ("POST", "/v1/batches"),
        ("GET", "/v1/responses/resp_1"),
        ("POST", "/v1/responses/compact"),
        ("POST", "/v1/messages/batches"),
        ("DELETE", "/v1/models/large"),
        ("GET", "/v1/chat/completions"),
    ],
)
def test_what_is_not_governed_is_refused_in_the_shape_of_its_face(
    table: Callable[..., Table], method: str, path: str
) -> None:
    seat = table()
    answer = seat.ask(path, method, json=CHAT)
    assert (answer.status_code, answer.headers["x-should-retry"]) == (403, "false")
    assert answer.headers["x-fencepost-reason"] == "ENDPOINT_NOT_GOVERNED"
    assert ("type" in answer.json()) is path.startswith("/v1/messages")
    assert (seat.books.calls, seat.provider.requests) == ([], [])


def test_an_answer_in_the_background_is_refused(table: Callable[..., Table]) -> None:
    seat = table()
    with seat.openai() as client, pytest.raises(openai.PermissionDeniedError) as refused:
        client.responses.create(model="large", input="Hello?", background=True)
    assert refused.value.code == "ENDPOINT_NOT_GOVERNED"
    assert (seat.books.calls, seat.provider.requests) == ([], [])


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"model": 1}'])
def test_a_body_that_is_no_request_is_refused(table: Callable[..., Table], body: bytes) -> None:
    seat = table()
    answer = seat.ask(content=body)
    assert answer.status_code == 400
    assert seat.books.calls == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"authorization": "Bearer fpg_of_nobody"}, 401),
        ({"authorization": ""}, 401),
        ({"host": "evil.example"}, 403),
        ({"host": "127.0.0.1"}, 403),
        ({"host": "127.0.0.1:1"}, 403),
        ({"origin": "http://evil.example"}, 403),
    ],
)
def test_only_the_attempts_own_program_is_answered(
    table: Callable[..., Table], headers: dict[str, str], status: int
) -> None:
    seat = table()
    answer = seat.ask(json=CHAT, headers=headers)
    assert (answer.status_code, answer.headers["x-should-retry"]) == (status, "false")
    assert (seat.books.calls, seat.provider.requests) == ([], [])


def test_a_request_without_end_is_read_no_further(
    table: Callable[..., Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencepost_worker.gateway.bodies.BODY_BYTES_MAX", 1000)
    seat = table()
    assert seat.ask(content=b"x" * 1001).status_code == 413


def test_the_key_of_a_provider_is_in_no_answer_and_no_log(
    table: Callable[..., Table], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    seat = table()
    seat.provider.script(Answer.error(401, "authentication_error", "no"))
    said = [seat.ask(json=CHAT)]
    (tmp_path / "key").unlink()
    said.append(seat.ask(json=CHAT))
    said.append(seat.ask("/v1/models", "GET"))

    assert [each.status_code for each in said] == [401, 502, 200]
    assert PROVIDER_KEY not in repr([(each.content, each.headers.raw) for each in said])
    assert PROVIDER_KEY not in caplog.text
    assert PROVIDER_KEY not in repr(seat.admitted.environment)
    ends = seat.books.settled(3)
    assert [(end["end"], end["cost_basis"]) for end in ends] == [("failed", "none")] * 3
    spent = seat.admitted.end("done")
    assert (spent.at_a_cost, {each.status for each in spent.provider_refusals}) == (0, {401})


# Providers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [429, 503, 522, 529])
def test_a_definite_refusal_costs_nothing_and_another_model_answers(
    table: Callable[..., Table], status: int
) -> None:
    seat = table()
    seat.provider.script(Answer.error(status, "overloaded_error", "busy", retry_after="7"))

    with seat.openai() as client:
        answer = client.chat.completions.create(**CHAT)

    assert (answer.choices[0].message.content, answer.model) == (TEXT, "small")
    first, second = seat.books.settled(2)
    assert (first["end"], first["cost_basis"]) == ("failed", "none")
    assert (second["end"], second["cost_basis"]) == ("settled", "actual")
    asked = seat.books.calls[1].asked
    assert asked["fallback_of"] == seat.books.calls[0].asked["route_request_id"]
    [refusal] = seat.admitted.end("done").provider_refusals
    assert (refusal.provider, refusal.status, refusal.after_seconds) == ("openai", status, 7)


def test_an_unknown_failure_before_output_is_booked_and_another_model_answers(
    table: Callable[..., Table],
) -> None:
    seat = table()
    seat.provider.script(Answer.error(500, "api_error", "oops"))
    with seat.openai() as client:
        assert client.chat.completions.create(**CHAT, max_tokens=40).model == "small"
    first, second = seat.books.settled(2)
    assert (first["end"], first["cost_basis"]) == ("settled", "estimate")
    assert first["usage"]["output_tokens"] == 40
    assert second["cost_basis"] == "actual"


def test_where_no_other_model_is_left_the_first_refusal_is_passed_on(
    table: Callable[..., Table],
) -> None:
    seat = table()
    busy = [Answer.error(429, "rate_limit_error", f"busy {n}", retry_after="7") for n in (1, 2)]
    seat.provider.script(*busy)

    with seat.openai() as client, pytest.raises(openai.RateLimitError) as refused:
        client.chat.completions.create(**CHAT)

    assert "busy 1" in refused.value.message
    assert refused.value.response.headers["retry-after"] == "7"
    assert len(seat.provider.requests) == 2, "the client did not repeat it"
    assert [end["cost_basis"] for end in seat.books.settled(2)] == ["none"] * 2


@pytest.mark.parametrize("seconds", ["3600", "Wed, 21 Oct 2115 07:28:00 GMT"])
def test_a_long_wait_is_not_passed_on(table: Callable[..., Table], seconds: str) -> None:
    seat = table(models=())
    seat.books.models = seat.books.models[:1]
    seat.provider.script(Answer.error(429, "rate_limit_error", "busy", retry_after=seconds))
    answer = seat.ask(json=CHAT)
    assert (answer.status_code, "retry-after" in answer.headers) == (429, False)


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 413, 422])
def test_a_refusal_that_no_other_model_can_mend_is_passed_on(
    table: Callable[..., Table], status: int
) -> None:
    seat = table()
    seat.provider.script(Answer.error(status, "invalid_request_error", "no", x_request_id="r1"))
    answer = seat.ask(json=CHAT)
    assert (answer.status_code, answer.headers["x-request-id"]) == (status, "r1")
    assert answer.json()["error"]["message"] == "no"
    [end] = seat.books.settled()
    assert (end["end"], end["cost_basis"]) == ("failed", "none")


def test_a_prompt_that_is_too_long_is_given_to_another_model(table: Callable[..., Table]) -> None:
    seat = table()
    seat.provider.script(
        Answer.error(400, "invalid_request_error", "prompt is too long: 12 tokens > 10"),
        endpoint=Endpoint.MESSAGES,
    )
    with seat.anthropic() as client:
        assert client.messages.create(model="haiku", max_tokens=9, messages=ASKED).model == "sonnet"


def test_an_error_as_the_first_event_is_a_refusal(table: Callable[..., Table]) -> None:
    seat = table()
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    seat.provider.script(Answer.events(event(overloaded, name="error")))
    with seat.anthropic() as client:
        with client.messages.stream(model="haiku", max_tokens=9, messages=ASKED) as stream:
            assert stream.get_final_message().model == "sonnet"
    first, second = seat.books.settled(2)
    assert (first["end"], first["cost_basis"]) == ("failed", "none")
    assert second["cost_basis"] == "actual"


def test_a_provider_that_is_not_reached_costs_nothing(
    table: Callable[..., Table], tmp_path: Path
) -> None:
    seat = table(providers={"openai": {"base_url": "http://127.0.0.1:9/v1"}})
    answer = seat.ask(json=CHAT)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "PROVIDER_NOT_REACHED")
    assert [end["cost_basis"] for end in seat.books.settled(2)] == ["none"] * 2


def test_another_address_is_not_followed(table: Callable[..., Table]) -> None:
    seat = table()
    away = Answer(307, {"location": "http://evil.example/"}, (b"",), "length")
    seat.provider.script(away)
    answer = seat.ask(json=CHAT)
    assert (answer.status_code, "location" in answer.headers) == (502, False)


def test_a_provider_that_this_worker_does_not_have_is_passed_over(
    table: Callable[..., Table],
) -> None:
    seat = table()
    foreign = {"position": 1, "provider": "elsewhere", "model": "large", "api": "openai"}
    seat.books.models = (foreign, *seat.books.models[1:])
    with seat.openai() as client:
        assert client.chat.completions.create(**CHAT).model == "small"
    assert [end["cost_basis"] for end in seat.books.settled(2)] == ["none", "actual"]


# The start ------------------------------------------------------------------------------------


def test_the_first_call_starts_the_execution_and_no_other_does(table: Callable[..., Table]) -> None:
    started: list[str] = []

    def start(reservation_id: str) -> Grant:
        started.append(reservation_id)
        return Grant()

    seat = table(effects="model_only", starter=start)
    seat.books.started = False
    for _ in range(2):
        assert seat.ask(json=CHAT).is_success
    assert started == [seat.books.calls[0].answer["reservation"]["reservation_id"]]


def test_an_attempt_that_was_not_started_before_the_process_was_lost_is_started_after(
    table: Callable[..., Table],
) -> None:
    closed = Problem(409, "FAILED_PRECONDITION", "ADMISSION_CLOSED", "closed", "defer", "none")
    started: list[str] = []

    def start(reservation_id: str) -> Grant:
        started.append(reservation_id)
        if len(started) == 1:
            raise NoRoom(closed)
        return Grant()

    seat = table(effects="model_only", starter=start)
    seat.books.started = False
    assert seat.ask(json=CHAT).status_code == 403
    seat.admitted.end("lost")

    again = replace(seat, admitted=seat.gateway.admit(seat.attempt))
    assert again.ask(json=CHAT).is_success

    assert len(started) == 2
    assert [end["end"] for end in seat.books.settled(2)] == ["released", "settled"]


def test_a_start_that_is_refused_releases_its_reservation(table: Callable[..., Table]) -> None:
    closed = Problem(409, "FAILED_PRECONDITION", "ADMISSION_CLOSED", "closed", "defer", "none")

    def start(reservation_id: str) -> Grant:
        raise NoRoom(closed)

    seat = table(effects="model_only", starter=start)
    seat.books.started = False

    answer = seat.ask(json=CHAT)

    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "ADMISSION_CLOSED")
    [end] = seat.books.settled()
    assert (end["end"], end["cost_basis"]) == ("released", "none")
    assert seat.provider.requests == []
    spent = seat.admitted.end("done")
    assert (spent.no_room, spent.at_a_cost, spent.open) == (closed, 0, 0)


def test_a_call_whose_time_to_begin_is_over_is_not_made(table: Callable[..., Table]) -> None:
    seat = table()
    seat.books.begin_within_seconds = 0
    answer = seat.ask(json=CHAT)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "ATTEMPT_ENDED")
    assert seat.provider.requests == []
    assert seat.books.settled()[0]["cost_basis"] == "none"


def test_a_number_that_the_control_plane_knows_otherwise_is_taken_over(
    table: Callable[..., Table],
) -> None:
    seat = table()
    assert seat.ask(json=CHAT).is_success
    # Of another process with the same identity, which this one knows nothing of.
    call = seat.books.calls[0]
    seat.books.calls.append(type(call)(call.asked, call.answer, call.end))
    assert seat.ask(json=CHAT).is_success
    assert seat.books.calls[2].asked["route_request_id"].endswith(":model:3")
