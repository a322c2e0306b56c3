from typing import Any

from django.core.management.base import CommandParser

from jobs import transitions
from jobs.management.verbs import VerbCommand
from jobs.transitions import Outcome


class Command(VerbCommand):
    help = "Approve the execution of held jobs; each is queued."
    own_options = ("valid_seconds",)

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--valid-seconds", type=int, help="default: the job type's")

    def move(self, *, task_id: str, **asked: Any) -> Outcome:
        return transitions.approve(task_id=task_id, **asked)
