"""The memory that requests take at the gateway, of one attempt and of all of them."""

import threading
from collections.abc import Callable

import pytest

from fencepost_worker.gateway import bodies
from fencepost_worker.gateway.bodies import Bodies
from fencepost_worker.gateway.refusals import CallRefused
from fencepost_worker.testing import Answer
from fencepost_worker.testing.answers import event
from tests.worker.gateway.conftest import Table

CHAT = {"model": "large", "messages": [{"role": "user", "content": "x" * 1200}], "max_tokens": 9}
MESSAGE = CHAT | {"model": "haiku"}
BEGUN = event({"id": "c", "choices": [{"index": 0, "delta": {"content": "Hi"}}]})
PATIENCE_SECONDS = 20


@pytest.fixture(autouse=True)
def _little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "ATTEMPT_BYTES_MAX", 2000)
    monkeypatch.setattr(bodies, "TOTAL_BYTES_MAX", 3000)


def test_a_body_is_held_until_its_call_is_booked_and_others_are_refused_meanwhile(
    table: Callable[..., Table],
) -> None:
    seat = table()
    go_on = threading.Event()
    seat.provider.script(Answer.events(BEGUN, go_on, BEGUN, b"data: [DONE]\n\n"))
    first: list[int] = []
    thread = threading.Thread(
        target=lambda: first.append(seat.ask(json=CHAT | {"stream": True}).status_code)
    )
    thread.start()
    assert seat.provider.wait_for(lambda seen: len(seen) == 1)

    refused = [seat.ask(json=CHAT), seat.ask("/v1/messages", json=MESSAGE)]

    assert [each.status_code for each in refused] == [429, 429]
    assert {each.headers["x-should-retry"] for each in refused} == {"false"}
    assert refused[0].json()["error"]["code"] == "TOO_LARGE_TOGETHER"
    assert "TOO_LARGE_TOGETHER" in refused[1].json()["error"]["message"]
    assert len(seat.provider.requests) == len(seat.books.calls) == 1
    go_on.set()
    thread.join(PATIENCE_SECONDS)
    assert first == [200]
    assert len(seat.books.settled()) == 1
    assert seat.ask(json=CHAT).is_success


def test_what_was_refused_in_the_middle_gives_its_room_back(table: Callable[..., Table]) -> None:
    seat = table()

    refused = [seat.ask(content=iter([b"x" * 1500, b"x" * 1500])) for _ in range(3)]

    assert [each.status_code for each in refused] == [429] * 3
    assert seat.ask(json=CHAT).is_success


def test_one_attempt_leaves_room_for_others_and_all_of_them_have_a_bound() -> None:
    held = Bodies()
    first, second = held.begin("a"), held.begin("b")
    first.grow(2000)
    with pytest.raises(CallRefused, match="TOO_LARGE_TOGETHER"):
        first.grow(1)
    second.grow(1000)
    with pytest.raises(CallRefused, match="TOO_LARGE_TOGETHER"):
        second.grow(1)
    assert held.total == 3000

    first.release()
    first.release()
    second.grow(1000)
    assert held.total == 2000
