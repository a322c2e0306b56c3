from __future__ import annotations

import fcntl
import io
import json
import os
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx2
from django.apps import apps
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, NotSupportedError, connection
from django.urls import NoReverseMatch, reverse
from rich.console import Console
from rich.live import Live
from rich.table import Table
from uuid_utils.compat import uuid7

from governance.local import keys
from governance.local.processes import Children, KeepsFailing
from governance.money import catalogue
from governance.money.models import LanguageModel
from governance.money.pricing import RateSet

HOST = "127.0.0.1"
POSTGRESQL_MIN = 15
OPERATOR = "operator"
OPERATOR_GROUP = "governor"
SUBMITTER = "examples"
AGENTS = ("hermes", "openclaw", "agent_zero")
#: The example that calls a model: whose it is, its type, and what is left to the other worker.
GOVERNED_AGENT, GOVERNED_TYPE = "hermes", "content_prep"
STANDIN = ("local", "standin-1")
COMMAND_TYPES = "artifact_production,skill_extraction,healthcheck"
START_SECONDS_MAX = 60.0
#: How long the examples may take to be done or to wait for a person.
ARRIVAL_SECONDS_MAX = 180.0
POLL_SECONDS = 0.5
#: The job is done, or it is a person's turn.
ARRIVED = {
    "completed",
    "stopped",
    "held",
    "review_required",
    "needs_rework",
    "escalated",
    "in_doubt",
}
WAITS_FOR = {
    "held": " - waits for an approval",
    "review_required": " - waits for a review",
    "needs_rework": " - waits for a retry extension",
    "escalated": " - waits for a decision",
    "in_doubt": " - waits for a reconciliation",
}
COLOURS = {"completed": "green", "failed": "red", "active": "cyan", "queued": "blue"}


class Command(BaseCommand):
    help = (
        "Run everything on this machine: database, API, console, sweeper, three workers, examples."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        # Judged in `port_number`: argparse would print its usage for a mistyped PORT=.
        parser.add_argument("--port", default="8000")
        parser.add_argument("--once", action="store_true", help="end when the examples arrived")
        parser.add_argument("--no-workers", action="store_true")
        parser.add_argument("--no-examples", action="store_true")

    def handle(
        self, *, port: str, once: bool, no_workers: bool, no_examples: bool, **options: Any
    ) -> None:
        run = Run(Console(highlight=False), port_number(port))
        run.obey_signals()
        try:
            run.prepare()
            run.serve(workers=not no_workers, examples=not no_examples)
            if not no_examples:
                run.submit_examples()
            trouble = None if no_workers else run.watch_examples()
            run.print_links()
            if once and trouble:
                raise CommandError(trouble)
            if not once:
                run.say(trouble or "Ctrl-C stops everything.")
                run.keep_serving()
        except Interrupted:
            run.say("Stopping ...")
        except (KeepsFailing, httpx2.HTTPError) as error:
            raise CommandError(f"{error}") from error
        finally:
            run.stop()


def allow_standin() -> None:
    """Let the governed example use its model, under a daily budget. What is there stays."""
    provider, model = STANDIN
    if LanguageModel.objects.filter(provider=provider, name=model).exists():
        return
    act: dict[str, Any] = {"actor": "command:up", "reason": "The model of the governed example."}
    catalogue.set_model(provider=provider, name=model, **act)
    rates = [RateSet(above_input_tokens=0, input=Decimal("0.50"), output=Decimal("1.50"))]
    catalogue.set_price(provider=provider, name=model, rates=rates, **act)
    catalogue.set_policy(models=[STANDIN], job_type=GOVERNED_TYPE, **act)
    catalogue.set_budget(scope="agent", key=GOVERNED_AGENT, window="day", cap=Decimal(5), **act)


class Interrupted(Exception):
    """Ctrl-C, SIGTERM, or the terminal has gone."""


def port_number(text: str) -> int:
    """:raises CommandError: it is none."""
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text[:6]) <= 65535:
        raise CommandError(f"{text[:40]!r} is no port number: PORT is one from 1 to 65535.")
    return int(text)


