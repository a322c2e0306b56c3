"""Azure: its key's header, its addresses, and programs that call with its client."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from fencepost_worker.gateway.faces import Endpoint, Face, common_path, endpoint_of, face_asked
from fencepost_worker.gateway.providers import Provider, ProvidersUnreadable, providers_of
from fencepost_worker.testing import Answer
from fencepost_worker.testing.provider import TEXT
from tests.worker.gateway.conftest import PROVIDER_KEY, Table

ASKED = [{"role": "user", "content": "Say hello."}]
NEW = "https://company.openai.azure.com/openai/v1/"
OLD = "https://company.openai.azure.com/openai/deployments/{model}/?api-version=2024-10-21"


def azure(base_url: str, **over: Any) -> Provider:
    table = {"api": "openai", "auth": "api-key", "base_url": base_url} | over
    [provider] = providers_of({"azure": table}, environ={"KEY": "k-1"})
    return provider


@pytest.mark.parametrize(
    ("path", "expected", "endpoint"),
    [
        ("/openai/deployments/mine/chat/completions", ("/v1/chat/completions", "mine"), "chat"),
        ("/openai/deployments/a.b-4/embeddings", ("/v1/embeddings", "a.b-4"), "embeddings"),
        ("/openai/v1/chat/completions", ("/v1/chat/completions", ""), "chat"),
        ("/openai/responses", ("/v1/responses", ""), "responses"),
        ("/v1/responses", ("/v1/responses", ""), "responses"),
        ("/openai/v1/messages", ("/openai/v1/messages", ""), None),
        ("/openai/deployments/mine/images/generations", ("/v1/images/generations", "mine"), None),
        ("/openai", ("/openai", ""), None),
    ],
)
def test_an_address_of_azure_is_one_of_all(
    path: str, expected: tuple[str, str], endpoint: str | None
) -> None:
    assert common_path(path) == expected
    assert endpoint_of("POST", f"{path}?api-version=1") == (endpoint and Endpoint(endpoint))
    assert face_asked(path, {}) is Face.OPENAI


def test_a_key_goes_in_azures_own_header(tmp_path: Path) -> None:
    assert azure(NEW, api_key_env="KEY").headers() == {"api-key": "k-1"}
    assert azure(NEW, api_key_env="KEY", auth="bearer").headers() == {"authorization": "Bearer k-1"}
    for over in ({"auth": "basic"}, {"auth": "api-key", "api": "anthropic"}):
        with pytest.raises(ProvidersUnreadable, match=r"providers\.azure: auth: "):
            azure(NEW, **over)


def test_the_query_of_a_base_address_goes_on_and_a_programs_version_does_not() -> None:
    asked = {"path": "/v1/chat/completions", "model": "gpt 4/o", "query": "api-version=1&x=%20"}
    assert azure(OLD).url_of(**asked) == (
        "https://company.openai.azure.com/openai/deployments/gpt%204%2Fo/chat/completions"
        "?api-version=2024-10-21&x=%20"
    )
    assert azure(NEW).url_of(**asked) == (
        "https://company.openai.azure.com/openai/v1/chat/completions?x=%20"
    )
    assert azure(NEW).url_of("/v1/models") == NEW + "models"
    assert azure(OLD).list_url == (
        "https://company.openai.azure.com/openai/models?api-version=2024-10-21"
    )


def test_a_program_calls_with_azures_client(table: Callable[..., Table]) -> None:
    seat = table(providers={"openai": {"auth": "api-key"}})
    environment = seat.admitted.environment
    with openai.AzureOpenAI(
        azure_endpoint=environment["AZURE_OPENAI_ENDPOINT"],
        api_key=environment["AZURE_OPENAI_API_KEY"],
        api_version="2024-10-21",
    ) as client:
        chat = client.chat.completions.create(model="small", messages=ASKED)
        streamed = client.chat.completions.create(model="large", messages=ASKED, stream=True)
        said = "".join(each.choices[0].delta.content or "" for each in streamed if each.choices)
        vectors = client.embeddings.create(model="small", input="hello")
        response = client.responses.create(model="large", input="Hello?")

    assert (chat.choices[0].message.content, said, response.output_text) == (TEXT,) * 3
    assert vectors.data
    assert [end["end"] for end in seat.books.settled(4)] == ["settled"] * 4
    requests = seat.provider.requests
    assert [each.path for each in requests] == [
        "/v1/chat/completions", "/v1/chat/completions", "/v1/embeddings", "/v1/responses",
    ]  # fmt: skip
    assert {each.headers["api-key"] for each in requests} == {PROVIDER_KEY}
    assert not any("authorization" in each.headers for each in requests)
    assert seat.admitted.key not in repr(requests)


def test_the_deployment_of_an_address_is_the_model(table: Callable[..., Table]) -> None:
    address = table().provider.address
    seat = table(
        "task-2", providers={"openai": {"base_url": f"{address}/openai/deployments/{{model}}?v=1"}}
    )
    path = "/openai/deployments/small/chat/completions?api-version=2024-10-21"
    headers = {"authorization": "", "api-key": seat.admitted.key}

    assert seat.ask(path, json={"messages": ASKED}, headers=headers).is_success
    assert seat.ask(path, json={"messages": ASKED, "model": "large"}, headers=headers).is_success

    assert [each.asked["wanted_model"] for each in seat.books.calls] == ["small", "small"]
    requests = seat.provider.requests
    assert [each.path for each in requests] == [
        "/openai/deployments/small/chat/completions?v=1"
    ] * 2
    assert [each.json["model"] for each in requests] == ["small", "small"]


def test_another_model_is_asked_at_its_own_address(table: Callable[..., Table]) -> None:
    address = table().provider.address
    base_url = f"{address}/openai/deployments/{{model}}?api-version=1"
    seat = table("task-2", providers={"openai": {"base_url": base_url}})
    seat.provider.script(Answer.error(429, "rate_limit_error", "slow down"), model="large")

    assert seat.ask(json={"model": "large", "messages": ASKED}).is_success

    assert [each.path.split("/")[3] for each in seat.provider.requests] == ["large", "small"]


def test_a_refusal_shows_no_key(table: Callable[..., Table]) -> None:
    seat = table(providers={"openai": {"auth": "api-key"}})
    seat.provider.script(Answer.error(401, "invalid", f"the key {PROVIDER_KEY} is not known"))
    answer = seat.ask(json={"model": "large", "messages": ASKED})
    assert (answer.status_code, PROVIDER_KEY in answer.text) == (401, False)


def test_another_key_lets_nobody_in(table: Callable[..., Table]) -> None:
    seat = table()
    for key in ("", "fpg_another", PROVIDER_KEY):
        answer = httpx2.post(
            f"{seat.address}/openai/deployments/small/chat/completions",
            headers={"api-key": key},
            json={"messages": ASKED},
            trust_env=False,
        )
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "UNAUTHENTICATED")
    assert seat.books.calls == []


def test_the_variables_of_azure_are_given_where_a_provider_is_azures(
    table: Callable[..., Table],
) -> None:
    names = {"AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY", "OPENAI_API_TYPE"}
    assert not names & table().admitted.environment.keys()
    seat = table("task-2", providers={"openai": {"auth": "api-key"}})
    given = seat.admitted.environment
    assert names <= given.keys()

    # The module's own client finds two keys, and would not know which is meant.
    program = "import openai; print(openai.models.list().data[0].id)"
    environment = {"PATH": os.environ["PATH"]} | given
    command = [sys.executable, "-c", program]
    said = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert said.stdout == "large\n", said.stderr
    del environment["OPENAI_API_TYPE"]
    untold = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert "Ambiguous" in untold.stderr
