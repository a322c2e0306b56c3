from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from agents.management.acting import ActingCommand
from agents.transitions import epochs
from jobs.transitions.restore import restore


class Command(ActingCommand):
    help = (
        "Give the control plane a new dispatcher epoch: agents activate again and go on. "
        "Run it with --after-restore after every restore, and after a promotion that may have "
        "lost commits."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--after-restore",
            action="store_true",
            help="also end all leases and raise every fencing token by 2^20",
        )

    def act(
        self, *, actor: str, reason: str, after_restore: bool, **options: Any
    ) -> dict[str, Any]:
        if not after_restore:
            return {"dispatcher_epoch": str(epochs.rotate(actor=actor, reason=reason))}
        done = restore(actor=actor, reason=reason)
        return {
            "dispatcher_epoch": str(done.dispatcher_epoch),
            "leases_ended": done.leases_ended,
            "tokens_raised": done.tokens_raised,
        }
