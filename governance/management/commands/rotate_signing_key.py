from __future__ import annotations

from json import dumps
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from governance.evidence import envelopes


class Command(BaseCommand):
    help = "Retire the signing key and make another; what the old one signed still verifies."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *, json: bool, **options: Any) -> None:
        try:
            retired, active = envelopes.rotate()
        except envelopes.SigningKeyUnusable as error:
            raise CommandError(str(error)) from error
        if json:
            self.stdout.write(dumps({"retired": retired, "active": active}))
        else:
            self.stdout.write(f"retired: {retired}\nactive:  {active}")
