"""The example of functions, as a process before a scripted control plane; and its types."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost_worker.testing import StandInProvider
from tests.settings import WORKER_SOURCE
from tests.worker.conftest import PATIENCE_SECONDS
from tests.worker.functions.test_models import model_use
from tests.worker.gateway.books import Books

__all__ = ["model_use"]

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "programs" / "editor.py"

#: What people write, and what the types refuse.
TYPED = """
from fencepost_worker import AsyncContext, Context, Fail, Job, Worker
worker = Worker.from_env()

@worker.job("plain")
def plain(job: Job, ctx: Context) -> dict[str, object]:
    ctx.artifact("a.txt", b"a").pointer.upper()
    raise Fail("no", retryable=True)

@worker.job("awaited")
async def awaited(job: Job, ctx: AsyncContext) -> None:
    (await ctx.artifact("a.txt", b"a")).pointer.upper()
    await ctx.check()

worker.run(concurrency=4)
"""
REFUSED = """
from fencepost_worker import AsyncContext, Context, Defer, Job, Worker
worker = Worker.from_env()

@worker.job("a")
async def wrong_context(job: Job, ctx: Context) -> None: ...

@worker.job("b")
def wrong_result(job: Job, ctx: Context) -> int:
    return 1

Defer("no time is named")
"""


def test_the_example_writes_release_notes(plane, options, model_use, tmp_path):
    books = Books().serve(plane)
    task = json.loads((ROOT / "examples" / "content-prep.json").read_text())
    beside = {k: task[k] for k in task.keys() - {"source", "priority", "preferred_owner"}}
    plane.add_job(**beside)
    named = ("url", "agent", "token", "data")
    variables = {f"FENCEPOST_{name.upper()}": str(options[name]) for name in named}
    with StandInProvider() as provider:
        config = tmp_path / "worker.toml"
        config.write_text(
            "[worker]\nmax_jobs = 1\n"
            f'[providers.openai]\napi = "openai"\nbase_url = "{provider.base_url_openai}"\n'
        )
        subprocess.run(
            [sys.executable, str(EXAMPLE)],
            env=os.environ | variables | {"FENCEPOST_CONFIG": str(config), "EDITOR_MODEL": "large"},
            cwd=tmp_path,
            timeout=PATIENCE_SECONDS,
            check=True,
        )

    verb, body = plane.outcome_of(task["task_id"])
    assert verb == "complete", body
    [notes] = body["result"]["artifacts"]
    assert (notes["name"], notes["pointer"][:9]) == ("release-notes.md", "artifact:")
    assert body["result"]["summary"]
    assert [end["end"] for end in books.ends] == ["settled"]
    [fact] = plane.calls("/v1/facts$")
    assert fact.body["data"]["sha256"] == notes["sha256"]


@pytest.mark.timeout(180)
def test_programs_are_checked_strictly_against_the_package(tmp_path):
    (tmp_path / "typed.py").write_text(TYPED)
    (tmp_path / "refused.py").write_text(REFUSED)

    options = ["--strict", "--config-file", os.devnull, "--follow-imports", "silent"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "typed.py", "refused.py"],
        env=os.environ | {"MYPYPATH": str(WORKER_SOURCE)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    found = [line.split(":")[:2] for line in done.stdout.splitlines() if ": error:" in line]
    assert found == [["refused.py", "5"], ["refused.py", "8"], ["refused.py", "12"]], done.stdout
