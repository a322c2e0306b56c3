"""Calls through the gateway with the official clients: routed before, passed through, settled."""

import hashlib
import json
from collections.abc import Callable

import anthropic
import openai
import pydantic

from fencepost_worker.testing.provider import TEXT
from tests.worker.conftest import apart
from tests.worker.gateway.conftest import PROVIDER_KEY, Table

ASKED = [{"role": "user", "content": "Say hello."}]
SETTLED = {"end": "settled", "usage": {"input_tokens": 7, "output_tokens": 3}}


def used(end: dict) -> dict:
    """Return an end with the counters that this test is about."""
    names = ("input_tokens", "output_tokens")
    return {"end": end["end"], "usage": {name: end["usage"][name] for name in names}}


def test_a_chat_completion_is_routed_passed_on_and_settled(table: Callable[..., Table]) -> None:
    seat = table()
    with seat.openai() as client:
        answer = client.chat.completions.create(model="small", messages=ASKED, max_tokens=50)

    assert answer.choices[0].message.content == TEXT
    [end] = seat.books.settled()
    assert (used(end), end["cost_basis"]) == (SETTLED, "actual")
    [call] = seat.books.calls
    [request] = seat.provider.requests
    assert call.asked["wanted_model"] == call.answer["model"] == request.json["model"] == "small"
    assert (call.asked["api"], call.asked["max_output_tokens"]) == ("openai", 50)
    assert call.asked["request_bytes"] > 0
    assert request.key == PROVIDER_KEY
    assert request.headers["accept-encoding"] == "identity"


def test_a_body_goes_on_byte_for_byte_but_for_what_is_set(table: Callable[..., Table]) -> None:
    seat = table()
    body = (
        b'{ "model" : "large", "messages":[{"role":"user","content":"\\u00e9 \xf0\x9f\x98\x80"}],'
        b'"temperature":1e-7,"seed":12345678901234567890, "max_completion_tokens": 9 }'
    )

    assert seat.ask(content=body, headers={"content-type": "application/json"}).is_success

    [request] = seat.provider.requests
    assert request.body == body
    [call] = seat.books.calls
    assert call.asked["request_sha256"] == hashlib.sha256(body).hexdigest()


def test_a_limit_is_written_where_the_program_states_none(table: Callable[..., Table]) -> None:
    seat = table(providers={"openai": {"max_tokens_member": "max_tokens"}})
    seat.books.max_output_tokens = 1234

    assert seat.ask(json={"model": "large", "messages": ASKED, "n": 2}).is_success

    [request] = seat.provider.requests
    assert request.json == {"model": "large", "messages": ASKED, "n": 2, "max_tokens": 617}


def test_another_model_than_the_wanted_one_is_written_into_the_request(
    table: Callable[..., Table],
) -> None:
    seat = table()

    assert seat.ask(json={"model": "gpt-unknown", "messages": ASKED}).is_success

    [request] = seat.provider.requests
    assert request.json["model"] == "large"


def test_a_stream_passes_and_its_usage_is_asked_for_and_taken_out(
    table: Callable[..., Table],
) -> None:
    seat = table()
    with seat.openai() as client:
        chunks = list(client.chat.completions.create(model="large", messages=ASKED, stream=True))
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        assert (text, [c.usage for c in chunks if c.usage]) == (TEXT, [])
        assert used(seat.books.settled()[0]) == SETTLED
        [request] = seat.provider.requests
        assert request.json["stream_options"] == {"include_usage": True}

        wanted = client.chat.completions.create(
            model="large", messages=ASKED, stream=True, stream_options={"include_usage": True}
        )
        assert [c.usage.prompt_tokens for c in wanted if c.usage] == [7]
    assert used(seat.books.settled(2)[1]) == SETTLED


def test_usage_is_not_asked_for_where_a_provider_does_not_take_the_question(
    table: Callable[..., Table],
) -> None:
    seat = table(providers={"openai": {"include_usage": False}})
    with seat.openai() as client:
        list(client.chat.completions.create(model="large", messages=ASKED, stream=True))
    [request] = seat.provider.requests
    assert "stream_options" not in request.json


def test_responses_whole_and_streamed(table: Callable[..., Table]) -> None:
    seat = table()
    with seat.openai() as client:
        assert client.responses.create(model="large", input="Hello?").output_text == TEXT
        with client.responses.stream(model="large", input="Hello?") as stream:
            assert stream.get_final_response().output_text == TEXT
    assert [used(end) for end in seat.books.settled(2)] == [SETTLED] * 2


