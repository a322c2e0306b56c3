"""The console's pages of model calls: catalogue, prices, policies, budgets, decisions."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from governance.console import registry
from governance.console.chains import read_chain
from governance.console.corrections import corrections_of
from governance.console.drawing import gauge
from governance.console.dry_run import DryRunForm
from governance.console.lists import MATCHES_MAX, Since
from governance.console.pages import ChainedPage, PlainPage
from governance.console.registry import (
    INBOX_COUNT_MAX,
    Banner,
    InboxKind,
    Section,
    Waiting,
    add_banner_source,
    add_inbox_kind,
    add_section,
    inbox_counters,
    now_of,
)
from governance.console.wording import FLAGS, mark, stamp, usd
from governance.core.errors import InvalidArgument
from governance.money import catalogue, ledger, room
from governance.money.corrections import Adjustment
from governance.money.ledger import BudgetBar
from governance.money.models import (
    Budget,
    LanguageModel,
    Price,
    Reservation,
    RouteDecision,
    RoutePolicy,
)
from governance.money.published import COUNTERS
from governance.money.uses import UnreservedUse

#: Budget bars that the overview shows, the fullest first.
BARS_SHOWN = 12
ROWS_SHOWN = 24
LIST_DAYS_MAX = 30
OLD_LIST_PAGES = (
    "index",
    *(f"governance_{name}_" for name in ("languagemodel", "price", "routepolicy", "budget")),
)
#: So long an over-run, and what was not reserved, stand in the inbox.
OVERRUN_DAYS = UNRESERVED_DAYS = 7


@admin.register(LanguageModel)
class LanguageModelAdmin(PlainPage):
    """The catalogue of models."""

    list_display = ("__str__", "enabled", "price_now", "context_tokens_max", "capabilities")
    list_filter = ("enabled",)
    page_fields = (
        "provider", "name", "enabled", "api", "capabilities", "context_tokens_max",
        "output_tokens_max",
        "price_now",
    )  # fmt: skip
    page_template = "console/model.html"

    @admin.display(description="price now, per million in / out")
    def price_now(self, row: LanguageModel) -> str:
        prices = [price for price in row.prices.all() if price.ends_at is None]
        # An override wins, then the newest.
        prices.sort(key=lambda price: (price.source == Price.Source.OVERRIDE, price.starts_at))
        if not prices:
            return "none: it is not used"
        price = prices[-1]
        return f"{usd(price.input_rate)} / {usd(price.output_rate)} USD ({price.source})"

    def get_queryset(self, request: HttpRequest) -> QuerySet[LanguageModel]:
        return super().get_queryset(request).prefetch_related("prices")

    def page_context(self, request: HttpRequest, row: LanguageModel) -> dict[str, Any]:
        return {
            "prices": row.prices.order_by("-starts_at")[:ROWS_SHOWN],
            "chain": read_chain(row, subject=row.audit_subject),
        }


@admin.register(Price)
class PriceAdmin(PlainPage):
    """What models cost from when on."""

    list_display = (
        "model",
        "source",
        "version",
        "input_rate",
        "output_rate",
        "starts_at",
        "ends_at",
    )
    list_filter = ("source",)
    list_select_related = ("model",)
    page_fields = (
        "model", "source", "version", "input_rate", "cached_input_rate", "output_rate",
        "reasoning_rate", "call_rate", "currency", "starts_at", "ends_at", "document",
    )  # fmt: skip


class InForce(admin.SimpleListFilter):
    """Policies in force, or retired ones."""

    title = "in force"
    parameter_name = "in_force"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("yes", "in force"), ("no", "retired")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any] | None:
        if self.value() not in {"yes", "no"}:
            return None
        return queryset.filter(retired_at__isnull=self.value() == "yes")


@admin.register(RoutePolicy)
class RoutePolicyAdmin(ChainedPage):
    """Which models a kind of work may use."""

    list_display = ("__str__", "models", "created_at", "retired_at")
    list_filter = (InForce,)
    page_fields = (
        "agent", "job_type", "risk_tier", "models", "max_output_tokens", "created_at", "retired_at",
    )  # fmt: skip
    change_list_template = "console/policies.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[RoutePolicy]:
        return super().get_queryset(request).prefetch_related("lines__model")

    @admin.display(description="models, in order")
    def models(self, row: RoutePolicy) -> str:
        lines = sorted(row.lines.all(), key=lambda line: line.position)
        return ", ".join(str(line.model) for line in lines) or "none: nothing is allowed"

    def dry_run_view(self, request: HttpRequest) -> HttpResponse:
        """Show which model such a call would get now, and of every other one why not."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        form = DryRunForm(request.GET or None)
        answer = None
        if request.GET and form.is_valid():
            try:
                answer = ledger.dry_run(**form.call)
            except InvalidArgument as refusal:
                form.add_error("requirements", [fault.detail for fault in refusal.errors])
        context = {
            **self.admin_site.each_context(request),
            "title": "Which model would it get?",
            "opts": self.opts,
            "form": form,
            "answer": answer,
        }
        return TemplateResponse(request, "console/dry_run.html", context)

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        return [
            path("dry-run/", wrap(self.dry_run_view), name="governance_routepolicy_dry_run"),
            *super().get_urls(),
        ]


