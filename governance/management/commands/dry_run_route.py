from __future__ import annotations

from json import dumps
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from governance.core.errors import DomainError
from governance.money import ledger


class Command(BaseCommand):
    help = "Say which model a call would get now and why, without deciding or reserving anything."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--agent", required=True)
        parser.add_argument("--job-type", required=True)
        parser.add_argument("--risk-tier", required=True, choices=["low", "medium", "high"])
        parser.add_argument("--task-id", default="", help="for budgets of a single job")
        parser.add_argument("--submitter", default="", help="for budgets of a submitter")
        parser.add_argument(
            "--label", action="append", default=[], metavar="NAME=VALUE", help="for budgets of it"
        )
        parser.add_argument("--estimated-input-tokens", type=int, required=True)
        parser.add_argument("--max-output-tokens", type=int, required=True)
        parser.add_argument("--requires", action="append", default=[], metavar="CAPABILITY")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *, json: bool, requires: list[str], label: list[str], **options: Any) -> None:
        names = ("agent", "job_type", "risk_tier", "task_id", "submitter")
        counts = ("estimated_input_tokens", "max_output_tokens")
        try:
            answer = ledger.dry_run(
                **{name: options[name] for name in (*names, *counts)},
                labels=label,
                requirements=requires,
            )
        except DomainError as refusal:
            raise CommandError(f"{refusal.words} ({refusal.reason})") from refusal
        if json:
            self.stdout.write(dumps(answer))
            return
        if answer["decision"] == "issued":
            self.stdout.write("{provider}/{model}, at most {amount} USD".format(**answer))
        else:
            self.stdout.write(f"refused: {answer['reason']}")
        for line in answer["considered"]:
            self.stdout.write("  {position}. {provider}/{model}: {outcome}".format(**line))
