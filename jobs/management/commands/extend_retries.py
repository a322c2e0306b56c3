from typing import Any

from django.core.management.base import CommandParser

from jobs import transitions
from jobs.management.verbs import VerbCommand, add_extension
from jobs.transitions import Outcome


class Command(VerbCommand):
    help = "Grant jobs further attempts, within their type's ceiling; one grant row each."
    own_options = ("extra", "to_max")

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        add_extension(parser, required=True)

    def move(self, *, task_id: str, **asked: Any) -> Outcome:
        return transitions.extend(task_id=task_id, **asked)
