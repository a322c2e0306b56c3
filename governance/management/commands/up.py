from __future__ import annotations

import sys
import time
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx2
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, NotSupportedError, connection
from django.urls import NoReverseMatch, reverse
from rich.console import Console

from agents.transitions import credentials, operators, principals, sessions
from governance.core import audit
from governance.local import keys
from governance.local.processes import KeepsFailing
from governance.local.service import Interrupted, Service, ServiceFailed
from governance.local.showcase import Progress, Showcase
from governance.money import catalogue
from governance.money.models import LanguageModel
from governance.money.pricing import RateSet
from jobs import bootstrap
from jobs.models import Effects, Job, JobType, ModelUse
from jobs.transitions import TypeSettings, configure_job_type

POSTGRESQL_MIN = 15
REASON = "Made by manage.py up."
OPERATOR, OPERATOR_GROUP = "operator", "governor"
SUBMITTER = "examples"
AGENTS = ("hermes", "openclaw", "agent_zero")
#: The example that calls a model: whose it is, and its type.
GOVERNED_AGENT, GOVERNED_TYPE = "hermes", "content_prep"
STANDIN = ("local", "standin-1")
#: The cell of the workers that this command starts.
LOCAL_CELL = "local"
#: How long the examples may take to be done or to wait for a person.
ARRIVAL_SECONDS_MAX = 180.0
POLL_SECONDS = 0.5
WAITS_FOR: dict[str, str] = {
    Job.State.HELD: "an approval",
    Job.State.REVIEW_REQUIRED: "a review",
    Job.State.NEEDS_REWORK: "a retry extension",
    Job.State.ESCALATED: "a decision",
    Job.State.IN_DOUBT: "a reconciliation",
}
#: The job is done, or it is a person's turn.
ARRIVED = {Job.State.COMPLETED, Job.State.STOPPED, *WAITS_FOR}


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
        service = Service(
            folder=Path(settings.DATA_DIR),
            source=Path(settings.BASE_DIR),
            worker_source=settings.WORKER_SOURCE,
            port=port_number(port),
        )
        service.obey_signals()
        run = Run(Console(highlight=False), service)
        try:
            run.prepare()
            run.serve(workers=not no_workers, governed=not no_workers and not no_examples)
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
        except (ServiceFailed, KeepsFailing, httpx2.HTTPError) as error:
            raise CommandError(f"{error}") from error
        finally:
            service.stop()


