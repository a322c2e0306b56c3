from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser

from agents.management.acting import ActingCommand
from agents.management.verbs import add_fields, values_of
from jobs import transitions
from jobs.transitions import TypeSettings
from jobs.verbs.job_type import TYPE_FIELDS


class Command(ActingCommand):
    help = "Change settings of a job type; with --register add a new one."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("job_type")
        parser.add_argument("--register", action="store_true", help="add it; needs --agent")
        add_fields(parser, TYPE_FIELDS)

    def act(
        self, *, job_type: str, register: bool, actor: str, reason: str, **options: Any
    ) -> dict[str, Any]:
        settings = TypeSettings(**values_of(TYPE_FIELDS, options))
        move = transitions.register_job_type if register else transitions.configure_job_type
        row = move(name=job_type, settings=settings, actor=actor, reason=reason)
        facts = {name: getattr(row, name) for name in asdict(settings)}
        return {"job_type": row.name} | facts | {"agent": row.agent.name}
