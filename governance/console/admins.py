"""`OperatorAdmin`: a read-only admin whose rows change through acts only."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, ClassVar, cast

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.auth.models import User
from django.core.exceptions import BadRequest, PermissionDenied, ValidationError
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.http import url_has_allowed_host_and_scheme, urlencode
from django.views.decorators.http import require_POST
from uuid_utils.compat import uuid7

from governance.console import acts, exports, lists, registry
from governance.console.acts import Act, Selection
from governance.console.models import BulkItem, BulkRun, SavedView

#: Rows that a confirmation page names one by one.
NAMED_MAX = 10
REASON_MIN, REASON_MAX = 3, 2000
EXPORT_PERMISSION = "agents.export_lists"
#: What a link can say about a row: keys as `BulkItem` keeps them, revisions as PostgreSQL does.
KEY_CHARS_MAX = 200
REVISION = re.compile("[0-9]{1,18}", re.ASCII)


def _is_key(key: str) -> bool:
    return "\0" not in key and len(key) <= KEY_CHARS_MAX


def _values(field: Any, texts: Iterable[str]) -> list[Any]:
    """Return the texts as values of the field, without those that can be none of it."""
    found = []
    for text in filter(_is_key, texts):
        with suppress(ValidationError):
            found.append(field.to_python(text))
    return found


class ReasonForm(forms.Form):
    """What every act asks for. The transition asks again."""

    reason = forms.CharField(
        min_length=REASON_MIN,
        max_length=REASON_MAX,
        widget=forms.Textarea(attrs={"rows": 3, "cols": 80}),
        help_text="Kept in the audit trail with your name.",
    )


class SaveViewForm(forms.ModelForm):
    """A name for the filters of a list."""

    class Meta:
        model = SavedView
        fields = ("name", "query", "shared")
        widgets: ClassVar = {"query": forms.HiddenInput}


class OperatorAdmin(admin.ModelAdmin):
    """Rows to look at, in keyset pages; what can be done to them is declared as acts.

    :cvar key_field: the unique field that names a row in acts and in their outcomes.
    :cvar time_field: the field that grows with the primary key, for "since" filters.
    :cvar prefix_search, exact_search, uuid_search: indexed fields that the search box looks into,
        by their beginning, by the whole value, by the beginning of the hex digits.
    :cvar export_columns: what an export holds; empty: no export.
    """

    key_field: ClassVar[str] = "pk"
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
        self.label: str = model._meta.label_lower
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
            "makers": [
                {"act": act, "url": self._act_url(act, acts.NEW)}
                for act in acts.permitted(request.user, self.label, makes=True)
            ],
            "saved_views": views,
            "query_string": query.urlencode(),
            "exports": exports.MEDIA_TYPES if self._may_export(request) else {},
            "export_base": reverse(self._name("export"), args=("csv",))[: -len("csv/")],
            "save_view_url": reverse(self._name("save_view")),
        }
        return super().changelist_view(request, context | (extra_context or {}))

    # --- Acts ---------------------------------------------------------------------------------

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Offer the acts that the user may do, each as "ask first"; nothing else."""
        return {
            act.name: (self._ask(act), act.name, f"{act.label}…")
            for act in acts.permitted(request.user, self.label)
            if act.bulk
        }

    def response_action(
        self, request: HttpRequest, queryset: QuerySet[Any], *args: Any, **kwargs: Any
    ) -> HttpResponse | None:
        ticked = request.POST.getlist(ACTION_CHECKBOX_NAME)
        if len(_values(self.opts.pk, ticked)) < len(ticked):
            raise BadRequest("No row has such a key.")
        return super().response_action(request, queryset, *args, **kwargs)

    def _ask(self, act: Act) -> Callable[..., HttpResponse | None]:
        def ask(_: Any, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
            """Freeze what was ticked, whether or not it still matches the list's filter."""
            if request.POST.get("select_across") != "1":
                ticked = request.POST.getlist(ACTION_CHECKBOX_NAME)
                queryset = self.get_queryset(request).filter(pk__in=ticked)
            keys = list(queryset.values_list(self.key_field, flat=True)[: acts.SELECTION_MAX + 1])
            if len(keys) > acts.SELECTION_MAX:
                text = f"More than {acts.SELECTION_MAX} rows. Narrow the filter first."
                self.message_user(request, text, messages.ERROR)
                return None
            if not keys:
                text = "None of these rows is there any more."
                self.message_user(request, text, messages.WARNING)
                return None
            return self._confirm(request, act=act, selection=self._freeze(request, act, keys))

        return ask

    def _freeze(self, request: HttpRequest, act: Act, keys: list[Any]) -> Selection:
        """Freeze rows with their revision: as the link tells that the page had it, or as now."""
        named = tuple(str(key) for key in keys)
        revisions: dict[str, int] = {}
        if act.as_seen:
            rows = self.rows_by_key(request, named)
            revisions = {key: row.revision for key, row in rows.items()}
            told = request.GET.get("revision", "")
            if len(named) == 1 and REVISION.fullmatch(told):
                revisions[named[0]] = int(told)
        return acts.freeze(
            model=self.label,
            keys=list(named),
            user_id=cast(int, request.user.pk),
            revisions=revisions,
        )

    def act_view(self, request: HttpRequest, name: str) -> HttpResponse:
        """GET `?key=…` shows the confirmation page; POST with the selection does it."""
        act = acts.acts.get((self.label, name))
        if act is None:
            raise Http404
        if not (self.has_view_permission(request) and request.user.has_perm(act.permission)):
            raise PermissionDenied
        if request.method != "POST":
            keys = request.GET.getlist("key")
            if not 1 <= len(keys) <= NAMED_MAX or not all(map(_is_key, keys)):
                raise Http404
            return self._confirm(request, act=act, selection=self._freeze(request, act, keys))
        try:
            selection = acts.thaw(
                request.POST.get("selection", ""),
                model=self.label,
                user_id=cast(int, request.user.pk),
            )
        except acts.SelectionInvalid as error:
            self.message_user(request, str(error), messages.ERROR)
            return HttpResponseRedirect(reverse(self._name("changelist")))
        return self._act(request, act=act, selection=selection)

    def _act(self, request: HttpRequest, *, act: Act, selection: Selection) -> HttpResponse:
        reason, fields = ReasonForm(request.POST), act.fields(request.POST)
        phrase = acts.phrase_for(act, len(selection.keys))
        typed = " ".join(request.POST.get("phrase", "").split())
        valid = all([reason.is_valid(), fields.is_valid()])
        if not valid or typed != phrase:
            return self._confirm(
                request, act=act, selection=selection, forms_=(reason, fields), mistyped=bool(typed)
            )
        run = acts.begin(
            act=act,
            selection=selection,
            user=cast(User, request.user),
            reason=reason.cleaned_data["reason"],
            fields={k: v for k, v in fields.cleaned_data.items() if v not in (None, "")},
        )
        run = acts.advance(run=run)
        if run.total == 1 and run.finished_at is not None:
            return self._after_one(request, act=act, run=run)
        return HttpResponseRedirect(reverse("admin:console_run", args=(run.run_id,)))

    def _after_one(self, request: HttpRequest, *, act: Act, run: BulkRun) -> HttpResponse:
        item = BulkItem.objects.get(run=run)
        row = self.rows_by_key(request, () if act.makes else (item.key,)).get(item.key)
        done = item.outcome == BulkItem.Outcome.DONE
        named = [] if act.makes else [self._row_name(item.key, row)]
        text = ": ".join([act.label, *named, *([] if done else ["not done"]), item.detail])
        self.message_user(request, text, messages.SUCCESS if done else messages.ERROR)
        onward = self._onward(request)
        if not onward:
            onward = self.row_url(row) if row else reverse(self._name("changelist"))
        return HttpResponseRedirect(onward)

    @staticmethod
    def _onward(request: HttpRequest) -> str:
        """Return the page of ours that the form or the link asks to go on to; "" for none."""
        asked = request.POST.get("next") or request.GET.get("next") or ""
        return asked if url_has_allowed_host_and_scheme(asked, allowed_hosts=None) else ""

    def _confirm(
        self,
        request: HttpRequest,
        *,
        act: Act,
        selection: Selection,
        forms_: tuple[forms.Form, forms.Form] | None = None,
        mistyped: bool = False,
    ) -> HttpResponse:
        """Show exactly what would be touched, from the frozen set itself."""
        rows = {} if act.makes else self.rows_by_key(request, selection.keys)
        actor = acts.actor_of(request.user)
        misfits = {key: act.fits(row, actor) for key, row in rows.items()}
        for key, revision in selection.revisions.items():
            if key in rows and rows[key].revision != revision:
                misfits[key] = misfits[key] or "it has moved on since you looked at it"
        if not act.makes:
            misfits |= {key: "does not exist" for key in selection.keys if key not in rows}
        only = next(iter(rows.values())) if len(selection.keys) == len(rows) == 1 else None
        initial = act.initial(only) if only is not None else {}
        reason, fields = forms_ or (ReasonForm(), act.fields(initial=initial))
        onward, back = self._onward(request), reverse(self._name("changelist"))
        context = {
            **self.admin_site.each_context(request),
            "title": act.label
            if act.makes
            else f"{act.label}: {self._counted(len(selection.keys))}",
            "opts": self.opts,
            "act": act,
            "act_url": reverse(self._name("act"), args=(act.name,)),
            "selection": selection.sign(),
            "count": len(selection.keys),
            "named": [
                (
                    self._row_name(key, rows.get(key)),
                    rows.get(key),
                    misfits.get(key, ""),
                    self.row_url(rows[key]) if key in rows else "",
                )
                for key in selection.keys[:NAMED_MAX]
            ],
            "more": max(0, len(selection.keys) - NAMED_MAX),
            "breakdown": self._breakdown(list(rows.values())),
            "unfit": Counter(why for why in misfits.values() if why).most_common(),
            "phrase": acts.phrase_for(act, len(selection.keys)),
            "mistyped": mistyped,
            "form": reason,
            "fields": fields,
            "next": onward,
            "cancel": onward or (self.row_url(only) if only is not None else back),
            "back": back,
        }
        status = 200 if forms_ is None else 422
        return TemplateResponse(request, "console/confirm.html", context, status=status)

    def rows_by_key(self, request: HttpRequest, keys: tuple[str, ...]) -> dict[str, Any]:
        """Return the rows of these keys as they are now. A key of another form names none."""
        field = self.opts.pk if self.key_field == "pk" else self.opts.get_field(self.key_field)
        named = {f"{self.key_field}__in": _values(field, keys)}
        rows = self.get_queryset(request).filter(**named)
        if isinstance(self.list_select_related, list | tuple):
            rows = rows.select_related(*self.list_select_related)
        return {str(getattr(row, self.key_field)): row for row in rows}

    def _row_name(self, key: str, row: Any) -> str:
        """Return what people call a row: its key, unless that is a number that means nothing."""
        return str(row) if row is not None and self.key_field == "pk" else key

    def row_url(self, row: Any) -> str:
        return reverse(self._name("change"), args=(row.pk,))

    def decisions(self, request: HttpRequest, row: Any) -> list[dict[str, Any]]:
        """Return the acts that the user may do on `row` and that it would take now, with links."""
        key, actor = str(getattr(row, self.key_field)), acts.actor_of(request.user)
        return [
            {
                "act": act,
                "url": self._act_url(act, key, revision=row.revision if act.as_seen else None),
            }
            for act in acts.permitted(request.user, self.label)
            if not act.fits(row, actor)
        ]

    def _act_url(self, act: Act, key: str, revision: int | None = None) -> str:
        asked = {"key": key} | ({} if revision is None else {"revision": revision})
        return f"{reverse(self._name('act'), args=(act.name,))}?{urlencode(asked)}"

    def _counted(self, count: int) -> str:
        named = self.opts.verbose_name if count == 1 else self.opts.verbose_name_plural
        return f"{count} {named}"

    def _breakdown(self, rows: list[Any]) -> list[tuple[str, int]]:
        if not any(field.name == "state" for field in self.opts.fields):
            return []
        return Counter(row.get_state_display().lower() for row in rows).most_common()

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
        said: dict[str, Any] = {
            "export_id": str(uuid7()),
            "model": self.label,
            "form": form,
            "query": request.GET.urlencode(),
            "actor": acts.actor_of(request.user),
        }
        for book in registry.export_books:
            book.begin(**said)

        def ended(rows: int, whole: bool) -> None:
            for book in registry.export_books:
                book.end(**said, rows=rows, whole=whole)

        return exports.export(
            page.queryset.select_related(None),
            columns=self.export_columns,
            form=form,
            name=str(self.opts.verbose_name_plural).replace(" ", "-"),
            ended=ended,
        )

    def _may_export(self, request: HttpRequest) -> bool:
        allowed = self.has_view_permission(request) and request.user.has_perm(EXPORT_PERMISSION)
        return bool(self.export_columns) and allowed

    def save_view(self, request: HttpRequest) -> HttpResponse:
        """Keep the list's filters under a name; the same name again replaces them."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        form = SaveViewForm(request.POST)
        if not form.is_valid():
            self.message_user(request, "A view needs a name of 1 to 60 letters.", messages.ERROR)
            return HttpResponseRedirect(reverse(self._name("changelist")))
        asked = form.cleaned_data
        SavedView.objects.update_or_create(
            owner_id=request.user.pk,
            model=self.label,
            name=asked["name"],
            defaults={"query": asked["query"], "shared": asked["shared"]},
        )
        return HttpResponseRedirect(f"{reverse(self._name('changelist'))}?{asked['query']}")

    def forget_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Drop a saved view of one's own."""
        get_object_or_404(SavedView, pk=pk, owner=request.user.pk, model=self.label).delete()
        return HttpResponseRedirect(reverse(self._name("changelist")))

    # --- Paths --------------------------------------------------------------------------------

    def _name(self, page: str) -> str:
        return f"admin:{self.opts.app_label}_{self.opts.model_name}_{page}"

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        prefix = f"{self.opts.app_label}_{self.opts.model_name}"
        return [
            path("act/<slug:name>/", wrap(self.act_view), name=f"{prefix}_act"),
            path("export/<slug:form>/", wrap(self.export_view), name=f"{prefix}_export"),
            path("views/", wrap(require_POST(self.save_view)), name=f"{prefix}_save_view"),
            path(
                "views/<int:pk>/forget/",
                wrap(require_POST(self.forget_view)),
                name=f"{prefix}_forget_view",
            ),
            *super().get_urls(),
        ]
