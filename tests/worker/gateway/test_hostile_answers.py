"""Answers and programs that are out to harm: what they say, and what they do not take."""

import errno
import json
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fencepost_worker.client import Call
from fencepost_worker.gateway.attempts import ProviderRefusal, Spent
from fencepost_worker.gateway.marks import CallJournal
from fencepost_worker.model_access import want_of_room
from fencepost_worker.testing import Answer
from fencepost_worker.testing.answers import JSON, chat_events
from fencepost_worker.testing.provider import TEXT
from tests.worker.gateway.conftest import PROVIDER_KEY, Table

ASKED = [{"role": "user", "content": "Say hello."}]
CHAT = {"model": "large", "messages": ASKED}
ONE_MODEL = ({"position": 1, "provider": "openai", "model": "large", "api": "openai"},)


def only_one(seat: Table) -> Table:
    seat.books.models = ONE_MODEL
    return seat


@pytest.mark.parametrize(
    ("headers", "after"),
    [
        ({"retry_after": "7"}, 7.0),
        ({"retry_after": "0.5"}, 0.5),
        ({"retry_after": "1", "retry_after_ms": "1500"}, 1.5),
        (
            {
                "retry_after": "Mon, 30 Nov 2026 10:00:30 GMT",
                "date": "Mon, 30 Nov 2026 10:00:00 GMT",
            },
            30.0,
        ),
        (
            {
                "retry_after": "Mon, 30 Nov 2026 09:00:00 GMT",
                "date": "Mon, 30 Nov 2026 10:00:00 GMT",
            },
            0.0,
        ),
        ({"retry_after": "inf"}, None),
        ({"retry_after": "nan"}, None),
        ({"retry_after": "-5"}, None),
        ({"retry_after": "1e300"}, None),
        ({"retry_after": "soon"}, None),
        ({"retry_after": ""}, None),
    ],
)
def test_how_long_a_provider_asks_to_wait(
    table: Callable[..., Table], headers: dict[str, str], after: float | None
) -> None:
    seat = only_one(table())
    seat.provider.script(Answer.error(429, "rate_limit_error", "busy", **headers))

    assert seat.ask(json=CHAT).status_code == 429

    spent = seat.admitted.end("done")
    [refusal] = spent.provider_refusals
    assert refusal.after_seconds == after
    room = want_of_room(spent)
    assert room is not None and room.after_seconds is not None
    assert int(room.after_seconds) >= 0


def test_a_key_that_is_repeated_in_a_refusal_is_taken_out(table: Callable[..., Table]) -> None:
    seat = only_one(table())
    message = f"Incorrect API key provided: {PROVIDER_KEY}."
    error = {"error": {"message": message, "type": "x", "code": PROVIDER_KEY}}
    seat.provider.script(Answer.json(error, status=401))

    answer = seat.ask(json=CHAT)

    assert answer.status_code == 401
    assert PROVIDER_KEY not in answer.text
    assert "Incorrect API key provided: [removed]." in answer.text
    assert PROVIDER_KEY not in json.dumps(seat.books.settled())


def test_a_stream_under_another_name_that_states_its_length(table: Callable[..., Table]) -> None:
    seat = table()
    parts = chat_events("large", TEXT, counts=seat.provider.counts, with_usage=True)
    seat.provider.script(Answer(200, {"content-type": "text/plain"}, tuple(parts), "length"))

    answer = seat.ask(json=CHAT | {"stream": True})

    assert answer.is_success
    assert answer.text.rstrip().endswith("[DONE]")
    [end] = seat.books.settled()
    assert (end["cost_basis"], end["usage"]["output_tokens"]) == ("actual", 3)


def test_an_answer_that_nobody_reads_holds_up_nothing(table: Callable[..., Table]) -> None:
    """A child that outlives its program may hold the connection open, and read nothing."""
    seat = only_one(table(providers={"openai": {"on_disconnect": "drain"}}))
    filling = b" " * (1 << 20)
    usage = b'{"id":"x","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}'
    seat.provider.script(Answer(200, dict(JSON), (filling,) * 24 + (usage,), "chunked"))
    body = json.dumps(CHAT).encode()
    host, port = seat.address.removeprefix("http://").split(":")
    with socket.socket() as unread:
        unread.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        unread.connect((host, int(port)))
        unread.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: %s:%s\r\nauthorization: Bearer %s\r\n"
            b"content-length: %d\r\n\r\n"
            % (host.encode(), port.encode(), seat.admitted.key.encode(), len(body))
            + body
        )
        assert seat.provider.wait_for(lambda requests: bool(requests))
        spent: list[Spent] = []
        ending = threading.Thread(
            target=lambda: spent.append(seat.admitted.end("the program ended")), daemon=True
        )
        ending.start()
        ending.join(20)

    assert [(each.calls, each.open) for each in spent] == [(1, 0)]
    [end] = seat.books.settled()
    assert (end["cost_basis"], end["usage"]["input_tokens"]) == ("actual", 7)