@admin.register(Budget)
class BudgetAdmin(PlainPage):
    """Caps over scopes and windows."""

    list_display = ("__str__", "caps", "used", "enabled")
    list_filter = ("scope", "window", "enabled")
    page_fields = ("scope", "key", "window", "cap", "soft_cap", "enabled")
    page_template = "console/budget.html"

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        self.bars = bars_by_budget()
        return super().changelist_view(request, extra_context)

    @admin.display(description="cap (warning), USD")
    def caps(self, row: Budget) -> str:
        return f"{usd(row.cap)} ({usd(row.soft_cap)})"

    @admin.display(description="spent and held now")
    def used(self, row: Budget) -> Any:
        bars = self.bars.get(row.pk, [])
        return draw_bar(bars[0]) if bars else "nothing yet"

    def page_context(self, request: HttpRequest, row: Budget) -> dict[str, Any]:
        return {
            "bars": [(bar, draw_bar(bar)) for bar in bars_by_budget().get(row.pk, [])],
            "windows": row.windows.order_by("-starts_at", "counted_for")[:ROWS_SHOWN],
            "chain": read_chain(row, subject=row.audit_subject),
        }


def bars_by_budget() -> dict[int, list[BudgetBar]]:
    """Return the current windows of the enabled budgets, the fullest of each budget first."""
    found: dict[int, list[BudgetBar]] = {}
    for bar in ledger.budget_bars():
        found.setdefault(bar.budget_id, []).append(bar)
    return found


def draw_bar(bar: BudgetBar) -> SafeString:
    """Return a budget's bar: spent, held on top of it, and in words what is left."""
    parts: list[tuple[str, float]] = []
    if bar.cap:
        spent = "bad" if bar.level == "full" else "good"
        parts = [(spent, float(bar.spent / bar.cap)), ("warn", float(bar.held / bar.cap))]
    left = "no cap" if bar.cap is None else f"{usd(max(bar.cap - bar.used, Decimal(0)))} left"
    words = f"{usd(bar.spent)} spent, {usd(bar.held)} held, {left}"
    over = f", {usd(bar.used - bar.cap)} over" if bar.cap is not None and bar.used > bar.cap else ""
    return format_html("{}<small>{}{}</small>", gauge(parts, label=words), words, over)


class OfJob(PlainPage):
    """Rows that name a job by its id, and are found by what the jobs' app knows of a task id."""

    def search(self, queryset: QuerySet[Any], term: str) -> QuerySet[Any]:
        named = [subject.removeprefix("job:") for subject in registry.subjects_of(term)]
        job_ids = [uuid.UUID(name) for name in named if is_uuid(name)]
        found = queryset.filter(Q(job_id__in=job_ids) | Q(external_request_id=term))
        pks = list(found.order_by().values_list("pk", flat=True)[:MATCHES_MAX])
        return queryset.filter(pk__in=pks) if pks else super().search(queryset, term)


def is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


