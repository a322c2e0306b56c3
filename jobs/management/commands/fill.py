from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.progress import Progress

from jobs import bootstrap, filling


class Command(BaseCommand):
    help = (
        "Fill a database with finished jobs to measure on: each with an attempt, five audit "
        "events and a fact. Refused where there are jobs of anybody's."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--jobs", type=int, default=1_000_000)
        parser.add_argument(
            "--spacing-seconds", type=float, default=1.0, help="between one job and the next"
        )

    def handle(self, *, jobs: int, spacing_seconds: float, **options: Any) -> None:
        if jobs < 1:
            raise CommandError("--jobs is at least 1.")
        bootstrap.install()
        if filling.is_foreign():
            raise CommandError("This database holds jobs of somebody's; fill an empty one.")
        with Progress(transient=True) as progress:
            task = progress.add_task("filling", total=jobs)
            for done in filling.fill(jobs=jobs, spacing_seconds=spacing_seconds):
                progress.update(task, completed=done)
        filling.analyze()
        self.stdout.write(self.style.SUCCESS(f"{jobs} jobs made."))
