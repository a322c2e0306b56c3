"""The console's pages of the relay: what waits for which sink, and which streams it holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.contrib import admin
from django.db.models import F, OuterRef, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from governance.console import registry, wording
from governance.console.pages import ChainedPage, PlainPage
from governance.console.registry import INBOX_COUNT_MAX, InboxKind, Section, Waiting
from governance.core import sql
from governance.core.models import Fact
from governance.relay import relay
from governance.relay.models import FactSink, StreamHold

#: A list shows no more of an error than this; the stream's page shows all of it.
ERROR_SHOWN_MAX = 160


# No lock. Neither is counted further than the inbox shows.
WAITING = """
SELECT (SELECT count(*)::int FROM (SELECT FROM governance_streamhold
         WHERE parked_at IS NOT NULL LIMIT %(limit)s) s) AS streams,
       (SELECT count(*)::int FROM (SELECT FROM governance_noroom
         WHERE until > clock_timestamp() LIMIT %(limit)s) n) AS no_room
"""


class Held(admin.SimpleListFilter):
    """What waits for a person, or what is tried again without one."""

    title = "held"
    parameter_name = "held"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("parked", "parked"), ("retried", "tried again by itself")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any] | None:
        if self.value() not in ("parked", "retried"):
            return None
        return queryset.filter(parked_at__isnull=self.value() == "retried")


@admin.register(StreamHold)
class StreamHoldAdmin(PlainPage):
    """Streams of facts that a sink did not take, and above them what waits for each sink."""

    list_display = (
        "sink", "about", "state", "since", "tries", "error", "waiting",
    )  # fmt: skip
    list_filter = (Held,)
    list_select_related = ("fact",)
    exact_search = ("stream",)
    change_list_template = "console/streams.html"
    export_columns = (
        "sink", "stream", "fact__fact_id", "fact__sequence", "tries", "last_error", "failed_at",
        "next_try_at", "parked_at",
    )  # fmt: skip
    page_fields = (
        "sink", "about", "state", "parked_at", "failed_at", "next_try", "tries", "last_error",
        "refused_fact", "waiting",
    )  # fmt: skip
    search_help_text = "The beginning of a task id, or a stream as it is written (job:…)"

    def search(self, queryset: QuerySet[StreamHold], term: str) -> QuerySet[StreamHold]:
        return queryset.filter(stream__in=registry.subjects_of(term))

    def get_queryset(self, request: HttpRequest) -> QuerySet[StreamHold]:
        # Sequences have no gaps: the last one says how many are behind, without counting them.
        last = Fact.objects.filter(stream=OuterRef("stream"), sequence__isnull=False)
        newest = Subquery(last.order_by("-sequence").values("sequence")[:1])
        rows = super().get_queryset(request).defer("fact__data")
        return rows.annotate(waiting_facts=newest - F("fact__sequence") + 1)

    def get_object(self, request: HttpRequest, object_id: str, from_field: Any = None) -> Any:
        row = super().get_object(request, object_id, from_field)
        if row is not None:
            name_subjects([row])
        return row

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        page = super().get_changelist_instance(request)
        name_subjects(page.result_list)
        return page

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        context = {
            "sinks": relay.sinks(),
            "backlog": relay.backlog(),
            "as_of": registry.now_of(request),
        }
        context |= {"counted_max": relay.FACTS_LOOKED_AT_MAX}
        return super().changelist_view(request, context | (extra_context or {}))

    @admin.display(description="stream")
    def about(self, row: Any) -> SafeString | str:
        if not row.subject_page:
            return row.stream
        return format_html('<a href="{1}">{0}</a>', *row.subject_page)

    @admin.display(description="state")
    def state(self, row: StreamHold) -> str:
        return "parked" if row.parked_at else "tried again by itself"

    @admin.display(description="held since (UTC)")
    def since(self, row: StreamHold) -> str:
        return wording.stamp(row.parked_at or row.failed_at)

    @admin.display(description="why")
    def error(self, row: StreamHold) -> str:
        return row.last_error[:ERROR_SHOWN_MAX]

    @admin.display(description="next try (UTC)")
    def next_try(self, row: StreamHold) -> str:
        return "after a release" if row.parked_at else wording.stamp(row.next_try_at)

    @admin.display(description="facts waiting")
    def waiting(self, row: Any) -> str:
        return wording.number(row.waiting_facts)

    @admin.display(description="refused fact")
    def refused_fact(self, row: StreamHold) -> SafeString:
        url = reverse("admin:governance_fact_change", args=(row.fact_id,))
        return format_html('<a href="{}">{}</a>', url, row.fact)


@admin.register(FactSink)
class FactSinkAdmin(ChainedPage):
    """A place that facts are relayed to, with what was parked and released there."""

    list_display = ("name",)
    page_fields = ("name",)


def name_subjects(holds: list[Any]) -> None:
    """Give each hold name and address of what its stream is about; one look-up for all."""
    pages = registry.pages_of([hold.stream for hold in holds])
    for hold in holds:
        hold.subject_page = pages.get(hold.stream)


def load_facts(request: HttpRequest) -> dict[str, Any]:
    """Return what waits for the relay, since when, and why nobody takes it, where that is known."""
    backlog = relay.backlog()
    age = registry.now_of(request) - backlog.oldest_at if backlog.oldest_at else None
    return {
        "backlog": backlog,
        "oldest_seconds": age.total_seconds() if age else None,
        "counted_max": relay.FACTS_LOOKED_AT_MAX,
        "streams_url": reverse("admin:governance_streamhold_changelist"),
    }


def parked(limit: int) -> Iterator[Waiting]:
    """Yield the parked streams, the oldest first."""
    rows = StreamHold.objects.exclude(parked_at=None).order_by("parked_at", "stream")
    shown = list(rows[:limit])
    name_subjects(shown)
    for row in shown:
        page = row.subject_page  # type: ignore[attr-defined]
        yield Waiting(
            title=page[0] if page else row.stream,
            note=f"{row.sink}, {row.tries} tries: {row.last_error[:ERROR_SHOWN_MAX]}",
            url=reverse("admin:governance_streamhold_change", args=(row.pk,)),
            since=row.parked_at,  # type: ignore[arg-type]
        )


def count() -> dict[str, int]:
    """Return how many streams are parked, and, in the same query, what has no room."""
    [[counts]] = sql.pipeline(sql.Statement(WAITING, {"limit": INBOX_COUNT_MAX + 1}))
    return {"streams": counts["streams"], "no-room": counts["no_room"]}


registry.inbox_counters.append(count)
registry.add_inbox_kind(
    InboxKind(
        name="streams",
        title="Parked facts",
        permission="governance.view_streamhold",
        position=80,
        rows=parked,
        empty="No stream of facts is parked.",
    )
)
registry.add_section(
    Section(
        name="facts",
        title="Facts for the outside",
        template="console/sections/facts.html",
        load=load_facts,
        permission="governance.view_fact",
        position=60,
    )
)
