"""The console's page of money: what was spent, by day and by whom, and the rows of each figure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString

from governance.console.drawing import Series, bars, gauge
from governance.console.lists import Since
from governance.console.money import draw_bar
from governance.console.pages import PlainPage
from governance.console.registry import Link, add_link, now_of
from governance.console.wording import FLAGS, usd
from governance.money import ledger, rollups, spent_rows
from governance.money.hours import SpendHour, SpendHourCursor
from governance.money.ledger import BudgetBar
from governance.money.rollups import NARROWED, Spent
from governance.money.spent_rows import Shown

#: How many days a page shows, and how many names under a heading.
SPANS = (7, 30, 90)
DAYS_SHOWN = 30
NAMES_SHOWN = 20
BUDGETS_SHOWN = 40
DAYS_MAX = 92
TITLES = {"agent": "By agent", "job_type": "By job type", "model": "By model"}
#: Charts are of integers: these many parts of a dollar.
PARTS = 10**6
#: Before this part of a window is over nothing is foretold.
FORETOLD_FROM = 0.02
PAGES = {
    spent_rows.CALL: "admin:governance_reservation_change",
    spent_rows.USE: "admin:governance_unreserveduse_change",
    spent_rows.CORRECTION: "admin:governance_adjustment_change",
}


@dataclass(frozen=True)
class Line:
    """A figure with its picture and the address of what it is made of."""

    spent: Spent
    url: str
    drawn: SafeString | str = ""


@dataclass(frozen=True)
class BudgetLine:
    """A budget in its window, and what it comes to by the window's end if it goes on so."""

    bar: BudgetBar
    url: str
    drawn: SafeString
    forecast: Decimal | None

    @property
    def beyond(self) -> bool:
        """Return whether it would come past its cap."""
        return (
            self.forecast is not None and self.bar.cap is not None and self.forecast > self.bar.cap
        )


class PageQuery(forms.Form):
    """What of the whole is asked for; what is not there or not valid is not asked for."""

    days = forms.TypedChoiceField(
        choices=[(days, f"{days} days") for days in SPANS], coerce=int, required=False
    )
    agent = forms.CharField(max_length=60, required=False)
    job_type = forms.CharField(max_length=60, required=False)
    model = forms.CharField(max_length=181, required=False)

    def narrowed(self) -> dict[str, str]:
        """Return the names that the whole is narrowed to."""
        self.is_valid()
        return {name: self.cleaned_data[name] for name in NARROWED if self.cleaned_data.get(name)}

    def span(self) -> int:
        """Return how many days are asked for."""
        self.is_valid()
        return self.cleaned_data.get("days") or DAYS_SHOWN


class RowsQuery(PageQuery):
    """Which rows are asked for: of some days, of one kind, older than one."""

    first = forms.DateField(required=False)
    last = forms.DateField(required=False)
    only = forms.ChoiceField(choices=[(only, only) for only in spent_rows.ONLY], required=False)
    before = forms.DateTimeField(required=False)
    before_id = forms.UUIDField(required=False)


