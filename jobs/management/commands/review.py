from typing import Any

from django.core.management.base import CommandParser

from jobs import transitions
from jobs.management.verbs import VerbCommand
from jobs.models import Review
from jobs.transitions import Outcome


class Command(VerbCommand):
    help = "Judge what jobs delivered: accepted, needs_rework or rejected."
    own_options = ("verdict",)

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--verdict", required=True, choices=Review.Verdict.values)

    def move(self, *, task_id: str, **asked: Any) -> Outcome:
        return transitions.review(task_id=task_id, **asked)
