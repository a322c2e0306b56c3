"""What the gateway refuses reaches a program as the error that its own client knows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest

from fencepost_worker.gateway.faces import Endpoint, Face
from fencepost_worker.gateway.problems import error_answer, error_event
from fencepost_worker.testing import Answer, StandInProvider
from fencepost_worker.testing.answers import Counts, chat_events, message_events, response_events
from tests.worker.conftest import apart

ASKED = [{"role": "user", "content": "Hello?"}]
REASON = "BUDGET_EXHAUSTED"
MESSAGE = "The budget of the team is spent: 100.00 USD, of which 4.00 USD are held."
OPENAI_CLASSES = {
    400: openai.BadRequestError,
    401: openai.AuthenticationError,
    403: openai.PermissionDeniedError,
    404: openai.NotFoundError,
    409: openai.ConflictError,
    429: openai.RateLimitError,
    503: openai.InternalServerError,
    504: openai.InternalServerError,
}
ANTHROPIC_CLASSES = {
    400: anthropic.BadRequestError,
    401: anthropic.AuthenticationError,
    403: anthropic.PermissionDeniedError,
    404: anthropic.NotFoundError,
    409: anthropic.ConflictError,
    413: anthropic.RequestTooLargeError,
    429: anthropic.RateLimitError,
    503: anthropic.ServiceUnavailableError,
    504: anthropic.DeadlineExceededError,
    529: anthropic.OverloadedError,
}


@pytest.fixture
def provider() -> Iterator[StandInProvider]:
    with StandInProvider() as provider:
        yield provider


def refuse(provider: StandInProvider, face: Face, status: int, **more: Any) -> None:
    status, headers, body = error_answer(
        face, status=status, reason=REASON, message=MESSAGE, **more
    )
    # Were it asked again, it would be answered.
    provider.script(Answer(status, headers, (body,), "length"))


@pytest.mark.parametrize("status", OPENAI_CLASSES)
@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_is_the_openai_clients_own_error_after_one_try(
    provider: StandInProvider, status: int, stream: bool
) -> None:
    refuse(provider, Face.OPENAI, status, retry_after=3600)
    with openai.OpenAI(base_url=provider.base_url_openai, api_key="k") as client:
        with pytest.raises(OPENAI_CLASSES[status]) as refused:
            client.chat.completions.create(model="m", messages=ASKED, stream=stream)

    assert type(refused.value) is OPENAI_CLASSES[status]
    assert refused.value.code == REASON
    assert MESSAGE in refused.value.message
    assert len(provider.requests) == 1
    assert "retry-after" not in refused.value.response.headers


@pytest.mark.parametrize("status", ANTHROPIC_CLASSES)
@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_is_the_anthropic_clients_own_error_after_one_try(
    provider: StandInProvider, status: int, stream: bool
) -> None:
    refuse(provider, Face.ANTHROPIC, status, retry_after=3600)
    with anthropic.Anthropic(base_url=provider.base_url_anthropic, api_key="k") as client:
        with pytest.raises(anthropic.APIStatusError) as refused:
            client.messages.create(model="m", messages=ASKED, max_tokens=5, stream=stream)

    assert type(refused.value) is ANTHROPIC_CLASSES[status]
    assert refused.value.error_code == REASON
    assert MESSAGE in str(refused.value)
    assert len(provider.requests) == 1
    assert "retry-after" not in refused.value.response.headers


def test_without_the_mark_the_clients_would_have_asked_again(provider: StandInProvider) -> None:
    status, headers, body = error_answer(
        Face.OPENAI, status=429, reason=REASON, message=MESSAGE, retry_after=0
    )
    del headers["x-should-retry"]
    provider.script(*[Answer(status, headers, (body,), "length")] * 2)
    with openai.OpenAI(base_url=provider.base_url_openai, api_key="k") as client:
        assert client.chat.completions.create(model="m", messages=ASKED).id
    assert len(provider.requests) == 3


@pytest.mark.parametrize("face", Face)
def test_the_async_clients_say_the_same(provider: StandInProvider, face: Face) -> None:
    async def ask() -> None:
        if face is Face.OPENAI:
            async with openai.AsyncOpenAI(base_url=provider.base_url_openai, api_key="k") as one:
                await one.responses.create(model="m", input="Hello?", stream=True)
        else:
            async with anthropic.AsyncAnthropic(
                base_url=provider.base_url_anthropic, api_key="k"
            ) as two:
                await two.messages.create(model="m", messages=ASKED, max_tokens=5, stream=True)

    refuse(provider, face, 403)
    kind = openai.PermissionDeniedError if face is Face.OPENAI else anthropic.PermissionDeniedError
    with pytest.raises(kind, match=REASON) as refused:
        apart(ask())
    assert refused.value.response.headers["x-fencepost-reason"] == REASON
    assert len(provider.requests) == 1


@pytest.mark.parametrize(
    ("seconds", "told"), [(0, "0"), (0.2, "1"), (60, "60"), (61, None), (None, None), (-1, None)]
)
def test_a_wait_is_told_in_whole_seconds_and_up_to_a_minute(
    seconds: float | None, told: str | None
) -> None:
    _, headers, _ = error_answer(
        Face.OPENAI, status=429, reason=REASON, message=MESSAGE, retry_after=seconds
    )
    assert headers.get("retry-after") == told
    assert headers["x-should-retry"] == "false"


def streamed(endpoint: Endpoint) -> list[bytes]:
    counts = Counts()
    if endpoint is Endpoint.CHAT:
        return chat_events("m", "some words", counts=counts, with_usage=False)
    if endpoint is Endpoint.RESPONSES:
        return response_events("m", "some words", counts=counts)
    return message_events("m", "some words", counts=counts)


@pytest.mark.parametrize("endpoint", [Endpoint.CHAT, Endpoint.RESPONSES])
@pytest.mark.parametrize("framing_end", ["cut", "complete"])
def test_a_stream_that_is_cut_ends_in_an_error_of_the_openai_client(
    provider: StandInProvider, endpoint: Endpoint, framing_end: Any
) -> None:
    event = error_event(endpoint, reason="ATTEMPT_FENCED", message="The lease has ended.")
    provider.script(Answer.events(*streamed(endpoint)[:3], event, end=framing_end))
    with openai.OpenAI(base_url=provider.base_url_openai, api_key="k") as client:
        stream: Any
        if endpoint is Endpoint.CHAT:
            stream = client.chat.completions.create(model="m", messages=ASKED, stream=True)
        else:
            stream = client.responses.create(model="m", input="Hello?", stream=True)
        seen = []
        with pytest.raises(openai.APIError) as cut:
            seen.extend(stream)

    assert cut.value.code == "ATTEMPT_FENCED"
    assert "The lease has ended." in cut.value.message
    assert len(provider.requests) == 1


def test_a_stream_that_is_cut_ends_in_an_error_of_the_anthropic_client(
    provider: StandInProvider,
) -> None:
    event = error_event(Endpoint.MESSAGES, reason="ATTEMPT_FENCED", message="The lease has ended.")
    provider.script(Answer.events(*streamed(Endpoint.MESSAGES)[:4], event, end="cut"))
    with anthropic.Anthropic(base_url=provider.base_url_anthropic, api_key="k") as client:
        with pytest.raises(anthropic.APIStatusError) as cut:
            with client.messages.stream(model="m", messages=ASKED, max_tokens=5) as stream:
                stream.get_final_message()
    assert cut.value.error_code == "ATTEMPT_FENCED"
    assert len(provider.requests) == 1


@pytest.mark.parametrize("endpoint", [Endpoint.CHAT, Endpoint.RESPONSES, Endpoint.MESSAGES])
def test_without_the_event_a_clean_end_would_pass_for_the_whole(
    provider: StandInProvider, endpoint: Endpoint
) -> None:
    """Both clients take the part for the whole: why a cut stream never ends cleanly."""
    provider.script(Answer.events(*streamed(endpoint)[:4]))
    if endpoint is Endpoint.MESSAGES:
        with anthropic.Anthropic(base_url=provider.base_url_anthropic, api_key="k") as two:
            stream = two.messages.create(model="m", messages=ASKED, max_tokens=5, stream=True)
            assert len(list(stream)) == 3
        return
    with openai.OpenAI(base_url=provider.base_url_openai, api_key="k") as one:
        if endpoint is Endpoint.CHAT:
            chunks = one.chat.completions.create(model="m", messages=ASKED, stream=True)
            assert len(list(chunks)) == 4
        else:
            events = one.responses.create(model="m", input="Hello?", stream=True)
            assert len(list(events)) == 4


@pytest.mark.parametrize("face", Face)
def test_a_message_of_any_text_is_one_line_of_json(face: Face) -> None:
    message = 'a "quote"\r\n\r\ndata: [DONE]\u2028 \ud83d'
    _, _, body = error_answer(face, status=403, reason=REASON, message=message)
    assert body.isascii() and b"\n" not in body
    assert json.loads(body)["error"]["message"] == f"{REASON}: {message}"
