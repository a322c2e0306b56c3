"""Write the sealed audit trail to a file that can be verified without the database."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from governance.evidence import export


class Command(BaseCommand):
    help = (
        "Export all checkpoints and the events that they seal as signed JSON lines. Keep the "
        "file where nobody who can write the database can reach it."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="the file to write; replaced as a whole")
        parser.add_argument("--checkpoints-only", action="store_true", help="leave the events out")

    def handle(self, *, file: Path, checkpoints_only: bool, **options: Any) -> None:
        part = file.with_name(file.name + ".part")
        try:
            with part.open("w", encoding="utf-8", newline="\n") as out:
                payload = export.write(out, events=not checkpoints_only)
                out.flush()
                os.fsync(out.fileno())
            part.replace(file)
        except OSError as error:
            raise CommandError(str(error)) from error
        counts = payload["counts"]
        self.stdout.write(
            self.style.SUCCESS(
                f"{counts.get('checkpoint', 0)} checkpoints and {counts.get('event', 0)} events "
                f"in {file}, SHA-256 {payload['sha256']}."
            )
        )
