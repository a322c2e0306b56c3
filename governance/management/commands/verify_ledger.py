from __future__ import annotations

from dataclasses import asdict
from itertools import chain
from json import dumps
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from governance.money import ledger, proofs

#: How many differences are printed; there are more than that only when all is wrong.
SHOWN_MAX = 1000


class Command(BaseCommand):
    help = (
        "Recompute every budget counter, state and amount from the rows, and compare every row of "
        "money and configuration with its audit event; exit 1 on a difference."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *, json: bool, **options: Any) -> None:
        found = []
        for difference in chain(ledger.verify(), proofs.verify()):
            found.append(asdict(difference))
            if not json:
                self.stdout.write(
                    "{check}: {subject}: expected {expected}, found {found}".format(**found[-1])
                )
            if len(found) == SHOWN_MAX:
                break
        if json:
            self.stdout.write(dumps({"ok": not found, "differences": found}))
        if found:
            raise CommandError(f"{len(found)} differences in the ledger.")
        if not json:
            self.stdout.write(self.style.SUCCESS("The ledger agrees with its rows."))
