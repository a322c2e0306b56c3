import json
from typing import Any

from django.core.management.base import CommandError, CommandParser

from agents.management.acting import ActingCommand
from jobs.executions import reconcile
from jobs.models import Reconciliation


class Command(ActingCommand):
    help = "Say what became of an execution whose outcome is unknown, with the evidence for it."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("external_request_id")
        parser.add_argument("--verdict", required=True, choices=Reconciliation.Verdict.values)
        parser.add_argument("--evidence", default="{}", help="JSON object")
        parser.add_argument("--result", default="null", help="JSON, for `happened`")
        parser.add_argument("--result-pointer", default="")

    def act(
        self,
        *,
        external_request_id: str,
        verdict: str,
        evidence: str,
        result: str,
        result_pointer: str,
        actor: str,
        reason: str,
        **options: Any,
    ) -> dict[str, Any]:
        try:
            said = {"evidence": json.loads(evidence), "result": json.loads(result)}
        except ValueError as error:
            raise CommandError(f"--evidence and --result are JSON: {error}") from error
        outcome = reconcile(
            external_request_id=external_request_id,
            verdict=verdict,
            actor=actor,
            reason=reason,
            result_pointer=result_pointer,
            **said,
        )
        return {"outcome": outcome.outcome, "state": outcome.job.state}
