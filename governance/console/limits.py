"""The console's page of limits: what bounds requests, tokens and open calls."""

from __future__ import annotations

from django.contrib import admin

from governance.console.pages import ChainedPage
from governance.money.limits import Limit

METERS_SHOWN = 24


@admin.register(Limit)
class LimitAdmin(ChainedPage):
    """Limits over scopes, per minute and at a time."""

    list_display = ("__str__", *Limit.BOUNDS, "enabled")
    list_filter = ("scope", "enabled")
    page_fields = ("scope", "key", *Limit.BOUNDS, "enabled", "open_now")

    @admin.display(description="open calls now")
    def open_now(self, row: Limit) -> str:
        meters = row.meters.order_by("-requests_until")[:METERS_SHOWN]
        counts = {meter.counted_for or "all": meter.open.count() for meter in meters}
        return ", ".join(f"{key}: {count}" for key, count in counts.items()) or "none"
