from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError, CommandParser

from agents.management.acting import ActingCommand
from agents.management.verbs import add_fields
from governance.money.corrections import AdjustmentVerdict
from jobs import executions
from jobs.verbs.spend import ADJUST, facts_of


class Command(ActingCommand):
    help = "Correct what was booked, by a row of its own; or confirm, or decline, a correction."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("--reservation", type=UUID, metavar="ID", help="whose cost it is")
        what.add_argument("--unreserved", type=UUID, metavar="ID", help="use that was not reserved")
        what.add_argument("--confirm", type=UUID, metavar="ID", help="of another's correction")
        what.add_argument("--decline", type=UUID, metavar="ID", help="of a correction that waits")
        [amount] = ADJUST.fields
        add_fields(parser, [replace(amount, required=False)])

    def act(
        self,
        *,
        reservation: UUID | None = None,
        unreserved: UUID | None = None,
        confirm: UUID | None = None,
        decline: UUID | None = None,
        amount: Decimal | None = None,
        actor: str,
        reason: str,
        **options: Any,
    ) -> dict[str, Any]:
        corrects = reservation is not None or unreserved is not None
        if corrects != (amount is not None):
            raise CommandError("--amount goes with --reservation or --unreserved.")
        if amount is not None:
            return facts_of(
                executions.adjust_spend(
                    reservation_id=reservation,
                    use_id=unreserved,
                    amount=amount,
                    actor=actor,
                    reason=reason,
                )
            )
        verdict = AdjustmentVerdict.Verdict
        adjustment_id = confirm or decline
        assert adjustment_id is not None  # the parser demands one of them
        return facts_of(
            executions.settle_adjustment(
                adjustment_id=adjustment_id,
                verdict=verdict.CONFIRMED if confirm else verdict.DECLINED,
                actor=actor,
                reason=reason,
            )
        )
