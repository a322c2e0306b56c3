from typing import Any

from django.core.management.base import CommandParser

from agents.management.acting import ActingCommand
from jobs.transitions.live import revoke_live


class Command(ActingCommand):
    help = "Take an authorization of live execution back, at once."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("authorization_id", type=int)

    def act(
        self, *, authorization_id: int, actor: str, reason: str, **options: Any
    ) -> dict[str, Any]:
        grant = revoke_live(authorization_id=authorization_id, actor=actor, reason=reason)
        return {"authorization_id": grant.pk, "revoked_at": grant.revoked_at}
