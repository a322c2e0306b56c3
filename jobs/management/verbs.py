"""The operator's verbs on the command line: what the console does, for scripts."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from governance.core import audit
from governance.core.errors import DomainError
from jobs.transitions import Outcome

TASKS_MAX = 1000


class VerbCommand(BaseCommand):
    """Apply one transition to the named tasks, each in a transaction of its own.

    Prints a line per task, or with `--json` one object per line. Exits 1 when any was refused;
    the others are done all the same.
    """

    #: Options of the verb itself, which `move` gets beside `actor` and `reason`.
    own_options: tuple[str, ...] = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("task_ids", nargs="+", metavar="TASK_ID")
        parser.add_argument("--reason", required=True, help="why; kept in the audit trail")
        parser.add_argument("--actor", default="", help="who acts, for the audit trail")
        parser.add_argument("--json", action="store_true", help="print one JSON object per task")

    def move(self, *, task_id: str, **asked: Any) -> Outcome:
        """Make the move on one task."""
        raise NotImplementedError

    def handle(self, *, task_ids: list[str], **options: Any) -> None:
        if len(task_ids) > TASKS_MAX:
            raise CommandError(f"At most {TASKS_MAX} tasks at a time.")
        asked = {name: options[name] for name in ("reason", *self.own_options)}
        asked["actor"] = options["actor"] or audit.shell_actor()
        refused = 0
        for task_id in dict.fromkeys(task_ids):
            told = self._told(task_id, asked)
            refused += told["outcome"] == "refused"
            self._print(told, as_json=options["json"])
        if refused:
            raise CommandError(f"{refused} of {len(task_ids)} refused.")

    def _told(self, task_id: str, asked: dict[str, Any]) -> dict[str, Any]:
        try:
            outcome = self.move(task_id=task_id, **asked)
        except DomainError as refusal:
            return {
                "task_id": task_id,
                "outcome": "refused",
                "reason": refusal.reason,
                "detail": refusal.detail,
            }
        shown = ("state", "revision", "attempt", "max_attempts")
        return {
            "task_id": task_id,
            "outcome": outcome.outcome,
            **{name: getattr(outcome.job, name) for name in shown},
        }

    def _print(self, told: dict[str, Any], *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps(told))
        elif told["outcome"] == "refused":
            self.stdout.write(f"{told['task_id']}: refused, {told['reason']}: {told['detail']}")
        else:
            self.stdout.write(f"{told['task_id']}: {told['outcome']}, now {told['state']}")


def add_extension(parser: CommandParser, *, required: bool) -> None:
    """Add `--extra N` and `--to N`, of which one may (or must) be given."""
    group = parser.add_mutually_exclusive_group(required=required)
    group.add_argument("--extra", type=int, metavar="N", help="N attempts more")
    group.add_argument("--to", dest="to_max", type=int, metavar="N", help="N attempts in all")
