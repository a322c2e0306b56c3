from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, connection, transaction

from agents.entry import Entry
from agents.principals import Principal, identify
from agents.transitions import credentials, principals, sessions
from governance.core import digests
from governance.core.errors import OutcomeUnknown, RetryCeilingReached
from governance.money import catalogue
from governance.money.models import Reservation
from governance.money.pricing import RateSet
from jobs import executions, transitions
from jobs.bootstrap import install
from jobs.executions import Binding
from jobs.models import Job, JobType, ModelUse

AGENT, TASK, MODEL = "hermes", "demo-recovery", ("local", "stand-in")
NAMED_DATABASES = {"DATABASE_URL", "DATABASE_OWNER_URL", "FENCEPOST_DSN", "FENCEPOST_OWNER_DSN"}
CELL = "demo"
ACT: dict[str, Any] = {"actor": "command:demo", "reason": "the recovery story"}
ATTEMPTS = 6
#: Set in the process that has a fresh database of its own.
FRESH = "FENCEPOST_DEMO_FRESH"


class Command(BaseCommand):
    help = (
        "Play the recovery on a fresh database: attempt 6 of 6 failed with a failed reservation,"
        " needs rework, extension 6 -> 7, attempt 7 settles. Prints each id and state."
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
        self._play()

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

    # --- the story -------------------------------------------------------------------------

    def _play(self) -> None:
        worker, submitter = self._people()
        self._say(1, "A task with six attempts, of a type that may have ten.")
        envelope = {
            "task_id": TASK,
            "source": "proof",
            "title": "The task that failed six times",
            "goal": "Show that a failed reservation never blocks the attempt after it.",
            "task_type": "content_prep",
            "risk_tier": "low",
            "priority": "normal",
            "inputs": {},
            "max_attempts": ATTEMPTS,
        }
        transitions.intake(principal=submitter, envelopes=[envelope])
        job = Job.objects.get(task_id=TASK)
        self._show(job)

        self._say(2, "Six attempts: each decided, reserved and started; the provider refuses.")
        for _ in range(ATTEMPTS):
            # The backoff is for real providers; the story does not wait for it.
            Job.objects.filter(pk=job.pk).update(available_at=job.created_at)
            worker.begin(job)
            worker.report(job, "failed")
            worker.give_up(job)
            self._show(job)

        self._say(3, "An operator: needs rework. No attempts are left, so the job waits.")
        transitions.rework(task_id=TASK, **ACT)
        self._show(job)

        self._say(4, "A bounded retry extension 6 -> 7; beyond the ceiling it is refused.")
        self._refused(
            RetryCeilingReached, lambda: transitions.extend(task_id=TASK, to_max=11, **ACT)
        )
        transitions.extend(task_id=TASK, to_max=ATTEMPTS + 1, **ACT)
        self._show(job)

        self._say(5, "Attempt 7: a new external request, a new route request, a new reservation.")
        worker.begin(job)
        self._show(job)
        self._refused(OutcomeUnknown, lambda: worker.complete(job))
        worker.report(job, "succeeded")
        worker.complete(job)
        self._show(job)

        self._say(6, "The old reservations are as they were, and nobody can change one.")
        for reservation in Reservation.objects.order_by("attempt"):
            self._line(reservation)
        self._untouchable(Reservation.objects.get(attempt=ATTEMPTS))
        self._check(job)

    def _people(self) -> tuple[_Worker, Principal]:
        install()
        if JobType.objects.get(name="content_prep").model_use != ModelUse.REQUIRED:
            transitions.configure_job_type(
                name="content_prep", settings=transitions.TypeSettings(model_use="required"), **ACT
            )
        catalogue.set_model(provider=MODEL[0], name=MODEL[1], **ACT)
        rates = [RateSet(above_input_tokens=0, input=Decimal(1), output=Decimal(2))]
        catalogue.set_price(provider=MODEL[0], name=MODEL[1], rates=rates, **ACT)
        catalogue.set_policy(models=[MODEL], **ACT)
        catalogue.set_budget(scope="agent", key=AGENT, window="day", cap=Decimal(5), **ACT)
        principals.register_submitter(name="demo", **ACT)
        submitter = identify(token=credentials.create(submitter="demo", **ACT).token)
        # The demonstration of before had the cell, under a credential that is gone.
        sessions.free_cell(agent=AGENT, cell_id=CELL, **ACT)
        return _Worker(identify(token=credentials.create(agent=AGENT, **ACT).token)), submitter

    def _say(self, number: int, text: str) -> None:
        self.stdout.write(self.style.MIGRATE_HEADING(f"\n{number}. {text}"))

    def _show(self, job: Job) -> None:
        job.refresh_from_db()
        self.stdout.write(
            f"   job {job.job_id}  {job.state}, attempt {job.attempt} of {job.max_attempts},"
            f" token {job.fencing_token}"
        )
        last = Reservation.objects.filter(job_id=job.job_id, attempt=job.attempt).first()
        if last is not None:
            self._line(last)

    def _line(self, reservation: Reservation) -> None:
        self.stdout.write(
            f"     attempt {reservation.attempt}  {reservation.external_request_id[:19]}...  route"
            f" ...{reservation.route_request_id[-12:]}  reservation {reservation.reservation_id}"
            f"  {reservation.state}"
        )

    def _refused(self, refusal: type[Exception], act: Any) -> None:
        try:
            act()
        except refusal as error:
            self.stdout.write(f"   refused, as it must be: {error}")
        else:
            raise CommandError(f"This should have been refused: {refusal.__name__}")

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

    def _check(self, job: Job) -> None:
        states = dict(Reservation.objects.values_list("attempt", "state"))
        expected = {number: "failed" for number in range(1, ATTEMPTS + 1)}
        expected |= {ATTEMPTS + 1: "settled"}
        if states != expected or job.state != "completed" or Job.objects.count() != 1:
            raise CommandError(f"The story ended otherwise: {job.state}, {states}")
        call_command("verify_ledger", stdout=self.stdout)
        call_command("verify_audit", stdout=self.stdout)
        self.stdout.write(self.style.SUCCESS("\nThe same job, completed by its seventh attempt."))


class _Worker:
    """A worker that goes the governed way, in this process."""

    def __init__(self, principal: Principal) -> None:
        answer = sessions.activate(
            principal=principal,
            agent=principal.name,
            operation_id=str(uuid4()),
            boot=sessions.Boot(
                cell_id=CELL, boot_id=str(uuid4()), protocol_version="1.0", runtime="command"
            ),
        )
        self.entry = Entry(principal, session_id=UUID(str(answer["session_id"])))

    def begin(self, job: Job) -> None:
        """Claim, decide and reserve, get a permit, start."""
        transitions.claim(entry=self.entry, task_id=job.task_id, owner="")
        binding = self._binding(job)
        routed = executions.route(
            entry=self.entry,
            binding=binding,
            route_request_id=digests.route_request_id(
                external_request_id=binding.external_request_id
            ),
            estimated_input_tokens=1000,
            max_output_tokens=500,
        )
        if routed.reservation is None:
            raise CommandError(f"No model: {routed.refusal}")
        job.refresh_from_db()
        issued = executions.permit(
            entry=self.entry,
            binding=binding,
            reservation_id=routed.reservation.reservation_id,
            mode="mock",
            expected_revision=job.revision,
        )
        executions.start(
            entry=self.entry,
            permit_id=issued.permit.permit_id,
            binding=binding,
            execution_digest=job.task.execution_digest,
            runtime=self._runtime(job),
            request_sha256="00" * 32,
        )

    def report(self, job: Job, outcome: str) -> None:
        binding = self._binding(job)
        worked = outcome == "succeeded"
        executions.result(
            entry=self.entry,
            external_request_id=binding.external_request_id,
            task_id=job.task_id,
            attempt=binding.attempt,
            fencing_token=binding.fencing_token,
            execution_digest=job.task.execution_digest,
            outcome=outcome,
            result_sha256="11" * 32,
            usage={"input_tokens": 900, "output_tokens": 300} if worked else None,
            error_code="" if worked else "PROVIDER_REFUSED",
        )

    def give_up(self, job: Job) -> None:
        binding = self._binding(job)
        transitions.fail(
            entry=self.entry,
            task_id=job.task_id,
            attempt=binding.attempt,
            fencing_token=binding.fencing_token,
            error_message="The provider refused the call.",
            error_code="PROVIDER_REFUSED",
        )

    def complete(self, job: Job) -> None:
        binding = self._binding(job)
        done = {
            "task_id": job.task_id,
            "attempt": binding.attempt,
            "fencing_token": binding.fencing_token,
            "result": {"text": "done at last"},
        }
        [outcome] = transitions.complete(entry=self.entry, completions=[done])
        if isinstance(outcome, Exception):
            raise outcome

    def _runtime(self, job: Job) -> str:
        return job.attempts.get(number=job.attempt).runtime

    def _binding(self, job: Job) -> Binding:
        job.refresh_from_db()
        attempt = job.attempts.get(number=job.attempt)
        return Binding(
            task_id=job.task_id,
            attempt=job.attempt,
            fencing_token=attempt.fencing_token,
            external_request_id=digests.external_request_id(
                task_id=job.task_id,
                job_id=str(job.job_id),
                execution_digest=job.task.execution_digest,
                runtime=attempt.runtime,
                attempt=job.attempt,
            ),
        )
