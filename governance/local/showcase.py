"""The example tasks of `examples/`: submitted over HTTP as a client does, and watched."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from rich.console import Console
from rich.live import Live
from rich.table import Table
from uuid_utils.compat import uuid7

from governance.local.service import ServiceFailed

COLOURS = {"completed": "green", "failed": "red", "active": "cyan", "queued": "blue"}


@dataclass(frozen=True)
class Example:
    """A task envelope and its job, as the service answers it."""

    task_id: str
    job: dict[str, Any]

    @property
    def state(self) -> str:
        """Return the job's state."""
        return str(self.job["state"])


class Showcase:
    """The examples of a folder, as one submitter's jobs.

    :param http: a client of the service that presents the submitter's token.
    """

    def __init__(self, http: httpx2.Client, folder: Path) -> None:
        self._http = http
        self._folder = folder
        self.examples: list[Example] = []

    def submit(self) -> None:
        """Submit all. Task ids are for ever, so a second time changes nothing.

        :raises ServiceFailed: the service refuses one.
        """
        for path in sorted(self._folder.glob("*.json")):
            envelope = json.loads(path.read_bytes())
            answer = self._http.post(
                "/v1/jobs", json=envelope, headers={"Idempotency-Key": str(uuid7())}
            )
            if answer.status_code >= 400:
                raise ServiceFailed(f"The example {path.name} is refused: {_reason(answer)}")
            self.examples.append(Example(str(envelope["task_id"]), answer.json()["job"]))

    def refresh(self) -> None:
        """Read the jobs again."""
        self.examples = [
            Example(example.task_id, self._http.get(f"/v1/jobs/{example.task_id}").json())
            for example in self.examples
        ]

    def outside(self, states: Collection[str]) -> list[str]:
        """Return the task ids of the examples that are in none of these states."""
        return [example.task_id for example in self.examples if example.state not in states]


class Progress:
    """The examples on a terminal as a table that moves, elsewhere as a line per change.

    :param waits_for: what a job waits for in a state that a person ends.
    """

    def __init__(self, console: Console, waits_for: Mapping[str, str]) -> None:
        self._console = console
        self._waits_for = waits_for
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._shown: dict[str, str] = {}

    def __enter__(self) -> Progress:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, examples: list[Example]) -> None:
        """Show where the examples are now."""
        if self._live is not None:
            self._live.update(self._table(examples), refresh=True)
            return
        for example in examples:
            if self._shown.get(example.task_id) != example.state:
                self._shown[example.task_id] = example.state
                self._console.print(f"{example.task_id}: {example.state}", soft_wrap=True)

    def _table(self, examples: list[Example]) -> Table:
        table = Table("task", "agent", "risk", "attempt", "state", box=None, padding=(0, 2, 0, 0))
        for example in examples:
            job, colour = example.job, COLOURS.get(example.state, "yellow")
            attempt = f"{job['attempt']} of {job['max_attempts']}"
            state = f"[{colour}]{example.state}[/]"
            if what := self._waits_for.get(example.state):
                state += f" - waits for {what}"
            table.add_row(example.task_id, job["owner"], job["risk_tier"], attempt, state)
        return table


def _reason(answer: httpx2.Response) -> str:
    try:
        problem = answer.json()
    except ValueError:
        return f"status {answer.status_code}"
    return f"{problem.get('detail') or problem.get('title')} ({problem.get('reason')})"
