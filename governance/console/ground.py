"""The console's pages of the ground: audit trail, facts, idempotency records, runs."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import admin
from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from governance.console import registry, wording
from governance.console.admins import OperatorAdmin
from governance.console.lists import MATCHES_MAX, Since
from governance.console.models import BulkRun
from governance.console.pages import PlainPage
from governance.console.registry import INBOX_COUNT_MAX, Link, Section
from governance.core.models import AuditEvent, Fact, IdempotencyRecord
from governance.relay.models import StreamHold
from governance.relay.sinks import configured


@admin.register(AuditEvent)
class AuditEventAdmin(PlainPage):
    """What was done, by whom and why."""

    time_field = "at"
    exact_search = ("subject",)
    list_display = ("when", "subject", "seq", "action", "actor", "reason_start")
    list_filter = (Since,)
    export_columns = (
        "subject", "seq", "at", "action", "actor", "reason", "request_id", "prev_hash", "hash",
    )  # fmt: skip
    page_fields = (
        "subject", "seq", "at", "action", "actor", "reason", "request_id", "content", "prev_hash_",
        "hash_",
    )  # fmt: skip
    search_help_text = "A task id, an agent's name, or a subject as it is written: job:…, fleet"

    def search(self, queryset: QuerySet[AuditEvent], term: str) -> QuerySet[AuditEvent]:
        found = queryset.filter(subject__in=registry.subjects_of(term))
        newest = found.order_by("-subject", "-seq").values_list("pk", flat=True)[:MATCHES_MAX]
        return queryset.filter(pk__in=list(newest))

    def get_queryset(self, request: HttpRequest) -> QuerySet[AuditEvent]:
        return super().get_queryset(request).defer("prev_hash", "hash")

    @admin.display(description="when (UTC)")
    def when(self, row: AuditEvent) -> str:
        return wording.stamp(row.at)

    @admin.display(description="reason")
    def reason_start(self, row: AuditEvent) -> str:
        return row.reason[:80]

    @admin.display(description="content")
    def content(self, row: AuditEvent) -> SafeString:
        return format_html("<pre>{}</pre>", wording.pretty(json.loads(bytes(row.body))))

    def prev_hash_(self, row: AuditEvent) -> str:
        return bytes(row.prev_hash).hex()

    def hash_(self, row: AuditEvent) -> str:
        return bytes(row.hash).hex()


@admin.register(Fact)
class FactAdmin(PlainPage):
    """What the outside world is to be told, and how far that is."""

    time_field = "recorded_at"
    exact_search = ("stream",)
    uuid_search = ("receipt_id",)
    list_display = ("when", "stream", "sequence", "type", "principal", "relay")
    list_filter = (Since,)
    export_columns = (
        "fact_id", "principal", "stream", "sequence", "type", "content_sha256", "recorded_at",
        "relayed", "published_at", "delivered_to",
    )  # fmt: skip
    page_fields = (
        "fact_id", "principal", "stream", "sequence", "type", "data", "content_sha256",
        "receipt_id", "recorded_at", "relayed", "published_at", "delivered_to",
    )  # fmt: skip
    search_help_text = "A task id, a stream as it is written (job:…), or a receipt id's beginning"
    change_list_template = "console/facts.html"

    def search(self, queryset: QuerySet[Fact], term: str) -> QuerySet[Fact]:
        found = queryset.filter(stream__in=registry.subjects_of(term))
        newest = found.order_by("-stream", "-sequence").values_list("pk", flat=True)
        pks = list(newest[:MATCHES_MAX])
        return queryset.filter(pk__in=pks) if pks else super().search(queryset, term)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Fact]:
        sinks = [sink.name for sink in configured()]
        held = StreamHold.objects.filter(sink__in=sinks, stream=OuterRef("stream"))
        parked = held.exclude(parked_at=None)
        return super().get_queryset(request).defer("data").annotate(parked=Exists(parked))

    @admin.display(description="recorded (UTC)")
    def when(self, row: Fact) -> str:
        return wording.stamp(row.recorded_at)

    @admin.display(description="relay")
    def relay(self, row: Fact) -> str:
        if not row.relayed:
            return "evidence, kept here"
        if row.published_at:
            return "confirmed by the broker"
        return "parked" if getattr(row, "parked", False) else "waits"


@admin.register(IdempotencyRecord)
class IdempotencyRecordAdmin(PlainPage):
    """Which keyed requests were answered with what."""

    time_field = "created_at"
    exact_search = ("principal",)
    uuid_search = ("key",)
    list_display = ("when", "principal", "operation", "key", "answered", "kept")
    list_filter = (Since,)
    export_columns = (
        "principal", "operation", "key", "outcome", "status", "created_at", "expires_at",
    )  # fmt: skip
    page_fields = (
        "principal", "operation", "operation_id", "key", "answered", "created_at", "expires_at",
        "kept",
    )  # fmt: skip
    search_help_text = "A principal (agent:…, submitter:…), or the beginning of a key"

    def get_queryset(self, request: HttpRequest) -> QuerySet[IdempotencyRecord]:
        return super().get_queryset(request).defer("headers", "digest")

    @admin.display(description="created (UTC)")
    def when(self, row: IdempotencyRecord) -> str:
        return wording.stamp(row.created_at)

    @admin.display(description="outcome")
    def answered(self, row: IdempotencyRecord) -> str:
        """Return the outcome, with the status where the record has one."""
        return " ".join(filter(None, (row.outcome, str(row.status or ""))))

    @admin.display(description="answer")
    def kept(self, row: IdempotencyRecord) -> str:
        return "tombstone" if row.body is None else f"{len(row.body)} bytes"


@admin.register(BulkRun)
class BulkRunAdmin(OperatorAdmin):
    """What operators did in the console, one run per confirmation."""

    time_field = "created_at"
    uuid_search = ("run_id",)
    list_display = ("when", "act", "model", "total", "user", "reason_start", "ended")
    list_filter = (Since,)
    list_select_related = ("user",)
    export_columns = (
        "run_id", "act", "model", "user__username", "reason", "total", "created_at", "finished_at",
        "stopped_by",
    )  # fmt: skip

    @admin.display(description="begun (UTC)")
    def when(self, row: BulkRun) -> str:
        return wording.stamp(row.created_at)

    @admin.display(description="reason")
    def reason_start(self, row: BulkRun) -> str:
        return row.reason[:80]

    @admin.display(description="ended (UTC)")
    def ended(self, row: BulkRun) -> str:
        return wording.stamp(row.finished_at) if row.finished_at else "at work"

    def change_view(self, request: HttpRequest, object_id: str, *args: Any, **kw: Any) -> Any:
        run = self.get_object(request, object_id)
        if run is None:
            return self.absent(request, object_id)
        return self.admin_site.run_view(request, run.run_id)  # type: ignore[attr-defined]


def load_waiting(request: HttpRequest) -> dict[str, Any] | None:
    """Return how much of each kind waits for a person."""
    kinds = registry.inbox_for(request)
    if not kinds:
        return None
    counts = registry.inbox_counts()
    return {
        "inbox_url": reverse("admin:console_inbox"),
        "kinds": [{"kind": kind, "count": counts.get(kind.name, 0)} for kind in kinds],
        "count_max": INBOX_COUNT_MAX,
    }


registry.add_link(
    Link(
        name="Audit",
        view="admin:governance_auditevent_changelist",
        key="u",
        permission="governance.view_auditevent",
        position=30,
    )
)
registry.add_section(
    Section(
        name="waiting",
        title="Waiting for a person",
        template="console/sections/waiting.html",
        load=load_waiting,
        permission="governance.view_auditevent",
        position=20,
    )
)
