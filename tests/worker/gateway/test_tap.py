"""What the tap holds back, what it lets pass at once, and what it has read beside."""

from __future__ import annotations

import pytest

from fencepost_worker.gateway.events import Event, Events
from fencepost_worker.gateway.faces import Endpoint, ModelRequest
from fencepost_worker.gateway.readings import ProviderError, Reading
from fencepost_worker.gateway.tap import MAX_HELD_BYTES, TAIL_BYTES, Tap
from fencepost_worker.gateway.usages import count, merged
from fencepost_worker.gateway.verdicts import Cut, Verdict, error_in, verdict

HELLO = b'data: {"id":"c1","model":"m-2026","choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n'
USAGE = b'data: {"id":"c1","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2}}\n\n'
DONE = b"data: [DONE]\n\n"


def chat_tap(*, wanted_usage: bool) -> Tap:
    return Tap(Endpoint.CHAT, provider="openai", stream=True, wanted_usage=wanted_usage)


@pytest.mark.parametrize("endpoint", [Endpoint.CHAT, Endpoint.RESPONSES, Endpoint.MESSAGES])
def test_bytes_pass_in_the_call_in_which_they_come(endpoint: Endpoint) -> None:
    tap = Tap(endpoint, provider="openai", stream=True, wanted_usage=True)
    for part in (b"da", b'ta: {"x":', b"1}", b"\n", b"\n", b"event: x\r"):
        assert tap.feed(part) == part
    assert tap.close() == b""


def test_where_usage_is_taken_out_only_the_event_that_is_not_whole_is_held() -> None:
    tap = chat_tap(wanted_usage=False)
    assert tap.feed(HELLO + USAGE[:20]) == HELLO
    assert tap.feed(USAGE[20:-1]) == b""
    assert tap.feed(USAGE[-1:] + DONE[:5]) == b""
    assert tap.feed(DONE[5:]) == DONE
    assert tap.close() == b""


def test_an_event_that_is_too_long_for_usage_is_not_held() -> None:
    tap = chat_tap(wanted_usage=False)
    start = b'data: {"choices":[{"index":0,"delta":{"content":"'
    assert tap.feed(start) == b""
    long = b"x" * MAX_HELD_BYTES
    assert tap.feed(long) == start + long
    assert tap.feed(b"yy") == b""
    assert tap.feed(b'"}}]}\n\n' + USAGE) == b'yy"}}]}\n\n'
    assert tap.close() == b""
    assert tap.reading().output_bytes == MAX_HELD_BYTES + 2


def test_it_says_where_an_event_may_be_added() -> None:
    tap = chat_tap(wanted_usage=True)
    assert tap.at_boundary
    tap.feed(HELLO[:10])
    assert not tap.at_boundary
    tap.feed(HELLO[10:])
    assert tap.at_boundary

    # What is held back has not gone out.
    tap = chat_tap(wanted_usage=False)
    tap.feed(HELLO + HELLO[:10])
    assert tap.at_boundary

    # Nor has half an event of a stream that was cut.
    assert (tap.close(cut=True), tap.at_boundary) == (b"", True)

    # At an end of the provider's own the half goes out, and nothing may be added to it.
    tap = chat_tap(wanted_usage=False)
    tap.feed(HELLO + HELLO[:10])
    assert (tap.close(), tap.at_boundary) == (HELLO[:10], False)

    document = Tap(Endpoint.CHAT, provider="openai", stream=False)
    assert not document.at_boundary


def test_after_the_end_nothing_passes() -> None:
    tap = chat_tap(wanted_usage=True)
    tap.feed(HELLO)
    tap.close()
    assert (tap.feed(USAGE), tap.close()) == (b"", b"")
    assert tap.reading().usage is None


def test_a_reading_can_be_had_while_the_answer_comes() -> None:
    tap = chat_tap(wanted_usage=True)
    assert tap.reading() == Reading()
    tap.feed(HELLO)
    assert tap.reading() == Reading(
        response_id="c1", model="m-2026", output_bytes=2, began=True, blank=False
    )
    tap.feed(USAGE)
    seen = tap.reading()
    assert (seen.usage, seen.counted) == ({"input_tokens": 10, "output_tokens": 2}, True)
    assert (seen.ended, seen.finished) == (False, False)
    tap.feed(DONE)
    assert tap.reading().ended


