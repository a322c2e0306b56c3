from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.management.base import CommandParser

from agents.management.acting import ActingCommand
from agents.transitions.inhibits import inhibit
from governance.core import clock


class Command(ActingCommand):
    help = "Stop new work for maintenance, of the fleet or of one agent; what runs goes on."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--agent", default="", help="by default the whole fleet")
        parser.add_argument("--owner", default="", help="who answers for it")
        parser.add_argument("--minutes", type=float, help="by default until it is lifted")

    def act(
        self,
        *,
        agent: str,
        owner: str,
        minutes: float | None,
        actor: str,
        reason: str,
        **options: Any,
    ) -> dict[str, Any]:
        ends_at = None if minutes is None else clock.now() + timedelta(minutes=minutes)
        row = inhibit(agent=agent, owner=owner, ends_at=ends_at, actor=actor, reason=reason)
        return {
            "inhibit_id": row.pk,
            "scope": f"agent:{agent}" if agent else "fleet",
            "ends_at": row.ends_at,
        }
