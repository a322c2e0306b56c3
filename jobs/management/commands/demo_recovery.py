from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx2
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, connection, transaction

from agents.transitions import credentials, principals
from governance.core.errors import RetryCeilingReached
from governance.local import keys
from governance.local.processes import KeepsFailing
from governance.local.service import Interrupted, Service, ServiceFailed, free_port
from governance.money import catalogue
from governance.money.models import Reservation
from governance.money.pricing import RateSet
from jobs import transitions
from jobs.bootstrap import install
from jobs.models import Effects, Job, ModelUse

AGENT, SUBMITTER, TASK, JOB_TYPE = "hermes", "demo", "demo-recovery", "content_prep"
MODEL = ("local", "standin-1")
NAMED_DATABASES = {"DATABASE_URL", "DATABASE_OWNER_URL", "FENCEPOST_DSN", "FENCEPOST_OWNER_DSN"}
ACT: dict[str, Any] = {"actor": "command:demo", "reason": "the recovery story"}
ATTEMPTS, CEILING = 6, 10
#: How long the worker may take for what it is waited for.
SECONDS_MAX = 120.0
POLL_SECONDS = 0.1
LOG_CHARS_SHOWN = 3000
#: Set in the process that has a fresh database of its own.
FRESH = "FENCEPOST_DEMO_FRESH"