def test_a_role_and_an_empty_text_are_no_output_yet() -> None:
    tap = chat_tap(wanted_usage=True)
    tap.feed(b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n')
    assert not tap.reading().began
    tap.feed(b'data: {"choices":[{"index":0,"delta":{"audio":{"data":"UklG"}}}]}\n\n')
    assert tap.reading().began
    assert tap.reading().output_bytes == 0


def test_an_error_inside_the_answer_is_read_with_its_parts() -> None:
    tap = chat_tap(wanted_usage=True)
    tap.feed(b'data: {"error":{"code":502,"type":"upstream","message":"' + b"x" * 900 + b'"}}\n\n')
    assert tap.reading().error == ProviderError("502", "upstream", "x" * 500)
    tap = chat_tap(wanted_usage=True)
    tap.feed(b'data: {"error":"out of memory"}\n\n')
    assert tap.reading().error == ProviderError(message="out of memory")


def test_of_a_long_answer_no_more_is_kept_than_its_ends() -> None:
    tap = Tap(Endpoint.EMBEDDINGS, provider="openai", stream=False)
    for _ in range(300):
        tap.feed(b"1" * 100_000)
    kept = sum(len(part) for part in vars(tap._document).values() if isinstance(part, bytearray))
    assert kept < 4 * TAIL_BYTES


def test_of_a_long_event_nothing_is_kept() -> None:
    events = Events(event_bytes_max=100)
    assert events.feed(b"data: " + b"x" * 60 + b"\n") == []
    for _ in range(1000):
        assert events.feed(b"data: " + b"y" * 60 + b"\n") == []
    held = [part for part in vars(events).values() if isinstance(part, (bytearray, list))]
    assert sum(map(len, held)) == 0
    [cut] = events.feed(b"\n")
    assert (cut.cut, cut.data, cut.end) == (True, b"", events.position)
    [whole] = events.feed(b"data: z\n\n")
    assert (whole.cut, whole.data) == (False, b"z")


@pytest.mark.parametrize("step", [1, 2, 3, 100])
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_events_stand_where_they_stood(step: int, line_end: bytes) -> None:
    lines = [b"\xef\xbb\xbf: hello", b"", b"event: e", b"data: 1", b"data:2", b"data", b"", b""]
    stream = line_end.join(lines)
    events = Events()
    found = [
        event for at in range(0, len(stream), step) for event in events.feed(stream[at : at + step])
    ]
    start = len(line_end.join(lines[:2]) + line_end)
    assert [(e.name, e.data) for e in found] == [("e", b"1\n2\n")]
    assert found[0].start == start
    # Of a CRLF at the end of a packet the LF may be counted to what follows.
    assert len(stream) - found[0].end in (0, 1)
    assert events.close() == []


def test_a_first_line_that_is_a_mark_of_byte_order_alone_is_blank() -> None:
    assert [e.data for e in Events().feed(b"\xef\xbb\xbf\ndata: 1\n\n")] == [b"1"]


def test_an_event_without_a_blank_line_is_had_at_the_end() -> None:
    events = Events()
    assert events.feed(b"data: 1\ndata: 2") == []
    assert events.close() == [Event("", b"1\n2", 0, 15)]


def test_usage_is_put_together_by_the_largest_and_nothing_is_summed() -> None:
    first = {"a": 5, "b": None, "c": {"d": 7, "e": 1}, "f": [{"g": 1}], "h": "x", "k": "odd"}
    second = {"a": 3, "b": 2, "c": {"d": None, "e": 4}, "f": [{"g": 4}, {"g": 2}], "k": 9}
    assert merged(first, second) == {
        "a": 5,
        "b": 2,
        "c": {"d": 7, "e": 4},
        "f": [{"g": 4}, {"g": 2}],
        "h": "x",
        "k": 9,
    }
    assert merged(second, None) == second
    assert merged(None, second) == second
    assert merged(9, "odd") == 9


@pytest.mark.parametrize("provider", ["together", "novita", "no-such-provider", ""])
def test_a_provider_that_the_library_does_not_know_is_read_as_its_face(provider: str) -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 2}
    found = count(Endpoint.CHAT, provider, usage)
    assert found is not None and found.sure
    assert found.counts == {"input_tokens": 10, "output_tokens": 2}