@admin.register(RouteDecision)
class RouteDecisionAdmin(OfJob):
    """Which model each call got, or why none."""

    time_field = "decided_at"
    uuid_search = ("decision_id",)
    search_help_text = "Beginning of a task id, an external request id, or a decision id"
    list_display = (
        "decided_at", "task_id", "attempt", "call", "decision", "model", "reason", "agent",
    )  # fmt: skip
    list_filter = (Since,)
    list_select_related = ("model",)
    export_columns = (
        "decision_id", "route_request_id", "task_id", "attempt", "call", "agent", "job_type",
        "risk_tier", "decision", "reason", "model__provider", "model__name", "price_version",
        "decided_at",
    )  # fmt: skip
    page_fields = (
        "decision_id", "route_request_id", "task_id", "attempt", "call", "agent", "job_type",
        "risk_tier", "runtime", "estimated_input_tokens", "max_output_tokens", "requirements",
        "decision", "reason", "policy", "position", "model", "price_version", "considered",
        "decided_at",
    )  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[RouteDecision]:
        return super().get_queryset(request).defer("considered", "requirements")


@admin.register(Reservation)
class ReservationAdmin(OfJob):
    """Model budget that was held, and how each hold ended."""

    time_field = "reserved_at"
    uuid_search = ("reservation_id",)
    search_help_text = "Beginning of a task id, an external request id, or a reservation id"
    list_display = (
        "reserved_at", "task_id", "attempt", "state_mark", "amount_usd", "cost_usd", "flags",
        "agent",
    )  # fmt: skip
    list_filter = (Since,)
    list_select_related = ("resolution",)
    export_columns = (
        "reservation_id", "route_request_id", "task_id", "attempt", "agent", "amount", "currency",
        "state", "reserved_at", "resolution__cost", "resolution__cost_basis",
        "resolution__overrun", "resolution__usage_missing", "resolution__usage_odd",
        *(f"resolution__{name}" for name in COUNTERS), "resolution__resolved_at",
    )  # fmt: skip
    page_fields = (
        "reservation_id", "route_request_id", "external_request_id", "task_id", "attempt",
        "fencing_token", "agent", "state_mark", "amount_usd", "cost_usd", "flags", "basis",
        "resolved", "counted", "cost_split", "corrected", "sent", "reserved_at",
    )  # fmt: skip

    @admin.display(description="state")
    def state_mark(self, row: Reservation) -> SafeString:
        return mark(row.state)

    @admin.display(description="held, USD")
    def amount_usd(self, row: Reservation) -> str:
        return usd(row.amount)

    @admin.display(description="cost, USD")
    def cost_usd(self, row: Reservation) -> str:
        end = getattr(row, "resolution", None)
        return usd(end.cost) if end else "-"

    @admin.display(description="flags")
    def flags(self, row: Reservation) -> str:
        end = getattr(row, "resolution", None)
        return ", ".join(FLAGS[name] for name in (end.flags if end else ())) or "-"

    @admin.display(description="cost basis")
    def basis(self, row: Reservation) -> str:
        end = getattr(row, "resolution", None)
        return end.get_cost_basis_display() if end else "-"

    @admin.display(description="counted")
    def counted(self, row: Reservation) -> str:
        end = getattr(row, "resolution", None)
        counts = [(name, getattr(end, name, None)) for name in COUNTERS]
        return ", ".join(f"{name} {count:,}" for name, count in counts if count) or "-"

    @admin.display(description="cost by counter, USD")
    def cost_split(self, row: Reservation) -> str:
        split = getattr(getattr(row, "resolution", None), "cost_split", None) or {}
        return ", ".join(f"{name} {cost}" for name, cost in split.items()) or "-"

    @admin.display(description="corrected by")
    def corrected(self, row: Reservation) -> str:
        return corrections_of(Adjustment.objects.filter(resolution_id=row.pk))

    @admin.display(description="usage as it was sent")
    def sent(self, row: Reservation) -> Any:
        return getattr(getattr(row, "resolution", None), "usage_sent", None)

    @admin.display(description="ended by")
    def resolved(self, row: Reservation) -> str:
        end = getattr(row, "resolution", None)
        return f"{end.resolved_by}: {end.reason}".rstrip(": ") if end else "-"


