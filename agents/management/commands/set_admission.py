from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser
from uuid_utils.compat import uuid7

from agents.management.acting import ActingCommand
from agents.models import Agent
from agents.transitions.admission import set_admission
from governance.core import clock


class Command(ActingCommand):
    help = "Open, drain or close an agent; returns when nothing admitted before can commit."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("agent")
        parser.add_argument("state", choices=Agent.Admission.values)
        parser.add_argument("--barrier-id", default="", help="by default a new one")
        parser.add_argument("--expected-generation", type=int)

    def act(
        self, *, agent: str, state: str, actor: str, reason: str, **options: Any
    ) -> dict[str, Any]:
        done = set_admission(
            agent=agent,
            state=state,
            actor=actor,
            reason=reason,
            barrier_id=options["barrier_id"] or str(uuid7()),
            expected_generation=options["expected_generation"],
        )
        return asdict(done) | {"effects_until": clock.instant(done.effects_until)}
