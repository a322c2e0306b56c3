from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import transaction

from agents import guard
from agents.management.acting import ActingCommand
from agents.transitions.inhibits import lift
from governance.core import clock


class Command(ActingCommand):
    help = "Lift a maintenance inhibit: by its id, or all in force of the fleet or of one agent."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("inhibit_id", type=int, nargs="?")
        what.add_argument("--agent", help="all inhibits of this agent")
        what.add_argument("--fleet", action="store_true", help="all inhibits of the fleet")

    def act(
        self, *, inhibit_id: int | None, agent: str | None, actor: str, reason: str, **options: Any
    ) -> dict[str, Any]:
        if inhibit_id is not None:
            ids = [inhibit_id]
        else:
            ids = [
                row.pk
                for row in guard.inhibits_in_force(clock.now())
                if (row.agent.name if row.agent else None) == agent
            ]
        if not ids:
            raise CommandError("No such inhibit is in force.")
        # All or none: where somebody lifts one meanwhile, the refusal leaves the rest as it was.
        with transaction.atomic():
            for pk in ids:
                lift(inhibit_id=pk, actor=actor, reason=reason)
        return {"lifted": ids}