@admin.register(UnreservedUse)
class UnreservedUseAdmin(OfJob):
    """What was reported as used and was not reserved, and what it was booked at."""

    time_field = "recorded_at"
    uuid_search = ("use_id",)
    search_help_text = "Beginning of a task id, an external request id, or an id of a use"
    list_display = (
        "recorded_at", "task_id", "attempt", "model", "cost_usd", "marked", "input_tokens",
        "output_tokens", "agent",
    )  # fmt: skip
    list_filter = (Since,)
    list_select_related = ("model",)
    export_columns = (
        "use_id", "external_request_id", "task_id", "attempt", "agent", "job_type",
        "reservation_id", "model__provider", "model__name", "cost", "cost_basis", "usage_odd",
        *COUNTERS, "recorded_by", "recorded_at",
    )  # fmt: skip
    page_fields = (
        "use_id", "external_request_id", "task_id", "attempt", "agent", "job_type", "reservation",
        "model", "cost_usd", "corrected", "cost_basis", "marked", *COUNTERS, "usage_sent",
        "recorded_by", "recorded_at",
    )  # fmt: skip

    @admin.display(description="cost, USD")
    def cost_usd(self, row: UnreservedUse) -> str:
        return "unknown" if row.cost is None else usd(row.cost)

    @admin.display(description="corrected by")
    def corrected(self, row: UnreservedUse) -> str:
        return corrections_of(Adjustment.objects.filter(use_id=row.pk))

    @admin.display(description="flags")
    def marked(self, row: UnreservedUse) -> str:
        return ", ".join(FLAGS[name] for name in row.flags)


def unreserved_of_late() -> QuerySet[UnreservedUse]:
    """Return what was booked without a reservation in the last days, the newest first."""
    since = Now() - timedelta(days=UNRESERVED_DAYS)
    return UnreservedUse.objects.filter(recorded_at__gt=since).order_by("-recorded_at")


def unreserved(limit: int) -> Iterator[Waiting]:
    """Yield what was used and not reserved: somebody calls models around the reservations."""
    for row in unreserved_of_late().select_related("model")[:limit]:
        cost = "an unknown cost" if row.cost is None else f"{usd(row.cost)} USD"
        yield Waiting(
            title=f"{row.task_id}: attempt {row.attempt}",
            note=f"{cost} by {row.recorded_by}",
            url=reverse("admin:governance_unreserveduse_change", args=(row.pk,)),
            since=row.recorded_at,
            marks=(row.agent, row.job_type, *(FLAGS[name] for name in row.flags)),
        )


def count_unreserved() -> dict[str, int]:
    return {"unreserved": unreserved_of_late().values("pk")[: INBOX_COUNT_MAX + 1].count()}


inbox_counters.append(count_unreserved)
add_inbox_kind(
    InboxKind(
        name="unreserved",
        title="Used and not reserved",
        permission="governance.view_unreserveduse",
        position=75,
        rows=unreserved,
        empty=f"Nothing was used without a reservation in {UNRESERVED_DAYS} days.",
    )
)


def load_budgets(request: HttpRequest) -> dict[str, Any] | None:
    """Return the fullest budgets; nothing where there is no budget."""
    bars = sorted(ledger.budget_bars(), key=lambda bar: -(bar.percent or 0))
    if not bars:
        return None
    return {
        "bars": [(bar, draw_bar(bar)) for bar in bars[:BARS_SHOWN]],
        "more": len(bars) > BARS_SHOWN,
        "no_room": room.in_force()[:BARS_SHOWN],
    }


def without_room(limit: int) -> Iterator[Waiting]:
    """Yield the scopes whose jobs are passed over, each with its budget or limit."""
    for note in room.in_force().order_by("noted_at")[:limit]:
        yield Waiting(
            title=f"{note.scope} {note.key}".rstrip(),
            note=f"no room until {stamp(note.until)} in {note.cause}: change or disable it",
            url=reverse(f"admin:{note.cause._meta.db_table}_change", args=(note.cause.pk,)),
            since=note.noted_at,
        )