@dataclass(frozen=True)
class Example:
    """A task envelope of `examples/` and what became of it."""

    envelope: dict[str, Any]
    job: dict[str, Any]

    @property
    def task_id(self) -> str:
        return str(self.envelope["task_id"])

    @property
    def state(self) -> str:
        return str(self.job["state"])


class Run:
    """One run of the whole service on this machine."""

    def __init__(self, console: Console, port: int) -> None:
        self.console = console
        self.port = port
        self.url = f"http://{HOST}:{port}"
        self.folder = Path(settings.DATA_DIR)
        self.told_to_stop = threading.Event()
        self.children: Children | None = None
        self.examples: list[Example] = []
        # Never through a proxy: it is this machine.
        self.http = httpx2.Client(base_url=self.url, timeout=30, trust_env=False)

    def say(self, text: str) -> None:
        self.console.print(text, soft_wrap=True)

    def obey_signals(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: self.told_to_stop.set())

    def wait(self, seconds: float) -> None:
        """Wait, and see to the children.

        :raises Interrupted: it is time to stop.
        """
        if self.told_to_stop.wait(seconds):
            raise Interrupted
        if self.children is not None:
            for child in self.children.restart_ended():
                self.say(f"[yellow]{child.name} ended and was started again; see {child.log}[/]")

    # ---- before anything serves ---------------------------------------------------------------

    def prepare(self) -> None:
        """Check what could be in the way, and make what a new installation needs."""
        self.take_the_folder()
        check_port(self.port)
        check_database()
        with self.console.status("Preparing the database ..."):
            call_command("migrate", verbosity=0, interactive=False, skip_checks=False)
            silently("bootstrap")
            self.make_operator()
        if self.told_to_stop.is_set():
            raise Interrupted

    def take_the_folder(self) -> None:
        """Be the only one who serves from this data folder."""
        self._lock = os.open(self.folder / "up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CommandError(
                f"Fencepost already runs from the data folder {self.folder}."
            ) from None

    def make_operator(self) -> None:
        """Make the first account of the console. Its password is printed once and kept nowhere."""
        if get_user_model().objects.filter(is_staff=True).exists():
            return
        made = silently("create_operator", OPERATOR, group=OPERATOR_GROUP, json=True)
        self.say(
            f"Operator [bold]{made['username']}[/], password [bold]{made['password']}[/] "
            "(shown only now)."
        )

    # ---- serving ------------------------------------------------------------------------------

    def serve(self, *, workers: bool, examples: bool) -> None:
        logs = self.folder / "logs"
        logs.mkdir(mode=0o700, exist_ok=True)
        children = self.children = Children(settings.BASE_DIR, logs, self.environment())
        python = sys.executable
        children.start(
            "web",
            [python, "-m", "gunicorn", "-c", "python:governance.gunicorn_conf", "governance.wsgi"],
        )
        with self.console.status("Starting the service ..."):
            self.until_it_answers()
            children.start("sweeper", [python, "manage.py", "sweep"])
            if settings.BROKER_URL or settings.WEBHOOK_URL:
                children.start("relay", [python, "manage.py", "relay"])
            for agent in AGENTS if workers else ():
                children.start(f"worker-{agent}", self.worker_command(agent))
            if workers and examples:
                self.start_governed_example()
        self.say(f"Serving on {self.url}; logs are in {logs}.")

    def environment(self) -> dict[str, str]:
        # The worker of this checkout is the one that runs, whichever else is installed.
        found_first = [str(settings.WORKER_SOURCE), os.environ.get("PYTHONPATH", "")]
        return os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, found_first)),
            "FENCEPOST_DATA": str(self.folder),
            "FENCEPOST_URL": self.url,
            "PROMETHEUS_MULTIPROC_DIR": str(self.folder / "metrics"),
            "FENCEPOST_BIND": f"{HOST}:{self.port}",
            "NO_PROXY": f"{HOST},localhost",
            "PYTHONUNBUFFERED": "1",
        }

    def until_it_answers(self) -> None:
        until = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < until:
            with suppress(httpx2.TransportError):
                if self.http.get("/healthz").status_code == 200:
                    return
            self.wait(0.1)
        raise CommandError(f"The service does not answer; its log is {self.folder}/logs/web.log.")

    def worker_command(self, agent: str) -> list[str]:
        program = str(settings.BASE_DIR / "examples" / "programs" / f"{agent}.py")
        # A session of its own, so that what the program makes goes up to the store of artifacts.
        options = ["--cell-id", "local", "--runtime", "command", "--", sys.executable, program]
        if agent == GOVERNED_AGENT:
            options = ["--task-types", COMMAND_TYPES, *options]
        return self.runtime_command(agent, agent) + options

    def start_governed_example(self) -> None:
        """Start the model's stand-in, and a worker that asks it with route, permit and budget."""
        allow_standin()
        with socket.create_server((HOST, 0)) as free:
            port = free.getsockname()[1]
        standin = str(settings.BASE_DIR / "examples" / "standin_model.py")
        assert self.children is not None
        self.children.start("standin", [sys.executable, standin, "--port", str(port)])
        options = [
            *("--runtime", "openai"),
            *("--cell-id", "local-openai"),
            *("--task-types", GOVERNED_TYPE),
            *("--endpoint", f"http://{HOST}:{port}/v1/chat/completions"),
        ]
        command = self.runtime_command(GOVERNED_AGENT, f"{GOVERNED_AGENT}-openai") + options
        self.children.start(f"worker-{GOVERNED_AGENT}-openai", command)

    def runtime_command(self, agent: str, folder: str) -> list[str]:
        return [
            *(sys.executable, "-m", "fencepost_worker"),
            *("--url", self.url),
            *("--agent", agent),
            *("--token-file", str(self.token_file(agent, agent))),
            *("--data", str(self.folder / "workers" / folder)),
            *("--drain-seconds", "5"),
        ]

    def token_file(self, name: str, *arguments: str, **options: str) -> Path:
        """Return the file with a token that works, made anew where it does not."""
        path = self.folder / "credentials" / f"{name}.token"
        path.parent.mkdir(mode=0o700, exist_ok=True)
        if not path.exists() or not self.accepted(path.read_text()):
            path.unlink(missing_ok=True)
            made = silently("create_credential", *arguments, json=True, **options)
            keys.keep_once(path, made["token"])
        return path

    def accepted(self, token: str) -> bool:
        return self.http.get("/v1/jobs", headers=bearer(token)).status_code == 200

    # ---- the examples -------------------------------------------------------------------------

    def submit_examples(self) -> None:
        """Submit what is in `examples/`. Task ids are for ever, so a second time changes nothing.

        :raises CommandError: the service refuses one.
        """
        token = self.token_file(SUBMITTER, submitter=SUBMITTER).read_text()
        self.http.headers.update(bearer(token))
        for path in sorted((settings.BASE_DIR / "examples").glob("*.json")):
            envelope = json.loads(path.read_bytes())
            answer = self.http.post(
                "/v1/jobs", json=envelope, headers={"Idempotency-Key": str(uuid7())}
            )
            if answer.status_code >= 400:
                raise CommandError(f"The example {path.name} is refused: {reason_of(answer)}")
            self.examples.append(Example(envelope, answer.json()["job"]))

    def refresh(self) -> None:
        self.examples = [
            Example(example.envelope, self.http.get(f"/v1/jobs/{example.task_id}").json())
            for example in self.examples
        ]

    def watch_examples(self) -> str | None:
        """Show the examples until each is done or waits for a person; else say what is wrong."""
        until = time.monotonic() + ARRIVAL_SECONDS_MAX
        with Progress(self.console) as progress:
            while True:
                self.refresh()
                progress.show(self.examples)
                if all(example.state in ARRIVED for example in self.examples):
                    return None
                if failed := [one.task_id for one in self.examples if one.state == "failed"]:
                    return f"{', '.join(failed)} failed; see {self.url}/admin/."
                if time.monotonic() > until:
                    late = [one.task_id for one in self.examples if one.state not in ARRIVED]
                    return (
                        f"{', '.join(late)} did not arrive within {ARRIVAL_SECONDS_MAX:.0f} s; "
                        f"logs are in {self.folder / 'logs'}."
                    )
                self.wait(POLL_SECONDS)

    def print_links(self) -> None:
        self.say(f"Console   {self.url}{reverse('admin:index')}")
        with suppress(NoReverseMatch):
            self.say(f"API docs  {self.url}{reverse('api-docs')}")
        for example in self.examples:
            with suppress(NoReverseMatch):
                job = apps.get_model("jobs", "Job").objects.get(task_id=example.task_id)
                page = reverse("admin:jobs_job_change", args=[job.pk])
                self.say(f"Job       {self.url}{page}  {example.task_id}")

    def keep_serving(self) -> None:
        while True:
            self.wait(POLL_SECONDS)

    def stop(self) -> None:
        self.http.close()
        if self.children is not None:
            self.children.stop()