def test_structured_output_and_tools_come_through(table: Callable[..., Table]) -> None:
    class Greeting(pydantic.BaseModel):
        words: str

    seat = table()
    seat.provider.text = json.dumps({"words": "hello"})
    with seat.openai() as client:
        answer = client.chat.completions.parse(
            model="large", messages=ASKED, response_format=Greeting
        )
    assert answer.choices[0].message.parsed == Greeting(words="hello")
    [request] = seat.provider.requests
    assert request.json["response_format"]["json_schema"]["name"] == "Greeting"


def test_embeddings_have_no_limit_of_output(table: Callable[..., Table]) -> None:
    seat = table()
    with seat.openai() as client:
        answer = client.embeddings.create(model="small", input=["one", "two"])
    assert len(answer.data) == 2
    [end] = seat.books.settled()
    assert (end["cost_basis"], end["usage"]["input_tokens"]) == ("actual", 7)
    [request] = seat.provider.requests
    assert not any("tokens" in name for name in request.json)


def test_messages_whole_and_streamed(table: Callable[..., Table]) -> None:
    seat = table()
    with seat.anthropic() as client:
        whole = client.messages.create(model="haiku", max_tokens=9, messages=ASKED)
        assert whole.content[0].text == TEXT
        with client.messages.stream(model="sonnet", max_tokens=9, messages=ASKED) as stream:
            assert stream.get_final_text() == TEXT
    assert [used(end) for end in seat.books.settled(2)] == [SETTLED] * 2
    first, second = seat.provider.requests
    assert (first.json["model"], second.json["model"]) == ("haiku", "sonnet")
    assert first.headers["x-api-key"] == PROVIDER_KEY
    assert "anthropic-version" in first.headers
    assert seat.admitted.key not in repr(first.headers)


def test_the_asynchronous_clients_work_alike(table: Callable[..., Table]) -> None:
    seat = table()
    environment = seat.admitted.environment

    async def both() -> tuple[str, str]:
        async with openai.AsyncOpenAI(
            base_url=environment["OPENAI_BASE_URL"], api_key=environment["OPENAI_API_KEY"]
        ) as client:
            stream = await client.chat.completions.create(
                model="large", messages=ASKED, stream=True
            )
            said = "".join([c.choices[0].delta.content or "" async for c in stream if c.choices])
        async with anthropic.AsyncAnthropic(
            base_url=environment["ANTHROPIC_BASE_URL"], api_key=environment["ANTHROPIC_API_KEY"]
        ) as other:
            async with other.messages.stream(
                model="haiku", max_tokens=9, messages=ASKED
            ) as messages:
                return said, await messages.get_final_text()

    assert apart(both()) == (TEXT, TEXT)
    assert [used(end) for end in seat.books.settled(2)] == [SETTLED] * 2


def test_counting_tokens_reserves_nothing(table: Callable[..., Table]) -> None:
    seat = table()
    with seat.anthropic() as client:
        counted = client.messages.count_tokens(model="haiku", messages=ASKED)
    assert counted.input_tokens == 7
    assert seat.ask(
        "/v1/messages/count_tokens?beta=true", json={"model": "x", "messages": ASKED}
    ).is_success
    assert [r.json["model"] for r in seat.provider.requests] == ["haiku", "sonnet"]
    assert seat.provider.requests[1].path.endswith("?beta=true")
    assert seat.books.calls == []


def test_models_are_those_of_the_policy_in_the_shape_of_the_face(
    table: Callable[..., Table],
) -> None:
    seat = table()
    with seat.openai() as client:
        assert [m.id for m in client.models.list()] == ["large", "small"]
        assert client.models.retrieve("small").owned_by == "openai"
    with seat.anthropic() as other:
        assert [m.id for m in other.models.list()] == ["sonnet", "haiku"]
        assert other.models.retrieve("haiku").display_name == "haiku"
    assert seat.ask("/v1/models/unknown", "GET").status_code == 404
    assert seat.provider.requests == []


def test_what_came_of_all_calls_is_told_at_the_end(table: Callable[..., Table]) -> None:
    seat = table()
    for _ in range(3):
        assert seat.ask(json={"model": "large", "messages": ASKED}).is_success

    spent = seat.admitted.end("the program ended")

    assert (spent.calls, spent.open, spent.at_a_cost) == (3, 0, 3)
    assert (spent.usage["input_tokens"], spent.usage["output_tokens"]) == (21, 9)
    numbers = [c.asked["route_request_id"].partition(":")[2] for c in seat.books.calls]
    assert numbers == ["model", "model:2", "model:3"]
    assert seat.ask(json={"model": "large", "messages": ASKED}).status_code == 401
