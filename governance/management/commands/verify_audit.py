"""Say whether the audit trail is whole, and if not, what is wrong where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from governance.evidence import chain, export, trail

FOUND_SOMETHING = 1
COULD_NOT_LOOK = 2
CHAINS_PER_LINE = 10_000


class Command(BaseCommand):
    help = (
        "Verify every audit chain and checkpoint. Exits with 0 when the trail is whole, with 1 "
        "when something was edited, removed, inserted or reordered, with 2 when it cannot look."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON document")
        parser.add_argument(
            "--export", type=Path, help="verify this exported file instead, without the database"
        )
        parser.add_argument("--keys", type=Path, help="public keys to trust (a keys.json)")
        parser.add_argument(
            "--against-database",
            action="store_true",
            help="with --export: also find each exported checkpoint in the database",
        )

    def handle(self, *, export: Path | None, **options: Any) -> None:
        report = self._exported(export, **options) if export else self._database(options["json"])
        if options["json"]:
            self.stdout.write(json.dumps(report.as_dict(), indent=2))
        else:
            self._print(report)
        if not report.whole:
            raise SystemExit(FOUND_SOMETHING)

    def _database(self, quiet: bool) -> chain.Report:
        printed = 0

        def progress(done: int, total: int) -> None:
            nonlocal printed
            if not quiet and done - printed >= CHAINS_PER_LINE:
                printed = done
                self.stdout.write(f"{done} of {total} chains")

        return trail.verify(progress=progress)

    def _exported(
        self, path: Path, *, keys: Path | None, against_database: bool, **options: Any
    ) -> chain.Report:
        try:
            trusted = json.loads(keys.read_text()) if keys else None
            with path.open(encoding="utf-8") as lines:
                return export.verify(lines, trusted=trusted, against_database=against_database)
        except (OSError, ValueError) as error:
            raise CommandError(str(error), returncode=COULD_NOT_LOOK) from error

    def _print(self, report: chain.Report) -> None:
        for finding in report.findings:
            self.stdout.write(self.style.ERROR(str(finding)))
        if report.findings_left_out:
            self.stdout.write(f"... and {report.findings_left_out} more")
        looked_at = (
            f"{report.events} events in {report.chains} chains, {report.checkpoints} checkpoints"
        )
        if report.whole:
            self.stdout.write(self.style.SUCCESS(f"The audit trail is whole: {looked_at}."))
        else:
            self.stdout.write(self.style.ERROR(f"The audit trail is not whole: {looked_at}."))
