from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from jobs import bootstrap


class Command(BaseCommand):
    help = "Make what every installation needs: agents, job types, sources, operator groups."

    def handle(self, **options: Any) -> None:
        bootstrap.install()
        self.stdout.write(self.style.SUCCESS("The installation has what it needs."))
