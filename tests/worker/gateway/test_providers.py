"""Providers as a file names them, what goes over the wire to them, and large answers."""

import gzip
import hashlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from fencepost_worker.gateway import calls, counting
from fencepost_worker.gateway.faces import Face
from fencepost_worker.gateway.links import LARGE_BODY_BYTES
from fencepost_worker.gateway.providers import (
    KeyMissing,
    Providers,
    ProvidersUnreadable,
    read_providers,
)
from fencepost_worker.testing import Answer
from tests.worker.gateway.conftest import PROVIDER_KEY, Table

ASKED = [{"role": "user", "content": "Say hello."}]
CHAT = {"model": "large", "messages": ASKED}
WHOLE = """
[providers.openai]
api = "openai"
base_url = "https://api.openai.com/v1/"
api_key_file = "openai.key"

[providers.anthropic]
api = "anthropic"
base_url = "https://api.anthropic.com"
api_key_env = "ANTHROPIC_KEY"
on_disconnect = "drain"

[providers.local]
api = "openai"
base_url = "http://127.0.0.1:11434/v1"
include_usage = false
max_tokens_member = "max_completion_tokens"
"""


def read(text: str, folder: Path, **environ: str) -> Providers:
    path = folder / "worker.toml"
    path.write_text(text)
    return read_providers(path, environ)


def test_a_file_names_them(tmp_path: Path) -> None:
    (tmp_path / "openai.key").write_text("sk-1\n")
    providers = read(WHOLE, tmp_path, ANTHROPIC_KEY="sk-2")

    openai, anthropic, local = providers
    assert openai.url_of("/v1/responses") == "https://api.openai.com/v1/responses"
    assert anthropic.url_of("/v1/messages") == "https://api.anthropic.com/v1/messages"
    assert openai.headers() == {"authorization": "Bearer sk-1"}
    assert anthropic.headers() == {"x-api-key": "sk-2"}
    assert local.headers() == {}
    assert [each.on_disconnect for each in providers] == ["cut", "drain", "drain"]
    assert [each.include_usage for each in providers] == [True, True, False]
    limits = [each.max_tokens_member for each in providers]
    assert limits == ["max_completion_tokens", "max_tokens", "max_completion_tokens"]
    assert [each for each in providers if each.api is Face.ANTHROPIC] == [anthropic]
    assert (providers.get("local"), providers.get("none")) == (local, None)


def test_without_a_file_there_are_none() -> None:
    assert not read_providers(None, {})


def test_a_rotated_key_counts_at_once_and_stands_in_no_text(tmp_path: Path) -> None:
    key = tmp_path / "openai.key"
    key.write_text("sk-1")
    providers = read(WHOLE, tmp_path, ANTHROPIC_KEY="sk-2")
    provider = providers.by_name["openai"]
    key.write_text("sk-3")
    assert provider.key() == "sk-3"
    assert "sk-" not in repr(providers)
    for content in ("", "sk-\u00e9", "sk-1\nx"):
        key.write_text(content)
        with pytest.raises(KeyMissing) as missing:
            provider.key()
        assert "sk-" not in str(missing.value)
    key.unlink()
    with pytest.raises(KeyMissing):
        provider.key()
    with pytest.raises(KeyMissing):
        read(WHOLE, tmp_path).by_name["anthropic"].key()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("providers = 1", "a table for each provider"),
        ("[providers]\nopenai = 1", "providers.openai: is not a table"),
        ("[providers.x]\nbase_url = 'http://h'", "api: one of openai, anthropic"),
        ("[providers.x]\napi = 'google'\nbase_url = 'http://h'", "api: one of"),
        ("[providers.x]\napi = 'openai'", "base_url: an http or https address"),
        ("[providers.x]\napi = 'openai'\nbase_url = 'h'", "base_url"),
        ("[providers.x]\napi = 'openai'\nbase_url = 'http://u:p@h'", "base_url"),
        ("[providers.x]\napi = 'openai'\nbase_url = 'http://h'\napi_key = 'k'", "unknown: api_key"),
        (
            "[providers.x]\napi = 'openai'\nbase_url = 'http://h'\napi_key_file = 'f'\n"
            "api_key_env = 'E'",
            "not both",
        ),
        (
            "[providers.x]\napi = 'openai'\nbase_url = 'http://h'\non_disconnect = 'wait'",
            "on_disconnect: one of cut, drain",
        ),
        (
            "[providers.x]\napi = 'openai'\nbase_url = 'http://h'\ninclude_usage = 1",
            "include_usage: true or false",
        ),
        ("[providers", "worker.toml: "),
    ],
)
def test_what_cannot_be_used_is_said_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ProvidersUnreadable) as unreadable:
        read(text, tmp_path)
    assert said in str(unreadable.value)
    assert "\n" not in str(unreadable.value)
    with pytest.raises(ProvidersUnreadable):
        read_providers(tmp_path / "none.toml", {})