class Progress:
    """The examples on a terminal as a table that moves, elsewhere as a line per change."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self.told: dict[str, str] = {}

    def __enter__(self) -> Progress:
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self.live is not None:
            self.live.stop()

    def show(self, examples: list[Example]) -> None:
        if self.live is not None:
            self.live.update(table(examples), refresh=True)
            return
        for example in examples:
            if self.told.get(example.task_id) != example.state:
                self.told[example.task_id] = example.state
                self.console.print(f"{example.task_id}: {example.state}", soft_wrap=True)


def table(examples: list[Example]) -> Table:
    shown = Table("task", "agent", "risk", "attempt", "state", box=None, padding=(0, 2, 0, 0))
    for example in examples:
        job, colour = example.job, COLOURS.get(example.state, "yellow")
        attempt = f"{job['attempt']} of {job['max_attempts']}"
        state = f"[{colour}]{example.state}[/]{WAITS_FOR.get(example.state, '')}"
        shown.add_row(example.task_id, job["owner"], job["risk_tier"], attempt, state)
    return shown


def silently(command: str, *arguments: str, **options: Any) -> Any:
    """Run another command and return what it prints as JSON, if it does."""
    printed = io.StringIO()
    call_command(command, *arguments, stdout=printed, **options)
    return json.loads(printed.getvalue()) if options.get("json") else None


def check_port(port: int) -> None:
    """:raises CommandError: somebody listens there, or this user may not."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise CommandError(
                f"Port {port} cannot be used: {error.strerror}. Choose another with PORT=."
            ) from error


def check_database() -> None:
    """:raises CommandError: it cannot be reached, or is too old."""
    try:
        connection.ensure_connection()
        with connection.cursor() as cursor:
            cursor.execute("SHOW server_version_num")
            version = int(cursor.fetchone()[0]) // 10_000
    except NotSupportedError as error:
        raise CommandError(f"PostgreSQL {POSTGRESQL_MIN} or newer is needed: {error}") from error
    except DatabaseError as error:
        raise CommandError(
            f"The database cannot be reached: {' '.join(str(error).split())}"
        ) from error
    if version < POSTGRESQL_MIN:
        raise CommandError(
            f"PostgreSQL {POSTGRESQL_MIN} or newer is needed; DATABASE_URL has {version}."
        )


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def reason_of(answer: httpx2.Response) -> str:
    try:
        problem = answer.json()
    except ValueError:
        return f"status {answer.status_code}"
    return f"{problem.get('detail') or problem.get('title')} ({problem.get('reason')})"
