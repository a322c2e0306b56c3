from __future__ import annotations

import json
import sys
from argparse import BooleanOptionalAction
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from agents.management.acting import ActingCommand
from jobs import transitions
from jobs.transitions import TypeSettings


class Command(ActingCommand):
    help = "Change settings of a job type; with --register add a new one."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("job_type")
        parser.add_argument("--register", action="store_true", help="add it; needs --agent")
        parser.add_argument("--agent", help="who does this kind of task")
        parser.add_argument("--runtime", help="for attempts whose worker names none")
        parser.add_argument("--uses-model", action=BooleanOptionalAction)
        parser.add_argument(
            "--inputs-schema", metavar="FILE", help="a JSON Schema in a file; - reads it here"
        )
        parser.add_argument("--max-attempts", type=int, help="where the task says nothing")
        parser.add_argument("--max-attempts-ceiling", type=int, help="what nobody may exceed")
        parser.add_argument("--lease-seconds", type=int)
        parser.add_argument("--attempt-timeout-seconds", type=int, help="0: none")
        parser.add_argument("--backoff-base-seconds", type=int)
        parser.add_argument("--backoff-cap-seconds", type=int)
        parser.add_argument("--approval-valid-seconds", type=int)
        parser.add_argument("--enabled", action=BooleanOptionalAction)

    def act(
        self, *, job_type: str, register: bool, actor: str, reason: str, **options: Any
    ) -> dict[str, Any]:
        asked = {name: options[name] for name in asdict(TypeSettings())}
        if asked["inputs_schema"] is not None:
            asked["inputs_schema"] = _read(asked["inputs_schema"])
        move = transitions.register_job_type if register else transitions.configure_job_type
        row = move(name=job_type, settings=TypeSettings(**asked), actor=actor, reason=reason)
        told = {name: getattr(row, name) for name in asked}
        return {"job_type": row.name} | told | {"agent": row.agent.name}


def _read(path: str) -> Any:
    try:
        return json.loads(sys.stdin.read() if path == "-" else Path(path).read_text())
    except (OSError, ValueError) as error:
        raise CommandError(f"{path}: {error}") from error
