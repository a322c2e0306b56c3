from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from agents.management.acting import ActingCommand
from agents.transitions import operators
from governance.core.permissions import GROUPS


class Command(ActingCommand):
    help = "Make a console account; its password is printed once."
    default_reason = "Made with create_operator."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("username")
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("--group", choices=GROUPS)
        what.add_argument("--reset-password", action="store_true", help="of an account there is")
        what.add_argument("--reset-second-factor", action="store_true", help="of one who lost it")

    def act(
        self,
        *,
        username: str,
        actor: str,
        reason: str,
        group: str | None,
        reset_second_factor: bool,
        **options: Any,
    ) -> dict[str, Any]:
        if reset_second_factor:
            reset = operators.reset_second_factor(username=username, actor=actor, reason=reason)
            return {"username": reset.username, "group": reset.group}
        if group is None:
            made = operators.reset_password(username=username, actor=actor, reason=reason)
        else:
            made = operators.create(username=username, group=group, actor=actor, reason=reason)
        return {"username": made.username, "group": made.group, "password": made.password}
