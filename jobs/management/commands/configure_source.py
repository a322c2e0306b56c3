from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from agents.management.acting import ActingCommand
from agents.management.verbs import add_fields
from jobs import transitions
from jobs.verbs.job_type import SOURCE_FIELDS


class Command(ActingCommand):
    help = "Enable or disable a source of tasks; with --register add a new one."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("source")
        parser.add_argument("--register", action="store_true", help="add it")
        add_fields(parser, SOURCE_FIELDS)

    def act(
        self,
        *,
        source: str,
        register: bool,
        enabled: bool | None,
        actor: str,
        reason: str,
        **options: Any,
    ) -> dict[str, Any]:
        if register == (enabled is not None):
            raise CommandError("Give one of --register, --enabled and --no-enabled.")
        if enabled is None:
            row = transitions.register_source(name=source, actor=actor, reason=reason)
        else:
            row = transitions.configure_source(
                name=source, enabled=enabled, actor=actor, reason=reason
            )
        return {"source": row.name, "enabled": row.enabled}
