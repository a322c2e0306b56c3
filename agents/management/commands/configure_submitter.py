from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from agents.management.acting import ActingCommand, plain_text
from agents.transitions.principals import configure_submitter


class Command(ActingCommand):
    help = "Give a submitter prefixes of task ids that nobody else may use, or take some away."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("submitter")
        for option, words in (
            ("--task-id-prefix", "it owns this prefix"),
            ("--remove-task-id-prefix", "everybody may use this one again"),
        ):
            parser.add_argument(
                option, action="append", default=[], type=plain_text, metavar="P",
                help=f"{words}; may be repeated",
            )  # fmt: skip

    def act(
        self,
        *,
        submitter: str,
        task_id_prefix: list[str],
        remove_task_id_prefix: list[str],
        actor: str,
        reason: str,
        **options: Any,
    ) -> dict[str, Any]:
        if not (task_id_prefix or remove_task_id_prefix):
            raise CommandError("Name a --task-id-prefix or a --remove-task-id-prefix.")
        row = configure_submitter(
            name=submitter,
            actor=actor,
            reason=reason,
            add=task_id_prefix,
            remove=remove_task_id_prefix,
        )
        owned = row.task_prefixes.order_by("prefix").values_list("prefix", flat=True)
        return {"submitter": row.name, "task_id_prefixes": list(owned)}
