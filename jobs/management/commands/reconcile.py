import json
from typing import Any

from django.core.management.base import CommandError, CommandParser

from agents.management.acting import ActingCommand
from agents.management.verbs import add_fields
from jobs.executions import reconcile
from jobs.verbs.execution import RECONCILE

#: The evidence and the result are JSON here, as programs have them.
FIELDS = [field for field in RECONCILE.fields if field.name in ("verdict", "result_pointer")]


class Command(ActingCommand):
    help = "Say what became of an execution whose outcome is unknown, with the evidence for it."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("external_request_id")
        add_fields(parser, FIELDS)
        parser.add_argument("--evidence", default="{}", help="JSON object")
        parser.add_argument("--result", default="null", help="JSON, for `happened`")

    def act(
        self,
        *,
        external_request_id: str,
        verdict: str,
        evidence: str,
        result: str,
        result_pointer: str | None,
        actor: str,
        reason: str,
        **options: Any,
    ) -> dict[str, Any]:
        try:
            content = {"evidence": json.loads(evidence), "result": json.loads(result)}
        except ValueError as error:
            raise CommandError(f"--evidence and --result are JSON: {error}") from error
        outcome = reconcile(
            external_request_id=external_request_id,
            verdict=verdict,
            actor=actor,
            reason=reason,
            result_pointer=result_pointer or "",
            **content,
        )
        return {"outcome": outcome.outcome, "state": outcome.job.state}
