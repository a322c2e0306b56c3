"""The console's page of corrections, and those in the inbox that wait for a second governor."""

from __future__ import annotations

from collections.abc import Iterator

from django.contrib import admin
from django.db.models import QuerySet
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

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
#: What is read with each, to say whose money it is.
OF = ("resolution__reservation", "use")


@admin.register(Adjustment)
class AdjustmentAdmin(PlainPage):
    """Corrections of what was booked: by whom, why, and whether they count."""

    time_field = "made_at"
    uuid_search = ("adjustment_id", "resolution_id", "use_id")
    search_help_text = "An adjustment id, or the id of a reservation or of an unreserved use"
    list_display = ("made_at", "amount_usd", "made_by", "standing", "task")
    list_select_related = ("verdict", *OF)
    page_fields = (
        "adjustment_id", "task", "corrects", "amount_usd", "standing", "reason", "made_by",
        "made_at", "decision",
    )  # fmt: skip

    @admin.display(description="amount, USD")
    def amount_usd(self, row: Adjustment) -> str:
        return usd(row.amount)

    @admin.display(description="task")
    def task(self, row: Adjustment) -> str:
        return row.task_id

    @admin.display(description="corrects")
    def corrects(self, row: Adjustment) -> SafeString:
        name = "reservation" if row.resolution_id else "unreserveduse"
        [key] = row.of.values()
        url = reverse(f"admin:governance_{name}_change", args=(key,))
        return format_html('<a href="{}">{}</a>', url, row.subject)

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


def corrections_of(rows: QuerySet[Adjustment]) -> str:
    """Return in words by what something was corrected; "-" where by nothing."""
    found = rows.select_related("verdict").order_by("made_at")
    words = [
        f"{usd(each.amount)} by {each.made_by} ({standing_of(each)}): {each.reason}"
        for each in found
    ]
    return "; ".join(words) or "-"


def unconfirmed() -> QuerySet[Adjustment]:
    """Return the corrections that wait for a second governor. Index: adjustment_confirmed_idx."""
    return Adjustment.objects.filter(needs_confirmation=True, verdict=None)


def waiting(limit: int) -> Iterator[Waiting]:
    """Yield the corrections that wait for a second governor, the oldest first."""
    rows = unconfirmed().select_related(*OF).order_by("made_at")
    for row in rows[:limit]:
        yield Waiting(
            title=f"{row.task_id}: {usd(row.amount)} {CURRENCY}",
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
