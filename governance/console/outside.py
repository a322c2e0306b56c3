"""Rows of configuration that were changed outside the plane, for whoever has to judge them."""

from __future__ import annotations

from collections.abc import Iterator

from django.contrib import admin
from django.urls import reverse

from governance.console import registry, wording
from governance.console.lists import Since
from governance.console.pages import PlainPage
from governance.console.registry import INBOX_COUNT_MAX, InboxKind, Waiting
from governance.core.models import OutsideChange


@admin.register(OutsideChange)
class OutsideChangeAdmin(PlainPage):
    """A row that was written by no move of ours, as the database noted it."""

    time_field = "noted_at"
    exact_search = ("subject", "row_key")
    list_display = ("when", "subject", "row_key", "operation", "role", "settled")
    list_filter = (Since,)
    export_columns = (
        "subject", "seq", "row_key", "operation", "before", "after", "role", "noted_at",
        "settled_at",
    )  # fmt: skip
    page_fields = (
        "subject", "seq", "row_key", "operation", "before", "after", "role", "noted_at", "settled",
    )  # fmt: skip
    search_help_text = "A subject (budget:1), or a row (governance_budget:1)"

    @admin.display(description="noted (UTC)")
    def when(self, row: OutsideChange) -> str:
        return wording.stamp(row.noted_at)

    @admin.display(description="settled (UTC)")
    def settled(self, row: OutsideChange) -> str:
        return wording.stamp(row.settled_at) if row.settled_at else "no"


def open_changes(limit: int) -> Iterator[Waiting]:
    """Yield what was changed outside and is not settled, the oldest first."""
    rows = OutsideChange.objects.filter(settled_at=None).defer("before", "after")
    for row in rows.order_by("noted_at")[:limit]:
        yield Waiting(
            title=f"{row.subject}: {row.row_key}",
            note=f"{row.operation} by {row.role}, without a move",
            url=reverse("admin:governance_outsidechange_change", args=(row.pk,)),
            since=row.noted_at,
        )


def count() -> dict[str, int]:
    """Return how many changes stand open."""
    rows = OutsideChange.objects.filter(settled_at=None).values("pk")
    return {"outside": rows[: INBOX_COUNT_MAX + 1].count()}


registry.inbox_counters.append(count)
registry.add_inbox_kind(
    InboxKind(
        name="outside",
        title="Changed outside",
        permission="governance.view_outsidechange",
        position=5,
        rows=open_changes,
        empty="Nothing was changed but by moves of ours.",
    )
)