class Run:
    """One run: the service, what its installation needs, and the examples."""

    def __init__(self, console: Console, service: Service) -> None:
        self.console = console
        self.service = service
        self.showcase = Showcase(service.http, service.source / "examples")

    def say(self, text: str) -> None:
        """Print a line."""
        self.console.print(text, soft_wrap=True)

    def prepare(self) -> None:
        """Check what could be in the way, and make what a new installation needs."""
        self.service.take_folder()
        self.service.check_port()
        check_database()
        with self.console.status("Preparing the database ..."):
            call_command("migrate", verbosity=0, interactive=False, skip_checks=False)
            bootstrap.install()
            self.make_operator()
        self.wait(0)

    def make_operator(self) -> None:
        """Make the first account of the console. Its password is printed once and kept nowhere."""
        if get_user_model().objects.filter(is_staff=True).exists():
            return
        made = operators.create(
            username=OPERATOR, group=OPERATOR_GROUP, actor=audit.shell_actor(), reason=REASON
        )
        self.say(
            f"Operator [bold]{made.username}[/], password [bold]{made.password}[/] "
            "(shown only now)."
        )

    def serve(self, *, workers: bool, governed: bool) -> None:
        """Start the processes, with workers, and with the example that calls a model."""
        service = self.service
        with self.console.status("Starting the service ..."):
            service.start_web()
            service.start("sweeper", "manage.py", "sweep")
            if settings.BROKER_URL or settings.WEBHOOK_URL:
                service.start("relay", "manage.py", "relay")
            providers = None
            if governed:
                allow_standin()
                providers = service.start_standin(STANDIN[0])
            for agent in AGENTS if workers else ():
                self.start_worker(agent, providers if agent == GOVERNED_AGENT else None)
        self.say(f"Serving on {service.url}; logs are in {service.logs}.")

    def start_worker(self, agent: str, providers: Path | None) -> None:
        """Start the worker of an agent that runs its example program.

        :param providers: the file with the providers whose models the program may call.
        """
        program = self.service.source / "examples" / "programs" / f"{agent}.py"
        # A session of its own, so that what the program makes goes up to the store of artifacts.
        options = ["--cell-id", LOCAL_CELL]
        if providers is not None:
            options += ["--config", str(providers)]
        self.service.start_worker(
            agent,
            agent=agent,
            token_file=self.token_file(agent=agent),
            options=[*options, "--", sys.executable, str(program)],
        )

    def token_file(self, *, agent: str = "", submitter: str = "") -> Path:
        """Return the file with a token that works, made anew where it does not."""
        path = self.service.folder / "credentials" / f"{agent or submitter}.token"
        path.parent.mkdir(mode=0o700, exist_ok=True)
        if not path.exists() or not self.accepted(path.read_text()):
            path.unlink(missing_ok=True)
            issued = credentials.create(
                agent=agent, submitter=submitter, actor=audit.shell_actor(), reason=REASON
            )
            keys.keep_once(path, issued.token)
            # A fresh credential is another holder; what the lost one held here is given up.
            if agent:
                sessions.free_cell(
                    agent=agent, cell_id=LOCAL_CELL, actor=audit.shell_actor(), reason=REASON
                )
        return path

    def accepted(self, token: str) -> bool:
        """Tell whether the service takes the token."""
        return self.service.http.get("/v1/jobs", headers=bearer(token)).status_code == 200

    def submit_examples(self) -> None:
        """Submit what is in `examples/`, as a submitter of that name."""
        principals.register_submitter(name=SUBMITTER, actor=audit.shell_actor(), reason=REASON)
        token = self.token_file(submitter=SUBMITTER).read_text()
        self.service.http.headers.update(bearer(token))
        self.showcase.submit()

    def watch_examples(self) -> str | None:
        """Show the examples until each is done or waits for a person; else say what is wrong."""
        deadline = time.monotonic() + ARRIVAL_SECONDS_MAX
        with Progress(self.console, WAITS_FOR) as progress:
            while True:
                self.showcase.refresh()
                progress.show(self.showcase.examples)
                late = self.showcase.outside(ARRIVED)
                if not late:
                    return None
                if failed := [e.task_id for e in self.showcase.examples if e.state == "failed"]:
                    return f"{', '.join(failed)} failed; see {self.service.url}/admin/."
                if time.monotonic() > deadline:
                    return (
                        f"{', '.join(late)} did not arrive within {ARRIVAL_SECONDS_MAX:.0f} s; "
                        f"logs are in {self.service.logs}."
                    )
                self.wait(POLL_SECONDS)

    def print_links(self) -> None:
        """Print where console, API description and the examples' jobs are."""
        url = self.service.url
        self.say(f"Console   {url}{reverse('admin:index')}")
        with suppress(NoReverseMatch):
            self.say(f"API docs  {url}{reverse('api-docs')}")
        governed = JobType.objects.get(name=GOVERNED_TYPE).pk
        for example in self.showcase.examples:
            job = Job.objects.get(task_id=example.task_id)
            page = reverse("admin:jobs_job_change", args=[job.pk])
            calls = " (calls a model)" if job.job_type_id == governed else ""
            self.say(f"Job       {url}{page}  {example.task_id}{calls}")

    def keep_serving(self) -> None:
        """Serve until it is time to stop."""
        while True:
            self.wait(POLL_SECONDS)

    def wait(self, seconds: float) -> None:
        """Wait, and say which processes had to be started again; see `Service.wait`."""
        for child in self.service.wait(seconds):
            self.say(f"[yellow]{child.name} ended and was started again; see {child.log}[/]")


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
    # Its work is nothing but the calls: one that is lost needs no person to say what happened.
    terms = TypeSettings(model_use=ModelUse.REQUIRED, effects=Effects.MODEL_ONLY)
    configure_job_type(name=GOVERNED_TYPE, settings=terms, **act)


def port_number(text: str) -> int:
    """Return the port that `text` names.

    :raises CommandError: it names none.
    """
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text[:6]) <= 65535:
        raise CommandError(f"{text[:40]!r} is no port number: PORT is one from 1 to 65535.")
    return int(text)


def check_database() -> None:
    """See whether the database can be reached and is new enough.

    :raises CommandError: it cannot, or is too old.
    """
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
    """Return the header that presents a token."""
    return {"Authorization": f"Bearer {token}"}
