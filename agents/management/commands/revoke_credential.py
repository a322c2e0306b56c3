from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from agents.management.acting import ActingCommand
from agents.transitions import credentials


class Command(ActingCommand):
    help = "Revoke a credential at once."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("prefix", help="what stands between `fp_` and the dot of its token")

    def act(self, *, prefix: str, actor: str, reason: str, **options: Any) -> dict[str, Any]:
        credential = credentials.revoke(prefix=prefix, actor=actor, reason=reason)
        return {"prefix": prefix, "revoked_at": credential.revoked_at}
