from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import transaction

from agents.management.acting import ActingCommand
from agents.transitions import credentials, principals


class Command(ActingCommand):
    help = "Make a credential of an agent or a submitter; its token is printed once."
    default_reason = "Made with create_credential."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("agent", nargs="?", default="", help="name of the agent")
        parser.add_argument("--submitter", default="", help="name of the submitter, made if new")
        parser.add_argument("--owner", default="", help="user who answers for a new submitter")
        parser.add_argument(
            "--scopes", help="comma-separated; by default what the kind usually has"
        )
        parser.add_argument("--expires-days", type=int)
        parser.add_argument(
            "--certificate-sha256", default="", help="client certificate to bind to"
        )
        parser.add_argument("--note", default="")

    @transaction.atomic
    def act(
        self, *, agent: str, submitter: str, owner: str, actor: str, reason: str, **options: Any
    ) -> dict[str, Any]:
        if bool(agent) == bool(submitter):
            raise CommandError("Name an agent, or a submitter with --submitter.")
        if submitter:
            principals.register_submitter(name=submitter, owner=owner, actor=actor, reason=reason)
        scopes = options["scopes"]
        issued = credentials.create(
            agent=agent,
            submitter=submitter,
            actor=actor,
            reason=reason,
            scopes=None if scopes is None else [part.strip() for part in scopes.split(",")],
            expires_days=options["expires_days"],
            certificate_sha256=options["certificate_sha256"],
            note=options["note"],
        )
        return {
            "token": issued.token,
            "prefix": issued.credential.prefix,
            "principal": f"agent:{agent}" if agent else f"submitter:{submitter}",
            "scopes": issued.credential.scopes,
            "expires_at": issued.credential.expires_at,
        }
