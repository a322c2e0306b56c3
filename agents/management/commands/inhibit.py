from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from agents.management.acting import ActingCommand
from agents.management.verbs import add_fields
from agents.transitions.inhibits import inhibit
from agents.verbs import LASTS, after


class Command(ActingCommand):
    help = "Stop new work for maintenance, of the fleet or of one agent; what runs goes on."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--agent", default="", help="by default the whole fleet")
        parser.add_argument("--owner", default="", help="who answers for it")
        add_fields(parser, [LASTS])

    def act(
        self,
        *,
        agent: str,
        owner: str,
        seconds: int | None,
        actor: str,
        reason: str,
        **options: Any,
    ) -> dict[str, Any]:
        row = inhibit(agent=agent, owner=owner, ends_at=after(seconds), actor=actor, reason=reason)
        return {
            "inhibit_id": row.pk,
            "scope": f"agent:{agent}" if agent else "fleet",
            "ends_at": row.ends_at,
        }
