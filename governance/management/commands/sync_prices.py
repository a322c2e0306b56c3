from __future__ import annotations

from dataclasses import asdict
from json import dumps
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from governance.core import audit
from governance.core.errors import DomainError
from governance.money import catalogue


class Command(BaseCommand):
    help = "Take the prices of the installed genai-prices for every enabled model."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--add",
            action="append",
            default=[],
            metavar="PROVIDER/MODEL",
            help="add this model to the catalogue first",
        )
        parser.add_argument("--actor", default="", help="who acts, for the audit trail")
        parser.add_argument("--reason", default="prices of the installed genai-prices")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(
        self, *, add: list[str], actor: str, reason: str, json: bool, **options: Any
    ) -> None:
        try:
            with audit.at_a_shell(actor) as actor:
                for named in add:
                    provider, _, name = named.partition("/")
                    catalogue.set_model(provider=provider, name=name, actor=actor, reason=reason)
                report = catalogue.sync_prices(actor=actor, reason=reason)
        except DomainError as refusal:
            raise CommandError(f"{refusal.words} ({refusal.reason})") from refusal
        if json:
            self.stdout.write(dumps(asdict(report)))
            return
        for outcome, models in asdict(report).items():
            for model in models:
                self.stdout.write(f"{outcome}: {model}")
