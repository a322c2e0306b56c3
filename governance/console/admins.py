"""`OperatorAdmin`: a read-only admin whose rows change through verbs only."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import BadRequest, PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path, reverse
from django.views.decorators.http import require_POST
from uuid_utils.compat import uuid7

from governance.console import exports, lists, registry, runs, selections
from governance.console.models import SavedView
from governance.console.verb_pages import VerbPages
from governance.core import permissions
from governance.core.permissions import OPERATOR, Permission

EXPORT = Permission("export_lists", "Can export lists", (OPERATOR,))
permissions.register(EXPORT)


class SaveViewForm(forms.ModelForm):
    """A name for the filters of a list."""

    class Meta:
        model = SavedView
        fields = ("name", "query", "shared")
        widgets: ClassVar = {"query": forms.HiddenInput}


class OperatorAdmin(VerbPages):
    """Rows to look at, in keyset pages; what can be done to them is declared as verbs.

    :cvar time_field: the field that grows with the primary key, for "since" filters.
    :cvar prefix_search, exact_search, uuid_search: indexed fields that the search box looks into,
        by their beginning, by the whole value, by the beginning of the hex digits.
    :cvar export_columns: what an export holds; empty: no export.
    """

    time_field: ClassVar[str] = ""
    prefix_search: ClassVar[tuple[str, ...]] = ()
    exact_search: ClassVar[tuple[str, ...]] = ()
    uuid_search: ClassVar[tuple[str, ...]] = ()
    export_columns: ClassVar[tuple[str, ...]] = ()

    list_per_page = lists.PAGE_ROWS
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    sortable_by: ClassVar[tuple[str, ...]] = ()
    actions_on_bottom = False
    change_list_template = "console/list.html"
    save_views = True

    def __init__(self, model: Any, admin_site: Any) -> None:
        super().__init__(model, admin_site)
        if self.time_field:
            lists.TIME_FIELDS[self.label] = self.time_field

    # --- Read only --------------------------------------------------------------------------

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def absent(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Answer for a row that is not there: the list, with a word about it."""
        text = f"There is no {self.opts.verbose_name} {object_id}."
        self.message_user(request, text, messages.WARNING)
        return HttpResponseRedirect(reverse(self._name("changelist")))

    # --- Lists --------------------------------------------------------------------------------

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[Any]:
        return lists.KeysetChangeList

    def get_search_fields(self, request: HttpRequest) -> tuple[str, ...]:
        """Return what the search box looks into; the list shows the box only where this is set."""
        return self.prefix_search + self.exact_search + self.uuid_search

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        term = search_term.strip()
        return (self.search(queryset, term) if term else queryset), False

    def search(self, queryset: QuerySet[Any], term: str) -> QuerySet[Any]:
        """Return the rows that `term` names. Overridden where the name is another table's."""
        return lists.search(
            queryset,
            term,
            prefixes=self.prefix_search,
            exacts=self.exact_search,
            uuids=self.uuid_search,
        )

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        views = SavedView.objects.none()
        if self.save_views and request.method == "GET":
            mine = SavedView.objects.filter(model=self.label)
            views = (mine.filter(owner=request.user.pk) | mine.filter(shared=True)).order_by("name")
        query = request.GET.copy()
        for transient in (lists.OLDER, lists.NEWER, "e"):
            query.pop(transient, None)
        context = {
            "title": str(self.opts.verbose_name_plural).capitalize(),
            "making": [
                {"verb": verb, "url": self._verb_url(verb, selections.NEW)}
                for verb in runs.permitted(request.user, self.label, makes=True)
            ],
            "saved_views": views,
            "query_string": query.urlencode(),
            "exports": exports.MEDIA_TYPES if self._may_export(request) else {},
            "export_base": reverse(self._name("export"), args=("csv",))[: -len("csv/")],
            "save_view_url": reverse(self._name("save_view")),
        }
        return super().changelist_view(request, context | (extra_context or {}))

    # --- Exports and saved views --------------------------------------------------------------

    def export_view(self, request: HttpRequest, form: str) -> Any:
        """Stream the list as it is filtered; its begin and its end are on the audit trail."""
        if not self._may_export(request):
            raise PermissionDenied
        if form not in exports.MEDIA_TYPES:
            raise Http404
        try:
            page = self.get_changelist_instance(request)
        except IncorrectLookupParameters as error:
            raise BadRequest("The list has no such filter.") from error
        entry: dict[str, Any] = {
            "export_id": str(uuid7()),
            "model": self.label,
            "form": form,
            "query": request.GET.urlencode(),
            "actor": runs.actor_of(request.user),
        }
        for book in registry.export_books:
            book.begin(**entry)

        def ended(rows: int, whole: bool) -> None:
            for book in registry.export_books:
                book.end(**entry, rows=rows, whole=whole)

        return exports.export(
            page.queryset.select_related(None),
            columns=self.export_columns,
            form=form,
            name=str(self.opts.verbose_name_plural).replace(" ", "-"),
            ended=ended,
        )

    def _may_export(self, request: HttpRequest) -> bool:
        allowed = self.has_view_permission(request) and request.user.has_perm(EXPORT.name)
        return bool(self.export_columns) and allowed

    def save_view(self, request: HttpRequest) -> HttpResponse:
        """Keep the list's filters under a name; the same name again replaces them."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        form = SaveViewForm(request.POST)
        if not form.is_valid():
            self.message_user(request, "A view needs a name of 1 to 60 letters.", messages.ERROR)
            return HttpResponseRedirect(reverse(self._name("changelist")))
        view = form.cleaned_data
        SavedView.objects.update_or_create(
            owner_id=request.user.pk,
            model=self.label,
            name=view["name"],
            defaults={"query": view["query"], "shared": view["shared"]},
        )
        return HttpResponseRedirect(f"{reverse(self._name('changelist'))}?{view['query']}")

    def forget_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Drop a saved view of one's own."""
        get_object_or_404(SavedView, pk=pk, owner=request.user.pk, model=self.label).delete()
        return HttpResponseRedirect(reverse(self._name("changelist")))

    # --- Paths --------------------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        prefix = f"{self.opts.app_label}_{self.opts.model_name}"
        return [
            path("export/<slug:form>/", wrap(self.export_view), name=f"{prefix}_export"),
            path("views/", wrap(require_POST(self.save_view)), name=f"{prefix}_save_view"),
            path(
                "views/<int:pk>/forget/",
                wrap(require_POST(self.forget_view)),
                name=f"{prefix}_forget_view",
            ),
            *super().get_urls(),
        ]
