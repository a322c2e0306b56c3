"""Agents on the usual frameworks are governed without a line of theirs changed."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fencepost_worker.testing import Answer
from fencepost_worker.testing.provider import TEXT
from tests.worker.gateway.conftest import Table

PATIENCE_SECONDS = 60
ROOT = Path(__file__).resolve().parents[3]
#: A proxy for all else, as machines of companies have: the gateway is not asked through it.
PROXIES = {"HTTP_PROXY": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9"}


def run(seat: Table, program: str) -> Any:
    """Run a program with the environment that the gateway gives it, and return what it prints."""
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-m", "tests.worker.gateway.programs", program],
        cwd=ROOT,
        env=environment | PROXIES | seat.admitted.environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def completion(**message: Any) -> Answer:
    """Return a chat completion with this message."""
    choice = {"index": 0, "message": {"role": "assistant", "content": None} | message}
    choice["finish_reason"] = "tool_calls" if "tool_calls" in message else "stop"
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    document = {"id": "chat-1", "object": "chat.completion", "created": 0, "model": "large"}
    return Answer.json(document | {"choices": [choice], "usage": usage})


def called(name: str, **arguments: Any) -> dict[str, Any]:
    """Return a call of a tool."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": "call_1", "type": "function", "function": function}


def bases(seat: Table) -> list[str]:
    """End the attempt, and return the bases of its calls."""
    assert seat.admitted.end("done").open == 0
    return [end["cost_basis"] for end in seat.books.ends]


def test_langchain_whole_streamed_and_embedding(table: Callable[..., Table]) -> None:
    seat = table()
    assert run(seat, "langchain") == [TEXT, TEXT, 3]
    assert bases(seat) == ["actual"] * 3


def test_a_langgraph_agent_with_a_tool(table: Callable[..., Table]) -> None:
    seat = table()
    seat.provider.script(
        completion(tool_calls=[called("add", a=2, b=3)]), completion(content="It is 5.")
    )
    assert run(seat, "langgraph") == "It is 5."
    _, second = seat.provider.requests
    assert second.json["messages"][-1]["content"] == "5"
    assert bases(seat) == ["actual"] * 2


def test_a_pydantic_ai_agent_with_structured_output(table: Callable[..., Table]) -> None:
    seat = table()
    seat.provider.script(
        lambda request: completion(
            tool_calls=[called(request.json["tools"][0]["function"]["name"], total=5)]
        )
    )
    assert run(seat, "pydantic_ai") == 5
    assert bases(seat) == ["actual"]


def test_a_pydantic_ai_agent_of_the_other_face_streams(table: Callable[..., Table]) -> None:
    seat = table()
    assert run(seat, "pydantic_ai_messages") == TEXT
    assert bases(seat) == ["actual"]
