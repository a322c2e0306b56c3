from __future__ import annotations

from collections import Counter
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from agents.management.verbs import add_rows, perform
from governance.core import verbs


class Command(BaseCommand):
    help = "Do any of the operators' verbs to the named rows; docs/reference/verbs.md lists them."

    def add_arguments(self, parser: CommandParser) -> None:
        chosen = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
        named = Counter(verb.name for verb in verbs.every())
        for verb in verbs.every():
            # Where no other rows take a verb of that name, the name is enough.
            short = [verb.name] if named[verb.name] == 1 else []
            below = chosen.add_parser(
                verb.address, aliases=short, help=verb.label, description=verb.effect
            )
            below.set_defaults(chosen=verb)
            add_rows(below, verb)

    def handle(self, **options: Any) -> None:
        perform(self, options["chosen"], options)
