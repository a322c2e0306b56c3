"""The admin site: overview, inbox, live fragments, runs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.urls import URLPattern, URLResolver, path, reverse
from django.utils.html import escape
from django.views.decorators.http import require_POST

from governance.console import registry, runs
from governance.console.apart import CANNOT_BE_READ, past_bad_rows, reads_apart
from governance.console.models import BulkItem, BulkRun
from governance.console.registry import INBOX_COUNT_MAX
from governance.core import clock, verbs
from governance.core.isolation import of_a_row

#: Items of one kind that the inbox shows; the rest follow as these are decided.
INBOX_ROWS = 50
RUN_ITEMS_PER_PAGE = 100


class OperatorSite(admin.AdminSite):
    """Django's admin with the console's own pages; other apps register what they have."""

    site_header = "Fencepost"
    site_title = "Fencepost"
    index_title = "Overview"
    index_template = "console/overview.html"
    site_url = None

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        context = super().each_context(request)
        if context["has_permission"]:
            context["banners"] = [
                banner for source in registry.banner_sources.values() for banner in source(request)
            ]
            context["primary_links"] = self.primary_links(request)
        context["second_factor"] = bool(settings.TOTP)
        context["environment_label"] = getattr(settings, "FENCEPOST_ENVIRONMENT", "")
        return context

    def admin_view(self, view: Any, cacheable: bool = False) -> Any:
        """Wrap a view of the console; one row that cannot be read takes no page from a reader."""
        return super().admin_view(past_bad_rows(view), cacheable)

    def login(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the form, or allauth's where that signs people in: there is no way around it."""
        if not settings.ALLAUTH:
            return super().login(request, extra_context)
        from allauth.account.decorators import secure_admin_login

        return secure_admin_login(super().login)(request, extra_context)

    def primary_links(self, request: HttpRequest) -> list[dict[str, str]]:
        """Return the pages of everyday work, each with the letter that follows `g`."""
        links = [{"name": "Overview", "url": reverse("admin:index"), "key": "o"}]
        if registry.inbox_for(request):
            links.append({"name": "Inbox", "url": reverse("admin:console_inbox"), "key": "i"})
        links += [
            {"name": link.name, "url": reverse(link.view), "key": link.key}
            for link in registry.links_for(request)
        ]
        return links

    # --- Overview -----------------------------------------------------------------------------

    def index(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> TemplateResponse:
        now = registry.now_of(request)
        shown = [
            {"section": section, "html": self._section(request, section, now)}
            for section in registry.sections_for(request)
        ]
        context = {"sections": shown, "as_of": now}
        return super().index(request, context | (extra_context or {}))

    def _section(self, request: HttpRequest, section: registry.Section, now: datetime) -> str:
        try:
            context = section.load(request)
        except Exception as error:
            if not (reads_apart(request) and of_a_row(error)):
                raise
            return f"<h2>{escape(section.title)}</h2><p>It {CANNOT_BE_READ}.</p>"
        if context is None:
            return ""
        context |= {"section": section, "as_of": now}
        return render_to_string(section.template, context, request)

    def live_view(self, request: HttpRequest, name: str) -> HttpResponse:
        """Show one section again, on the page that is open. No redirect, no new session."""
        if not self.has_permission(request):
            return HttpResponse("Signed out.", status=401)
        section = registry.sections.get(name)
        if section is None:
            raise Http404
        if not request.user.has_perm(section.permission):
            return HttpResponse("Not allowed.", status=403)
        response = HttpResponse(self._section(request, section, registry.now_of(request)))
        response["Cache-Control"] = "no-store"
        return response

    # --- Inbox --------------------------------------------------------------------------------

    def inbox_view(self, request: HttpRequest) -> HttpResponse:
        """Show what waits for a person, by kind, the oldest first."""
        kinds = registry.inbox_for(request)
        if not kinds:
            raise PermissionDenied
        counts = registry.inbox_counts()
        found = [
            {
                "kind": kind,
                "count": counts.get(kind.name, 0),
                "rows": self._waiting(request, kind) if counts.get(kind.name) else [],
            }
            for kind in kinds
        ]
        context = {
            **self.each_context(request),
            "title": "Inbox",
            "as_of": registry.now_of(request),
            "kinds": found,
            "nothing": [entry for entry in found if not entry["rows"]],
            "count_max": INBOX_COUNT_MAX,
            "rows_max": INBOX_ROWS,
        }
        return TemplateResponse(request, "console/inbox.html", context)

    @staticmethod
    def _waiting(request: HttpRequest, kind: registry.InboxKind) -> list[registry.Waiting]:
        """Return what waits of a kind; where one of it spoils the rest, a word about that."""
        try:
            return list(kind.rows(INBOX_ROWS))
        except Exception as error:
            if not (reads_apart(request) and of_a_row(error)):
                raise
        note = f"what waits here {CANNOT_BE_READ}"
        return [registry.Waiting(kind.title, note, url="", since=registry.now_of(request))]

    # --- Runs ---------------------------------------------------------------------------------

    def run_view(self, request: HttpRequest, run_id: Any) -> HttpResponse:
        """Show a run with the outcome of each row, to who sees runs or may do it."""
        run = self._run(request, run_id, to_look=True)
        items = BulkItem.objects.filter(run=run).order_by("position")
        outcome = request.GET.get("outcome", "")
        if outcome in BulkItem.Outcome.values:
            items = items.filter(outcome=outcome)
        page = Paginator(items, RUN_ITEMS_PER_PAGE).get_page(request.GET.get("page"))
        context = {
            **self.each_context(request),
            "title": f"{run_label(run)}: {run.total} rows",
            "page": page,
            "outcome": outcome,
            "may_act": self._may_act(request, run),
            **run_progress(run),
        }
        return TemplateResponse(request, "console/run.html", context)

    def run_live_view(self, request: HttpRequest, run_id: Any) -> HttpResponse:
        """Show how far the run is."""
        if not self.has_permission(request):
            return HttpResponse("Signed out.", status=401)
        run = self._run(request, run_id, to_look=True)
        response = TemplateResponse(request, "console/run_progress.html", run_progress(run))
        if run.finished_at is not None:
            response["HX-Refresh"] = "true"
        return response

    def run_advance_view(self, request: HttpRequest, run_id: Any) -> HttpResponse:
        """Work on the run for a moment, then tell how far it is."""
        if not self.has_permission(request):
            return HttpResponse("Signed out.", status=401)
        run = runs.advance(run=self._run(request, run_id))
        if request.headers.get("HX-Request") == "true":
            response = TemplateResponse(request, "console/run_progress.html", run_progress(run))
            if run.finished_at is not None:
                response["HX-Refresh"] = "true"
            return response
        return HttpResponseRedirect(reverse("admin:console_run", args=(run.run_id,)))

    def run_stop_view(self, request: HttpRequest, run_id: Any) -> HttpResponse:
        """Leave the rest of the run undone."""
        run = self._run(request, run_id)
        runs.stop(run=run, actor=runs.actor_of(request.user))
        self.note(request, "The run was stopped; what was done stays done.")
        return HttpResponseRedirect(reverse("admin:console_run", args=(run.run_id,)))

    @staticmethod
    def note(request: HttpRequest, text: str) -> None:
        messages.info(request, text)

    @classmethod
    def _run(cls, request: HttpRequest, run_id: Any, *, to_look: bool = False) -> BulkRun:
        run = get_object_or_404(BulkRun.objects.select_related("user"), run_id=run_id)
        may_look = to_look and request.user.has_perm("governance.view_bulkrun")
        if not (may_look or cls._may_act(request, run)):
            raise PermissionDenied
        return run

    @staticmethod
    def _may_act(request: HttpRequest, run: BulkRun) -> bool:
        """Return whether the user may go on with the run, or stop it.

        Who began it may, and who may do its verb.
        """
        verb = verbs.find(run.model, run.act)
        may = verb is not None and request.user.has_perm(verb.permission.name)
        return may or run.user_id == request.user.pk

    # --- Paths --------------------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern | URLResolver]:
        wrap = self.admin_view
        return [
            path("inbox/", wrap(self.inbox_view), name="console_inbox"),
            path("live/<slug:name>/", self.live_view, name="console_live"),
            path("runs/<uuid:run_id>/", wrap(self.run_view), name="console_run"),
            path("runs/<uuid:run_id>/live/", self.run_live_view, name="console_run_live"),
            path(
                "runs/<uuid:run_id>/advance/",
                require_POST(self.run_advance_view),
                name="console_run_advance",
            ),
            path(
                "runs/<uuid:run_id>/stop/",
                wrap(require_POST(self.run_stop_view)),
                name="console_run_stop",
            ),
            *super().get_urls(),
        ]


def run_label(run: BulkRun) -> str:
    """Return the run's verb in the words of its page."""
    verb = verbs.find(run.model, run.act)
    return verb.label if verb else run.act


def run_progress(run: BulkRun) -> dict[str, Any]:
    """Return how many items of the run ended how, for its page and its live part."""
    counts = dict.fromkeys(BulkItem.Outcome.values, 0)
    for outcome in BulkItem.objects.filter(run=run).values_list("outcome", flat=True):
        counts[outcome] += 1
    ended = run.total - counts[BulkItem.Outcome.PENDING]
    return {
        "run": run,
        "run_label": run_label(run),
        "counts": [(name, label, counts[name]) for name, label in BulkItem.Outcome.choices],
        "ended": ended,
        "share": ended / run.total,
        "as_of": clock.now(),
    }
