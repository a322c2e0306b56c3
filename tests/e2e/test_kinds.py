"""The page on putting agents behind Fencepost: its files and its commands, run as they stand."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from django.core.management import call_command

from fencepost_worker.gateway.faces import Endpoint
from fencepost_worker.testing import Answer, StandInProvider
from fencepost_worker.testing.answers import event
from governance.money.models import Budget, Reservation, Resolution
from jobs.models import Attempt, Job
from jobs.transitions import controls

PATIENCE_SECONDS = 60
ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/how-to/put-your-agent-behind-fencepost.md").read_text(encoding="utf-8")
BY = {"actor": "command:test", "reason": "for the test"}
CHAT, SONNET, HAIKU = "gpt-5-mini", "claude-sonnet-4-5", "claude-haiku-4-5"

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(180),
    pytest.mark.usefixtures("store_of_this_test"),
]


def section(heading: str) -> str:
    """Return what the page says under a heading."""
    part = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    assert part, heading
    return part


def block(heading: str, language: str) -> str:
    """Return the one block of code of a language under a heading."""
    [found] = re.findall(rf"^```{language}\n(.*?)^```", section(heading), re.MULTILINE | re.DOTALL)
    return found


# --- What the model says to each kind -----------------------------------------------------------


def completion(**message: Any) -> Answer:
    """Return a chat completion with this message."""
    choice = {"index": 0, "message": {"role": "assistant", "content": None} | message}
    choice["finish_reason"] = "tool_calls" if "tool_calls" in message else "stop"
    usage = {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17}
    document = {"id": "chat-1", "object": "chat.completion", "created": 0, "model": CHAT}
    return Answer.json(document | {"choices": [choice], "usage": usage})


def called(name: str, **arguments: Any) -> dict[str, Any]:
    """Return a call of a tool in a chat completion."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": "call_1", "type": "function", "function": function}


