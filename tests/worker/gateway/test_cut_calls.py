"""Calls that do not come to their own end: programs that leave, streams that break, leases."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Literal

import anthropic
import httpx2
import openai
import pytest

from fencepost_worker.gateway.forwarding import HOLD_BYTES_MAX
from fencepost_worker.gateway.wire import Reply
from fencepost_worker.lease import Ended
from fencepost_worker.testing import Answer
from fencepost_worker.testing.answers import encoded, event
from fencepost_worker.testing.provider import TEXT
from fencepost_worker.timing import steady_now
from tests.worker.gateway.conftest import Table

PATIENCE_SECONDS = 20
SECONDS_TO_LEAVE = 0.5
ASKED = [{"role": "user", "content": "Say hello."}]
CHAT = {"model": "large", "messages": ASKED, "max_tokens": 900}


def piece(text: str) -> bytes:
    """Return a chunk of a chat completion that says this."""
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return event({"id": "chat-1", "model": "large", "choices": [choice]})


def usage_of(output_tokens: int) -> bytes:
    """Return a chunk that has nothing but usage."""
    usage = {"prompt_tokens": 7, "completion_tokens": output_tokens}
    return event({"id": "chat-1", "choices": [], "usage": usage})


def message_of(*deltas: str) -> list[bytes]:
    """Return the beginning of a message of the other face."""
    usage = {"input_tokens": 40, "output_tokens": 1}
    message = {"id": "m", "model": "haiku", "role": "assistant", "content": [], "usage": usage}
    start = {"type": "message_start", "message": message}
    said = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
        for text in deltas
    ]
    block = {"type": "text", "text": ""}
    opened = {"type": "content_block_start", "index": 0, "content_block": block}
    return [event(each, name=each["type"]) for each in (start, opened, *said)]


@contextmanager
def streaming(seat: Table, **over: object) -> Iterator[httpx2.Response]:
    """Begin a streamed call, and give its answer while it comes."""
    headers = {"authorization": f"Bearer {seat.admitted.key}"}
    with (
        httpx2.Client(trust_env=False, timeout=PATIENCE_SECONDS) as client,
        client.stream(
            "POST",
            f"{seat.address}/v1/chat/completions",
            headers=headers,
            json=CHAT | {"stream": True} | over,
        ) as answer,
    ):
        yield answer


# Programs that leave --------------------------------------------------------------------------


def test_a_stream_whose_program_leaves_is_cut_and_booked_at_what_was_seen(
    table: Callable[..., Table],
) -> None:
    seat = table()
    seat.provider.script(Answer.events(piece("x" * 300), end="hang"))

    with streaming(seat) as answer:
        assert b"xxx" in next(answer.iter_raw())

    [end] = seat.books.settled()
    assert (end["end"], end["cost_basis"], end["error_code"]) == (
        "settled",
        "estimate",
        "client_left",
    )
    assert end["usage"]["output_tokens"] == 100
    assert 0 < end["usage"]["input_tokens"] < 60
    assert seat.provider.wait_for(lambda seen: seen[0].left), "its connection was closed"


def test_a_stream_whose_provider_bills_on_is_read_to_its_end(table: Callable[..., Table]) -> None:
    seat = table(providers={"openai": {"on_disconnect": "drain"}})
    left = threading.Event()
    counted = usage_of(99)
    seat.provider.script(Answer.events(piece("x"), left, piece("y"), counted, b"data: [DONE]\n\n"))

    with streaming(seat) as answer:
        next(answer.iter_raw())
    left.set()

    [end] = seat.books.settled()
    assert (end["cost_basis"], end["usage"]["output_tokens"]) == ("actual", 99)


def test_who_leaves_behind_the_end_has_left_a_whole_answer(table: Callable[..., Table]) -> None:
    seat = table()
    counted = usage_of(9)
    seat.provider.script(Answer.events(piece("x"), counted, b"data: [DONE]\n\n", end="hang"))
    with streaming(seat, stream_options={"include_usage": True}) as answer:
        seen = b""
        for raw in answer.iter_raw():
            seen += raw
            if b"[DONE]" in seen:
                break
    [end] = seat.books.settled()
    assert (end["cost_basis"], end["usage"]["output_tokens"]) == ("actual", 9)


def test_an_answer_that_is_not_streamed_is_read_to_its_end_and_settled(
    table: Callable[..., Table],
) -> None:
    seat = table()
    left = threading.Event()
    usage = {"prompt_tokens": 7, "completion_tokens": 2}
    whole = encoded({"id": "c", "choices": [{"message": {"content": "hi"}}], "usage": usage})
    seat.provider.script(Answer(200, parts=(left, whole)))

    with pytest.raises(httpx2.ReadTimeout):
        seat.ask(json=CHAT, timeout=0.3)
    left.set()

    [end] = seat.books.settled()
    assert (end["cost_basis"], end["usage"]["output_tokens"]) == ("actual", 2)


def test_who_leaves_before_its_turn_has_made_no_call(table: Callable[..., Table]) -> None:
    seat = table(open_calls_max=1)
    seat.provider.script(Answer.events(piece("x"), end="hang"))
    with streaming(seat) as answer:
        parts = answer.iter_raw()
        next(parts)
        with pytest.raises(httpx2.ReadTimeout):
            seat.ask(json=CHAT, timeout=0.3)
    seat.books.settled()
    assert seat.admitted.end("done").calls == 1
    assert (len(seat.books.calls), len(seat.provider.requests)) == (1, 1)


# Streams that break ---------------------------------------------------------------------------


def test_a_cut_chat_stream_never_ends_cleanly(table: Callable[..., Table]) -> None:
    seat = table()
    seat.provider.script(Answer.events(piece("part"), end="cut"))
    with seat.openai() as client, pytest.raises(openai.APIError) as broken:
        list(client.chat.completions.create(**CHAT, stream=True))
    assert broken.value.code == "ANSWER_LOST"
    [end] = seat.books.settled()
    assert (end["cost_basis"], end["error_code"]) == ("estimate", "broken_off")
    assert len(seat.provider.requests) == 1


@pytest.mark.parametrize("end", ["cut", "complete"])
def test_who_leaves_at_the_news_of_a_broken_stream_has_not_broken_it(
    table: Callable[..., Table], monkeypatch: pytest.MonkeyPatch, end: Literal["cut", "complete"]
) -> None:
    told = Reply.write

    async def tell_and_be_left(reply: Reply, part: bytes) -> None:
        await told(reply, part)
        if b"ANSWER_LOST" in part:
            await asyncio.sleep(SECONDS_TO_LEAVE)

    monkeypatch.setattr(Reply, "write", tell_and_be_left)
    seat = table()
    seat.provider.script(Answer.events(piece("part"), end=end))
    with seat.openai() as client, pytest.raises(openai.APIError):
        list(client.chat.completions.create(**CHAT, stream=True))
    [settled] = seat.books.settled()
    assert settled.get("error_code") != "client_left"


def test_a_message_stream_without_its_end_never_ends_cleanly(table: Callable[..., Table]) -> None:
    seat = table()
    seat.provider.script(Answer.events(*message_of("x" * 90)))
    with seat.anthropic() as client, pytest.raises(anthropic.APIStatusError) as broken:
        with client.messages.stream(model="haiku", max_tokens=900, messages=ASKED) as stream:
            stream.get_final_message()
    assert "ANSWER_LOST" in str(broken.value)
    [end] = seat.books.settled()
    assert end["cost_basis"] == "estimate"
    assert (end["usage"]["input_tokens"], end["usage"]["output_tokens"]) == (40, 30)


def test_a_stream_that_breaks_inside_an_event_is_broken_off_without_a_word(
    table: Callable[..., Table],
) -> None:
    seat = table()
    seat.provider.script(Answer.events(piece("one"), b'data: {"choices": [{"del', end="cut"))
    # The program wants usage, so that nothing of the stream is held back.
    with streaming(seat, stream_options={"include_usage": True}) as answer:
        with pytest.raises(httpx2.RemoteProtocolError):
            answer.read()
    assert seat.books.settled()[0]["cost_basis"] == "estimate"


def test_a_whole_answer_that_breaks_off_after_its_beginning_is_broken_off(
    table: Callable[..., Table],
) -> None:
    seat = table()
    seat.provider.script(
        Answer(200, parts=(b'{"id":"c","x":"' + b"x" * HOLD_BYTES_MAX * 2,), end="cut")
    )
    with pytest.raises(httpx2.RemoteProtocolError):
        seat.ask(json=CHAT)
    assert seat.books.settled()[0]["cost_basis"] == "estimate"


def test_a_provider_that_closes_without_an_answer_leaves_an_unknown_call(
    table: Callable[..., Table],
) -> None:
    seat = table()
    seat.provider.script(Answer(status=0), Answer(status=0))
    answer = seat.ask(json=CHAT)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "ANSWER_LOST")
    first, second = seat.books.settled(2)
    assert (first["end"], first["cost_basis"]) == ("settled", "estimate")
    assert first["usage"]["output_tokens"] == 900
    assert second["cost_basis"] == "estimate"


def test_a_long_answer_is_passed_on_as_it_comes(table: Callable[..., Table]) -> None:
    seat = table()
    rest = threading.Event()
    seat.provider.script(Answer.events(piece("first"), rest, piece("x"), b"data: [DONE]\n\n"))
    with streaming(seat) as answer:
        parts = answer.iter_raw()
        assert b"first" in next(parts), "it came while the provider still makes the rest"
        rest.set()
        assert b"[DONE]" in b"".join(parts)


def test_what_begins_with_comments_is_passed_on_in_time(
    table: Callable[..., Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencepost_worker.gateway.forwarding.HOLD_SECONDS", 0.05)
    seat = table()
    rest = threading.Event()
    seat.provider.script(Answer.events(b": PROCESSING\n\n", rest, piece("x"), b"data: [DONE]\n\n"))
    with streaming(seat) as answer:
        parts = answer.iter_raw()
        assert next(parts) == b": PROCESSING\n\n"
        rest.set()
        assert b"[DONE]" in b"".join(parts)


# Leases ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("why", [Ended.STOPPED, Ended.LOST, Ended.FENCED, Ended.EXPIRED])
def test_a_lease_that_ends_cuts_its_streams_and_lets_no_call_begin(
    table: Callable[..., Table], why: Ended
) -> None:
    seat = table(providers={"openai": {"on_disconnect": "drain"}})
    seat.provider.script(Answer.events(piece("x" * 300), end="hang"))

    with seat.openai() as client, pytest.raises(openai.APIError) as cut:
        for _ in client.chat.completions.create(**CHAT, stream=True):
            seat.attempt.lease.end(why)
    refused = seat.ask(json=CHAT)

    assert cut.value.code == "ATTEMPT_ENDED"
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "ATTEMPT_ENDED")
    [end] = seat.books.settled()
    assert (end["cost_basis"], end["error_code"]) == ("estimate", "fenced")
    assert seat.provider.wait_for(lambda seen: seen[0].left), "its connection was closed"
    assert len(seat.provider.requests) == 1


def test_a_lease_that_runs_out_by_the_clock_cuts_as_well(table: Callable[..., Table]) -> None:
    seat = table()
    seat.provider.script(Answer.silence())
    lease = seat.attempt.lease
    # As if it had been granted for a moment only.
    with lease._changed:
        lease._until = steady_now() + 0.3
    lease.poke()

    answer = seat.ask(json=CHAT)

    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "ATTEMPT_ENDED")
    assert seat.books.settled()[0]["cost_basis"] == "estimate"


def test_under_a_pause_open_calls_end_and_none_begins(
    table: Callable[..., Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencepost_worker.gateway.running.PLACE_SECONDS", 0.2)
    seat = table()
    rest = threading.Event()
    seat.provider.script(Answer.events(piece("x"), rest, b"data: [DONE]\n\n"))
    lease = seat.attempt.lease

    with streaming(seat) as answer:
        parts = answer.iter_raw()
        next(parts)
        lease.renew(requested_at=steady_now(), ttl_seconds=60, control="pause")
        refused = seat.ask(json=CHAT)
        rest.set()
        assert b"[DONE]" in b"".join(parts)

    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "ATTEMPT_PAUSED")
    assert len(seat.books.calls) == 1
    lease.renew(requested_at=steady_now(), ttl_seconds=60, control="continue")
    assert seat.ask(json=CHAT).is_success


def test_a_paused_call_begins_when_the_pause_ends(table: Callable[..., Table]) -> None:
    seat = table()
    lease = seat.attempt.lease
    lease.renew(requested_at=steady_now(), ttl_seconds=60, control="pause")
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(seat.ask, json=CHAT)
        assert not seat.provider.wait_for(lambda seen: bool(seen), timeout_s=0.2)
        lease.renew(requested_at=steady_now(), ttl_seconds=60, control="continue")
        assert waiting.result(PATIENCE_SECONDS).is_success


# Calls at once --------------------------------------------------------------------------------


def test_as_many_calls_are_open_as_may_be_and_the_next_waits_its_turn(
    table: Callable[..., Table],
) -> None:
    seat = table(open_calls_max=2)
    go = threading.Event()

    def held(request: object) -> Answer:
        return Answer(200, parts=(go, b'{"choices":[{"message":{"content":"hi"}}]}'))

    seat.provider.script(*[held] * 5)
    with ThreadPoolExecutor(5) as pool:
        asked = [pool.submit(seat.ask, json=CHAT) for _ in range(5)]
        assert seat.provider.wait_for(lambda seen: len(seen) == 2)
        assert not seat.provider.wait_for(lambda seen: len(seen) > 2, timeout_s=0.2)
        assert len(seat.books.calls) == 2
        go.set()
        assert all(each.result(PATIENCE_SECONDS).is_success for each in asked)
    assert seat.admitted.end("done").calls == 5


def test_a_call_that_does_not_get_its_turn_in_time_is_told(
    table: Callable[..., Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencepost_worker.gateway.running.PLACE_SECONDS", 0.1)
    seat = table(open_calls_max=1)
    seat.provider.script(Answer.events(piece("x"), end="hang"))
    with streaming(seat) as answer:
        parts = answer.iter_raw()
        next(parts)
        refused = seat.ask(json=CHAT)
    assert (refused.status_code, refused.headers["x-should-retry"]) == (429, "false")
    assert refused.json()["error"]["code"] == "TOO_MANY_OPEN_CALLS"


def test_parallel_calls_that_ask_alike_have_a_reservation_each(
    table: Callable[..., Table],
) -> None:
    seat = table()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: seat.ask(json=CHAT), range(24)))
    assert all(answer.is_success for answer in answers)
    spent = seat.admitted.end("done")
    assert (spent.calls, spent.open) == (24, 0)
    assert len({c.answer["reservation"]["reservation_id"] for c in seat.books.calls}) == 24


# The end of the attempt -----------------------------------------------------------------------


def test_the_end_waits_until_every_open_call_is_booked(table: Callable[..., Table]) -> None:
    seat = table(providers={"openai": {"on_disconnect": "drain"}})
    counted = usage_of(9)
    rest = threading.Event()
    seat.provider.script(Answer.events(piece("x"), rest, counted, b"data: [DONE]\n\n"))
    with streaming(seat) as answer:
        next(answer.iter_raw())
    with ThreadPoolExecutor() as pool:
        ending = pool.submit(seat.admitted.end, "the program ended")
        rest.set()
        spent = ending.result(PATIENCE_SECONDS)
    assert (spent.calls, spent.open, spent.usage["output_tokens"]) == (1, 0, 9)


def test_a_program_that_still_holds_on_is_taken_for_gone(table: Callable[..., Table]) -> None:
    seat = table()
    seat.provider.script(Answer.events(piece("x"), end="hang"))
    with streaming(seat) as answer:
        parts = answer.iter_raw()
        next(parts)
        spent = seat.admitted.end("the program ended")
        with pytest.raises(httpx2.RemoteProtocolError):
            list(parts)
    assert (spent.calls, spent.open, spent.at_a_cost) == (1, 0, 1)


def test_what_the_control_plane_does_not_hear_in_time_stays_open_and_is_booked_later(
    table: Callable[..., Table],
) -> None:
    seat = table()
    for _ in range(100):
        seat.plane.fail_next("/v1/reservations/", status=503, body={})
    assert seat.ask(json=CHAT).json()["choices"][0]["message"]["content"] == TEXT

    spent = seat.admitted.end("the program ended", patience_s=0.1)
    assert (spent.calls, spent.open) == (0, 1)

    seat.plane.faults.clear()
    assert seat.books.settled()[0]["cost_basis"] == "actual"


def test_a_route_whose_answer_did_not_come_in_time_is_ended_with_the_attempt(
    table: Callable[..., Table],
) -> None:
    seat = table()
    seat.plane.fail_next("/v1/routes", applied=True)
    for _ in range(50):
        seat.plane.fail_next("/v1/routes", status=503, body={})
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(seat.ask, json=CHAT)
        seat.plane.wait_for(lambda: len(seat.plane.calls("/v1/routes")) >= 2)
        seat.attempt.lease.end(Ended.LOST)
        answer = asked.result(PATIENCE_SECONDS)
    seat.plane.faults.clear()

    assert answer.json()["error"]["code"] == "CONTROL_PLANE_UNREACHABLE"
    spent = seat.admitted.end("the lease ended")

    assert (spent.calls, spent.open, spent.at_a_cost) == (1, 0, 0)
    assert [end["cost_basis"] for end in seat.books.ends] == ["none"]
    assert seat.provider.requests == []