class Command(BaseCommand):
    help = (
        "Play the recovery on a fresh database, with a program behind a worker's model gateway, a"
        " provider that refuses six calls, and an operator: attempt 6 of 6 failed with a failed"
        " reservation, needs rework, extension 6 -> 7, attempt 7 settles."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--keep", metavar="DIR", help="keep the database in this folder")

    def handle(self, *, keep: str | None, **options: Any) -> None:
        if os.environ.get(FRESH) != "1":
            self._in_a_fresh_folder(keep)
            return
        call_command("migrate", verbosity=0)
        if Job.objects.exists():
            raise CommandError("This database is not fresh; the story needs one of its own.")
        self.service = Service(
            folder=Path(settings.DATA_DIR),
            source=Path(settings.BASE_DIR),
            worker_source=settings.WORKER_SOURCE,
            port=free_port(),
        )
        self.service.obey_signals()
        self.shown = 0
        try:
            self.service.take_folder()
            self._prepare()
            self._play()
        except Interrupted:
            raise CommandError("Interrupted.") from None
        except (ServiceFailed, KeepsFailing, httpx2.HTTPError) as error:
            raise CommandError(f"{error}") from error
        finally:
            self.service.stop()
        self._check()

    def _in_a_fresh_folder(self, keep: str | None) -> None:
        """Run again with a data folder of its own, which no other database shows through."""
        with tempfile.TemporaryDirectory(prefix="fencepost-demo-") as folder:
            environ = {
                name: value for name, value in os.environ.items() if name not in NAMED_DATABASES
            }
            environ |= {FRESH: "1", "FENCEPOST_DATA": keep or folder}
            manage = Path(__file__).resolve().parents[3] / "manage.py"
            done = subprocess.run(
                [sys.executable, str(manage), "demo_recovery"], env=environ, check=False
            )
        if done.returncode:
            raise CommandError("The story did not end as it should.")

    # --- what the story needs --------------------------------------------------------------

    def _prepare(self) -> None:
        install()
        # Real providers are given time to recover: the story asks for none.
        waits = transitions.TypeSettings(
            model_use=ModelUse.REQUIRED,
            effects=Effects.MODEL_ONLY,
            backoff_base_seconds=0,
            max_attempts_ceiling=CEILING,
        )
        transitions.configure_job_type(name=JOB_TYPE, settings=waits, **ACT)
        catalogue.set_model(provider=MODEL[0], name=MODEL[1], **ACT)
        rates = [RateSet(above_input_tokens=0, input=Decimal(1), output=Decimal(2))]
        catalogue.set_price(provider=MODEL[0], name=MODEL[1], rates=rates, **ACT)
        catalogue.set_policy(models=[MODEL], **ACT)
        catalogue.set_budget(scope="agent", key=AGENT, window="day", cap=Decimal(5), **ACT)
        principals.register_submitter(name=SUBMITTER, **ACT)
        self.token = credentials.create(submitter=SUBMITTER, **ACT).token
        self.service.start_web()
        self.service.start("sweeper", "manage.py", "sweep")
        providers = self.service.start_standin(MODEL[0], "--refuse", str(ATTEMPTS))
        program = self.service.source / "examples" / "programs" / f"{AGENT}.py"
        token_file = self.service.folder / "worker.token"
        keys.keep_once(token_file, credentials.create(agent=AGENT, **ACT).token)
        self.service.start_worker(
            AGENT,
            agent=AGENT,
            token_file=token_file,
            options=[
                *("--wait-seconds", "2", "--cell-id", "demo", "--config", str(providers)),
                *("--", sys.executable, str(program)),
            ],
        )

    # --- the story -------------------------------------------------------------------------

    def _play(self) -> None:
        self._say(1, "A submitter sends a task with six attempts.")
        envelope = {
            "task_id": TASK,
            "source": "proof",
            "title": "The task that failed six times",
            "goal": "Show that a failed reservation never blocks the attempt after it.",
            "task_type": JOB_TYPE,
            "risk_tier": "low",
            "priority": "normal",
            "inputs": {},
            "max_attempts": ATTEMPTS,
        }
        answer = self.service.http.post("/v1/jobs", json=envelope, headers=self._bearer())
        answer.raise_for_status()

        self._say(2, "The worker tries: each attempt is decided, reserved, started; and refused.")
        self._until("failed", attempt=ATTEMPTS)

        self._say(3, "An operator: needs rework. No attempts are left, so the job waits.")
        self._operator("requeue")
        self._until("needs_rework", attempt=ATTEMPTS)

        self._say(4, "A bounded retry extension 6 -> 7; beyond the ceiling it is refused.")
        try:
            transitions.extend(task_id=TASK, to_max=CEILING + 1, **ACT)
        except RetryCeilingReached as error:
            self.stdout.write(f"   refused, as it must be: {error}")
        else:
            raise CommandError("An extension beyond the ceiling should have been refused.")
        self._operator("extend_retries", "--to", str(ATTEMPTS + 1))

        self._say(5, "Attempt 7, by the same worker: a new request, a new reservation, an answer.")
        self._until("completed", attempt=ATTEMPTS + 1)

        self._say(6, "The old reservations are as they were, and nobody can change one.")
        for reservation in Reservation.objects.order_by("attempt"):
            self._line(reservation)
        self._untouchable(Reservation.objects.get(attempt=ATTEMPTS))

    def _until(self, state: str, *, attempt: int) -> None:
        """Wait until the API tells that the job has come there; show it, and each attempt once.

        :raises CommandError: it does not within `SECONDS_MAX`.
        """
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            job = self.service.http.get(f"/v1/jobs/{TASK}", headers=self._bearer()).json()
            if (job["state"], job["attempt"]) == (state, attempt):
                break
            if time.monotonic() > deadline:
                raise CommandError(
                    f"The job is {job['state']} at attempt {job['attempt']}, not {state}."
                    f"{self._end_of_log()}"
                )
            self.service.wait(POLL_SECONDS)
        self.stdout.write(
            f"   job {job['job_id']}  {job['state']}, attempt {job['attempt']} of"
            f" {job['max_attempts']}"
        )
        answer = self.service.http.get(f"/v1/jobs/{TASK}/attempts", headers=self._bearer())
        for tried in answer.json()["results"][self.shown :]:
            self.shown += 1
            ending = f"{tried['outcome']} {tried.get('error_code') or ''}".rstrip()
            self.stdout.write(f"     attempt {tried['attempt']}  {ending}")

    def _operator(self, *command: str) -> None:
        """Do what an operator does at a shell."""
        words = [command[0], TASK, *command[1:], "--reason", ACT["reason"]]
        self.stdout.write(f"   $ manage.py {command[0]} {' '.join(words[1:-1])} '{words[-1]}'")
        call_command(*words, stdout=self.stdout)

    def _bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def _end_of_log(self) -> str:
        log = self.service.logs / f"worker-{AGENT}.log"
        return f"\n{log.read_text()[-LOG_CHARS_SHOWN:]}" if log.exists() else ""

    def _say(self, number: int, text: str) -> None:
        self.stdout.write(self.style.MIGRATE_HEADING(f"\n{number}. {text}"))

    def _line(self, reservation: Reservation) -> None:
        self.stdout.write(
            f"     attempt {reservation.attempt}  {reservation.external_request_id[:19]}...  route"
            f" ...{reservation.route_request_id[-12:]}  reservation {reservation.reservation_id}"
            f"  {reservation.state}"
        )

    def _untouchable(self, old: Reservation) -> None:
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(
                    "UPDATE governance_reservation SET state = 'held' WHERE reservation_id = %s",
                    [old.reservation_id],
                )
        except DatabaseError as error:
            self.stdout.write(f"   UPDATE refused by the database: {str(error).splitlines()[0]}")
        else:
            raise CommandError("The database let a failed reservation be changed.")

    def _check(self) -> None:
        states = dict(Reservation.objects.values_list("attempt", "state"))
        expected = {number: "failed" for number in range(1, ATTEMPTS + 1)}
        expected |= {ATTEMPTS + 1: "settled"}
        if states != expected or Job.objects.count() != 1:
            raise CommandError(f"The story ended otherwise: {states}")
        call_command("verify_ledger", stdout=self.stdout)
        call_command("verify_audit", stdout=self.stdout)
        self.stdout.write(self.style.SUCCESS("\nThe same job, completed by its seventh attempt."))
