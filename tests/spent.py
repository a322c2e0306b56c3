"""Money that was spent, at a time that a test says."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from governance.core import clock, sql
from governance.money import ledger, rollups
from governance.money.corrections import Adjustment
from governance.money.models import Resolution
from governance.money.pricing import Usage
from governance.money.uses import UnreservedUse
from tests.money import another_request, resolve


def moved(table: str, column: str, key: str, pk: UUID, at: datetime) -> None:
    """Say that a row is of that time, past the trigger that keeps such rows."""
    sql.pipeline(
        sql.Statement("SET LOCAL session_replication_role = replica"),
        sql.Statement(f"UPDATE {table} SET {column} = %s WHERE {key} = %s", (at, pk)),
        sql.Statement("SET LOCAL session_replication_role = origin"),
    )


def spend(*, at: datetime | None = None, tokens: int = 1000, **over: Any) -> Resolution:
    """Settle a call of a job of its own; of 1000 tokens in and out it costs 0.03."""
    routed = ledger.reserve(request=another_request(**over))
    assert routed.reservation is not None, routed.decision.considered
    reservation_id = routed.reservation.reservation_id
    usage = Usage(input_tokens=tokens, output_tokens=tokens)
    end = resolve("settled", reservation_id=reservation_id, usage=usage, actor="agent:hermes")
    if at is not None:
        moved("governance_resolution", "resolved_at", "reservation_id", reservation_id, at)
    return end.resolution


def use(*, at: datetime | None = None, tokens: int = 1000, **over: Any) -> UnreservedUse:
    """Book what was used and not reserved."""
    request = another_request()
    told = {"agent": "hermes", "job_type": "content_prep", "risk_tier": "low"} | over
    booked = ledger.book(
        reported=ledger.Reported(
            external_request_id=request.external_request_id,
            task_id=request.task_id,
            job_id=request.job_id,
            attempt=1,
            usage=Usage(input_tokens=tokens, output_tokens=tokens),
            **told,
        ),
        actor="agent:hermes",
    )
    assert booked is not None
    if at is not None:
        moved("governance_unreserveduse", "recorded_at", "use_id", booked.use.pk, at)
    return booked.use


def spend_for_weeks(*, days: int = 20) -> None:
    """Spend something of every kind: more and less from day to day, by three agents."""
    agents = ("hermes", "openclaw", "agent_zero")
    for day in range(days):
        at = clock.now() - timedelta(days=day)
        end = spend(at=at, tokens=2000 + 900 * (day * 7 % 11), agent=agents[day % 3])
    use()
    correct(end, "-0.01")
    rollups.count()


def correct(end: Resolution, amount: str) -> Adjustment:
    """Correct what a call cost, now."""
    return ledger.adjust(
        reservation_id=end.pk, amount=Decimal(amount), actor="user:anna", reason="billed otherwise"
    ).adjustment
