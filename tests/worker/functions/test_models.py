"""Functions that call models: by the environment, as SDKs do, each under its own attempt."""

import asyncio
import os
import threading

import openai
import pytest

from fencepost_worker import ModelsUnavailable, Worker
from fencepost_worker.functions.variables import AttemptEnviron
from fencepost_worker.testing import Counts, StandInProvider
from tests.worker.conftest import PATIENCE_SECONDS
from tests.worker.functions.conftest import TYPE
from tests.worker.gateway.books import Books

NAMES = ("OPENAI_BASE_URL", "OPENAI_API_KEY", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY")
ASKED = {"model": "large", "messages": [{"role": "user", "content": "hello"}]}
KEY = "sk-of-the-provider"


@pytest.fixture
def books(plane):
    return Books().serve(plane)


@pytest.fixture
def model_use(plane):
    """Let claims say that work calls models; `model_use[0]` is what they say."""
    said = ["allowed"]
    grant = plane._grant
    plane._grant = lambda job: (
        grant(job)
        | {
            "model_use": said[0],
            "effects": "external",
            "open_calls_max": 8,
            "models": [{"position": 1, "provider": "openai", "model": "large", "api": "openai"}],
        }
    )
    plane.routes["/executions/permits$"] = lambda seen: (
        201,
        {"permit_id": "p", "state": "issued", "deadline_seconds": 60},
    )
    plane.routes["/v1/executions$"] = lambda seen: (
        201,
        {"decision": "issued", "state": "unknown", "may_begin": True, "deadline_seconds": 60},
    )
    plane.routes["/executions/.*/result$"] = lambda seen: (200, {"outcome": "recorded"})
    return said


@pytest.fixture
def provider():
    with StandInProvider(key=KEY, counts=Counts(input=7, output=3)) as provider:
        yield provider


@pytest.fixture
def worker(options, provider, books, model_use, tmp_path, monkeypatch):
    """A worker whose provider's key is in the variable that its functions see another value of."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    config = tmp_path / "worker.toml"
    config.write_text(
        f'[providers.openai]\napi = "openai"\nbase_url = "{provider.base_url_openai}"\n'
        'api_key_env = "OPENAI_API_KEY"\n'
    )
    return Worker(**options, config=config)


def test_a_client_of_the_environment_is_governed(plane, worker, books, provider):
    @worker.job(TYPE)
    def work(job, ctx):
        with openai.OpenAI() as client:
            said = client.chat.completions.create(**ASKED)
        return {"text": said.choices[0].message.content, "models": len(job.models)}

    plane.add_job("task-1")
    worker.run(max_jobs=1)

    verb, body = plane.outcome_of("task-1")
    assert (verb, body["result"]["models"]) == ("complete", 1)
    assert body["result"]["text"]
    [end] = books.ends
    assert end["end"] == "settled"
    assert end["usage"]["input_tokens"] == 7
    assert [seen.key for seen in provider.requests] == [KEY]


def test_attempts_beside_each_other_have_a_key_each(plane, worker, books):
    together = asyncio.Barrier(2)
    keys = {}

    @worker.job(TYPE)
    async def work(job, ctx):
        async with openai.AsyncOpenAI() as client:
            # Both have their client before either calls: one environment would have one key.
            await together.wait()
            keys[job.task_id] = client.api_key
            await client.chat.completions.create(**ASKED)
        assert os.getenv("OPENAI_API_KEY") == ctx.model.openai["api_key"] == client.api_key

    for number in (1, 2):
        plane.add_job(f"task-{number}")
    worker.run(concurrency=2, max_jobs=2)

    assert {verb for verb, _ in plane.outcomes.values()} == {"complete"}
    assert len(set(keys.values())) == 2
    assert {call.asked["task_id"] for call in books.calls} == {"task-1", "task-2"}


def test_outside_of_an_attempt_nobody_is_let_through(plane, worker, books, provider):
    """A thread that the function starts by itself has no attempt; nor has a child's default."""
    said = []

    @worker.job(TYPE)
    def work(job, ctx):
        def ask():
            with openai.OpenAI(max_retries=0) as client:
                try:
                    client.chat.completions.create(**ASKED)
                except openai.AuthenticationError as error:
                    said.append(error.status_code)

        thread = threading.Thread(target=ask)
        thread.start()
        thread.join(PATIENCE_SECONDS)

    plane.add_job("task-1")
    worker.run(max_jobs=1)

    assert said == [401]
    assert (books.calls, provider.requests) == ([], [])


def test_the_process_has_its_environment_back_afterwards(plane, worker):
    before = {name: os.environ.get(name) for name in (*NAMES, "NO_PROXY", "no_proxy")}
    during = {}
    worker.job(TYPE)(lambda job, ctx: during.update(os.environ))

    plane.add_job("task-1")
    worker.run(max_jobs=1)

    assert during["OPENAI_BASE_URL"].startswith("http://127.0.0.1:")
    assert "127.0.0.1" in during["NO_PROXY"]
    assert {name: os.environ.get(name) for name in before} == before
    assert isinstance(os.environ, AttemptEnviron)


def test_a_child_process_is_given_the_attempts_own_key(plane, worker):
    @worker.job(TYPE)
    def work(job, ctx):
        assert ctx.environment["OPENAI_API_KEY"] == ctx.model.key
        assert ctx.environment["OPENAI_BASE_URL"] == ctx.model.openai["base_url"]
        assert ctx.environment["ANTHROPIC_BASE_URL"] == ctx.model.anthropic["base_url"]
        assert KEY not in ctx.environment.values()
        assert ctx.model.key not in repr(ctx.model)

    plane.add_job("task-1")
    worker.run(max_jobs=1)

    assert plane.outcome_of("task-1")[0] == "complete"


def test_a_type_that_calls_no_models_is_told_so(plane, worker, model_use):
    model_use[0] = "none"

    @worker.job(TYPE)
    def work(job, ctx):
        with pytest.raises(ModelsUnavailable, match="model_use none"):
            _ = ctx.model

    plane.add_job("task-1")
    worker.run(max_jobs=1)

    assert plane.outcome_of("task-1")[0] == "complete"