def test_a_full_disk_hides_no_later_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = CallJournal(tmp_path / "calls")
    route = Call("POST", "/v1/routes", {"route_request_id": "r"}, key="k")
    first = journal.begin(route=route, lost_usage={"input_tokens": 1})
    write = os.write

    def half(handle: int, content: Any) -> int:
        if len(content) > 10:
            return write(handle, bytes(content[:10]))
        raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as full, pytest.raises(OSError, match="no space"):
        full.setattr(os, "write", lambda h, c: half(h, c) if len(c) > 60 else half(h, b""))
        journal.sent(first, reservation_id="r-1")
    second = journal.begin(route=route, lost_usage={"input_tokens": 2})
    journal.sent(second, reservation_id="r-2")
    journal.close()

    again = CallJournal(tmp_path / "calls")
    try:
        assert {number: set(each.marks) for number, each in again.calls.items()} == {
            first: {"open"},
            second: {"open", "sent"},
        }
    finally:
        again.close()


def test_a_refusal_without_a_time_is_waited_for_as_long_as_usual() -> None:
    refusal = ProviderRefusal("openai", "large", 429, None)

    room = want_of_room(Spent(provider_refusals=(refusal,)))

    assert room is not None and room.after_seconds == 60.0


def usage_with(extra: bytes) -> bytes:
    return b"{" + extra + b'"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}'


@pytest.mark.parametrize("made", [b"\\ud800", b"a\\u0000b", b"\\u001b[31m"])
def test_an_id_that_no_journal_takes_loses_no_count(
    table: Callable[..., Table], made: bytes
) -> None:
    seat = only_one(table())
    content = usage_with(b'"id":"' + made + b'",')
    seat.provider.script(Answer(200, dict(JSON), (content,), "length"))

    assert seat.ask(json=CHAT).content == content

    [end] = seat.books.settled()
    assert (end["cost_basis"], end["usage"]["output_tokens"]) == ("actual", 4)
    json.dumps(end, ensure_ascii=False).encode()


@pytest.mark.parametrize("code", [b'"\\ud800"', b'"\\u0000"', b'{"a":[1]}', b"5"])
def test_a_code_that_no_journal_takes_is_a_refusal_like_others(
    table: Callable[..., Table], code: bytes
) -> None:
    seat = only_one(table())
    body = b'{"error":{"message":["x"],"type":5,"code":' + code + b"}}"
    seat.provider.script(Answer(400, dict(JSON), (body,), "length"))

    assert seat.ask(json=CHAT).status_code == 400

    [end] = seat.books.settled()
    assert (end["end"], end["cost_basis"]) == ("failed", "none")


@pytest.mark.parametrize(
    ("over", "status"),
    [({"model": "\ud800"}, 200), ({"service_tier": "\ud800"}, 200), ({"max_tokens": 10**18}, 400)],
)
def test_a_request_that_no_journal_takes_is_answered(
    table: Callable[..., Table], over: dict[str, Any], status: int
) -> None:
    seat = table()
    answer = seat.ask(content=json.dumps(CHAT | over).encode())

    assert answer.status_code == status
    assert seat.admitted.end("done").open == 0


@pytest.mark.parametrize("stream", [False, True])
def test_what_cannot_be_decoded_is_booked_as_unknown(
    table: Callable[..., Table], stream: bool
) -> None:
    seat = only_one(table())
    kind = {"content-type": "text/event-stream"} if stream else dict(JSON)
    answer = Answer(200, kind | {"content-encoding": "br"}, (b"\x8b\x02\x80",), "length")
    seat.provider.script(answer)

    _raw(seat, json.dumps({**CHAT, "stream": stream, "max_tokens": 50}).encode())

    [end] = seat.books.settled()
    assert (end["end"], end["cost_basis"]) == ("settled", "estimate")
    assert end["usage"]["output_tokens"] == 50


def test_an_event_that_cannot_be_read_is_no_empty_answer(table: Callable[..., Table]) -> None:
    seat = only_one(table())
    event = b'data: {"choices":[{"delta":{"content":"x"}}],"n":' + b"9" * 5000 + b"}\n\n"
    seat.provider.script(Answer(200, {"content-type": "text/event-stream"}, (event,)))

    _raw(seat, json.dumps({**CHAT, "stream": True, "max_tokens": 50}).encode())

    [end] = seat.books.settled()
    assert (end["end"], end["cost_basis"]) == ("settled", "estimate")
    assert end["usage"]["output_tokens"] == 50


def test_a_header_that_cannot_be_sent_is_left_out(table: Callable[..., Table]) -> None:
    seat = only_one(table())
    content = usage_with(b"")
    headers = {**JSON, "x-odd": "b\x01c", "x-good": "y"}
    seat.provider.script(Answer(200, headers, (content,), "length"))

    answer = seat.ask(json=CHAT)

    assert (answer.status_code, answer.content) == (200, content)
    assert answer.headers["x-good"] == "y"
    assert "x-odd" not in answer.headers
    assert seat.books.settled()[0]["cost_basis"] == "actual"


def test_a_fault_of_the_gateway_is_answered_and_not_asked_again(
    table: Callable[..., Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    seat = table()

    def full(*_: Any, **__: Any) -> int:
        raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as disk:
        disk.setattr(CallJournal, "begin", full)
        answer = seat.ask(json=CHAT)

    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "GATEWAY_FAULT")
    assert answer.headers["x-should-retry"] == "false"
    assert seat.provider.requests == []


def _raw(seat: Table, body: bytes) -> bytes:
    """Ask as no client does, which would decode the answer; return what came."""
    host, port = seat.address.removeprefix("http://").split(":")
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: {host}:{port}\r\nconnection: close\r\n"
        f"authorization: Bearer {seat.admitted.key}\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    found = b""
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(head.encode() + body)
        while part := connection.recv(65_536):
            found += part
    return found
