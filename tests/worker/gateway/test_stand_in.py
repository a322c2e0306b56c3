"""The stand-in provider is a provider to the official clients, and breaks off where it is told."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import anthropic
import httpx2
import openai
import pytest

from fencepost_worker.gateway.faces import Endpoint
from fencepost_worker.testing import Answer, Counts, StandInProvider
from fencepost_worker.testing.provider import TEXT

PATIENCE_SECONDS = 20
ASKED = [{"role": "user", "content": "Hello?"}]


@pytest.fixture
def provider() -> Iterator[StandInProvider]:
    with StandInProvider(models=["a", "b"], counts=Counts(input=7, output=3)) as provider:
        yield provider


@pytest.fixture
def asking(provider: StandInProvider) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=provider.base_url_openai, api_key="k1", max_retries=0) as client:
        yield client


@pytest.fixture
def messaging(provider: StandInProvider) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(
        base_url=provider.base_url_anthropic, api_key="k2", max_retries=0
    ) as client:
        yield client


def test_it_answers_chat_completions(asking: openai.OpenAI, provider: StandInProvider) -> None:
    whole = asking.chat.completions.create(model="a", messages=ASKED)
    assert (whole.choices[0].message.content, whole.usage.total_tokens) == (TEXT, 10)

    chunks = list(
        asking.chat.completions.create(
            model="a", messages=ASKED, stream=True, stream_options={"include_usage": True}
        )
    )
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == TEXT
    assert [c.usage.prompt_tokens for c in chunks if c.usage] == [7]
    bare = list(asking.chat.completions.create(model="a", messages=ASKED, stream=True))
    assert [c.usage for c in bare if c.usage] == []
    assert [r.key for r in provider.requests] == ["k1"] * 3
    assert [r.endpoint for r in provider.requests] == [Endpoint.CHAT] * 3


def test_it_answers_responses(asking: openai.OpenAI) -> None:
    whole = asking.responses.create(model="a", input="Hello?")
    assert (whole.output_text, whole.usage.output_tokens) == (TEXT, 3)

    with asking.responses.stream(model="a", input="Hello?") as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert (final.output_text, final.usage.input_tokens) == (TEXT, 7)
    assert [event.sequence_number for event in events] == list(range(len(events)))


def test_it_answers_embeddings_and_lists_models(
    asking: openai.OpenAI, messaging: anthropic.Anthropic
) -> None:
    vectors = asking.embeddings.create(model="a", input=["x", "y"], encoding_format="float")
    assert (len(vectors.data), vectors.usage.total_tokens) == (2, 7)
    assert [each.id for each in asking.models.list()] == ["a", "b"]
    assert [each.id for each in messaging.models.list()] == ["a", "b"]


def test_it_answers_messages(messaging: anthropic.Anthropic, provider: StandInProvider) -> None:
    whole = messaging.messages.create(model="a", messages=ASKED, max_tokens=5)
    assert (whole.content[0].text, whole.usage.output_tokens) == (TEXT, 3)

    with messaging.messages.stream(model="a", messages=ASKED, max_tokens=5) as stream:
        assert "".join(stream.text_stream) == TEXT
        final = stream.get_final_message()
    assert (final.usage.input_tokens, final.usage.output_tokens) == (7, 3)
    assert messaging.messages.count_tokens(model="a", messages=ASKED).input_tokens == 7
    assert {r.key for r in provider.requests} == {"k2"}


def test_it_answers_as_it_is_told_and_then_by_itself_again(
    asking: openai.OpenAI, messaging: anthropic.Anthropic, provider: StandInProvider
) -> None:
    overload = Answer.error(529, "overloaded_error", "Overloaded", retry_after="7")
    provider.script(overload, endpoint=Endpoint.MESSAGES)
    provider.script(
        lambda request: Answer.json({"echo": request.json["model"]}, status=418), model="b"
    )

    assert asking.chat.completions.create(model="a", messages=ASKED).usage.total_tokens == 10
    with pytest.raises(anthropic.InternalServerError) as refused:
        messaging.messages.create(model="a", messages=ASKED, max_tokens=5)
    assert refused.value.response.headers["retry-after"] == "7"
    assert refused.value.type == "overloaded_error"
    with pytest.raises(openai.APIStatusError) as told:
        asking.chat.completions.create(model="b", messages=ASKED)
    assert told.value.response.json() == {"echo": "b"}
    assert asking.chat.completions.create(model="b", messages=ASKED).usage.total_tokens == 10


def test_a_script_that_fails_says_so_to_who_asks(
    asking: openai.OpenAI, provider: StandInProvider
) -> None:
    provider.script(lambda request: Answer.json(request.json["nothing"]))
    with pytest.raises(openai.InternalServerError, match="the script failed: KeyError"):
        asking.chat.completions.create(model="a", messages=ASKED)


@pytest.mark.parametrize("framing", ["chunked", "length"])
def test_a_body_that_is_cut_is_no_whole_one(provider: StandInProvider, framing: str) -> None:
    provider.script(Answer(parts=(b'{"a":', b"1}"), framing=framing, end="cut"))
    with pytest.raises(httpx2.RemoteProtocolError):
        httpx2.post(f"{provider.base_url_openai}/embeddings", content=b"{}")


def test_a_connection_may_end_without_an_answer(provider: StandInProvider) -> None:
    provider.script(Answer(status=0))
    with pytest.raises(httpx2.RemoteProtocolError):
        httpx2.post(f"{provider.base_url_openai}/embeddings", content=b"{}")


def test_what_is_sent_arrives_in_the_order_and_after_the_wait(provider: StandInProvider) -> None:
    gate = threading.Event()
    provider.script(Answer.events(b"data: \xf0\x9f", gate, b"\x98\x80\n\n"))
    with httpx2.stream("POST", f"{provider.base_url_openai}/chat/completions") as response:
        parts = response.iter_raw()
        assert next(parts) == b"data: \xf0\x9f"
        assert not provider.requests[0].answered
        gate.set()
        assert b"".join(parts) == b"\x98\x80\n\n"
    assert not provider.requests[0].left


def test_it_knows_who_left(provider: StandInProvider) -> None:
    provider.script(Answer.events(b"data: 1\n\n", end="hang"), Answer.silence())
    with httpx2.stream("POST", f"{provider.base_url_openai}/chat/completions") as response:
        next(response.iter_raw())
    assert provider.wait_for(lambda requests: requests[0].left, timeout_s=PATIENCE_SECONDS)
    with pytest.raises(httpx2.ReadTimeout):
        httpx2.post(f"{provider.base_url_openai}/embeddings", content=b"{}", timeout=0.2)
    assert provider.wait_for(lambda requests: requests[1].left, timeout_s=PATIENCE_SECONDS)


def test_it_may_demand_its_key() -> None:
    with StandInProvider(key="right") as provider:
        client = openai.OpenAI(base_url=provider.base_url_openai, api_key="wrong", max_retries=0)
        with client, pytest.raises(openai.AuthenticationError):
            client.chat.completions.create(model="a", messages=ASKED)
        right = openai.OpenAI(base_url=provider.base_url_openai, api_key="right", max_retries=0)
        with right:
            assert right.chat.completions.create(model="a", messages=ASKED).id


def test_a_port_that_is_taken_is_refused_and_after_its_close_it_is_free() -> None:
    with StandInProvider() as provider:
        port = int(provider.address.rpartition(":")[2])
        with pytest.raises(OSError):
            StandInProvider(port=port).start()
    with socket.socket() as probe, pytest.raises(ConnectionRefusedError):
        probe.connect(("127.0.0.1", port))


def test_a_connection_that_is_kept_open_does_not_disturb_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with StandInProvider() as provider:
        with socket.create_connection(
            ("127.0.0.1", int(provider.address.rpartition(":")[2]))
        ) as kept:
            kept.sendall(b"GET /v1/models HTTP/1.1\r\nhost: stand-in\r\n\r\n")
            assert kept.recv(15) == b"HTTP/1.1 200 -\r"
            provider.close()
    assert caplog.records == []


def test_it_runs_as_a_program_and_prints_its_addresses() -> None:
    command = [sys.executable, "-m", "fencepost_worker.testing", "--key", "k"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        addresses = dict(process.stdout.readline().strip().split("=", 1) for _ in range(2))
        answer = httpx2.get(
            f"{addresses['OPENAI_BASE_URL']}/models", headers={"authorization": "Bearer k"}
        )
        assert answer.json()["data"][0]["id"] == "stand-in"
        assert addresses["ANTHROPIC_BASE_URL"] + "/v1" == addresses["OPENAI_BASE_URL"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0
