"""Print the file that would give what is set."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from governance.evidence.chain import snapshot
from jobs.configuration import plan, written


class Command(BaseCommand):
    help = "Print what is set as a file (TOML) that `apply_governance` takes."

    def handle(self, **options: Any) -> None:
        with snapshot():
            state = plan.read_state()
        self.stdout.write(written.toml(state), ending="")
