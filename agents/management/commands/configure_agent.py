from __future__ import annotations

from argparse import BooleanOptionalAction
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser

from agents.management.acting import ActingCommand
from agents.models import RiskTier
from agents.transitions.principals import Settings, configure_agent, register_agent


class Command(ActingCommand):
    help = "Change settings of an agent; with --register enter a new one first."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("agent")
        parser.add_argument("--register", action="store_true", help="enter the agent if it is new")
        parser.add_argument("--enabled", action=BooleanOptionalAction)
        parser.add_argument(
            "--expected", action=BooleanOptionalAction, help="whether the guard watches it"
        )
        parser.add_argument(
            "--approve-cells",
            action=BooleanOptionalAction,
            help="whether each of its cells must be approved before it may act",
        )
        parser.add_argument("--max-risk-tier", choices=RiskTier.values)
        parser.add_argument("--fresh-seconds", type=int, help="late after this long a silence")
        parser.add_argument("--stale-seconds", type=int, help="stale after this long a silence")

    def act(
        self, *, agent: str, register: bool, actor: str, reason: str, **options: Any
    ) -> dict[str, Any]:
        if register:
            register_agent(name=agent, actor=actor, reason=reason)
        asked = Settings(**{name: options[name] for name in asdict(Settings())})
        if register and asked == Settings():
            return {"agent": agent}
        row = configure_agent(name=agent, actor=actor, reason=reason, settings=asked)
        return {"agent": agent} | {name: getattr(row, name) for name in asdict(asked)}