@admin.register(SpendHour)
class SpendHourAdmin(PlainPage):
    """The sums by hour, and the page that is drawn from them."""

    time_field = "hour"
    list_display = ("hour", "agent", "job_type", "model", "total_usd", "calls", "flagged")
    list_filter = (Since,)
    export_columns = ("hour", "agent", "job_type", "model", *rollups.SUMS)
    page_fields = export_columns

    @admin.display(description="spent, USD")
    def total_usd(self, row: SpendHour) -> str:
        return usd(row.cost + row.unreserved + row.corrected)

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        return [
            path("money/", wrap(self.money_view), name="governance_spendhour_money"),
            path("money/rows/", wrap(self.rows_view), name="governance_spendhour_rows"),
            *super().get_urls(),
        ]

    def money_view(self, request: HttpRequest) -> HttpResponse:
        """Show what was spent on the last days, and where budgets stand."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        query, now = PageQuery(request.GET), now_of(request)
        narrowed, days = query.narrowed(), query.span()
        last = now.astimezone(UTC).date()
        first = last - timedelta(days=days - 1)
        found = rollups.read_spent(first=first, last=last, narrowed=narrowed)
        whole = rollups.total_of(found["day"])
        span = {"first": first, "last": last, **narrowed}
        context = {
            **self.admin_site.each_context(request),
            "title": "Money",
            "opts": self.opts,
            "as_of": SpendHourCursor.objects.values_list("counted_at", flat=True).first(),
            "spans": [(each, _link("money", days=each, **narrowed)) for each in SPANS],
            "days": days,
            "narrowed": narrowed,
            "whole_url": _link("money", days=days),
            "whole": whole,
            "rows_of": {only: _link("rows", only=only, **span) for only in spent_rows.ONLY},
            **_by_day(found["day"], first=first, last=last, narrowed=narrowed),
            "groups": [
                _group(kind, found[kind], days=days, narrowed=narrowed) for kind in NARROWED
            ],
            "openings": spent_rows.openings(first=first, last=last),
            "may_see_rows": _may_see_rows(request),
        }
        if request.user.has_perm("governance.view_budget"):
            context["budgets"] = _budgets(now)
        return TemplateResponse(request, "console/spend.html", context)

    def rows_view(self, request: HttpRequest) -> HttpResponse:
        """Show the rows of a figure, the newest first."""
        if not (self.has_view_permission(request) and _may_see_rows(request)):
            raise PermissionDenied
        query = RowsQuery(request.GET)
        narrowed, given = query.narrowed(), query.cleaned_data
        last = given.get("last") or now_of(request).astimezone(UTC).date()
        first = max(given.get("first") or last, last - timedelta(days=DAYS_MAX - 1))
        only = given.get("only") or spent_rows.ALL
        before, before_id = given.get("before"), given.get("before_id")
        shown = spent_rows.read(
            first=first,
            last=last,
            only=only,
            narrowed=narrowed,
            before=(before, before_id) if before and before_id else None,
        )
        span = {"first": first, "last": last, **narrowed}
        context = {
            **self.admin_site.each_context(request),
            "title": f"Spent on {first}" if first == last else f"Spent from {first} to {last}",
            "opts": self.opts,
            "rows": [(row, reverse(PAGES[row.kind], args=(row.pk,)), _flags(row)) for row in shown],
            "narrowed": narrowed,
            "only": only,
            "kinds": [(each, _link("rows", only=each, **span)) for each in spent_rows.ONLY],
            "older": _older(shown, only=only, **span),
        }
        return TemplateResponse(request, "console/spend_rows.html", context)


def _may_see_rows(request: HttpRequest) -> bool:
    names = ("reservation", "unreserveduse", "adjustment")
    return request.user.has_perms([f"governance.view_{name}" for name in names])


def _link(page: str, **parameters: Any) -> str:
    return f"{reverse(f'admin:governance_spendhour_{page}')}?{urlencode(parameters)}"


def _older(shown: list[Shown], **parameters: Any) -> str:
    """Return the address of the rows after a full page; none after one that is not full."""
    if len(shown) < spent_rows.ROWS_SHOWN:
        return ""
    return _link("rows", before=shown[-1].at.isoformat(), before_id=shown[-1].pk, **parameters)


def _flags(row: Shown) -> str:
    return ", ".join(FLAGS[name] for name in row.flags)


def _by_day(
    found: Iterable[Spent], *, first: date, last: date, narrowed: dict[str, str]
) -> dict[str, Any]:
    """Return the days of the range, those without spend too, and the chart of them."""
    spent = {one.name: one for one in found}
    days = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    lines = [
        Line(
            spent.get(f"{day}") or rollups.total_of([], f"{day}"),
            _link("rows", first=day, last=day, **narrowed),
        )
        for day in days
    ]
    values = [max(int(line.spent.total * PARTS), 0) for line in lines]
    top = max(lines, key=lambda line: line.spent.total)
    label = (
        f"spend by day from {first} to {last}, the most on {top.spent.name}:"
        f" {usd(top.spent.total)} USD"
    )
    return {
        "lines": lines[::-1],
        "chart": bars(Series("spend", values), label=label, width=720, height=90),
        "top": top.spent,
        "first": first,
        "last": last,
    }


def _group(kind: str, found: list[Spent], *, days: int, narrowed: dict[str, str]) -> dict[str, Any]:
    """Return the dearest names of a kind, each with its share, and the rest as one."""
    shown, rest = found[:NAMES_SHOWN], found[NAMES_SHOWN:]
    most = max((one.total for one in shown), default=Decimal(0))
    lines = []
    for one in shown:
        share = float(one.total / most) if most > 0 else 0.0
        drawn = gauge([("plain", max(share, 0.0))], label=f"{share:.0%} of the largest")
        url = _link("money", days=days, **narrowed | {kind: one.name}) if one.name else ""
        lines.append(Line(one, url, drawn))
    return {
        "kind": kind,
        "title": TITLES[kind],
        "lines": lines,
        "rest": rollups.total_of(rest, f"{len(rest)} others") if rest else None,
    }


def _budgets(now: datetime) -> list[BudgetLine]:
    """Return the budgets in their windows, the fullest first."""
    found = sorted(ledger.budget_bars(), key=lambda bar: (-(bar.percent or 0), -bar.used))
    return [
        BudgetLine(
            bar,
            reverse("admin:governance_budget_change", args=(bar.budget_id,)),
            draw_bar(bar),
            forecast_of(bar, now=now),
        )
        for bar in found[:BUDGETS_SHOWN]
    ]


def forecast_of(bar: BudgetBar, *, now: datetime) -> Decimal | None:
    """Return what a window comes to by its end if spending goes on as so far; None: who knows."""
    if bar.ends_at is None:
        return None
    length, over = bar.ends_at - bar.starts_at, now - bar.starts_at
    part = over / length
    if not FORETOLD_FROM <= part <= 1:
        return None
    return bar.spent / Decimal(part)


add_link(
    Link(
        name="Money",
        view="admin:governance_spendhour_money",
        key="m",
        permission="governance.view_spendhour",
        position=25,
    )
)
