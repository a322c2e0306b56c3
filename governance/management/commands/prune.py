"""Remove what is past its retention."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from governance.core import idempotency
from governance.relay import retention


class Command(BaseCommand):
    help = (
        f"Drop stored answers after {idempotency.FULL_ANSWER_DAYS} days, their tombstones after "
        f"{idempotency.TOMBSTONE_DAYS} (keys of UUID version 7) or "
        f"{idempotency.UNDATED_TOMBSTONE_DAYS} (others), and published facts after "
        f"{retention.PUBLISHED_FACT_DAYS}."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--batch-size", type=int, default=retention.ROWS_PER_BATCH)

    def handle(self, *, batch_size: int, **options: Any) -> None:
        pruned = retention.prune(limit=batch_size)
        self.stdout.write(self.style.SUCCESS(f"Removed {pruned}."))
