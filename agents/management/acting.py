"""What the commands that act have in common: who acts, why, and how the outcome is printed."""

from __future__ import annotations

import json
from argparse import ArgumentParser, ArgumentTypeError
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from governance.core import audit
from governance.core.errors import DomainError
from governance.core.models import ACTOR_CHARS_MAX


def add_actor(parser: ArgumentParser) -> None:
    """Add the option by which a command is told who acts."""
    parser.add_argument(
        "--actor",
        default="",
        type=_actor,
        help="who acts, for the audit trail; it names the account that runs the command too",
    )


def plain_text(argument: str) -> str:
    """Return an argument of a shell as it is.

    :raises ArgumentTypeError: it has bytes that are no text, which nothing can keep.
    """
    try:
        argument.encode()
    except UnicodeEncodeError:
        raise ArgumentTypeError("It must be UTF-8.") from None
    return argument


def _actor(argument: str) -> str:
    if len(argument) > ACTOR_CHARS_MAX:
        raise ArgumentTypeError(f"It must be at most {ACTOR_CHARS_MAX} characters.")
    return plain_text(argument)


class ActingCommand(BaseCommand):
    """A command that makes one move, as `command:<system user>` unless `--actor` says otherwise.

    `act` makes the move and returns what is printed: JSON with `--json`, else lines.
    A refusal is one line on standard error and exit code 1.
    """

    default_reason = ""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        add_actor(parser)
        needed = not self.default_reason
        parser.add_argument(
            "--reason", required=needed, default=self.default_reason, type=plain_text
        )

    def handle(self, **options: Any) -> None:
        try:
            with audit.at_a_shell(options.pop("actor")) as actor:
                outcome = self.act(actor=actor, **options)
        except DomainError as refusal:
            raise CommandError(f"{refusal.words} ({refusal.reason})") from refusal
        if options["json"]:
            self.stdout.write(json.dumps(outcome, default=str))
        else:
            for name, value in outcome.items():
                self.stdout.write(f"{name}: {value}")

    def act(self, **options: Any) -> dict[str, Any]:
        """Make the move and return what is to be printed."""
        raise NotImplementedError