def uses(*inputs: dict[str, str]) -> Answer:
    """Return a streamed message that writes a file by each of these inputs, at the same time."""
    usage = {"input_tokens": 12, "output_tokens": 1}
    begun = {"id": "msg-1", "type": "message", "role": "assistant", "model": SONNET}
    begun |= {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": begun}]
    for index, given in enumerate(inputs):
        part = {"type": "tool_use", "id": f"toolu_{index}", "name": "write_file", "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(given)}
        events += [
            {"type": "content_block_start", "index": index, "content_block": part},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    ended = {"stop_reason": "tool_use", "stop_sequence": None}
    events += [
        {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]
    return Answer.events(*(event(each, name=each["type"]) for each in events))


def nothing_special(provider: StandInProvider) -> None:
    """Let the stand-in answer by itself."""


def a_tool_first(provider: StandInProvider) -> None:
    provider.script(completion(tool_calls=[called("words_in", text="one two")]))


def in_the_shape(provider: StandInProvider) -> None:
    notes = {"headline": provider.text, "lines": ["one", "two"]}
    provider.script(
        lambda asked: completion(
            tool_calls=[called(asked.json["tools"][0]["function"]["name"], **notes)]
        )
    )


def two_files_first(provider: StandInProvider) -> None:
    files = [{"name": f"{name}.md", "text": f"# {name}\n"} for name in ("added", "removed")]
    provider.script(uses(*files), endpoint=Endpoint.MESSAGES, model=SONNET)


@dataclass(frozen=True)
class Kind:
    """A kind of agent: its heading on the page, what its model does, and what comes of it.

    :param calls: the models of the calls that are paid, sorted.
    :param no_room: what its standard error says where there is no room.
    """

    heading: str
    play: Callable[[StandInProvider], None]
    calls: tuple[str, ...]
    no_room: str
    artifacts: tuple[str, ...] = ()


OF_OPENAI, OF_ANTHROPIC = "openai.PermissionDeniedError", "anthropic.PermissionDeniedError"
KINDS = (
    Kind("OpenAI SDK", nothing_special, (CHAT,), OF_OPENAI),
    Kind("Anthropic SDK", nothing_special, (SONNET,), OF_ANTHROPIC),
    Kind("LangGraph", a_tool_first, (CHAT, CHAT), OF_OPENAI),
    Kind("pydantic-ai", in_the_shape, (CHAT,), "status_code: 403"),
    Kind(
        "A coding agent's command line",
        two_files_first,
        (HAIKU, SONNET, SONNET),
        OF_ANTHROPIC,
        ("added.md", "removed.md"),
    ),
    Kind("curl in a shell script", nothing_special, (CHAT,), "error: 403"),
)
each_kind = pytest.mark.parametrize(
    "kind",
    [
        pytest.param(
            kind,
            id=kind.heading,
            marks=pytest.mark.skipif(
                "curl" in kind.heading and not (shutil.which("curl") and shutil.which("jq")),
                reason="needs curl and jq",
            ),
        )
        for kind in KINDS
    ],
)


# --- The place that the page describes ----------------------------------------------------------


@pytest.fixture
def place(tmp_path, live_server, provider, issue) -> Path:
    """Make the folder that the page's commands are run in, with its files as the page has them."""
    folder = tmp_path / "place"
    folder.mkdir()
    (folder / "examples").symlink_to(ROOT / "examples")
    for name in ("openai.key", "anthropic.key"):
        (folder / name).write_text("sk-real\n")
    (folder / "hermes.token").write_text(issue(agent="hermes"))
    (folder / "agents.toml").write_text(block("Once: say which models there are", "toml"))
    worker = block("Once: configure the worker", "toml")
    for address, ours in {
        "https://plane.example": live_server.url,
        "https://api.openai.com/v1": provider.base_url_openai,
        "https://api.anthropic.com": provider.base_url_anthropic,
    }.items():
        assert worker.count(address) == 1
        worker = worker.replace(address, ours)
    # What a test adds: a worker that ends by itself, and is soon told of stop and pause.
    once = "[worker]\nmax_jobs = 1\nwait_seconds = 1\n"
    (folder / "worker.toml").write_text(worker.replace("[worker]\n", once))
    return folder


@pytest.fixture
def environment(tmp_path, live_server, submitter_token) -> dict[str, str]:
    """Return the variables of a shell in which the page's commands are there."""
    programs = tmp_path / "bin"
    programs.mkdir()
    words = {
        "python": f'"$@" 2>>{tmp_path}/errors.log',
        "fencepost-worker": '-m fencepost_worker "$@"',
    }
    for name, arguments in words.items():
        script = programs / name
        script.write_text(f"#!/bin/sh\nexec {shlex.quote(sys.executable)} {arguments}\n")
        script.chmod(0o755)
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
    return kept | {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "agents/worker/src"),
        "FENCEPOST_URL": live_server.url,
        "TOKEN": submitter_token,
    }


@pytest.fixture
def configured(place, environment) -> Path:
    """Do all that the page does once, and submit its job; return the place."""
    for line in block("Once: say which models there are", "sh").splitlines():
        program, *words = shlex.split(line)
        assert program == "manage.py"
        call_command(*(str(place / word) if (place / word).exists() else word for word in words))
    submitted = block("A job", "sh")
    subprocess.run(["sh", "-c", submitted], cwd=place, env=environment, check=True)
    return place


@pytest.fixture
def run(configured, environment, started) -> Callable[[Kind], subprocess.Popen]:
    """Return a function that runs the command of a kind's section."""

    def start(kind: Kind) -> subprocess.Popen:
        command = block(kind.heading, "sh")
        # The address of the plane is in the file.
        own = {k: v for k, v in environment.items() if k not in ("FENCEPOST_URL", "TOKEN")}
        process = subprocess.Popen(["sh", "-c", f"exec {command}"], cwd=configured, env=own)
        started.append(process)
        return process

    return start


@pytest.fixture
def often_told(monkeypatch) -> None:
    """Have workers ask each second what has become of their jobs."""
    monkeypatch.setattr("jobs.operations.answers.heartbeat_interval_seconds", lambda _: 1)


def the_job() -> Job:
    return Job.objects.get(task_id="example-release-notes")


# --- The page ------------------------------------------------------------------------------------


def test_the_page_has_these_kinds_and_no_other() -> None:
    before = PAGE.partition("\n## What your agent has to do")[0]
    assert re.findall(r"\[([^]]+)\]\(#", before.replace("[a coding", "[A coding")) == [
        kind.heading for kind in KINDS
    ]


@each_kind
def test_an_agent_is_governed_by_the_command_of_its_section(run, provider, kind) -> None:
    kind.play(provider)
    assert run(kind).wait(PATIENCE_SECONDS) == 0

    job = the_job()
    attempt = Attempt.objects.get(job=job)
    assert (job.state, attempt.outcome) == ("completed", "completed"), attempt.error_message
    assert provider.text in attempt.result["text"]
    named = [each["name"] for each in attempt.result["artifacts"]]
    assert tuple(sorted(named)) == kind.artifacts
    assert {asked.key for asked in provider.requests} == {"sk-real"}
    ends = Resolution.objects.select_related("reservation").all()
    assert {(each.reservation.state, each.cost_basis) for each in ends} == {("settled", "usage")}
    paid = [asked for asked in provider.requests if asked.endpoint is not Endpoint.COUNT_TOKENS]
    assert tuple(sorted(asked.json["model"] for asked in paid)) == kind.calls
    assert len(ends) == len(kind.calls)
    assert all(each.cost > 0 for each in ends)


def test_a_coding_agent_counts_as_such_tools_do(run, provider) -> None:
    [kind] = (kind for kind in KINDS if kind.play is two_files_first)
    kind.play(provider)
    assert run(kind).wait(PATIENCE_SECONDS) == 0

    counted = [each for each in provider.requests if each.endpoint is Endpoint.COUNT_TOKENS]
    assert {each.path for each in counted} == {"/v1/messages/count_tokens?beta=true"}
    assert len(counted) == 2
    assert Reservation.objects.count() == len(kind.calls), "counts reserve nothing"


# --- When it does not go on ----------------------------------------------------------------------


@each_kind
def test_where_there_is_no_room_nothing_is_called_and_no_attempt_is_lost(
    run, provider, kind, configured
) -> None:
    budget = Budget.objects.get(scope="job_type", key="content_prep")
    call_command("act", "budget.set_caps", str(budget.pk), "--cap", "0", "--reason", "a test")
    assert run(kind).wait(PATIENCE_SECONDS) == 0

    job = the_job()
    attempt = Attempt.objects.get(job=job)
    assert (job.state, attempt.outcome) == ("queued", "deferred")
    assert job.attempts_left == job.max_attempts
    assert attempt.error_message.startswith("BUDGET_EXHAUSTED: ")
    assert kind.no_room in (configured.parent / "errors.log").read_text()
    assert f"`{kind.no_room}`" in " ".join(section(kind.heading).split())
    assert [each for each in provider.requests if each.endpoint is not Endpoint.COUNT_TOKENS] == []


# What a stop does is the worker's doing: of each API one kind tells.
@pytest.mark.parametrize("kind", KINDS[:2], ids=lambda kind: kind.heading)
def test_a_stop_ends_the_program_and_cuts_its_call(run, provider, kind, often_told) -> None:
    for endpoint in (Endpoint.CHAT, Endpoint.MESSAGES):
        provider.script(Answer.silence(), Answer.silence(), endpoint=endpoint)
    process = run(kind)
    assert provider.wait_for(
        lambda asked: any(each.endpoint is not Endpoint.COUNT_TOKENS for each in asked),
        timeout_s=PATIENCE_SECONDS,
    )
    controls.stop(task_id="example-release-notes", **BY)
    assert process.wait(PATIENCE_SECONDS) == 0

    assert the_job().state == "stopped"
    assert all(each.left for each in provider.requests if each.endpoint.spends)
    ends = Resolution.objects.select_related("reservation").all()
    assert {(each.reservation.state, each.cost_basis) for each in ends} <= {
        ("failed", "estimate"),
        ("settled", "estimate"),
    }


def test_a_pause_lets_the_open_call_end_and_the_program_stand_still(
    run, provider, often_told
) -> None:
    kind = KINDS[0]
    goes_on = Event()
    answer = completion(content=provider.text)
    provider.script(replace(answer, parts=(goes_on, *answer.parts)))
    process = run(kind)
    assert provider.wait_for(bool, timeout_s=PATIENCE_SECONDS)
    controls.pause(task_id="example-release-notes", **BY)
    eventually(lambda: "T" in states_below(process.pid))
    goes_on.set()
    eventually(lambda: Resolution.objects.exists())
    assert the_job().state == "active"
    assert "T" in states_below(process.pid)
    controls.resume(task_id="example-release-notes", **BY)
    assert process.wait(PATIENCE_SECONDS) == 0

    assert the_job().state == "completed"
    assert Resolution.objects.get().cost_basis == "usage"


def test_a_killed_worker_takes_the_program_along_and_the_next_one_goes_on(run, provider) -> None:
    kind = KINDS[0]
    provider.script(Answer.silence(), endpoint=Endpoint.CHAT)
    worker = run(kind)
    assert provider.wait_for(bool, timeout_s=PATIENCE_SECONDS)
    programs = below(worker.pid)
    assert len(programs) > 1
    worker.kill()
    worker.wait(PATIENCE_SECONDS)
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in programs))

    assert run(kind).wait(PATIENCE_SECONDS) == 0
    outcomes = Attempt.objects.order_by("number").values_list("outcome", "error_code")
    assert list(outcomes) == [("failed", "OUTCOME_UNKNOWN"), ("completed", "")]
    assert the_job().state == "completed"
    assert len(provider.requests) == 2, "the second is of the second attempt"
    bases = Resolution.objects.order_by("reservation__attempt").values_list("cost_basis")
    assert [basis for (basis,) in bases] == ["estimate", "usage"]


def eventually(condition: Callable[[], bool]) -> None:
    """Wait until the condition holds."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def below(pid: int) -> set[int]:
    """Return a process's children and theirs."""
    try:
        # Each thread has children of its own.
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        own = {int(word) for each in threads for word in (each / "children").read_text().split()}
    except FileNotFoundError:
        return set()
    return own.union(*map(below, own))


def states_below(pid: int) -> set[str]:
    """Return the states of the processes below one, as the system writes them."""
    found = set()
    for each in below(pid):
        with suppress(FileNotFoundError):
            found.add(Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()[0])
    return found


# --- Test your own agent -------------------------------------------------------------------------


def test_the_test_of_the_page_passes(environment, place) -> None:
    (place / "test_agent.py").write_text(block("Test your own agent", "python"))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--noconftest"]
    done = subprocess.run(
        [*command, "--rootdir", ".", "-c", os.devnull, "-p", "no:django", "test_agent.py"],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
