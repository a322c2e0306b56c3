from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from agents.management.acting import ActingCommand
from agents.transitions import credentials


class Command(ActingCommand):
    help = "Make the successor of a credential; the old one works until the overlap has passed."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("prefix", help="what stands between `fp_` and the dot of its token")
        parser.add_argument("--overlap-seconds", type=int, default=3600)

    def act(
        self, *, prefix: str, actor: str, reason: str, overlap_seconds: int, **options: Any
    ) -> dict[str, Any]:
        issued = credentials.rotate(
            prefix=prefix, actor=actor, reason=reason, overlap_seconds=overlap_seconds
        )
        return {"token": issued.token, "prefix": issued.credential.prefix, "replaces": prefix}