def test_a_counter_that_is_missing_leaves_the_others() -> None:
    found = count(Endpoint.CHAT, "openai", {"completion_tokens": 7})
    assert found is not None and not found.sure
    assert found.counts == {"output_tokens": 7}


@pytest.mark.parametrize(
    "usage", [None, 5, "text", [], {}, {"prompt_tokens": float("inf")}, {"a": {"b": [[[1]]]}}]
)
def test_what_is_no_usage_counts_nothing_and_raises_nothing(usage: object) -> None:
    found = count(Endpoint.CHAT, "openai", usage)
    assert found is None or (found.counts, found.sure) == ({}, False)


@pytest.mark.parametrize(
    ("head", "error"),
    [
        (b"", ProviderError()),
        (b"error code: 522", ProviderError(message="error code: 522")),
        (b"null", ProviderError(message="None")),
        (b"[]", ProviderError(message="[]")),
        (b'{"error":"no"}', ProviderError(message="no")),
        (b'{"message":"no","code":7}', ProviderError("7", "", "no")),
        (b'\xef\xbb\xbf{"error":{"type":"t","code":null}}', ProviderError("", "t", "")),
        (b'{"error":{"message":"\xff', ProviderError(message='{"error":{"message":"\ufffd')),
        (b"[" * 100_000, ProviderError(message="[" * 500)),
    ],
)
def test_an_error_is_read_in_whichever_form(head: bytes, error: ProviderError) -> None:
    assert error_in(head) == error


def test_without_the_request_an_estimate_is_left_to_the_control_plane() -> None:
    assert verdict(Endpoint.CHAT, 500, b"", Reading()) == Verdict(
        "settled", "estimate", None, True, "http_500", ("unknown_outcome",)
    )


def test_output_that_cannot_be_seen_is_the_limit_of_every_choice() -> None:
    asked = ModelRequest("m", choices=3, estimated_text_bytes=30)
    found = verdict(Endpoint.CHAT, None, b"", Reading(), wanted=asked, output_limit=100)
    assert found.usage == {"input_tokens": 10, "output_tokens": 300}
    unlimited = verdict(Endpoint.CHAT, None, b"", Reading(), wanted=asked)
    assert unlimited.usage is None


@pytest.mark.parametrize("cut", [Cut.CLIENT_LEFT, Cut.FENCED])
def test_who_has_gone_is_not_answered_by_another_model(cut: Cut) -> None:
    assert not verdict(Endpoint.CHAT, None, b"", Reading(), cut=cut).fall_back
    assert not verdict(Endpoint.CHAT, 200, b"", Reading(), cut=cut).fall_back
    assert verdict(Endpoint.CHAT, 200, b"", Reading(), cut=Cut.BROKEN_OFF).fall_back


@pytest.mark.parametrize("status", [300, 400, 401, 402, 403, 404, 405, 409, 413, 422, 451])
def test_a_definite_refusal_costs_nothing_and_goes_nowhere_else(status: int) -> None:
    found = verdict(Endpoint.CHAT, status, b"{}", Reading())
    assert (found.end, found.basis, found.fall_back) == ("failed", "none", False)


@pytest.mark.parametrize("status", [429, 503, 522, 529])
def test_a_refusal_for_the_providers_state_costs_nothing_and_goes_on(status: int) -> None:
    found = verdict(Endpoint.CHAT, status, b"{}", Reading())
    assert (found.end, found.basis, found.fall_back) == ("failed", "none", True)


@pytest.mark.parametrize("status", [408, 499, 500, 501, 502, 504, 520, 521, 523, 524, 530])
def test_any_other_status_is_unknown_and_booked(status: int) -> None:
    found = verdict(Endpoint.CHAT, status, b"{}", Reading())
    assert (found.end, found.basis, found.fall_back) == ("settled", "estimate", True)
