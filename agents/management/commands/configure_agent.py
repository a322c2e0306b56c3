from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser

from agents.management.acting import ActingCommand
from agents.management.verbs import add_fields, values_of
from agents.transitions.principals import Settings, configure_agent, register_agent
from agents.verbs import CONFIGURE


class Command(ActingCommand):
    help = "Change settings of an agent; with --register enter a new one first."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("agent")
        parser.add_argument("--register", action="store_true", help="enter the agent if it is new")
        add_fields(parser, CONFIGURE.fields)

    def act(
        self, *, agent: str, register: bool, actor: str, reason: str, **options: Any
    ) -> dict[str, Any]:
        if register:
            register_agent(name=agent, actor=actor, reason=reason)
        settings = Settings(**values_of(CONFIGURE.fields, options))
        if register and settings == Settings():
            return {"agent": agent}
        row = configure_agent(name=agent, actor=actor, reason=reason, settings=settings)
        return {"agent": agent} | {name: getattr(row, name) for name in asdict(settings)}
