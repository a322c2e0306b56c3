"""Make what is set what a file wants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from agents.management.acting import ActingCommand
from jobs.configuration import files, plan


class Command(ActingCommand):
    help = (
        "Apply a configuration file (TOML, or YAML by its name): agents, sources, submitters, job "
        "types, models, prices, policies, budgets. Shows what changes; all of it is done, or "
        "nothing. What the file does not name stays as it is."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("file", type=Path)
        parser.add_argument("--dry-run", action="store_true", help="show what would change")
        parser.add_argument(
            "--prune",
            action="store_true",
            help="disable or retire what is absent from the sections that the file has",
        )
        parser.add_argument(
            "--expect", default="", metavar="DIGEST", help="refuse where the state is another"
        )

    def act(
        self,
        *,
        file: Path,
        dry_run: bool,
        prune: bool,
        expect: str,
        actor: str,
        reason: str,
        **options: Any,
    ) -> dict[str, Any]:
        try:
            applied = plan.apply(
                wanted=files.read(file),
                actor=actor,
                reason=reason,
                prune=prune,
                dry_run=dry_run,
                expect=expect,
            )
        except (files.FileWrong, plan.Refused) as fault:
            raise CommandError(f"Nothing was changed.\n{fault}") from fault
        facts = {
            "dry_run": dry_run,
            "changed": len(applied.changes),
            "before": applied.before,
            "after": applied.after,
        }
        if options["json"]:
            return facts | {"changes": [change.as_json() for change in applied.changes]}
        for change in applied.changes:
            for line in change.lines():
                self.stdout.write(line)
        return facts