add_inbox_kind(
    InboxKind(
        name="no-room",
        title="No room",
        permission="governance.view_budget",
        position=75,
        rows=without_room,
        empty="Every budget and limit has room for what was asked.",
    )
)


add_section(
    Section(
        name="budgets",
        title="Budgets",
        template="console/sections/budgets.html",
        load=load_budgets,
        permission="governance.view_budget",
        position=50,
    )
)


def bounded_budgets(limit: int) -> Iterator[Waiting]:
    """Yield the budgets that are at their cap or above their soft cap now, the longest first."""
    for bar, since in ledger.bounded_budgets(limit):
        yield Waiting(
            title=f"{bar.scope} {bar.key} per {bar.window}".replace("  ", " "),
            note=f"{usd(bar.spent)} spent, {usd(bar.held)} held of {usd(bar.cap)} USD",
            url=reverse("admin:governance_budget_change", args=(bar.budget_id,)),
            since=since,
            marks=("no room" if bar.level == "full" else "above its soft cap",),
        )


def overruns(limit: int) -> Iterator[Waiting]:
    """Yield the calls of the last days that cost more than was held for them, the oldest first."""
    rows = ledger.overruns(days=OVERRUN_DAYS).select_related("reservation")
    for row in rows[:limit]:
        yield _of_reservation(
            row.reservation,
            since=row.resolved_at,
            note=f"{usd(row.cost)} USD, {usd(row.reservation.amount)} were held",
        )


def aged_doubts(limit: int) -> Iterator[Waiting]:
    """Yield the reservations that have been in doubt for long, the oldest first."""
    for row in ledger.aged_doubts()[:limit]:
        yield _of_reservation(
            row, since=row.reserved_at, note=f"{usd(row.amount)} USD held until it is reconciled"
        )


def _of_reservation(row: Reservation, *, since: datetime, note: str) -> Waiting:
    return Waiting(
        title=f"{row.task_id}: attempt {row.attempt}",
        note=note,
        url=reverse("admin:governance_reservation_change", args=(row.pk,)),
        since=since,
        marks=(row.agent,),
    )


def count() -> dict[str, int]:
    """Return how much of each kind of money waits, each no further than one past the maximum."""
    found = ledger.count_bounds(overrun_days=OVERRUN_DAYS, up_to=INBOX_COUNT_MAX + 1)
    return {
        "budgets": found.budgets,
        "overruns": found.overruns,
        "aged-doubts": found.aged_doubts,
    }


inbox_counters.append(count)
for kind in (
    InboxKind(
        name="budgets",
        title="Budgets without room",
        permission="governance.view_budget",
        position=60,
        rows=bounded_budgets,
        empty="Every budget has room.",
    ),
    InboxKind(
        name="aged-doubts",
        title="Money in doubt for long",
        permission="governance.view_reservation",
        position=65,
        rows=aged_doubts,
        empty="No money has been in doubt for long.",
    ),
    InboxKind(
        name="overruns",
        title="Dearer than held",
        permission="governance.view_reservation",
        position=70,
        rows=overruns,
        empty="No call of the last days cost more than was held for it.",
    ),
):
    add_inbox_kind(kind)


def old_list_banner(request: HttpRequest) -> Iterator[Banner]:
    """Yield a line on the overview and on pages of money: no newer price list came for long.

    Only there, so that no other page asks one more question for it.
    """
    match = request.resolver_match
    page = (match and match.url_name) or ""
    if not page.startswith(OLD_LIST_PAGES) or not request.user.has_perm("governance.view_price"):
        return
    newest = catalogue.newest_list()
    if newest is None:
        return
    version, since = newest
    if now_of(request) - since > timedelta(days=LIST_DAYS_MAX):
        yield Banner(
            text=f"Prices are those of {version}, in use since {stamp(since)}: providers may bill "
            "by newer ones. Upgrade the package; the sweeper takes what it lists.",
            url=reverse("admin:governance_price_changelist"),
        )


add_banner_source("old_price_list", old_list_banner)
