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
        parser.add_argument(
            "--certificate-sha256",
            default="",
            help="fingerprint of a further client certificate, taken beside the one of before",
        )

    def act(
        self,
        *,
        prefix: str,
        actor: str,
        reason: str,
        overlap_seconds: int,
        certificate_sha256: str,
        **options: Any,
    ) -> dict[str, Any]:
        issued = credentials.rotate(
            prefix=prefix,
            actor=actor,
            reason=reason,
            overlap_seconds=overlap_seconds,
            certificate_sha256=certificate_sha256,
        )
        return {"token": issued.token, "prefix": issued.credential.prefix, "replaces": prefix}
