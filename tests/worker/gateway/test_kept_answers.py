"""Calls with an `Idempotency-Key` are made once; calls that forbid another model stay with one."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from fencepost_worker.gateway import kept
from fencepost_worker.gateway.server import Gateway
from fencepost_worker.testing import Answer
from fencepost_worker.testing.answers import event
from fencepost_worker.testing.provider import TEXT
from tests.worker.conftest import Seen, problem
from tests.worker.gateway.conftest import Table

ASKED = [{"role": "user", "content": "Say hello."}]
CHAT = {"model": "large", "messages": ASKED}
STREAM = CHAT | {"stream": True}
KEY = {"idempotency-key": "step-3"}
DONE = b"data: [DONE]\n\n"


def piece(text: str) -> bytes:
    """Return a chunk of a chat completion that says this."""
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return event({"id": "chat-1", "model": "large", "choices": [choice]})


def code_of(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


@contextmanager
def leaving(seat: Table, **over: Any) -> Iterator[httpx2.Response]:
    """Begin a streamed call with the key, and leave it at the end of the block."""
    headers = {"authorization": f"Bearer {seat.admitted.key}"} | over.pop("headers", KEY)
    with (
        httpx2.Client(trust_env=False, timeout=20) as client,
        client.stream(
            "POST", f"{seat.address}/v1/chat/completions", headers=headers, json=STREAM
        ) as answer,
    ):
        yield answer


@pytest.mark.parametrize("body", [CHAT, STREAM])
def test_the_same_request_under_a_key_is_one_call(
    table: Callable[..., Table], body: dict[str, Any]
) -> None:
    seat = table()
    first, second = (seat.ask(json=body, headers=KEY) for _ in range(2))

    assert first.is_success and first.content
    assert (second.status_code, second.content) == (first.status_code, first.content)
    assert second.headers["content-type"] == first.headers["content-type"]
    assert "idempotent-replayed" not in first.headers
    assert second.headers["idempotent-replayed"] == "true"
    assert len(seat.provider.requests) == len(seat.books.settled()) == 1
    assert "idempotency-key" not in seat.provider.requests[0].headers


def test_without_a_key_or_under_another_it_is_a_call_of_its_own(
    table: Callable[..., Table],
) -> None:
    seat = table()
    for headers in ({}, {}, KEY, {"idempotency-key": "step-4"}):
        assert seat.ask(json=CHAT, headers=headers).is_success
    other = table("task-2")
    assert other.ask(json=CHAT, headers=KEY).is_success
    assert len(seat.provider.requests) == 5


def test_official_clients_send_a_key_when_they_are_told_to(table: Callable[..., Table]) -> None:
    seat = table()
    with seat.openai() as client:
        said = [
            client.chat.completions.create(**CHAT, extra_headers=KEY).choices[0].message.content
            for _ in range(2)
        ]
        with pytest.raises(openai.UnprocessableEntityError):
            client.chat.completions.create(**CHAT | {"model": "small"}, extra_headers=KEY)
    message = {"model": "haiku", "max_tokens": 9, "messages": ASKED}
    with seat.anthropic() as client:
        with pytest.raises(anthropic.UnprocessableEntityError):
            client.messages.create(**message, extra_headers=KEY)
    assert said == [TEXT, TEXT]
    assert len(seat.provider.requests) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"json": CHAT | {"temperature": 1}},
        {"json": CHAT, "params": {"beta": "true"}},
        {"json": CHAT, "path": "/openai/deployments/small/chat/completions"},
        {"json": {"model": "large", "input": "Hello?"}, "path": "/v1/responses"},
    ],
)
def test_a_key_with_other_content_is_refused(
    table: Callable[..., Table], other: dict[str, Any]
) -> None:
    seat = table()
    assert seat.ask(json=CHAT, headers=KEY).is_success
    assert code_of(seat.ask(**other, headers=KEY)) == (422, "IDEMPOTENCY_KEY_REUSED")
    assert len(seat.provider.requests) == len(seat.books.calls) == 1


def test_who_comes_while_the_call_is_open_waits_for_its_answer(
    table: Callable[..., Table],
) -> None:
    seat, release = table(), threading.Event()
    scripted = Answer.json({"choices": [], "id": "held"})
    seat.provider.script(Answer(200, scripted.headers, (release, *scripted.parts)))
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(seat.ask, json=CHAT, headers=KEY)
        assert seat.provider.wait_for(lambda seen: len(seen) == 1)
        later = [pool.submit(seat.ask, json=CHAT, headers=KEY) for _ in range(2)]
        release.set()
        answers = [each.result() for each in (first, *later)]
    assert {answer.content for answer in answers} == {answers[0].content}
    assert len(seat.provider.requests) == 1


def test_a_refusal_before_any_provider_was_asked_leaves_the_key_free(
    table: Callable[..., Table],
) -> None:
    seat = table()
    seat.books.refusals.append(problem(403, "PERMISSION_DENIED", "MODEL_NOT_ALLOWED", "stop"))
    assert seat.ask(json=CHAT, headers=KEY).status_code == 403
    assert seat.ask(json=CHAT | {"temperature": 1}, headers=KEY).is_success


def test_who_waits_makes_the_call_where_the_first_was_refused(
    table: Callable[..., Table],
) -> None:
    seat, asked, release = table(), threading.Event(), threading.Event()
    route = seat.plane.routes[r"^/v1/routes$"]

    def refusing(seen: Seen) -> tuple[int, dict[str, Any]]:
        if not asked.is_set():
            asked.set()
            release.wait(20)
            return 403, problem(403, "PERMISSION_DENIED", "MODEL_NOT_ALLOWED", "stop")
        answer: tuple[int, dict[str, Any]] = route(seen)
        return answer

    seat.plane.routes[r"^/v1/routes$"] = refusing
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(seat.ask, json=CHAT, headers=KEY)
        assert asked.wait(20)
        second = pool.submit(seat.ask, json=CHAT, headers=KEY)
        release.set()
        assert first.result().status_code == 403
        assert second.result().is_success
    assert len(seat.provider.requests) == 1


def test_a_providers_refusal_is_the_answer(table: Callable[..., Table]) -> None:
    seat = table()
    seat.provider.script(Answer.error(400, "invalid_request_error", "no such thing"))
    first, second = (seat.ask(json=CHAT, headers=KEY) for _ in range(2))
    assert first.status_code == second.status_code == 400
    assert first.content == second.content
    assert len(seat.provider.requests) == 1


def test_an_answer_that_broke_off_is_not_asked_for_again(table: Callable[..., Table]) -> None:
    seat = table()
    seat.provider.script(Answer.events(piece("x" * 300), end="cut"))
    with pytest.raises(httpx2.HTTPError):
        seat.ask(json=STREAM, headers=KEY)
    assert code_of(seat.ask(json=STREAM, headers=KEY)) == (409, "ANSWER_NOT_KEPT")
    assert len(seat.provider.requests) == 1


def test_a_program_that_left_gets_its_answer_when_it_comes_again(
    table: Callable[..., Table],
) -> None:
    seat, left = table(), threading.Event()
    seat.provider.script(Answer.events(piece("x" * 300), left, piece("y" * 300), DONE))
    with leaving(seat) as answer:
        next(answer.iter_raw())
    left.set()

    again = seat.ask(json=STREAM, headers=KEY)

    assert again.content == piece("x" * 300) + piece("y" * 300) + DONE
    assert len(seat.provider.requests) == 1


def test_a_program_that_left_and_ended_is_waited_for_no_longer(
    table: Callable[..., Table],
) -> None:
    seat = table()
    seat.provider.script(Answer.events(piece("x" * 300), end="hang"))
    with leaving(seat) as answer:
        next(answer.iter_raw())

    spent = seat.admitted.end("the program has ended")

    assert (spent.calls, spent.open) == (1, 0)
    assert seat.books.settled()[0]["error_code"] == "client_left"


def test_an_answer_that_is_too_large_is_not_kept(
    table: Callable[..., Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    seat = table()
    monkeypatch.setattr(kept, "ANSWER_BYTES_MAX", 10)
    assert seat.ask(json=CHAT, headers=KEY).is_success
    assert code_of(seat.ask(json=CHAT, headers=KEY)) == (409, "ANSWER_NOT_KEPT")
    assert len(seat.provider.requests) == 1


def test_the_oldest_answers_give_way_and_their_keys_stay(
    table: Callable[..., Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    seat = table()
    keys = [{"idempotency-key": f"step-{number}"} for number in range(3)]
    size = len(seat.ask(json=CHAT, headers=keys[0]).content)
    monkeypatch.setattr(kept, "KEPT_BYTES_MAX", 2 * size + size // 2)
    for headers in keys[1:]:
        assert seat.ask(json=CHAT, headers=headers).is_success
    statuses = [seat.ask(json=CHAT, headers=headers).status_code for headers in keys]
    assert statuses == [409, 200, 200]
    assert len(seat.provider.requests) == 3


def test_keys_are_bounded(table: Callable[..., Table], monkeypatch: pytest.MonkeyPatch) -> None:
    seat = table()
    monkeypatch.setattr(kept, "KEYS_MAX", 1)
    assert seat.ask(json=CHAT, headers=KEY).is_success
    other = {"idempotency-key": "step-4"}
    assert code_of(seat.ask(json=CHAT, headers=other)) == (429, "TOO_MANY_IDEMPOTENCY_KEYS")
    assert seat.ask(json=CHAT, headers=KEY).is_success
    long = {"idempotency-key": "k" * 256}
    assert code_of(seat.ask(json=CHAT, headers=long)) == (400, "IDEMPOTENCY_KEY_INVALID")
    assert len(seat.provider.requests) == 1


def test_a_later_process_of_the_attempt_makes_no_second_call(
    table: Callable[..., Table], start_gateway: Callable[..., Gateway]
) -> None:
    seat = table()
    assert seat.ask(json=CHAT, headers=KEY).is_success
    seat.admitted.end("the gateway was told to end")

    gateway = start_gateway(seat.gateway._links.providers)
    again = Table(
        gateway, seat.attempt, gateway.admit(seat.attempt), seat.provider, seat.books, seat.plane
    )
    assert code_of(again.ask(json=CHAT, headers=KEY)) == (409, "ANSWER_NOT_KEPT")
    assert code_of(again.ask(json=STREAM, headers=KEY)) == (422, "IDEMPOTENCY_KEY_REUSED")
    assert len(seat.provider.requests) == 1


# Another model ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "models"),
    [({}, ["large", "small"]), ({"x-fencepost-fallback": "None"}, ["large"])],
)
def test_a_call_that_forbids_another_model_is_one_decision(
    table: Callable[..., Table], headers: dict[str, str], models: list[str]
) -> None:
    seat = table()
    seat.provider.script(Answer.error(429, "rate_limit_error", "slow down"), model="large")
    answer = seat.ask(json=CHAT, headers=headers)
    assert answer.is_success == (len(models) == 2)
    assert [each.json["model"] for each in seat.provider.requests] == models
    assert len(seat.books.calls) == len(models)
    assert "x-fencepost-fallback" not in seat.provider.requests[0].headers


def test_a_word_on_fallbacks_that_is_not_known_is_refused(table: Callable[..., Table]) -> None:
    seat = table()
    answer = seat.ask(json=CHAT, headers={"x-fencepost-fallback": "small"})
    assert code_of(answer) == (400, "REQUEST_UNREADABLE")
    assert seat.books.calls == []
