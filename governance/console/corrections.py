"""The console's page of corrections, and those in the inbox that wait for a second governor."""

from __future__ import annotations

from collections.abc import Iterator

from django.contrib import admin
from django.db.models import QuerySet
from django.urls import reverse

from governance.console.pages import PlainPage
from governance.console.registry import (
    INBOX_COUNT_MAX,
    InboxKind,
    Waiting,
    add_inbox_kind,
    inbox_counters,
)
from governance.console.wording import usd
from governance.money.corrections import Adjustment
from governance.money.models import CURRENCY

REASON_SHOWN_MAX = 160


@admin.register(Adjustment)
class AdjustmentAdmin(PlainPage):
    """Corrections of what calls cost: by whom, why, and whether they count."""

    time_field = "made_at"
    uuid_search = ("adjustment_id", "resolution_id")
    search_help_text = "An adjustment id, or a reservation id"
    list_display = ("made_at", "amount_usd", "made_by", "standing", "task")
    list_select_related = ("verdict", "resolution__reservation")
    page_fields = (
        "adjustment_id", "task", "reservation", "amount_usd", "standing", "reason", "made_by",
        "made_at", "decision",
    )  # fmt: skip

    @admin.display(description="amount, USD")
    def amount_usd(self, row: Adjustment) -> str:
        return usd(row.amount)

    @admin.display(description="task")
    def task(self, row: Adjustment) -> str:
        return row.resolution.reservation.task_id

    @admin.display(description="reservation")
    def reservation(self, row: Adjustment) -> str:
        return str(row.resolution_id)

    @admin.display(description="standing")
    def standing(self, row: Adjustment) -> str:
        return standing_of(row)

    @admin.display(description="decided by")
    def decision(self, row: Adjustment) -> str:
        verdict = getattr(row, "verdict", None)
        return f"{verdict.decided_by}: {verdict.reason}" if verdict else "-"


def standing_of(row: Adjustment) -> str:
    """Return in words whether a correction counts. :param row: read with its verdict."""
    if not row.needs_confirmation:
        return "counts"
    verdict = getattr(row, "verdict", None)
    return verdict.verdict if verdict else "waits for another governor"


def unconfirmed() -> QuerySet[Adjustment]:
    """Return the corrections that wait for a second governor. Index: adjustment_confirmed_idx."""
    return Adjustment.objects.filter(needs_confirmation=True, verdict=None)


def waiting(limit: int) -> Iterator[Waiting]:
    """Yield the corrections that wait for a second governor, the oldest first."""
    rows = unconfirmed().select_related("resolution__reservation").order_by("made_at")
    for row in rows[:limit]:
        yield Waiting(
            title=f"{row.resolution.reservation.task_id}: {usd(row.amount)} {CURRENCY}",
            note=f"{row.made_by}: {row.reason[:REASON_SHOWN_MAX]}",
            url=reverse("admin:governance_adjustment_change", args=(row.pk,)),
            since=row.made_at,
        )


def count() -> dict[str, int]:
    """Return how many corrections wait."""
    return {"corrections": unconfirmed().values("pk")[: INBOX_COUNT_MAX + 1].count()}


inbox_counters.append(count)
add_inbox_kind(
    InboxKind(
        name="corrections",
        title="Corrections of costs",
        permission="governance.view_adjustment",
        position=70,
        rows=waiting,
        empty="No correction waits for a second governor.",
    )
)
