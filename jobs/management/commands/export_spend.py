"""Write what was spent to a file that other systems read."""

from __future__ import annotations

import argparse
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from jobs.spend import export


def day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is no day like 2026-11-30") from None


class Command(BaseCommand):
    help = (
        "Export what model calls cost that ended on the days of a range, what was used beside "
        "them, and corrections: as FOCUS 1.2, one row per counter, or as plain CSV, one row each."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--format", choices=sorted(export.COLUMNS), default="focus")
        parser.add_argument("--from", type=day, required=True, dest="since", help="first day, UTC")
        parser.add_argument(
            "--to", type=day, required=True, dest="until", help="last day, itself included"
        )
        parser.add_argument("--out", type=Path, required=True, help="file; replaced as a whole")
        parser.add_argument(
            "--account", default="", help="BillingAccountId; default the service's host name"
        )

    def handle(self, *, since: date, until: date, out: Path, **options: Any) -> None:
        if until < since:
            raise CommandError("--to is before --from.")
        try:
            rows = export.write_spend(
                path=out,
                form=options["format"],
                since=since,
                until=until,
                account=options["account"] or urlsplit(settings.PUBLIC_URL).netloc,
            )
        except OSError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(self.style.SUCCESS(f"{rows} rows in {out}."))
