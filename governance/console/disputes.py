"""The console's page of disputed uses, and those in the inbox that nobody has decided about."""

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
from governance.money.disputes import DisputedUse
from governance.money.models import CURRENCY


@admin.register(DisputedUse)
class DisputedUseAdmin(PlainPage):
    """What was reported beyond what its model can do, and what people said of it."""

    time_field = "recorded_at"
    uuid_search = ("dispute_id", "resolution_id", "use_id")
    search_help_text = "An id of a dispute, a reservation or an unreserved use"
    list_display = ("recorded_at", "task_id", "attempt", "model", "cost_usd", "standing", "agent")
    list_select_related = ("model", "verdict")
    page_fields = (
        "dispute_id", "external_request_id", "task_id", "attempt", "agent", "job_type", "model",
        "reported_of", "counts", "cost_usd", "standing", "decision", "recorded_by", "recorded_at",
    )  # fmt: skip

    @admin.display(description="cost, USD")
    def cost_usd(self, row: DisputedUse) -> str:
        return cost_of(row)

    @admin.display(description="reported of")
    def reported_of(self, row: DisputedUse) -> str:
        one = row.reservation_id
        return f"reservation {one}" if one else "all calls of the attempt together"

    @admin.display(description="standing")
    def standing(self, row: DisputedUse) -> str:
        verdict = getattr(row, "verdict", None)
        return verdict.verdict if verdict else "booked nowhere; waits for a governor"

    @admin.display(description="decided by")
    def decision(self, row: DisputedUse) -> str:
        verdict = getattr(row, "verdict", None)
        return f"{verdict.decided_by}: {verdict.reason}" if verdict else "-"


def cost_of(row: DisputedUse) -> str:
    """Return in words what the disputed part would cost."""
    return "unknown" if row.cost is None else usd(row.cost)


def undecided() -> QuerySet[DisputedUse]:
    """Return the disputes that nobody has decided about, the oldest first."""
    return DisputedUse.objects.filter(verdict=None).order_by("recorded_at")


def waiting(limit: int) -> Iterator[Waiting]:
    """Yield the disputes that wait for a governor."""
    for row in undecided().select_related("model")[:limit]:
        yield Waiting(
            title=f"{row.task_id}: attempt {row.attempt}",
            note=f"{cost_of(row)} {CURRENCY} more than {row.model} can cost, by {row.recorded_by}",
            url=reverse("admin:governance_disputeduse_change", args=(row.pk,)),
            since=row.recorded_at,
            marks=(row.agent, row.job_type),
        )


def count() -> dict[str, int]:
    """Return how many disputes wait."""
    return {"disputes": undecided().order_by().values("pk")[: INBOX_COUNT_MAX + 1].count()}


inbox_counters.append(count)
add_inbox_kind(
    InboxKind(
        name="disputes",
        title="Disputed uses",
        permission="governance.view_disputeduse",
        position=72,
        rows=waiting,
        empty="Nothing was reported beyond what its model can do.",
    )
)
