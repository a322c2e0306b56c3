"""Seal what was appended to the audit trail since the last checkpoint."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from governance.evidence import checkpoints


class Command(BaseCommand):
    help = "Sign checkpoints over all audit chains that moved since the last one."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--json", action="store_true", help="print one JSON document per checkpoint"
        )

    def handle(self, **options: Any) -> None:
        sealed = 0
        while row := checkpoints.seal():
            sealed += 1
            checkpoint = checkpoints.Checkpoint.of(row)
            if options["json"]:
                self.stdout.write(json.dumps(asdict(checkpoint)))
            else:
                self.stdout.write(
                    f"checkpoint {checkpoint.number}: {checkpoint.leaf_count} chains, "
                    f"root {checkpoint.root}"
                )
        if not sealed and not options["json"]:
            self.stdout.write("Nothing to seal.")
