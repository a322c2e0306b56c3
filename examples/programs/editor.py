"""Writes release notes: the work of `hermes.py`'s `content_prep`, as a function of the package.

    pip install fencepost-worker openai
    FENCEPOST_URL=... FENCEPOST_TOKEN_FILE=... FENCEPOST_AGENT=hermes FENCEPOST_DATA=... \
        FENCEPOST_CONFIG=worker.toml python examples/programs/editor.py

The file names the providers of models (docs/how-to/run-a-worker.md).
"""

import os
from typing import Any

from openai import APIConnectionError, AsyncOpenAI

from fencepost_worker import AsyncContext, Context, Defer, Escalate, Fail, Job, Worker

#: What it asks for; its policy may let it have another.
MODEL = os.environ.get("EDITOR_MODEL", "standin-1")
TITLE_CHARS_MIN = 10

worker = Worker.from_env()


@worker.job("content_prep")
async def release_notes(job: Job, ctx: AsyncContext) -> dict[str, Any]:
    """Write what a model says of the changes, and a line for each."""
    if not job.inputs:
        raise Fail("there are no changes to write about", code="NO_CHANGES")
    if len(job.title) < TITLE_CHARS_MIN and not job.answer:
        raise Escalate(f"What are the notes of? The title is only {job.title!r}.")
    ctx.progress({"step": "asking"})
    learnt = [skill.pattern for skill in job.skills]
    question = "\n\n".join([job.title, job.goal, job.answer, *learnt])
    # Address and key are the attempt's own: every call is routed, reserved and settled under it.
    async with AsyncOpenAI() as client:
        try:
            answer = await client.chat.completions.create(
                model=MODEL, messages=[{"role": "user", "content": question}]
            )
        except APIConnectionError as error:
            raise Defer("no model can be reached", retry_after=60) from error
    said = answer.choices[0].message.content or ""
    ctx.progress({"step": "writing"})
    lines = [f"# {job.title}", "", said, ""]
    lines += [f"- {name}: {value}" for name, value in sorted(job.inputs.items())]
    notes = await ctx.artifact("release-notes.md", ("\n".join(lines) + "\n").encode())
    ctx.fact("com.example.notes.written", {"sha256": notes.sha256, "changes": len(job.inputs)})
    return {"summary": said}


@worker.job("healthcheck")
def healthcheck(job: Job, ctx: Context) -> dict[str, Any]:
    """Say that this worker answers."""
    return {"summary": "alive"}


if __name__ == "__main__":
    worker.run(concurrency=4)
