from typing import Any

from django.core.management.base import CommandParser

from jobs import transitions
from jobs.management.verbs import VerbCommand, add_extension
from jobs.transitions import Outcome


class Command(VerbCommand):
    help = (
        "Send failed, delivered or escalated jobs back to be done again, with a retry extension"
        " where their attempts are used up."
    )
    own_options = ("extra", "to_max")

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        add_extension(parser, required=False)

    def move(self, *, task_id: str, **asked: Any) -> Outcome:
        return transitions.rework(task_id=task_id, **asked)
