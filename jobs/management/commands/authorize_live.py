from typing import Any

from django.core.management.base import CommandParser

from agents.management.acting import ActingCommand
from jobs.transitions.live import authorize_live


class Command(ActingCommand):
    help = "Let an agent execute live under a runtime, until a time."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("agent")
        parser.add_argument("runtime")
        parser.add_argument("--hours", type=float, default=8.0)

    def act(
        self, *, agent: str, runtime: str, hours: float, actor: str, reason: str, **options: Any
    ) -> dict[str, Any]:
        grant = authorize_live(
            agent=agent,
            runtime=runtime,
            actor=actor,
            reason=reason,
            valid_seconds=int(hours * 3600),
        )
        return {"authorization_id": grant.pk, "ends_at": grant.ends_at}
