from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from agents.management.acting import ActingCommand
from agents.transitions import sessions


class Command(ActingCommand):
    help = "Let a cell act for an agent that asks for approval, or take that back."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("agent")
        parser.add_argument("cell_id")
        parser.add_argument("--withdraw", action="store_true")

    def act(
        self, *, agent: str, cell_id: str, withdraw: bool, actor: str, reason: str, **options: Any
    ) -> dict[str, Any]:
        move = sessions.withdraw_cell if withdraw else sessions.approve_cell
        row = move(agent=agent, cell_id=cell_id, actor=actor, reason=reason)
        return {"agent": agent, "cell_id": cell_id, "in_force": row.withdrawn_at is None}