def test_headers_that_name_the_machine_or_the_program_are_kept_back(
    table: Callable[..., Table],
) -> None:
    seat = table()
    seat.provider.script(
        Answer.json({"choices": []}, set_cookie="a=1", x_request_id="r1", openai_version="2020")
    )
    told = {"cookie": "b=2", "x-forwarded-for": "10.0.0.1", "proxy-authorization": "Basic x"}
    passed = {"openai-beta": "v2", "x-stainless-lang": "python", "user-agent": "program/1"}
    answer = seat.ask(json=CHAT, headers=told | passed)

    [request] = seat.provider.requests
    assert not set(told) & set(request.headers)
    assert passed.items() <= request.headers.items()
    assert request.key == PROVIDER_KEY
    assert seat.admitted.key not in repr(request.headers)
    assert "set-cookie" not in answer.headers
    assert (answer.headers["x-request-id"], answer.headers["openai-version"]) == ("r1", "2020")


def test_a_provider_that_compresses_all_the_same_is_read_beside(
    table: Callable[..., Table],
) -> None:
    seat = table()
    usage = b'{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":6}}'
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    seat.provider.script(Answer(200, headers, (gzip.compress(usage),), "length"))
    answer = seat.ask(json=CHAT)
    assert answer.content == usage
    [end] = seat.books.settled()
    assert (end["cost_basis"], end["usage"]["output_tokens"]) == ("actual", 6)


def test_a_large_answer_passes_whole_and_is_not_held(table: Callable[..., Table]) -> None:
    seat = table()
    parts = [b'{"x":"', *[os.urandom(32).hex().encode() * 1024] * 160]
    parts += [b'","usage":{"prompt_tokens":5,"completion_tokens":6},"choices":[]}']
    seat.provider.script(Answer(200, parts=tuple(parts)))
    digest, length = hashlib.sha256(), 0
    with httpx2.stream(
        "POST",
        f"{seat.address}/v1/chat/completions",
        headers={"authorization": f"Bearer {seat.admitted.key}"},
        json=CHAT,
        timeout=60,
        trust_env=False,
    ) as answer:
        for raw in answer.iter_raw():
            digest.update(raw)
            length += len(raw)
    assert length > 10_000_000
    assert digest.digest() == hashlib.sha256(b"".join(parts)).digest()
    assert seat.books.settled()[0]["usage"]["output_tokens"] == 6


def test_a_large_request_passes_whole(table: Callable[..., Table]) -> None:
    seat = table()
    body = b'{"model":"large","max_completion_tokens":9,"messages":[{"role":"user","content":"'
    body += b"x" * 5_000_000 + b'"}]}'
    assert seat.ask(content=body).is_success
    [request] = seat.provider.requests
    assert request.body == body
    [call] = seat.books.calls
    assert call.asked["request_bytes"] >= 5_000_000


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages/count_tokens"])
def test_what_works_on_a_large_body_holds_up_no_stream(
    table: Callable[..., Table], monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    seat, by = table(), []
    for module in (calls, counting):
        for name in ("read_request", "rewritten"):
            work = getattr(module, name)

            def noted(*args: Any, work: Any = work, **options: Any) -> Any:
                by.append(threading.current_thread().name)
                return work(*args, **options)

            monkeypatch.setattr(module, name, noted)

    messages = [{"role": "user", "content": "x" * LARGE_BODY_BYTES}]
    assert seat.ask(path, json={"model": "any", "messages": messages}).is_success

    assert len(by) == 2
    assert "gateway" not in by, "the thread of the loop, which streams share"
