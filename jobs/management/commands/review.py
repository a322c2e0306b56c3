from typing import Any

from django.core.management.base import CommandParser

from agents.management.verbs import VerbCommand
from governance.core.verbs import Verb
from jobs.verbs.job import ACCEPT, REVIEW_REJECT, SEND_BACK

VERDICTS = {"accepted": ACCEPT, "needs_rework": SEND_BACK, "rejected": REVIEW_REJECT}


class Command(VerbCommand):
    help = "Judge what jobs delivered: accepted, needs_rework or rejected."
    verb = ACCEPT

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--verdict", required=True, choices=VERDICTS)

    def chosen(self, options: dict[str, Any]) -> Verb[Any]:
        return VERDICTS[options["verdict"]]
