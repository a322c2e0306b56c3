from typing import Any

from django.core.management.base import CommandParser

from jobs import transitions
from jobs.management.verbs import VerbCommand
from jobs.transitions import Outcome


class Command(VerbCommand):
    help = "Resolve escalated jobs: requeue, complete, fail or stop."
    own_options = ("resolution",)

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--resolution", required=True, choices=["requeue", "complete", "fail", "stop"]
        )

    def move(self, *, task_id: str, **asked: Any) -> Outcome:
        return transitions.resolve(task_id=task_id, **asked)
