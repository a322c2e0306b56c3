"""Do a task as the command lines of coding agents do, in the folder that it is run in.

It stands for any of them: it asks how many tokens a prompt has, streams its answers, runs several
tools at a time, and has a smaller model name the task meanwhile. It reads ANTHROPIC_BASE_URL and
ANTHROPIC_API_KEY, and knows nothing of what it runs behind.

    echo "the task" | python coding_agent.py --print
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

from anthropic import AsyncAnthropic

MODEL, SMALL_MODEL = "claude-sonnet-4-5", "claude-haiku-4-5"
MAX_TURNS = 20
#: As such tools ask, of every endpoint.
BETA = {"beta": "true"}
FILE_NAME = {"name": {"type": "string"}}
TOOLS: list[Any] = [
    {
        "name": "read_file",
        "description": "Read a file of this folder.",
        "input_schema": {"type": "object", "properties": FILE_NAME, "required": ["name"]},
    },
    {
        "name": "write_file",
        "description": "Write a file of this folder.",
        "input_schema": {
            "type": "object",
            "properties": FILE_NAME | {"text": {"type": "string"}},
            "required": ["name", "text"],
        },
    },
]


def use(name: str, given: dict[str, str]) -> str:
    """Run a tool and return what it says."""
    path = Path(Path(given["name"]).name)
    try:
        if name == "write_file":
            path.write_text(given["text"], encoding="utf-8")
            return "written"
        return path.read_text(encoding="utf-8")
    except OSError as error:
        return f"failed: {error.strerror}"


async def title(client: AsyncAnthropic, task: str) -> str:
    """Return a title for the task."""
    answer = await client.beta.messages.create(
        model=SMALL_MODEL,
        max_tokens=100,
        messages=[{"role": "user", "content": f"Title this in five words: {task}"}],
        extra_query=BETA,
    )
    return "".join(part.text for part in answer.content if part.type == "text")


async def work(client: AsyncAnthropic, task: str) -> str:
    """Let the model use tools until it has nothing left to do; return its last words."""
    messages: list[Any] = [{"role": "user", "content": task}]
    for _ in range(MAX_TURNS):
        await client.beta.messages.count_tokens(
            model=MODEL, messages=messages, tools=TOOLS, extra_query=BETA
        )
        async with client.beta.messages.stream(
            model=MODEL, max_tokens=8000, messages=messages, tools=TOOLS, extra_query=BETA
        ) as stream:
            answer = await stream.get_final_message()
        if answer.stop_reason != "tool_use":
            return "".join(part.text for part in answer.content if part.type == "text")
        messages.append({"role": "assistant", "content": answer.content})
        wanted = [part for part in answer.content if part.type == "tool_use"]
        said = await asyncio.gather(
            *(asyncio.to_thread(use, part.name, dict(part.input)) for part in wanted)
        )
        results = [
            {"type": "tool_result", "tool_use_id": part.id, "content": text}
            for part, text in zip(wanted, said, strict=True)
        ]
        messages.append({"role": "user", "content": results})
    sys.exit(f"not done after {MAX_TURNS} turns")


async def main() -> None:
    """Read the task, do it, and print what was done."""
    task = sys.stdin.read()
    async with AsyncAnthropic() as client:
        said, name = await asyncio.gather(work(client, task), title(client, task))
    print(f"{name}\n\n{said}")


if __name__ == "__main__":
    asyncio.run(main())
