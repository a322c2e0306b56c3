"""Write the reference pages that are made of the code, or check that they are as they should be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from governance.console import matrix
from governance.web import reference


def documents() -> dict[str, str]:
    """Return the generated pages by their path below `docs/reference`."""
    made_of_verbs = {
        "permissions.md": matrix.permissions_markdown(),
        "verbs.md": matrix.verbs_markdown(),
    }
    return reference.documents() | made_of_verbs | worker_schemas()


def worker_schemas() -> dict[str, str]:
    """Return the schemas that the worker judges by, as they lie in its package."""
    folder = settings.WORKER_SOURCE / "fencepost_worker" / "schemas"
    return {
        path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.schema.json"))
    }


class Command(BaseCommand):
    help = "Write docs/reference: API description, refusals, triggers, permissions, verbs, schemas."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="write nothing; fail on a change")

    def handle(self, *, check: bool, **options: Any) -> None:
        folder = Path(settings.BASE_DIR) / "docs" / "reference"
        for name, text in documents().items():
            path = folder / name
            if path.exists() and path.read_text(encoding="utf-8") == text:
                continue
            if check:
                raise CommandError(f"docs/reference/{name} is out of date")
            path.write_text(text, encoding="utf-8")
            self.stdout.write(f"docs/reference/{name}")
